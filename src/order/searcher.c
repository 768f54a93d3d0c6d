#include "searcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "base/quantity.h"
#include "bounds.h"
#include "orrery/figures.h"
#include "orrery/timeline.h"
#include "orrery/try.h"
#include "place.h"
#include "schedule/table.h"
#include "smallest.h"

#define MILLION INT64_C(1000000)
#define EXACTLY 16 /* jobs timed in the time of one that is simulated, about */

/* ---- orders ---- */

const struct orr_searched *orr_searcher_best(const struct orr_searcher *o)
{
	const struct orr_searched *best = NULL;

	for (int i = 0; i < o->n_places; i++)
		if (o->places[i].found.makespan_ns &&
		    (!best || o->places[i].found.makespan_ns < best->found.makespan_ns))
			best = &o->places[i];
	return best;
}

/* Of all orders found; INT64_MAX: none. */
static int64_t least_found(const struct orr_searcher *o)
{
	const struct orr_searched *best = orr_searcher_best(o);

	return best ? best->found.makespan_ns : INT64_MAX;
}

bool orr_searched_is_open(const struct orr_searched *x)
{
	return x->found.bound_ns < least_found(x->searcher);
}

static void tell(const struct orr_searcher *o, int64_t best_ns)
{
	int64_t bound_ns = INT64_MAX;

	for (int i = 0; i < o->n_places; i++)
		bound_ns = smaller(bound_ns, o->places[i].found.bound_ns);
	if (o->options->observer.tell)
		o->options->observer.tell(o->options->observer.user, best_ns, bound_ns);
}

/* tried[] is x's best order now, if it is shorter. */
static void take(struct orr_searched *x, int64_t makespan_ns)
{
	const struct orr_searcher *o = x->searcher;
	bool best = makespan_ns < least_found(o);

	if (makespan_ns >= (x->found.makespan_ns ? x->found.makespan_ns : INT64_MAX))
		return;
	x->found.makespan_ns = makespan_ns;
	memcpy(x->n, o->tried, (size_t)o->n_jobs * sizeof(*x->n));
	if (best)
		tell(o, makespan_ns);
}

/* What is parked counts where it is. */
static bool fits(const struct orr_searcher *o, const struct orr_figures *f)
{
	for (int w = 0; w < f->n_workers; w++)
		if (f->worker[w].peak_stash > o->limit.stashes ||
		    f->worker[w].peak_stash_bytes > o->limit.bytes)
			return false;
	return !o->options->memory_bytes || !orr_figures_check_memory(f, &o->p->machine, NULL);
}

/* How long the order n of x's jobs takes, or spans where that is sought; it is timed: where
 * links are not free or stashes are parked in the simulator, in which transfers share links, and
 * that counts as EXACTLY times the jobs timed. INT64_MAX: it does not fit. */
static int simulate(struct orr_searched *x, int64_t *n, bool named, int64_t *makespan_ns)
{
	const struct orr_searcher *o = x->searcher;
	struct orr_timed *timed = x->timed;
	const struct orr_pipeline *parts = o->options->parts, *p = timed->parked ? timed->parked
								   : parts       ? parts
										 : o->p;
	static char name[] = "search";
	struct orr_table table = {.name = name,
				  .n_stages = o->p->n_stages,
				  .n_workers = o->p->n_workers,
				  .n_microbatches = o->p->n_microbatches,
				  .split_backward = true,
				  .compute = timed->jobs.compute,
				  .priority = n};
	struct orr_schedule schedule;
	struct orr_try tried;
	int code;

	*makespan_ns = timed->sought_ns;
	if (!timed->parked && !parts && !(p->machine.bandwidth_bytes_per_s > 0))
		return 0; /* timed is exact */
	timed->n_timed += EXACTLY * (int64_t)timed->jobs.n_jobs / o->p->n_stages * p->n_stages;
	orr_table_schedule(&schedule, &table);
	schedule.check = NULL; /* it has a worker for passes that do not exist, too */
	if (!(code = orr_try_init_in(&tried, p, &schedule, NULL,
				     parts && !named ? ORR_RUN_GREEDY : ORR_RUN_AS_SCHEDULED,
				     o->err)) &&
	    !(code = (timed->parked ? orr_try_run : orr_try_time)(&tried, o->err)))
		*makespan_ns = timed->parked && !fits(o, tried.figures) ? INT64_MAX
			       : timed->seeks_span ? orr_timeline_span(tried.timeline)
						   : orr_timeline_makespan(tried.timeline);
	/* not where stashes are parked, or parts are wider than what is there */
	if ((timed->parked || parts) && code == ORR_E_INPUT) {
		*makespan_ns = INT64_MAX;
		code = 0;
	}
	orr_try_fini(&tried);
	return code;
}

