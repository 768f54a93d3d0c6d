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
#include "exchange/table.h"
#include "machine.h"
#include "planning/allocate.h"
#include "simulate.h"
#include "timeline.h"

#define ALLOCATE_STEPS 200000 /* of branch and bound */

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
	int64_t *room; /* [n_workers] bytes for stashes */
	int64_t *n, *tried; /* [n_jobs] the best order, and one that is tried */
	int64_t *named;     /* [n_jobs] the best of the orders that it starts from */
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

static int64_t end_of(const struct orr_timeline *t)
{
	int64_t end = 0;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		end = t->end_ns[j] > end ? t->end_ns[j] : end;
	for (int u = 0; u < t->n_updates; u++)
		end = t->updates[u].end_ns > end ? t->updates[u].end_ns : end;
	return end;
}

/* The order n, which the trial has timed, as the simulator runs it: transfers share links. */
static int time_exactly(const struct searcher *o, int64_t *n, int64_t *makespan_ns)
{
	const struct orr_pipeline *p = o->p;
	struct orr_machine machine = orr_machine_default(p->n_workers);
	static char name[] = "search";
	struct orr_table table = {.name = name,
				  .n_stages = p->n_stages,
				  .n_workers = p->n_workers,
				  .n_microbatches = p->n_microbatches,
				  .split_backward = true,
				  .compute = o->trial->jobs.compute,
				  .priority = n};
	struct orr_timeline *timeline = NULL;
	struct orr_jobs *jobs = NULL;
	struct orr_schedule schedule;
	int code;

	if (!(p->bandwidth_bytes_per_s > 0))
		return 0; /* the trial is exact */
	machine.latency_ns = p->latency_ns;
	machine.bandwidth_bytes_per_s = p->bandwidth_bytes_per_s;
	orr_table_schedule(&schedule, &table);
	if (!(code = orr_jobs_create(&jobs, p, &schedule, o->err)) &&
	    !(code = orr_simulate(&timeline, jobs, &machine, o->err)))
		*makespan_ns = end_of(timeline);
	orr_timeline_destroy(timeline);
	orr_jobs_destroy(jobs);
	return code;
}

