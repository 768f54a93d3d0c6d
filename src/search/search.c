#include "search.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bounds.h"
#include "local_search.h"
#include "seeds.h"
#include "trial.h"
#include "blocks/zero_bubble.h"

struct searcher {
	const struct orr_pipeline *p;
	const struct orr_search_options *options;
	struct orr_error *err;
	struct orr_load limit;
	struct orr_seeds seeds;
	int64_t until_ns;
	int n_jobs;
	/* of the placement at hand */
	int *worker;
	struct orr_trial *trial;
	int64_t *n, *tried; /* [n_jobs] the best order, and one that is tried */
	struct orr_search_result found;
	/* of all placements */
	struct orr_search_result best;
	int64_t needed; /* stashes that one microbatch needs, where nothing fits */
	bool any;
};

/* ---- where to start ---- */

/* tried[] as an order: keep it if it fits and is shorter. */
static int consider(struct searcher *o, bool *fits)
{
	int code = orr_trial_order(o->trial, o->tried, o->err);

	*fits = false;
	if (code)
		return code;
	for (int w = 0; w < o->p->n_workers; w++)
		if (orr_trial_excess(o->trial, w))
			return 0;
	if (!orr_trial_time(o->trial))
		return 0;
	*fits = true;
	if (o->found.makespan_ns && o->trial->makespan_ns >= o->found.makespan_ns)
		return 0;
	o->found.makespan_ns = o->trial->makespan_ns;
	memcpy(o->n, o->tried, (size_t)o->n_jobs * sizeof(*o->n));
	if (o->options->progress)
		o->options->progress(o->options->user, o->found.makespan_ns, o->found.bound_ns);
	return 0;
}

/* Microbatch after microbatch, `ahead` of them at once: what holds least. */
static int consider_turns(struct searcher *o, int64_t ahead, bool *fits)
{
	int n_stages = o->p->n_stages;

	for (int j = 0; j < o->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(&o->trial->jobs, j);
		int64_t place = job.d == ORR_PASS_F ? job.s : 2 * n_stages - 1 - job.s;

		o->tried[j] =
			(job.b / ahead * 3 + (int)job.d) * 2 * n_stages * o->p->n_microbatches +
			place + job.b % ahead * 2 * n_stages;
	}
	return consider(o, fits);
}

static bool same_workers(const struct searcher *o, const int *worker)
{
	return !memcmp(o->worker, worker, (size_t)o->p->n_stages * sizeof(*worker));
}

static int consider_named(struct searcher *o)
{
	bool fits;
	int code;

	for (int i = 0; i < o->seeds.n; i++) {
		const struct orr_seed *seed = &o->seeds.seeds[i];

		if (!same_workers(o, seed->worker))
			continue;
		memcpy(o->tried, seed->n, (size_t)o->n_jobs * sizeof(*o->tried));
		if ((code = consider(o, &fits)))
			return code;
		if (fits && (!o->found.start_ns || o->trial->makespan_ns < o->found.start_ns))
			o->found.start_ns = o->trial->makespan_ns;
	}
	return 0;
}

/* The greedy orders of the zero-bubble schedules, with as many microbatches on a stage as may fit.
 */
static int consider_zero_bubble(struct searcher *o)
{
	int64_t most = o->p->n_microbatches;
	bool fits;
	int code;

	for (int s = 0; s < o->p->n_stages; s++)
		if (o->worker[s] != s % o->p->n_workers)
			return 0;
	if (o->limit.stashes < most)
		most = o->limit.stashes;
	for (int64_t k = most; k > 0 && k >= most / 2; k = k > 4 ? k * 3 / 4 : k - 1) {
		struct orr_zero_bubble limit = {(int)k, 100};

		if ((code = orr_zero_bubble(o->p, &limit, o->tried, o->err)) ||
		    (code = consider(o, &fits)))
			return code;
	}
	return 0;
}

static int find_start(struct searcher *o, bool *fits)
{
	int code;

	if ((code = consider_turns(o, 1, fits)) || !*fits)
		return code;
	for (int64_t ahead = 2; *fits && ahead <= o->p->n_microbatches; ahead *= 2)
		if ((code = consider_turns(o, ahead, fits)))
			return code;
	*fits = true;
	if ((code = consider_named(o)))
		return code;
	return consider_zero_bubble(o);
}

/* ---- from there on ---- */

static bool is_late(const struct searcher *o)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return o->until_ns && (int64_t)now.tv_sec * 1000000000 + now.tv_nsec >= o->until_ns;
}