int orr_searched_consider(struct orr_searched *x, bool named)
{
	struct orr_searcher *o = x->searcher;
	int64_t makespan_ns;
	int code = orr_timed_order(x->timed, o->tried, o->err);

	if (code)
		return code;
	for (int w = 0; w < o->p->n_workers; w++)
		if (orr_timed_excess(x->timed, w))
			return 0;
	if (!orr_timed_time(x->timed))
		return 0;
	x->fits = true;
	if (!named && x->found.makespan_ns && x->timed->sought_ns >= x->found.makespan_ns)
		return 0;
	if ((code = simulate(x, o->tried, named, &makespan_ns)) || makespan_ns == INT64_MAX)
		return code;
	if (named && (!x->found.start_ns || makespan_ns < x->found.start_ns))
		x->found.start_ns = makespan_ns;
	take(x, makespan_ns);
	return 0;
}

bool orr_searched_is_alike(const struct orr_searched *x, const int *alike)
{
	return !memcmp(x->alike, alike, (size_t)x->searcher->p->n_stages * sizeof(*alike));
}

/* The local search has an order that is shorter if transfers never queue. */
static int note_found(void *user)
{
	struct orr_searched *x = user;
	struct orr_searcher *o = x->searcher;
	int64_t makespan_ns;
	int code;

	if (!(code = orr_timed_number(x->timed, o->tried, o->err)) &&
	    !(code = simulate(x, o->tried, false, &makespan_ns)))
		take(x, makespan_ns);
	return code;
}

static void show_life(void *user)
{
	const struct orr_searched *x = user;

	tell(x->searcher, least_found(x->searcher));
}

/* ---- placements ---- */

#define UNEVEN_FROM 3 /* stages a worker */

static int place(struct orr_searched *x, int placement)
{
	const struct orr_searcher *o = x->searcher;
	int *worker = x->worker;

	if (placement == ORR_PLACEMENT_LAST) {
		orr_arrays_make(&x->all, x->block, o->p->n_stages);
		if (!x->block)
			return orr_arrays_check(&x->all, "search", o->err);
		orr_place_unevenly(worker, x->block, o->p);
		return 0;
	}
	if (placement == ORR_PLACEMENT_PLAN)
		return orr_place_evenly(worker, o->p, ORR_PLACE_STEPS, o->err);
	if (placement == ORR_PLACEMENT_GIVEN)
		memcpy(worker, o->options->worker, (size_t)o->p->n_stages * sizeof(*worker));
	else
		orr_place_in_turn(worker, o->p, placement == ORR_PLACEMENT_FOLD);
	return 0;
}

void orr_searched_fini(struct orr_searched *x)
{
	orr_timed_destroy(x->timed);
	orr_arrays_free(&x->all);
	memset(x, 0, sizeof(*x));
}

/* All forwards, then all backwards: stage after stage that gathers a minibatch what comes before
 * it, and back. */
static void fill_waves(struct orr_searcher *o)
{
	const struct orr_pipeline *p = o->p;
	int64_t each = 2 * p->n_stages, wave = each * p->n_microbatches, most = 0;

	for (int s = 0; s < p->n_stages; s++)
		most = larger(most, p->stages[s].n_gathers);
	for (int j = 0; j < o->n_jobs; j++) {
		int d = j % ORR_N_PASSES, s = j / ORR_N_PASSES % p->n_stages,
		    b = j / ORR_N_PASSES / p->n_stages, n = p->stages[s].n_gathers;

		o->tried[j] = b * each + (d == ORR_PASS_F ? n * wave + s
							  : (2 * most + 1 - n) * wave +
								    2 * (p->n_stages - 1 - s) +
								    (d == ORR_PASS_W));
	}
}

