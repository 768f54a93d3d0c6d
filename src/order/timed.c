#include "timed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/sort.h"
#include "schedule/deal.h"
#include "schedule/gang_order.h"
#include "simulate/network.h"

/* Predecessors of all jobs together. */
static size_t count_edges(const struct orr_timed *t, int *around)
{
	size_t n = 1;

	for (int j = 0; j < t->jobs.n_jobs; j++)
		n += (size_t)orr_jobs_predecessors(&t->jobs, j, around);
	return n;
}

static int allocate(struct orr_timed *t, int *around, struct orr_error *err)
{
	struct orr_arrays *all = &t->all;
	const struct orr_pipeline *p = t->jobs.pipeline;
	size_t n = (size_t)t->jobs.n_jobs, n_stages = (size_t)p->n_stages,
	       n_workers = (size_t)p->n_workers, n_edges = count_edges(t, around),
	       most_at = (size_t)t->jobs.most_at;

	orr_arrays_make(all, t->jobs.compute, n);
	orr_arrays_make(all, t->jobs.recompute, n_stages);
	orr_arrays_make(all, t->jobs.by_worker, n * most_at);
	orr_arrays_make(all, t->jobs.position, n * most_at);
	orr_arrays_make(all, t->jobs.first, n_workers + 1);
	orr_arrays_make(all, t->jobs.duration_ns, n);
	orr_arrays_make(all, t->up, n);
	orr_arrays_make(all, t->down, n);
	orr_arrays_make(all, t->most, n_workers);
	orr_arrays_make(all, t->before, n_edges);
	orr_arrays_make(all, t->after, n_edges);
	t->delay = t->exact ? orr_arrays_add(all, n_edges, sizeof(*t->delay)) : NULL;
	orr_arrays_make(all, t->first_before, n + 1);
	orr_arrays_make(all, t->first_after, n + 1);
	orr_arrays_make(all, t->start, n);
	orr_arrays_make(all, t->waits, n);
	orr_arrays_make(all, t->queue, n);
	orr_arrays_make(all, t->left, n_stages);
	return orr_arrays_check(all, "order: take fewer microbatches ([microbatches])", err);
}

/* Job j, after those below it. */
static void add_job(struct orr_timed *t, int j, int *around)
{
	int n = orr_jobs_predecessors(&t->jobs, j, around);

	memcpy(t->before + t->first_before[j], around, (size_t)n * sizeof(*around));
	t->first_before[j + 1] = t->first_before[j] + n;
	n = orr_jobs_successors(&t->jobs, j, t->after + t->first_after[j]);
	t->first_after[j + 1] = t->first_after[j] + n;
}

int orr_timed_create(struct orr_timed **out, const struct orr_pipeline *p, const int *worker,
		     int n_microbatches, int n_passes, bool exact, struct orr_error *err)
{
	struct orr_timed *t = calloc(1, sizeof(*t));
	int *around, code, n_jobs;
	double delays_ns = 0;

	if (!t)
		return orr_fail(err, ORR_E_NOMEM, "no memory for an order");
	t->jobs.pipeline = p;
	orr_arrays_make(&t->all, around, orr_jobs_most_around(&t->jobs));
	t->exact = exact;
	t->jobs.n_passes = n_passes;
	t->jobs.n_jobs = n_jobs = p->n_stages * p->n_microbatches * n_passes;
	t->jobs.most_at = 1;
	for (int s = 0; s < p->n_stages; s++)
		t->jobs.most_at = (int)larger(t->jobs.most_at, orr_pipeline_n_at(p, s));
	if ((code = orr_arrays_check(&t->all, "order", err)) || (code = allocate(t, around, err)))
		goto out;
	for (int s = 0; s < p->n_stages; s++)
		t->jobs.recompute[s] = p->stages[s].recompute;
	for (int j = 0; j < n_jobs; j++) {
		t->up[j] = orr_jobs_adds(&t->jobs, j);
		t->down[j] = orr_jobs_frees(&t->jobs, j);
	}
	for (int j = 0; j < n_jobs; j++)
		t->jobs.compute[j] = worker[j / n_passes % (n_microbatches * p->n_stages)];
	orr_jobs_settle(&t->jobs, t->jobs.compute);
	orr_jobs_renew(&t->jobs);
	for (int j = 0; j < n_jobs; j++)
		add_job(t, j, around);
	for (int s = 0; exact && s < p->n_stages; s++)
		t->updates = t->updates ||
			     orr_pipeline_update_ns(p, s, t->jobs.compute[s * n_passes]) > 0;
	for (int j = 0; exact && j < n_jobs; j++)
		for (int k = t->first_after[j]; k < t->first_after[j + 1]; k++) {
			t->delay[k] = orr_timed_delay(t, j, t->after[k]);
			delays_ns += (double)t->delay[k];
		}
	if ((code = orr_network_check_clock(delays_ns, p, false, err)) ||
	    (code = orr_timed_order(t, t->start, err)))
		goto out;
	*out = t;
	t = NULL;
out:
	orr_timed_destroy(t);
	return code;
}

