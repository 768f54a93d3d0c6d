#include "orrery/figures.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/footprint.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/parameter_cost.h"
#include "orrery/quantity.h"
#include "orrery/timeline.h"
#include "orrery/versions.h"

static void note_peak(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct orr_worker_figures *worker = user;

	(void)time_ns;
	if (stashes > worker->peak_stash)
		worker->peak_stash = stashes;
	if (bytes > worker->peak_stash_bytes)
		worker->peak_stash_bytes = bytes;
}

static void note_interval(struct orr_worker_figures *worker, bool *seen, int64_t start_ns,
			  int64_t end_ns)
{
	if (!*seen || start_ns < worker->first_start_ns)
		worker->first_start_ns = start_ns;
	if (!*seen || end_ns > worker->last_end_ns)
		worker->last_end_ns = end_ns;
	*seen = true;
	worker->busy_ns += end_ns - start_ns;
}

static void measure_time(struct orr_figures *f, const struct orr_timeline *t)
{
	const struct orr_jobs *jobs = t->jobs;
	int64_t first = INT64_MAX, last = INT64_MIN, busy = 0, busiest = 0;

	for (int w = 0; w < f->n_workers; w++) {
		struct orr_worker_figures *worker = &f->worker[w];
		bool seen = false;

		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++)
			note_interval(worker, &seen, t->start_ns[jobs->by_worker[i]],
				      t->end_ns[jobs->by_worker[i]]);
		for (int u = 0; u < t->n_updates; u++)
			if (t->updates[u].w == w)
				note_interval(worker, &seen, t->updates[u].start_ns,
					      t->updates[u].end_ns);
		busy += worker->busy_ns;
		busiest = worker->busy_ns > busiest ? worker->busy_ns : busiest;
		if (!seen)
			continue;
		first = worker->first_start_ns < first ? worker->first_start_ns : first;
		last = worker->last_end_ns > last ? worker->last_end_ns : last;
		if (worker->last_end_ns - worker->first_start_ns > f->span_ns)
			f->span_ns = worker->last_end_ns - worker->first_start_ns;
	}
	f->makespan_ns = last - first;
	for (int w = 0; w < f->n_workers; w++)
		f->worker[w].idle_ns = f->makespan_ns - f->worker[w].busy_ns;
	if (f->makespan_ns > 0)
		f->bubble = 1 - (double)busy / ((double)f->n_workers * (double)f->makespan_ns);
	if (f->span_ns > 0)
		f->span_bubble = 1 - (double)busiest / (double)f->span_ns;
}

static void count_job(struct orr_figures *f, const struct orr_jobs *jobs, int j, const int *around,
		      int n)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	struct orr_worker_figures *worker = &f->worker[jobs->compute[j]];

	for (int i = 0; i < n; i++) {
		struct orr_job from = orr_jobs_at(jobs, around[i]);

		if (jobs->compute[around[i]] == jobs->compute[j] || from.b != job.b)
			continue; /* at home, or a cap: nothing moves */
		if (from.s == job.s) {
			worker->recv_stashes++;
			worker->recv_stash_bytes += orr_jobs_stash_bytes(jobs, around[i]);
		} else if (job.d == ORR_PASS_F) {
			worker->recv_activations++;
			worker->recv_activation_bytes += orr_jobs_edge_bytes(jobs, around[i], j);
		} else {
			worker->recv_gradients++;
			worker->recv_gradient_bytes += orr_jobs_edge_bytes(jobs, around[i], j);
		}
	}
	if (jobs->weights[j] == jobs->compute[j])
		return;
	worker->recv_parameters++;
	worker->recv_parameter_bytes += stage->parameter_bytes;
	if (orr_jobs_makes_gradient(jobs, j)) {
		worker->sent_weight_gradients++;
		worker->sent_weight_gradient_bytes += orr_stage_trained_bytes(stage);
	}
}

