#include "orrery/figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "footprint.h"
#include "gaps.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/parameter_cost.h"
#include "base/quantity.h"
#include "schedule/versions.h"

static void note_peak(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct orr_worker_figures *worker = user;

	(void)time_ns;
	worker->peak_stash = (int)larger(worker->peak_stash, stashes);
	worker->peak_stash_bytes = larger(worker->peak_stash_bytes, bytes);
}

static void measure_time(struct orr_figures *f, const struct orr_timeline *t)
{
	int64_t busy = 0, busiest = 0;

	f->makespan_ns = orr_timeline_makespan(t);
	f->span_ns = orr_timeline_span(t);
	for (int w = 0; w < f->n_workers; w++) {
		struct orr_worker_figures *worker = &f->worker[w];
		struct orr_interval x = orr_timeline_interval(t, w);

		worker->busy_ns = x.busy_ns;
		worker->idle_ns = f->makespan_ns - x.busy_ns;
		busy += x.busy_ns;
		busiest = larger(busiest, x.busy_ns);
		if (x.start_ns > x.end_ns)
			continue;
		worker->first_start_ns = x.start_ns;
		worker->last_end_ns = x.end_ns;
	}
	if (f->makespan_ns > 0)
		f->bubble = 1 - (double)busy / ((double)f->n_workers * (double)f->makespan_ns);
	if (f->span_ns > 0)
		f->span_bubble = 1 - (double)busiest / (double)f->span_ns;
}

/* What number i of j's workers gets from job `from`. */
static void count_move(struct orr_figures *f, const struct orr_jobs *jobs, int from, int j, int i)
{
	struct orr_worker_figures *worker = &f->worker[orr_jobs_worker(jobs, j, i)];

	if (orr_jobs_sender(jobs, from, j, i) < 0)
		return;
	if (orr_jobs_at(jobs, from).s == orr_jobs_at(jobs, j).s) {
		worker->recv_stashes++;
		worker->recv_stash_bytes += orr_jobs_moved_bytes(jobs, from);
	} else if (orr_jobs_at(jobs, j).d == ORR_PASS_F) {
		worker->recv_activations++;
		worker->recv_activation_bytes += orr_jobs_sent_bytes(jobs, from, j, i);
	} else {
		worker->recv_gradients++;
		worker->recv_gradient_bytes += orr_jobs_edge_bytes(jobs, from, j);
	}
}

static void count_job(struct orr_figures *f, const struct orr_jobs *jobs, int j, const int *around,
		      int n)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[orr_jobs_at(jobs, j).s];
	struct orr_worker_figures *worker = &f->worker[jobs->compute[j]];

	for (int i = 0; i < n * jobs->most_at; i++)
		if (i % jobs->most_at < orr_jobs_n_at(jobs, j))
			count_move(f, jobs, around[i / jobs->most_at], j, i % jobs->most_at);
	if (orr_jobs_parked(jobs, j)) {
		worker->parked++;
		worker->parked_bytes += orr_jobs_stash_bytes(jobs, j);
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
	int *around = calloc(orr_jobs_most_around(jobs), sizeof(*around));

	if (!around)
		return orr_no_memory(err, "figures");
	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j))
			count_job(f, jobs, j, around, orr_jobs_predecessors(jobs, j, around));
	free(around);
	for (int set = 0; set < orr_pipeline_n_sets(p); set++) {
		int r = orr_jobs_ring_size(jobs, set);
		int64_t trained = orr_set_trained_bytes(p, set);
		int n_updates = set < p->n_stages ? orr_jobs_n_updates(jobs, set) : 1;

		for (int i = jobs->first_owner[set]; i < jobs->first_owner[set + 1]; i++) {
			f->worker[jobs->owners[i]].all_reduce_bytes +=
				n_updates *
				(2 * (r - 1) * (trained / r) + 2 * (r - 1) * (trained % r) / r);
			for (int k = 0; k < orr_set_n_at(p, set); k++) {
				int w = orr_set_at(p, set, jobs->owners[i], k);

				f->worker[w].parameter_bytes +=
					orr_set_share(p, set, orr_set_bytes(p, set));
				f->worker[w].trained_bytes += orr_set_share(p, set, trained);
			}
		}
	}
	return 0;
}

/* ---- what no order of the jobs on their workers can beat ---- */

struct bound {
	int64_t makespan_ns;
	int64_t work_ns;     /* of all stages and microbatches, what is run again left out */
	int64_t lifespan_ns; /* all stashes together live so long at least */
};

struct finder {
	const struct orr_jobs *jobs;
	int64_t *head, *tail; /* [n_jobs] longest paths: to the start of a job, and from its end */
	int64_t *life;        /* [n_stages] of the microbatch at hand */
	int *order, *around;
};

/* Longest paths over the jobs that there are. Caps and orders are a schedule's own and no part of
 * it. */