static int improve(struct searcher *o)
{
	struct orr_local_search local = {
		.trial = o->trial,
		.n = o->n,
		.best_ns = o->found.makespan_ns,
		.bound_ns = o->found.bound_ns,
		.n_timed = o->options->effort * 1000000,
		.until_ns = o->until_ns,
		.random = (uint64_t)o->options->seed * 2 + 1,
		.progress = o->options->progress,
		.user = o->options->user,
	};
	int code;

	do {
		if ((code = orr_trial_order(o->trial, o->n, o->err)))
			return code;
		if (!local.n_timed || local.best_ns <= local.bound_ns || !orr_trial_time(o->trial))
			break;
		code = orr_local_search(&local, o->err);
	} while (!code && o->until_ns && !is_late(o));
	o->found.makespan_ns = local.best_ns;
	return code;
}

/* The best order on worker[], if it is better than what other placements gave. */
static int search_placement(struct searcher *o, int *worker, int64_t *n)
{
	struct orr_bounds bounds;
	bool fits;
	int code;

	memset(&o->found, 0, sizeof(o->found));
	if ((code = orr_trial_create(&o->trial, o->p, o->worker, o->limit, o->err)) ||
	    (code = orr_bounds_find(&bounds, o->trial, o->err)))
		goto out;
	o->found.bound_ns = bounds.largest_ns;
	if ((code = find_start(o, &fits)) || !fits || (code = improve(o)))
		goto out;
	if (!o->any || o->found.makespan_ns < o->best.makespan_ns) {
		o->any = true;
		o->best = o->found;
		memcpy(worker, o->worker, (size_t)o->p->n_stages * sizeof(*worker));
		memcpy(n, o->n, (size_t)o->n_jobs * sizeof(*n));
	}
out:
	orr_trial_destroy(o->trial);
	o->trial = NULL;
	return code;
}

static void place(struct searcher *o, enum orr_placement placement)
{
	int n_workers = o->p->n_workers;

	for (int s = 0; s < o->p->n_stages; s++)
		o->worker[s] = placement == ORR_PLACEMENT_FOLD && s / n_workers % 2
				       ? n_workers - 1 - s % n_workers
				       : s % n_workers;
}

static int refuse(struct searcher *o)
{
	int most = (o->p->n_stages + o->p->n_workers - 1) / o->p->n_workers;

	if (o->limit.stashes < most)
		return orr_fail(o->err, ORR_E_INPUT,
				"auto: nothing fits %lld stage stashes on a worker, one microbatch "
				"alone takes %d: "
				"give memory=%d or more",
				(long long)o->limit.stashes, most, most);
	return orr_fail(o->err, ORR_E_INPUT,
			"auto: not even one microbatch fits %lld bytes of stash on a worker: "
			"give more memory, take more workers or more microbatches (-m)",
			(long long)o->limit.bytes);
}

static int search_all(struct searcher *o, int *worker, int64_t *n)
{
	enum orr_placement asked = o->options->placement;
	int code = orr_seeds_gather(&o->seeds, o->p, o->limit.stashes, o->err);

	if (code)
		return code;
	if (asked != ORR_PLACEMENT_FOLD) {
		place(o, ORR_PLACEMENT_STRAIGHT);
		if ((code = search_placement(o, worker, n)))
			return code;
	}
	if (asked == ORR_PLACEMENT_FOLD ||
	    (asked == ORR_PLACEMENT_ANY && o->p->n_stages > o->p->n_workers &&
	     o->p->n_workers > 1)) {
		place(o, ORR_PLACEMENT_FOLD);
		if ((code = search_placement(o, worker, n)))
			return code;
	}
	return o->any ? 0 : refuse(o);
}

int orr_search(int *worker, int64_t *n, struct orr_search_result *result,
	       const struct orr_pipeline *p, const struct orr_search_options *options,
	       struct orr_error *err)
{
	struct searcher o = {.p = p, .options = options, .err = err};
	struct timespec now;
	int code;

	o.limit.stashes = options->stashes ? options->stashes : INT64_MAX;
	o.limit.bytes = options->stash_bytes ? options->stash_bytes : INT64_MAX;
	o.n_jobs = p->n_stages * p->n_microbatches * ORR_N_PASSES;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (options->seconds)
		o.until_ns = ((int64_t)now.tv_sec + options->seconds) * 1000000000 + now.tv_nsec;
	o.worker = calloc((size_t)p->n_stages, sizeof(*o.worker));
	o.n = calloc((size_t)o.n_jobs, sizeof(*o.n));
	o.tried = calloc((size_t)o.n_jobs, sizeof(*o.tried));
	if (!o.worker || !o.n || !o.tried)
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory for %d jobs", o.n_jobs);
	else
		code = search_all(&o, worker, n);
	if (!code && result)
		*result = o.best;
	orr_seeds_fini(&o.seeds);
	free(o.worker);
	free(o.n);
	free(o.tried);
	return code;
}