static int count_traffic(struct orr_figures *f, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int *around = calloc((size_t)p->n_stages + 2, sizeof(*around));

	if (!around)
		return orr_fail(err, ORR_E_NOMEM, "figures: no memory for %d stages", p->n_stages);
	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j))
			count_job(f, jobs, j, around, orr_jobs_predecessors(jobs, j, around));
	free(around);
	for (int s = 0; s < p->n_stages; s++) {
		int r = jobs->first_owner[s + 1] - jobs->first_owner[s];
		int64_t trained = orr_stage_trained_bytes(&p->stages[s]);

		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++) {
			struct orr_worker_figures *owner = &f->worker[jobs->owners[i]];

			owner->parameter_bytes += p->stages[s].parameter_bytes;
			owner->all_reduce_bytes +=
				orr_jobs_n_updates(jobs, s) *
				(2 * (r - 1) * (trained / r) + 2 * (r - 1) * (trained % r) / r);
			owner->trained_bytes += trained;
		}
	}
	return 0;
}

/* Longest paths over one microbatch, which are the same for all: before F(s) and B(s) start, and
 * after B(s) ends, of the jobs that there are. Caps and orders are a schedule's own and no part of
 * it. */
struct paths {
	int64_t *before_f, *before_b, *after_f, *after_b;
	int64_t *life; /* from the start of F(s) to the end of B(s): F goes down one way at least, B
			  comes back */
};

static int64_t larger(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

/* Of a job of microbatch 0, which stands for all; 0 for one that does not exist. */
static int64_t duration_of(const struct orr_jobs *jobs, int s, enum orr_pass d)
{
	return jobs->duration_ns[orr_jobs_index(jobs, s, 0, d)];
}

static void find_paths_before(const struct paths *paths, const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int s = 0; s < p->n_stages; s++)
		for (int i = 0; i < p->stages[s].n_in; i++) {
			int before = orr_stage_before(p, s, i);

			paths->before_f[s] =
				larger(paths->before_f[s],
				       paths->before_f[before] + p->stages[before].forward_ns);
		}
	for (int s = p->n_stages - 1; s >= 0; s--) {
		const struct orr_stage *stage = &p->stages[s];

		paths->before_b[s] = paths->before_f[s] + stage->forward_ns;
		for (int i = 0; i < stage->n_out; i++) {
			int after = orr_stage_after(p, s, i);

			if (p->edges[stage->out[i]].detached)
				continue;
			paths->life[s] = larger(paths->life[s], paths->life[after]);
			paths->before_b[s] = larger(paths->before_b[s],
						    paths->before_b[after] +
							    duration_of(jobs, after, ORR_PASS_B));
		}
		if (orr_jobs_last_pass(jobs, s) != ORR_PASS_F)
			paths->life[s] += stage->forward_ns + duration_of(jobs, s, ORR_PASS_B);
	}
}

static void find_paths_after(const struct paths *paths, const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_stage *stage = &p->stages[s];

		if (stage->has_weight_gradient)
			paths->after_b[s] = stage->update_ns;
		if (jobs->n_passes == 3)
			paths->after_b[s] += orr_pipeline_duration_ns(p, s, ORR_PASS_W, true);
		for (int i = 0; i < stage->n_in; i++) {
			int before = orr_stage_before(p, s, i);
			int64_t backward = duration_of(jobs, before, ORR_PASS_B);

			if (!p->edges[stage->in[i]].detached)
				paths->after_b[s] = larger(paths->after_b[s],
							   paths->after_b[before] + backward);
		}
	}
	for (int s = p->n_stages - 1; s >= 0; s--) {
		paths->after_f[s] = paths->after_b[s] + duration_of(jobs, s, ORR_PASS_B);
		for (int i = 0; i < p->stages[s].n_out; i++) {
			int after = orr_stage_after(p, s, i);

			paths->after_f[s] =
				larger(paths->after_f[s],
				       paths->after_f[after] + p->stages[after].forward_ns);
		}
	}
}

/* A worker cannot start before its earliest job can, then has all its work to do, and after its
 * last job what waits for that remains. */