static void find_paths(struct finder *f)
{
	const struct orr_jobs *jobs = f->jobs;

	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = f->order[i], n = orr_jobs_predecessors(jobs, j, f->around);

		for (int k = 0; k < n; k++)
			if (!orr_jobs_is_cap(jobs, f->around[k], j))
				f->head[j] =
					larger(f->head[j], f->head[f->around[k]] +
								   jobs->duration_ns[f->around[k]]);
	}
	for (int i = jobs->n_jobs - 1; i >= 0; i--) {
		int j = f->order[i], n = orr_jobs_predecessors(jobs, j, f->around);

		if (orr_jobs_makes_gradient(jobs, j))
			f->tail[j] =
				larger(f->tail[j], orr_jobs_update_ns(jobs, orr_jobs_at(jobs, j).s,
								      jobs->weights[j]));
		for (int k = 0; k < n; k++)
			if (!orr_jobs_is_cap(jobs, f->around[k], j))
				f->tail[f->around[k]] = larger(f->tail[f->around[k]],
							       f->tail[j] + jobs->duration_ns[j]);
	}
}

/* A worker cannot start before its earliest job can, then has all its work to do, and after its
 * last job what waits for that remains. */
static int64_t bound_worker(const struct finder *f, int w)
{
	const struct orr_jobs *jobs = f->jobs;
	int64_t before = INT64_MAX, after = INT64_MAX, busy = 0;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		before = smaller(before, f->head[j]);
		after = smaller(after, f->tail[j]);
		busy += jobs->duration_ns[j];
	}
	return busy ? before + busy + after : 0;
}

/* The least time that stashes of microbatch b live, all stages together: from the start of F(s) to
 * the end of B(s), F goes down one way at least and B comes back. */
static int64_t add_lives(const struct finder *f, int b)
{
	const struct orr_jobs *jobs = f->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int64_t sum = 0;

	for (int s = p->n_stages - 1; s >= 0; s--) {
		const int64_t *duration =
			&jobs->duration_ns[orr_jobs_index(jobs, s, b, ORR_PASS_F)];

		f->life[s] = 0;
		for (int i = 0; i < p->stages[s].n_out; i++)
			if (!p->edges[p->stages[s].out[i]].detached)
				f->life[s] = larger(f->life[s], f->life[orr_stage_after(p, s, i)]);
		if (orr_jobs_last_pass(jobs, s) != ORR_PASS_F)
			f->life[s] += duration[ORR_PASS_F] + duration[ORR_PASS_B];
		sum += f->life[s] + (jobs->n_passes == 3 ? duration[ORR_PASS_W] : 0);
	}
	return sum;
}

/* Of microbatch b on stage s, what is run again left out. */
static int64_t work_of(const struct orr_jobs *jobs, int s, int b)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int forward = orr_jobs_index(jobs, s, b, ORR_PASS_F), backward = forward + 1;
	int64_t backward_ns =
		orr_pipeline_job_ns(p, s, b, ORR_PASS_B, jobs->compute[backward], false);

	if (backward_ns && p->stages[s].recompute)
		return backward_ns;
	return orr_pipeline_job_ns(p, s, b, ORR_PASS_F, jobs->compute[forward], false) +
	       backward_ns;
}

static int find_bound(struct bound *out, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct finder x = {.jobs = jobs};
	struct orr_arrays all = {0};
	int code;

	*out = (struct bound){0};
	orr_arrays_make(&all, x.head, jobs->n_jobs);
	orr_arrays_make(&all, x.tail, jobs->n_jobs);
	orr_arrays_make(&all, x.life, p->n_stages);
	orr_arrays_make(&all, x.order, jobs->n_jobs);
	orr_arrays_make(&all, x.around, orr_jobs_most_around(jobs));
	if ((code = orr_arrays_check(&all, "figures", err)) ||
	    (code = orr_jobs_sequence(jobs, x.order, err)))
		goto out;
	find_paths(&x);
	for (int j = 0; j < jobs->n_jobs; j++)
		out->makespan_ns =
			larger(out->makespan_ns, x.head[j] + jobs->duration_ns[j] + x.tail[j]);
	for (int w = 0; w < p->n_workers; w++)
		out->makespan_ns = larger(out->makespan_ns, bound_worker(&x, w));
	for (int b = 0; b < p->n_microbatches; b++) {
		out->lifespan_ns += add_lives(&x, b);
		for (int s = 0; s < p->n_stages; s++)
			out->work_ns += work_of(jobs, s, b) * orr_pipeline_n_at(p, s);
	}
out:
	orr_arrays_free(&all);
	return code;
}

/* Work of all stages over time of all workers; memory-time bounds the same ratio [1, appendix]. */
static int measure_bounds(struct orr_figures *f, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct bound bound;
	int code = find_bound(&bound, jobs, err), peak = 0;

	if (code)
		return code;
	for (int w = 0; w < f->n_workers; w++)
		peak = (int)larger(peak, f->worker[w].peak_stash);
	f->bound_in_limits = jobs->bound_ns > bound.makespan_ns;
	f->lower_bound_ns = f->bound_in_limits ? jobs->bound_ns : bound.makespan_ns;
	if (f->makespan_ns > 0)
		f->throughput = (double)bound.work_ns / ((double)f->makespan_ns * f->n_workers);
	if (bound.lifespan_ns > 0)
		f->throughput_bound =
			(double)peak * (double)bound.work_ns / (double)bound.lifespan_ns;
	if (f->throughput_bound > 1 || jobs->park) /* a stash may be elsewhere for a while */
		f->throughput_bound = 1;
	return 0;
}