/* All microbatches at once: where a minibatch is gathered, they are all held before a backward. */
static int open_gathering(struct orr_searched *x)
{
	struct orr_searcher *o = x->searcher;
	int64_t most = INT64_MIN;
	int code;

	fill_waves(o);
	if ((code = orr_searched_consider(x, false)) || x->fits)
		return code;
	for (int w = 0; w < o->p->n_workers; w++) {
		struct orr_load peak = orr_timed_peak(x->timed, w), limit = x->timed->most[w];

		most = larger(most, limit.stashes < INT64_MAX ? peak.stashes - limit.stashes
							      : peak.bytes - limit.bytes);
	}
	o->excess = smaller(o->excess, most);
	o->exact = false;
	return 0;
}

/* Microbatch after microbatch, each in the order that holds least. */
static int open_smallest(struct orr_searched *x)
{
	struct orr_searcher *o = x->searcher;
	int n_kinds = o->p->n_stages * ORR_N_PASSES;
	struct orr_smallest smallest = {.n = o->other};
	int code = orr_smallest_find(&smallest, x->timed, o->err);

	if (code)
		return code;
	for (int j = 0; j < o->n_jobs; j++)
		o->tried[j] = (int64_t)(j / n_kinds) * 2 * n_kinds + smallest.n[j % n_kinds];
	if (!(code = orr_searched_consider(x, false)) && !x->fits) {
		o->excess = smaller(o->excess, smallest.excess);
		o->exact = o->exact && smallest.exact;
	}
	return code;
}

/* Its limits, bounds and first order, if there is one. */
static int open_place(struct orr_searched *x)
{
	struct orr_searcher *o = x->searcher;
	struct orr_bounds bounds;
	int code;

	if ((code = orr_timed_create(&x->timed, o->p, x->worker, 1, ORR_N_PASSES, true, o->err)))
		return code;
	x->timed->seeks_span = o->options->objective == ORR_OBJECTIVE_SPAN;
	orr_place_limit(x->timed, x->worker, o->limit, o->options->memory_bytes,
			o->options->room_bytes);
	if ((code = orr_timed_park(x->timed, o->options->parked, o->err)) ||
	    (code = orr_bounds_find(&bounds, x->timed, o->err)))
		return code;
	x->found.bound_ns = bounds.largest_ns;
	x->left = o->options->effort * MILLION;
	x->local = (struct orr_local_search){.timed = x->timed,
					     .bound_ns = bounds.largest_ns,
					     .until_ns = o->until_ns,
					     .random = (uint64_t)o->options->seed * 2 + 1,
					     .found = note_found,
					     .watch = show_life,
					     .user = x};
	code = orr_pipeline_gathers(o->p) ? open_gathering(x) : open_smallest(x);
	memcpy(x->n, o->tried, (size_t)o->n_jobs * sizeof(*x->n)); /* to go on from, at least */
	x->fits = x->fits || x->timed->parked;
	return code;
}

static int place_init(struct orr_searched *x)
{
	const struct orr_searcher *o = x->searcher;
	size_t n_stages = (size_t)o->p->n_stages;

	orr_arrays_make(&x->all, x->worker, n_stages);
	orr_arrays_make(&x->all, x->alike, n_stages);
	orr_arrays_make(&x->all, x->n, o->n_jobs);
	return orr_arrays_check(&x->all, "search", o->err);
}