void orr_timed_destroy(struct orr_timed *t)
{
	if (!t)
		return;
	orr_arrays_free(&t->all);
	free(t);
}

int orr_timed_order(struct orr_timed *t, const int64_t *n, struct orr_error *err)
{
	return orr_jobs_sort(&t->jobs, n, true, err);
}

void orr_timed_put(struct orr_timed *t, int w, int place, int j)
{
	struct orr_jobs *jobs = &t->jobs;
	int i = jobs->most_at > 1 ? orr_jobs_number_at(jobs, j, w) : 0;

	jobs->by_worker[jobs->first[w] + place] = j;
	jobs->position[j * jobs->most_at + i] = place;
}

void orr_timed_renumber(struct orr_timed *t)
{
	const struct orr_jobs *jobs = &t->jobs;

	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++)
			orr_timed_put(t, w, i - jobs->first[w], jobs->by_worker[i]);
}

int orr_timed_number(const struct orr_timed *t, int64_t *n, struct orr_error *err)
{
	for (int j = 0; j < t->jobs.n_jobs; j++)
		n[j] = t->jobs.most_at == 1 ? t->jobs.position[j] : t->start[j];
	/* the queue extends the order, of jobs of no length too */
	return t->jobs.most_at == 1 ? 0 : orr_rank(n, t->queue, t->jobs.n_jobs, err);
}

int64_t orr_timed_delay(const struct orr_timed *t, int j, int k)
{
	const struct orr_jobs *jobs = &t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int64_t most = 0;

	if (orr_jobs_at(jobs, j).s == orr_jobs_at(jobs, k).s)
		return 0;
	for (int i = 0; i < orr_jobs_n_at(jobs, k); i++) {
		int w = orr_jobs_worker(jobs, k, i),
		    v = orr_jobs_worker(jobs, j, i % orr_jobs_n_at(jobs, j));

		if (orr_jobs_number_at(jobs, j, w) < 0)
			most = larger(most,
				      orr_machine_transfer_ns(&p->machine, v, w,
							      orr_jobs_edge_bytes(jobs, j, k)));
	}
	return most;
}

/* When the worker is free again: a stage's update runs right after its last weight gradient. */
static int64_t end_on_worker(struct orr_timed *t, int j, int64_t end)
{
	const struct orr_jobs *jobs = &t->jobs;
	int n_passes = jobs->n_passes, s;

	if (!t->updates || j % n_passes != n_passes - 1)
		return end;
	s = j / n_passes % jobs->pipeline->n_stages; /* update_ns is 0 where it is frozen */
	return --t->left[s] ? end
			    : end + orr_pipeline_update_ns(jobs->pipeline, s, jobs->compute[j]);
}

/* A job waits for its predecessors and, on each of its workers, for the one before it. */
static int begin(struct orr_timed *t)
{
	const struct orr_jobs *jobs = &t->jobs;
	int n_ready = 0;

	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		t->left[s] = jobs->pipeline->n_microbatches;
	memset(t->start, 0, (size_t)jobs->n_jobs * sizeof(*t->start));
	for (int j = 0; j < jobs->n_jobs; j++)
		t->waits[j] = t->first_before[j + 1] - t->first_before[j] + orr_jobs_n_at(jobs, j);
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		if (jobs->first[w] < jobs->first[w + 1])
			t->waits[jobs->by_worker[jobs->first[w]]]--;
	for (int j = 0; j < jobs->n_jobs; j++)
		if (!t->waits[j])
			t->queue[n_ready++] = j;
	return n_ready;
}

/* One thing less that j waits for, which ends at this time. Is it the last? */
static bool arrive(struct orr_timed *t, int j, int64_t time)
{
	t->start[j] = larger(t->start[j], time);
	return --t->waits[j] == 0;
}

/* As far as jobs wait for each other. A job whose end lets the next one of its worker start is
 * followed by that one at once, which is quicker; with gangs the queue is to have all jobs. */
static bool run_all(struct orr_timed *t)
{
	const struct orr_jobs *jobs = &t->jobs;
	int n_ready = begin(t), n_run = 0;

	for (int i = 0; i < n_ready; i++)
		for (int j = t->queue[i], follows; j >= 0; j = follows, n_run++) {
			int64_t end = t->start[j] + t->jobs.duration_ns[j],
				free = end_on_worker(t, j, end);

			follows = -1;
			for (int k = t->first_after[j]; k < t->first_after[j + 1]; k++)
				if (arrive(t, t->after[k], end + (t->exact ? t->delay[k] : 0)))
					t->queue[n_ready++] = t->after[k];
			for (int k = 0; k < orr_jobs_n_at(jobs, j); k++) {
				int next = orr_jobs_beside(jobs, j, k, 1);

				if (next < 0 || !arrive(t, next, k ? end : free))
					continue;
				if (jobs->most_at == 1)
					follows = next;
				else
					t->queue[n_ready++] = next;
			}
		}
	return n_run == jobs->n_jobs;
}