static int consider_named(struct searcher *o)
{
	int64_t makespan_ns;
	bool fits;
	int code;

	for (int i = 0; i < o->seeds.n; i++) {
		const struct orr_seed *seed = &o->seeds.seeds[i];

		if (!same_workers(o, seed->worker))
			continue;
		memcpy(o->tried, seed->n, (size_t)o->n_jobs * sizeof(*o->tried));
		if ((code = consider(o, &fits)))
			return code;
		if (!fits)
			continue;
		makespan_ns = o->trial->makespan_ns;
		if ((code = time_exactly(o, o->tried, &makespan_ns)))
			return code;
		if (o->found.start_ns && makespan_ns >= o->found.start_ns)
			continue;
		o->found.start_ns = makespan_ns;
		memcpy(o->named, o->tried, (size_t)o->n_jobs * sizeof(*o->named));
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

/* On any placement, with as many microbatches on a stage as fit. */
static int consider_capped(struct searcher *o)
{
	int most = o->p->depth < o->p->n_microbatches ? o->p->depth : o->p->n_microbatches, code = 0;

	for (int k = most; k > 0 && !code; k = k > 4 ? k * 3 / 4 : k - 1) {
		struct orr_seeds seeds = {0};
		bool fits;

		if (!(code = orr_seeds_add_capped(&seeds, o->p, o->worker, k, o->err)) && seeds.n) {
			memcpy(o->tried, seeds.seeds[0].n, (size_t)o->n_jobs * sizeof(*o->tried));
			code = consider(o, &fits);
		}
		orr_seeds_fini(&seeds);
	}
	return code;
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
	if ((code = consider_named(o)) || (code = consider_capped(o)))
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

/* Where transfers get into each other's way, what was found may be longer than where it began. */
static int settle(struct searcher *o)
{
	int code = time_exactly(o, o->n, &o->found.makespan_ns);

	if (code || !o->found.start_ns || o->found.makespan_ns <= o->found.start_ns)
		return code;
	o->found.makespan_ns = o->found.start_ns;
	memcpy(o->n, o->named, (size_t)o->n_jobs * sizeof(*o->n));
	return 0;
}

/* What parameters leave of the memory on each worker. */
static void find_room(struct searcher *o)
{
	const struct orr_pipeline *p = o->p;

	o->limit.bytes = 1;
	for (int w = 0; w < p->n_workers; w++)
		o->room[w] = o->options->memory_bytes;
	for (int s = 0; s < p->n_stages; s++)
		o->room[o->worker[s]] -= p->stages[s].parameter_bytes * (2 + p->optimizer_floats);
	for (int w = 0; w < p->n_workers; w++)
		o->limit.bytes = o->room[w] > o->limit.bytes ? o->room[w] : o->limit.bytes;
}

/* The best order on worker[], if it is better than what other placements gave. */
static int search_placement(struct searcher *o, int *worker, int64_t *n)
{
	struct orr_bounds bounds;
	bool fits;
	int code;

	memset(&o->found, 0, sizeof(o->found));
	if (o->options->memory_bytes)
		find_room(o);
	if ((code = orr_trial_create(&o->trial, o->p, o->worker, o->limit, o->err)) ||
	    (code = orr_bounds_find(&bounds, o->trial, o->err)))
		goto out;
	o->trial->room_bytes = o->options->memory_bytes ? o->room : o->options->room_bytes;
	o->found.bound_ns = bounds.largest_ns;
	if ((code = find_start(o, &fits)) || !fits || (code = improve(o)) || (code = settle(o)))
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

/* Stages shared out evenly, wherever they are in the graph. */
static int place_evenly(struct searcher *o)
{
	const struct orr_pipeline *p = o->p;
	int64_t *work = calloc((size_t)p->n_stages, sizeof(*work));
	struct orr_layers layers = {p->n_stages, work, NULL};
	struct orr_allocation found;
	int code;

	if (!work)
		return orr_fail(o->err, ORR_E_NOMEM, "search: no memory for %d stages", p->n_stages);
	for (int s = 0; s < p->n_stages; s++)
		work[s] = p->stages[s].forward_ns + p->stages[s].backward_ns +
			  p->stages[s].weight_ns;
	code = orr_allocate_any(&found, o->worker, &layers, p->n_workers, 0, ALLOCATE_STEPS, o->err);
	free(work);
	return code;
}

static int place(struct searcher *o, enum orr_placement placement)
{
	int n_workers = o->p->n_workers;

	if (placement == ORR_PLACEMENT_PLAN)
		return place_evenly(o);
	if (placement == ORR_PLACEMENT_GIVEN) {
		memcpy(o->worker, o->options->worker, (size_t)o->p->n_stages * sizeof(*o->worker));
		return 0;
	}
	for (int s = 0; s < o->p->n_stages; s++)
		o->worker[s] = placement == ORR_PLACEMENT_FOLD && s / n_workers % 2
				       ? n_workers - 1 - s % n_workers
				       : s % n_workers;
	return 0;
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
	if (o->options->memory_bytes)
		return orr_fail(o->err, ORR_E_INPUT,
				"auto: not even one microbatch fits --memory %lldB beside parameters, "
				"gradients and optimizer: give more memory, take more workers or more "
				"microbatches (-m)", (long long)o->options->memory_bytes);
	return orr_fail(o->err, ORR_E_INPUT,
			"auto: not even one microbatch fits %lld bytes of stash on a worker: "
			"give more memory, take more workers or more microbatches (-m)",
			(long long)o->limit.bytes);
}

static int search_all(struct searcher *o, int *worker, int64_t *n)
{
	enum orr_placement asked = o->options->placement;
	bool folds = o->p->n_stages > o->p->n_workers && o->p->n_workers > 1;
	int code = orr_seeds_gather(&o->seeds, o->p, o->limit.stashes, o->err);

	if (!code && o->options->from)
		code = orr_seeds_add(&o->seeds, o->options->from, o->err);
	for (int i = ORR_PLACEMENT_STRAIGHT; i <= ORR_PLACEMENT_GIVEN && !code; i++) {
		enum orr_placement placement = (enum orr_placement)i;
		bool wanted = asked == placement ||
			      (asked == ORR_PLACEMENT_ANY &&
			       (placement == ORR_PLACEMENT_STRAIGHT ||
				(placement == ORR_PLACEMENT_FOLD && folds)));

		if (wanted && !(code = place(o, placement)))
			code = search_placement(o, worker, n);
	}
	return code || o->any ? code : refuse(o);
}

static struct orr_search_options watching; /* its progress and user */

void orr_search_watch(void (*progress)(void *user, int64_t best_ns, int64_t bound_ns), void *user)
{
	watching.progress = progress;
	watching.user = user;
}

int orr_search(int *worker, int64_t *n, struct orr_search_result *result,
	       const struct orr_pipeline *p, const struct orr_search_options *asked,
	       struct orr_error *err)
{
	struct orr_search_options copy = *asked, *options = &copy;
	struct searcher o = {.p = p, .options = options, .err = err};
	struct timespec now;
	int code;

	if (!options->progress) {
		options->progress = watching.progress;
		options->user = watching.user;
	}
	o.limit.stashes = options->stashes ? options->stashes : INT64_MAX;
	o.limit.bytes = options->stash_bytes ? options->stash_bytes : INT64_MAX;
	o.n_jobs = p->n_stages * p->n_microbatches * ORR_N_PASSES;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (options->seconds)
		o.until_ns = ((int64_t)now.tv_sec + options->seconds) * 1000000000 + now.tv_nsec;
	o.worker = calloc((size_t)p->n_stages, sizeof(*o.worker));
	o.room = calloc((size_t)p->n_workers, sizeof(*o.room));
	o.n = calloc((size_t)o.n_jobs, sizeof(*o.n));
	o.tried = calloc((size_t)o.n_jobs, sizeof(*o.tried));
	o.named = calloc((size_t)o.n_jobs, sizeof(*o.named));
	if (!o.worker || !o.room || !o.n || !o.tried || !o.named)
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory for %d jobs", o.n_jobs);
	else
		code = search_all(&o, worker, n);
	if (!code && result)
		*result = o.best;
	orr_seeds_fini(&o.seeds);
	free(o.worker);
	free(o.room);
	free(o.n);
	free(o.tried);
	free(o.named);
	return code;
}