int orr_searcher_add(struct orr_searcher *o, int placement)
{
	struct orr_searched *x = &o->places[o->n_places];
	bool known = false;
	int code;

	x->searcher = o;
	if (!(code = place_init(x)) && !(code = place(x, placement))) {
		orr_pipeline_settle(o->p, x->worker, 1);
		code = orr_place_rename(x->alike, x->worker, o->p, o->err);
	}
	if (!code && placement != ORR_PLACEMENT_GIVEN) /* whose workers may differ */
		memcpy(x->worker, x->alike, (size_t)o->p->n_stages * sizeof(*x->worker));
	for (int i = 0; i < o->n_places && !code && !known; i++)
		known = orr_searched_is_alike(&o->places[i], x->alike);
	if (!code && !known) {
		o->n_places++;
		code = open_place(x);
		o->n_places--;
	}
	if (code || !x->fits)
		orr_searched_fini(x);
	else
		o->n_places++;
	return code;
}

int orr_searcher_add_twin(struct orr_searcher *o, const struct orr_searched *twin, bool reorder)
{
	struct orr_searched *x = &o->places[o->n_places];
	size_t n_stages = (size_t)o->p->n_stages;
	int code;

	assert(o->n_places < ORR_MOST_PLACEMENTS);
	x->searcher = o;
	x->twin = twin;
	if ((code = place_init(x)))
		return code;
	memcpy(x->worker, twin->worker, n_stages * sizeof(*x->worker));
	memcpy(x->alike, twin->alike, n_stages * sizeof(*x->alike));
	o->n_places++;
	code = open_place(x);
	x->local.reorder = reorder;
	return code;
}

/* Stages that are plain enough to be fused (best.c). */
static bool can_fuse(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].frozen || p->stages[s].recompute || p->stages[s].again_bytes)
			return false;
	return !p->microbatches && !p->n_tied && !p->machine.cluster &&
	       !orr_pipeline_has_gangs(p) && !orr_pipeline_gathers(p);
}

bool orr_searcher_tries(const struct orr_searcher *o, int placement)
{
	const struct orr_pipeline *p = o->p;

	if (placement == ORR_PLACEMENT_FOLD)
		return p->n_stages > p->n_workers && p->n_workers > 1;
	if (placement == ORR_PLACEMENT_LAST)
		return o->options->related > 0 && p->n_workers > 1 &&
		       p->n_stages >= UNEVEN_FROM * p->n_workers && can_fuse(p);
	return placement != ORR_PLACEMENT_GIVEN;
}

int orr_searcher_refuse(const struct orr_searcher *o)
{
	const struct orr_search_options *asked = o->options;
	bool any = asked->placement == ORR_PLACEMENT_ANY;
	const char *where = any ? "on the placements that it tries" : "on this placement";
	const char *more =
		"give more memory, take more workers or more microbatches ([microbatches])";
	const char *why = o->exact ? "not even one microbatch fits"
				   : "no order of one microbatch was found that fits";
	const char *room = "in the workers' memory beside parameters, gradients and optimizer";
	long long stashes = (long long)asked->stashes + o->excess;

	if (o->excess == INT64_MAX && asked->parts) /* as simulate() has it */
		return ORR_E_INPUT;

	if (orr_pipeline_gathers(o->p))
		return orr_fail(o->err, ORR_E_INPUT,
				"auto: a minibatch is gathered (gather=), so the %d microbatches "
				"before that are held at once, and do not fit %s: give more memory "
				"or fewer microbatches ([microbatches])",
				o->p->n_microbatches, where);
	if (asked->stashes && !asked->stash_bytes && !asked->memory_bytes)
		return orr_fail(o->err, ORR_E_INPUT,
				"auto: %s %lld stage stashes on a worker, one microbatch alone "
				"takes %s%lld %s: give memory=%lld or more",
				o->exact ? "nothing fits" : "no order was found that fits",
				(long long)asked->stashes, o->exact ? "" : "at most ", stashes,
				where, stashes);
	if (!asked->memory_bytes)
		room = orr_text("%lld bytes of stash on a worker", (long long)asked->stash_bytes);
	else if (!o->p->machine.cluster)
		room = orr_text("[memory] %s beside parameters, gradients and optimizer",
				orr_size_exact(asked->memory_bytes));
	return orr_fail(o->err, ORR_E_INPUT, "auto: %s %s %s: %s", why, room, where, more);
}