bool orr_timed_time(struct orr_timed *t)
{
	bool whole = run_all(t);

	t->n_timed += t->jobs.n_jobs;
	orr_timed_measure(t);
	return whole;
}

void orr_timed_measure(struct orr_timed *t)
{
	const struct orr_jobs *jobs = &t->jobs;

	t->makespan_ns = t->span_ns = t->ends_ns = 0;
	for (int w = 0; w < jobs->pipeline->n_workers; w++) {
		int first, last;
		int64_t end;

		if (jobs->first[w] == jobs->first[w + 1])
			continue;
		first = jobs->by_worker[jobs->first[w]];
		last = jobs->by_worker[jobs->first[w + 1] - 1];
		end = t->start[last] + t->jobs.duration_ns[last];
		if (t->exact &&
		    jobs->compute[last] == w) /* the last weight gradient of its stage */
			end += orr_pipeline_update_ns(jobs->pipeline, orr_jobs_at(jobs, last).s, w);
		t->ends_ns += t->seeks_span ? end - t->start[first] : end;
		t->makespan_ns = larger(t->makespan_ns, end);
		t->span_ns = larger(t->span_ns, end - t->start[first]);
	}
	t->sought_ns = t->seeks_span ? t->span_ns : t->makespan_ns;
}

/* Over free links a stash has left as F ends, else after the jobs that it may leave beside. */
int orr_timed_park(struct orr_timed *t, const struct orr_pipeline *parked, struct orr_error *err)
{
	struct orr_jobs *jobs = &t->jobs;
	int code;

	if (!(t->parked = parked))
		return 0;
	orr_arrays_make(&t->all, jobs->park, (size_t)jobs->n_jobs / (size_t)jobs->n_passes);
	if ((code = orr_arrays_check(&t->all, "order", err)))
		return code;
	t->leaves = 1;
	for (int j = 0; j < jobs->n_jobs; j += jobs->n_passes) {
		int park = parked->stages[orr_jobs_at(jobs, j).s].park;

		jobs->park[j / jobs->n_passes] = park;
		if (park > 0 || (park && orr_machine_transfer_ns(&parked->machine, jobs->compute[j],
								 park, t->up[j].bytes)))
			t->leaves = orr_jobs_park_ahead(jobs) + 1;
	}
	return 0;
}

/* The load as j starts: a parked stash has left, and another one comes back. */
static struct orr_load move(const struct orr_timed *t, int j, struct orr_load load)
{
	int left = orr_jobs_beside(&t->jobs, j, 0, -t->leaves),
	    comes = orr_jobs_parked_beside(&t->jobs, j, true);

	if (left >= 0 && orr_jobs_parked(&t->jobs, left))
		load = orr_load_sum(load, t->up[left], -1);
	return comes >= 0 ? orr_load_sum(load, t->up[comes], 1) : load;
}

struct orr_load orr_timed_peak(const struct orr_timed *t, int w)
{
	struct orr_load load = {0, 0}, peak = {0, 0};

	for (int i = t->jobs.first[w]; i < t->jobs.first[w + 1]; i++) {
		int j = t->jobs.by_worker[i];

		orr_load_add(&load, &peak, t->up[j], t->down[j]);
	}
	return peak;
}

int orr_timed_excess(const struct orr_timed *t, int w)
{
	struct orr_load load = {0, 0}, most = t->most[w];
	int excess = 0;

	for (int i = t->jobs.first[w]; i < t->jobs.first[w + 1]; i++) {
		int j = t->jobs.by_worker[i];
		struct orr_load peak = {0, 0};

		if (t->parked)
			load = move(t, j, load);
		orr_load_add(&load, &peak, t->up[j], t->down[j]);
		excess += orr_load_exceeds(peak, most);
	}
	return excess;
}

struct orr_load orr_timed_most(const struct orr_timed *t, int w)
{
	struct orr_load limit =
		t->parked ? (struct orr_load){INT64_MAX, INT64_MAX} : (struct orr_load){1, 1};

	orr_load_raise(&limit, t->most[w]);
	return limit;
}

void orr_timed_reverse(struct orr_timed *t)
{
	struct orr_jobs *jobs = &t->jobs;
	struct orr_timed kept = *t;

	assert(!t->exact);
	t->before = kept.after, t->first_before = kept.first_after;
	t->after = kept.before, t->first_after = kept.first_before;
	t->up = kept.down, t->down = kept.up;
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w], k = jobs->first[w + 1] - 1; i < k; i++, k--) {
			int j = jobs->by_worker[i];

			jobs->by_worker[i] = jobs->by_worker[k];
			jobs->by_worker[k] = j;
		}
	orr_timed_renumber(t);
}