static int64_t bound_worker(const struct orr_jobs *jobs, const struct paths *paths, int w)
{
	int64_t before = INT64_MAX, after = INT64_MAX, busy = 0;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];
		struct orr_job job = orr_jobs_at(jobs, j);
		const struct orr_stage *stage = &jobs->pipeline->stages[job.s];
		int64_t head =
			job.d == ORR_PASS_F ? paths->before_f[job.s] : paths->before_b[job.s];
		int64_t tail = job.d == ORR_PASS_F   ? paths->after_f[job.s]
			       : job.d == ORR_PASS_B ? paths->after_b[job.s]
						     : stage->update_ns;

		if (job.d == ORR_PASS_W)
			head += duration_of(jobs, job.s, ORR_PASS_B);
		before = head < before ? head : before;
		after = tail < after ? tail : after;
		busy += jobs->duration_ns[j];
	}
	return busy ? before + busy + after : 0;
}

/* Of a microbatch on stage s, what is run again left out. */
static int64_t work_of(const struct orr_pipeline *p, int s)
{
	const struct orr_stage *stage = &p->stages[s];
	int64_t backward_ns = orr_pipeline_duration_ns(p, s, ORR_PASS_B, false);

	if (backward_ns && stage->recompute)
		return backward_ns;
	return stage->forward_ns + backward_ns;
}

static int bound_makespan(struct orr_figures *f, const struct orr_timeline *t,
			  struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n = (size_t)p->n_stages;
	int64_t *room = calloc(5 * n, sizeof(*room));
	struct paths paths = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n};
	int64_t lifespan = 0, unit = 0;
	int peak = 0;

	if (!room)
		return orr_fail(err, ORR_E_NOMEM, "figures: no memory for %d stages", p->n_stages);
	find_paths_before(&paths, jobs);
	find_paths_after(&paths, jobs);
	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_stage *stage = &p->stages[s];

		f->lower_bound_ns =
			larger(f->lower_bound_ns,
			       paths.before_f[s] + stage->forward_ns + paths.after_f[s]);
		lifespan += paths.life[s];
		if (jobs->n_passes == 3)
			lifespan += duration_of(jobs, s, ORR_PASS_W);
		unit += work_of(p, s);
	}
	for (int w = 0; w < f->n_workers; w++) {
		f->lower_bound_ns = larger(f->lower_bound_ns, bound_worker(jobs, &paths, w));
		peak = f->worker[w].peak_stash > peak ? f->worker[w].peak_stash : peak;
	}
	f->bound_in_limits = jobs->bound_ns > f->lower_bound_ns;
	f->lower_bound_ns = larger(f->lower_bound_ns, jobs->bound_ns);
	/* work of all stages over time of all workers; memory-time bounds the same ratio [1,
	 * appendix] */
	if (f->makespan_ns > 0)
		f->throughput =
			(double)unit * p->n_microbatches / ((double)f->makespan_ns * f->n_workers);
	if (lifespan > 0)
		f->throughput_bound = (double)peak * (double)unit / (double)lifespan;
	if (f->throughput_bound > 1)
		f->throughput_bound = 1;
	free(room);
	return 0;
}

/* A schedule's own bound is its word; its own order, simulated, is known to be possible. */
static int check_bound(const struct orr_figures *f, const struct orr_timeline *t,
		       struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	bool units = jobs->pipeline->units;
	char bound[64], makespan[64];

	if (t->measured || jobs->bound_ns <= f->makespan_ns)
		return 0;
	orr_duration_print(bound, sizeof(bound), jobs->bound_ns, units);
	orr_duration_print(makespan, sizeof(makespan), f->makespan_ns, units);
	return orr_fail(
		err, ORR_E_INPUT,
		"schedule %s: its own order takes %s%s, less than the lower bound of %s%s that it "
		"gives: correct bound_ns in its place()",
		jobs->schedule, makespan, units ? " units" : "", bound, units ? " units" : "");
}

/* What each worker keeps besides stashes, as a rank of its own. */
static int add_memory(struct orr_figures *f, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_numerics *numerics = &jobs->pipeline->numerics;
	struct orr_footprint *footprint = calloc((size_t)f->n_workers, sizeof(*footprint));
	int code = footprint ? orr_footprint_keep(footprint, jobs, NULL, f->n_workers, err)
			     : orr_fail(err, ORR_E_NOMEM, "figures: no memory for %d workers",
					f->n_workers);

	for (int w = 0; w < f->n_workers && !code; w++) {
		struct orr_worker_figures *worker = &f->worker[w];
		const struct orr_footprint *keeps = &footprint[w];

		worker->optimizer_bytes =
			orr_optimizer_floats(numerics->optimizer) * worker->trained_bytes;
		worker->rounded_bytes = keeps->rounded;
		worker->copy_bytes = keeps->fetched + keeps->partial + keeps->ring;
		worker->version_bytes = keeps->versions;
		worker->memory_bytes = keeps->all + worker->peak_stash_bytes;
	}
	free(footprint);
	return code;
}