/* A schedule's own bound is its word; its own order, simulated, is known to be possible. */
static int check_bound(const struct orr_figures *f, const struct orr_timeline *t,
		       struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	bool units = jobs->pipeline->units, span = jobs->bound_ns <= f->makespan_ns;

	if (t->measured || (span && jobs->span_bound_ns <= f->span_ns))
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"schedule %s: its own order takes %s, less than the lower bound of %s that "
			"it gives: correct %s in its place()",
			jobs->schedule, orr_time_text(span ? f->span_ns : f->makespan_ns, units),
			orr_time_text(span ? jobs->span_bound_ns : jobs->bound_ns, units),
			span ? "span_bound_ns" : "bound_ns");
}

/* What each worker keeps besides stashes, as a rank of its own. */
static int add_memory(struct orr_figures *f, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct orr_footprint *footprint = calloc((size_t)f->n_workers, sizeof(*footprint));
	int code = footprint ? orr_footprint_keep(footprint, jobs, NULL, f->n_workers, err)
			     : orr_no_memory(err, "figures");

	for (int w = 0; w < f->n_workers && !code; w++) {
		struct orr_worker_figures *worker = &f->worker[w];
		const struct orr_footprint *keeps = &footprint[w];

		worker->optimizer_bytes = keeps->state;
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
	struct orr_worker_figures host = {0};

	if (!f || !(f->worker = calloc((size_t)n_workers, sizeof(*f->worker)))) {
		code = orr_no_memory(err, "figures");
		goto out;
	}
	f->n_workers = n_workers;
	f->numerics = t->jobs->pipeline->numerics;
	measure_time(f, t);
	if ((code = check_bound(f, t, err)) || (code = count_traffic(f, t->jobs, err)))
		goto out;
	for (int w = ORR_HOST; w < n_workers; w++)
		if ((code = orr_timeline_stash(t, w, note_peak, w < 0 ? &host : &f->worker[w],
					       err)))
			goto out;
	f->peak_host_bytes = host.peak_stash_bytes;
	if ((code = add_memory(f, t->jobs, err)) || (code = measure_bounds(f, t->jobs, err)))
		goto out;
	*out = f;
	f = NULL;
out:
	orr_figures_destroy(f);
	return code;
}

/* ", 5 MB for `what`", or nothing. */
static const char *part_text(int64_t bytes, const char *what)
{
	return bytes ? orr_text(", %s for %s", orr_size_text(bytes), what) : "";
}

static int refuse_worker(const struct orr_figures *f, int w, int64_t limit_bytes,
			 struct orr_error *err)
{
	const struct orr_worker_figures *worker = &f->worker[w];
	const char *need = orr_size_text(worker->memory_bytes), *limit = orr_size_text(limit_bytes);
	int64_t parameters = worker->memory_bytes - worker->copy_bytes - worker->version_bytes -
			     worker->peak_stash_bytes;

	if (!strcmp(need, limit)) { /* sizes that round to the same are told in bytes */
		need = orr_text("%lld B", (long long)worker->memory_bytes);
		limit = orr_text("%lld B", (long long)limit_bytes);
	}
	return orr_fail(
		err, ORR_E_INPUT,
		"worker %d needs %s, %s for parameters (%s)%s%s and %s for %s, and has %s: take "
		"more workers, %sa schedule that holds fewer microbatches, or a larger [memory]",
		w, need, orr_size_text(parameters), orr_parameter_cost_text(&f->numerics),
		part_text(worker->version_bytes, "older versions"),
		part_text(worker->copy_bytes, "copies of parameters and gradients"),
		orr_size_text(worker->peak_stash_bytes),
		orr_count_text(worker->peak_stash, "stash"), limit,
		worker->version_bytes ? "a larger [accumulate], " : "");
}

int orr_figures_fullest(const struct orr_figures *f)
{
	int most = 0;

	for (int w = 1; w < f->n_workers; w++)
		most = f->worker[w].memory_bytes > f->worker[most].memory_bytes ? w : most;
	return most;
}

int orr_figures_check_memory(const struct orr_figures *f, const struct orr_machine *machine,
			     struct orr_error *err)
{
	for (int w = 0; w < f->n_workers; w++) {
		int64_t limit_bytes = orr_machine_memory(machine, w);

		if (limit_bytes && f->worker[w].memory_bytes > limit_bytes)
			return refuse_worker(f, w, limit_bytes, err);
	}
	return 0;
}

void orr_figures_destroy(struct orr_figures *f)
{
	if (!f)
		return;
	free(f->worker);
	free(f);
}
