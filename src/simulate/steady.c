#include "steady.h"

#include "base/max.h"
#include "gaps.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "simulate.h"
#include "schedule/async.h"
#include "schedule/table.h"
#include "schedule/versions.h"

/* The longest timeline tried, in jobs: many times the length after which any known pipeline
 * repeats. */
#define MOST_JOBS (1 << 20)

/* Is stage s the first of those before it with a backward? */
static bool is_input(const struct orr_jobs *jobs, int s)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int i = 0; i < p->stages[s].n_in; i++)
		if (!p->edges[p->stages[s].in[i]].detached)
			return false;
	return orr_jobs_last_pass(jobs, s) != ORR_PASS_F;
}

static void measure_ends(struct orr_steady *steady, const struct orr_timeline *t)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	int64_t first = INT64_MAX, last = 0, full = 0, empty = INT64_MAX;

	for (int w = 0; w < p->n_workers; w++) {
		struct orr_interval x = orr_timeline_interval(t, w);

		first = smaller(first, x.start_ns);
		last = larger(last, x.end_ns);
	}
	for (int s = 0; s < p->n_stages; s++) {
		int newest = orr_jobs_index(t->jobs, s, p->n_microbatches - 1, ORR_PASS_F);
		enum orr_pass backward = orr_jobs_first_backward(t->jobs, s);

		if (!is_input(t->jobs, s))
			continue;
		full = larger(full, t->start_ns[orr_jobs_index(t->jobs, s, 0, backward)]);
		empty = smaller(empty, t->end_ns[newest]);
	}
	steady->startup_ns = full - first;
	steady->drain_ns = last - empty;
}

/* Microbatches whose jobs all come, in the order of n, before the first one that the rounds have
 * not got: nothing in them knows that it ends. *around: microbatches that any moment of it can have
 * to do with. */
static int count_undisturbed(const struct orr_jobs *jobs, int *around)
{
	int n_stages = jobs->pipeline->n_stages, m = jobs->pipeline->n_microbatches, n = 0;
	int64_t low = INT64_MAX, high = INT64_MIN, span;

	for (int i = 0; i < n_stages * jobs->n_passes; i++) {
		low = smaller(low, jobs->priority[i]);
		high = larger(high, jobs->priority[i]);
	}
	span = high - low; /* from the first job of a microbatch to its last */
	for (int b = 0; b < m; b++) {
		int64_t last = INT64_MIN;

		for (int i = 0; i < n_stages * jobs->n_passes; i++)
			last = larger(last, jobs->priority[b * n_stages * jobs->n_passes + i]);
		n += last < low + jobs->async->period;
	}
	*around = (int)(span * m / jobs->async->period) + 2;
	return n;
}

/* Is every pass of the microbatches in [from, end) as long after that of q before, on the same
 * worker? */
static bool repeats(const struct orr_timeline *t, int from, int end, int q, int64_t *period_ns)
{
	int each = t->jobs->pipeline->n_stages * t->jobs->n_passes;

	*period_ns = t->start_ns[(end - 1) * each] - t->start_ns[(end - 1 - q) * each];
	for (int j = end * each - 1; j >= from * each; j--)
		if (orr_jobs_has(t->jobs, j) &&
		    (t->start_ns[j] - t->start_ns[j - q * each] != *period_ns ||
		     t->jobs->compute[j] != t->jobs->compute[j - q * each]))
			return false;
	return true;
}

/* Only what holds over whole updates of every stage goes on for ever: a shorter while can lie
 * between two updates, and has none of the time that they and their rings take. Where updates take
 * no time that is waited for, a part of it says the same of all of it. */
static void find_period(struct orr_steady *steady, const struct orr_timeline *t)
{
	int around, n = count_undisturbed(t->jobs, &around);
	int updates = orr_versions_step(t->jobs->versions), q = updates, part = 1;

	while (around + 2 * (int64_t)q <= n &&
	       !repeats(t, n - around - q, n, q, &steady->period_ns))
		q += updates;
	if (around + 2 * (int64_t)q > n) {
		steady->period_ns = 0;
		return;
	}
	while (q % part || !repeats(t, n - around - q, n, part, &steady->period_ns))
		part++;
	steady->microbatches = part;
}

/* ---- the same schedule in longer rounds ---- */

static int try_rounds(struct orr_steady *steady, const struct orr_jobs *round, int rounds,
		      struct orr_error *err)
{
	const struct orr_table table = {.name = (char *)round->schedule,
					.n_stages = round->pipeline->n_stages,
					.n_microbatches = round->pipeline->n_microbatches,
					.split_backward = round->n_passes == 3,
					.order = round->order,
					.period = round->async->period,
					.compute = round->compute,
					.priority = round->priority,
					.cap = round->cap,
					.recompute = round->recompute};
	struct orr_schedule repeated;
	struct orr_pipeline longer = *round->pipeline; /* its arrays are borrowed */
	struct orr_jobs *jobs = NULL;
	struct orr_timeline *timeline = NULL;
	int code;

	orr_table_schedule(&repeated, &table);
	repeated.check = NULL; /* it is for files */
	longer.n_microbatches *= rounds;
	if (!(code = orr_jobs_create(&jobs, &longer, &repeated, err)) &&
	    !(code = orr_simulate(&timeline, jobs, err)))
		find_period(steady, timeline);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	return code;
}

int orr_steady_find(struct orr_steady *out, const struct orr_timeline *t, struct orr_error *err)
{
	struct orr_steady steady = {0};
	int code = 0;

	if (t->jobs->async) {
		measure_ends(&steady, t);
		for (int64_t rounds = 1; !code && !steady.microbatches; rounds *= 2) {
			if (rounds > 1 && rounds * t->jobs->n_jobs > MOST_JOBS)
				break;
			code = try_rounds(&steady, t->jobs, (int)rounds, err);
			if (code == ORR_E_INPUT && rounds > 1) { /* longer than can be counted */
				code = 0;
				break;
			}
		}
	}
	*out = steady;
	return code;
}