int orr_figures_create(struct orr_figures **out, const struct orr_timeline *t,
		       struct orr_error *err)
{
	struct orr_figures *f = calloc(1, sizeof(*f));
	int n_workers = t->jobs->pipeline->n_workers, code = 0;

	if (!f || !(f->worker = calloc((size_t)n_workers, sizeof(*f->worker)))) {
		code = orr_fail(err, ORR_E_NOMEM, "figures: no memory for %d workers", n_workers);
		goto out;
	}
	f->n_workers = n_workers;
	f->numerics = t->jobs->pipeline->numerics;
	measure_time(f, t);
	if ((code = check_bound(f, t, err)))
		goto out;
	if ((code = count_traffic(f, t->jobs, err)))
		goto out;
	for (int w = 0; w < n_workers; w++)
		if ((code = orr_timeline_stash(t, w, note_peak, &f->worker[w], err)))
			goto out;
	if ((code = add_memory(f, t->jobs, err)) || (code = bound_makespan(f, t, err)))
		goto out;
	*out = f;
	f = NULL;
out:
	orr_figures_destroy(f);
	return code;
}

/* Sizes that round to the same are told in bytes. */
static void print_need(char need[32], char limit[32], int64_t need_bytes, int64_t limit_bytes)
{
	orr_size_print(need, 32, need_bytes);
	orr_size_print(limit, 32, limit_bytes);
	if (strcmp(need, limit))
		return;
	(void)snprintf(need, 32, "%lld B", (long long)need_bytes);
	(void)snprintf(limit, 32, "%lld B", (long long)limit_bytes);
}

/* ", 5 MB for `what`", or nothing. */
static const char *print_part(char text[64], int64_t bytes, const char *what)
{
	char size[32];

	text[0] = '\0';
	if (bytes)
		(void)snprintf(text, 64, ", %s for %s", orr_size_print(size, sizeof(size), bytes),
			       what);
	return text;
}

static int refuse_worker(const struct orr_figures *f, int w, int64_t limit_bytes,
			 struct orr_error *err)
{
	const struct orr_worker_figures *worker = &f->worker[w];
	char need[32], limit[32], size[32], stash[32], cost[96], copies[64], versions[64];

	print_need(need, limit, worker->memory_bytes, limit_bytes);
	orr_size_print(size, sizeof(size),
		       worker->memory_bytes - worker->copy_bytes - worker->version_bytes -
			       worker->peak_stash_bytes);
	orr_size_print(stash, sizeof(stash), worker->peak_stash_bytes);
	return orr_fail(
		err, ORR_E_INPUT,
		"worker %d needs %s, %s for parameters (%s)%s%s and %s for %d stash%s, and has %s: "
		"take more workers, %sa schedule that holds fewer microbatches, or a larger "
		"[memory]",
		w, need, size, orr_parameter_cost_print(cost, sizeof(cost), &f->numerics),
		print_part(versions, worker->version_bytes, "older versions"),
		print_part(copies, worker->copy_bytes, "copies of parameters and gradients"), stash,
		worker->peak_stash, worker->peak_stash == 1 ? "" : "es", limit,
		worker->version_bytes ? "a larger [accumulate], " : "");
}

int orr_figures_check_memory(const struct orr_figures *f, const struct orr_machine *machine,
			     struct orr_error *err)
{
	for (int w = 0; w < f->n_workers && machine->memory_bytes; w++)
		if (f->worker[w].memory_bytes > machine->memory_bytes)
			return refuse_worker(f, w, machine->memory_bytes, err);
	return 0;
}

void orr_figures_destroy(struct orr_figures *f)
{
	if (!f)
		return;
	free(f->worker);
	free(f);
}
