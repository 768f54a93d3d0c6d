#include "orrery/search.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bounds.h"
#include "local_search.h"
#include "exact.h"
#include "packed.h"
#include "permuted.h"
#include "place.h"
#include "refuse.h"
#include "rigid.h"
#include "repeating.h"
#include "seeds.h"
#include "smallest.h"
#include "starts.h"
#include "timed.h"

#define MOST_PLACEMENTS 8 /* half of them twins */
#define MILLION INT64_C(1000000)

/* Microbatches after which an order repeats, in search after search: one finds its way best from
 * what those with several have found. */
static const int repeats_after[] = {2, 4, 1, 2, 3, 6};

/* A placement, and the best order that was found on it. */
struct place {
	struct searcher *searcher;
	int *worker;
	int *alike; /* the same, by the names of orr_seeds_rename() */
	struct orr_timed *timed;
	int64_t *n; /* [n_jobs] */
	struct orr_search_result found;
	struct orr_local_search local;
	int64_t left;             /* jobs that may still be timed */
	const struct place *twin; /* with the same workers, where this one is for microbatches that
				     change places; else NULL */
};

struct searcher {
	const struct orr_pipeline *p;
	const struct orr_search_options *options;
	struct orr_error *err;
	struct orr_load limit;
	struct place places[MOST_PLACEMENTS];
	int n_places, n_jobs;
	int64_t until_ns;
	int64_t *tried;       /* [n_jobs] an order */
	int64_t most_stashes; /* that a worker may hold, about */
	bool sweeping;
	bool evened; /* a seed is no schedule's own order */
	/* of the placements on which nothing fits */
	int64_t excess; /* the least */
	bool exact;     /* and none has less */
};

/* ---- orders ---- */

static int64_t least_makespan(const struct searcher *o)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < o->n_places; i++)
		if (o->places[i].found.makespan_ns && o->places[i].found.makespan_ns < least)
			least = o->places[i].found.makespan_ns;
	return least;
}

/* Can another order on x be shorter than all that were found? */
static bool is_open(const struct place *x)
{
	return x->found.bound_ns < least_makespan(x->searcher);
}

static void tell(const struct searcher *o, int64_t best_ns)
{
	int64_t bound_ns = INT64_MAX;

	for (int i = 0; i < o->n_places; i++)
		bound_ns = o->places[i].found.bound_ns < bound_ns ? o->places[i].found.bound_ns
								  : bound_ns;
	if (o->options->progress)
		o->options->progress(o->options->user, best_ns, bound_ns);
}

/* tried[] is x's best order now. */
static void take(struct place *x, int64_t makespan_ns)
{
	const struct searcher *o = x->searcher;
	bool best = makespan_ns < least_makespan(o);

	x->found.makespan_ns = makespan_ns;
	memcpy(x->n, o->tried, (size_t)o->n_jobs * sizeof(*x->n));
	if (best)
		tell(o, makespan_ns);
}

/* tried[] as an order: take it if it fits and is shorter. */
static int consider(struct place *x, bool named, bool *fits)
{
	struct searcher *o = x->searcher;
	int64_t makespan_ns;
	int code = orr_timed_order(x->timed, o->tried, o->err);

	*fits = false;
	if (code)
		return code;
	for (int w = 0; w < o->p->n_workers; w++)
		if (orr_timed_excess(x->timed, w))
			return 0;
	if (!orr_timed_time(x->timed))
		return 0;
	*fits = true;
	if (!named && x->found.makespan_ns && x->timed->sought_ns >= x->found.makespan_ns)
		return 0;
	if ((code = orr_timed_simulate(x->timed, o->tried, &makespan_ns, o->err)))
		return code;
	if (named && (!x->found.start_ns || makespan_ns < x->found.start_ns))
		x->found.start_ns = makespan_ns;
	if (!x->found.makespan_ns || makespan_ns < x->found.makespan_ns)
		take(x, makespan_ns);
	return 0;
}

/* ---- where to start ---- */

static bool is_alike(const struct place *x, const int *alike)
{
	return !memcmp(x->alike, alike, (size_t)x->searcher->p->n_stages * sizeof(*alike));
}

/* Has a schedule reached the bound? Then no other one is shorter. */
static bool is_named_best(const struct place *x)
{
	return x->found.start_ns && x->found.start_ns == x->found.bound_ns;
}

static bool seed_wanted(void *user, const int *alike)
{
	const struct searcher *o = user;

	for (int i = 0; i < o->n_places; i++)
		if (is_alike(&o->places[i], alike))
			return o->sweeping ? is_open(&o->places[i]) : !is_named_best(&o->places[i]);
	return false;
}

static int visit_seed(void *user, const int *alike, const int64_t *n)
{
	struct searcher *o = user;
	bool fits;
	int code = 0;

	for (int i = 0; i < o->n_places && !code; i++)
		if (!o->places[i].twin && is_alike(&o->places[i], alike)) {
			memcpy(o->tried, n, (size_t)o->n_jobs * sizeof(*n));
			code = consider(&o->places[i], !o->evened, &fits);
		}
	return code;
}

static bool start_wanted(void *user)
{
	return is_open(user);
}

static int visit_start(void *user, bool *fits)
{
	return consider(user, false, fits);
}

/* Stage stashes that a worker may hold, where their bytes are what is limited. */
static void count_stashes(const struct searcher *o, struct orr_seeds *seeds)
{
	int64_t bytes = o->options->stash_bytes;

	if (o->options->stashes) {
		seeds->least_stashes = seeds->most_stashes = o->options->stashes;
		return;
	}
	for (int i = 0; i < o->n_places && o->options->memory_bytes; i++) {
		int64_t room = orr_timed_limit(o->places[i].timed).bytes;

		if (room < INT64_MAX)
			bytes = room > bytes ? room : bytes;
	}
	if (bytes)
		orr_seeds_limit(seeds, bytes);
}

static int start(struct searcher *o)
{
	struct orr_seeds seeds = {.p = o->p,
				  .schedules = o->options->schedules,
				  .wanted = seed_wanted,
				  .visit = visit_seed,
				  .user = o};
	int code;

	count_stashes(o, &seeds);
	if ((code = orr_seeds_named(&seeds, o->err)) ||
	    (o->options->from && (code = orr_seeds_add(&seeds, o->options->from, o->err))))
		return code;
	o->most_stashes = seeds.most_stashes ? seeds.most_stashes : INT64_MAX;
	for (int i = 0; i < o->n_places && !code; i++) {
		struct orr_starts starts = {.p = o->p,
					    .worker = o->places[i].worker,
					    .n = o->tried,
					    .stashes = o->most_stashes,
					    .wanted = start_wanted,
					    .visit = visit_start,
					    .user = &o->places[i]};

		if (o->places[i].twin)
			break; /* and all after it */
		code = orr_starts_visit(&starts, o->err);
		if (!code)
			code = orr_rigid_visit(&starts, o->places[i].timed, o->err);
		if (!code && o->places[i].timed->jobs.most_at > 1)
			code = orr_packed_visit(&starts, o->places[i].timed, o->err);
	}
	o->sweeping = o->evened = true;
	if (!code)
		code = orr_seeds_evened(&seeds, o->err);
	o->evened = false;
	for (int i = 0; i < o->n_places && !code; i++)
		if (is_open(&o->places[i]))
			return orr_seeds_swept(&seeds, o->err);
	return code;
}

/* ---- from there on ---- */

static bool is_late(const struct searcher *o)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return o->until_ns && (int64_t)now.tv_sec * 1000000000 + now.tv_nsec >= o->until_ns;
}

/* The local search has an order that is shorter where nothing waits for a link. */
static int note_found(void *user)
{
	struct place *x = user;
	struct searcher *o = x->searcher;
	int64_t makespan_ns;
	int code;

	if (!(code = orr_timed_number(x->timed, o->tried, o->err)) &&
	    !(code = orr_timed_simulate(x->timed, o->tried, &makespan_ns, o->err)) &&
	    makespan_ns < x->found.makespan_ns)
		take(x, makespan_ns);
	return code;
}

static void show_life(void *user)
{
	const struct place *x = user;

	tell(x->searcher, least_makespan(x->searcher));
}

/* From x's best order on: orders that repeat after k microbatches, then all. */
static int improve(struct place *x, int k, int64_t n_timed)
{
	struct searcher *o = x->searcher;
	struct orr_starts starts = {.p = o->p, .n = o->tried, .visit = visit_start, .user = x};
	struct orr_local_search *local = &x->local;
	int code = orr_timed_order(x->timed, x->n, o->err);

	if (code || !orr_timed_time(x->timed))
		return code;
	local->n_timed = n_timed;
	local->stop = n_timed < x->left ? n_timed : x->left;
	x->left -= local->stop;
	if ((code = orr_repeating_visit(&starts, local, k, o->err)) || !is_open(x) ||
	    (code = orr_timed_order(x->timed, x->n, o->err)) || !orr_timed_time(x->timed))
		return code;
	local->best_ns = x->timed->sought_ns;
	return orr_local_search(local, o->err);
}

/* Ever longer searches, each from the best order so far. With more effort there are more of them
 * and the last one goes on for longer, and up to there all is the same: so what less effort finds,
 * more finds too. */
static int improve_all(struct searcher *o)
{
	int code = 0;
	size_t at = 0;

	for (int64_t n_timed = MILLION, sum = 0; !code; sum += n_timed, n_timed = sum) {
		int k = repeats_after[at++ % (sizeof(repeats_after) / sizeof(*repeats_after))];
		bool any = false;

		for (int i = 0; i < o->n_places && !code; i++) {
			struct place *x = &o->places[i];

			if (x->left <= 0 || !is_open(x) || is_late(o))
				continue;
			any = true;
			code = improve(x, k, n_timed);
		}
		if (!any)
			break;
	}
	return code;
}

/* ---- microbatches in another order ---- */

struct permuting {
	struct place *place;
	const struct orr_permuted *permuted;
	int64_t *n; /* [n_jobs] of the jobs of the permuted pipeline */
};

static bool permuted_wanted(void *user)
{
	const struct permuting *x = user;

	return is_open(x->place);
}

static int visit_permuted(void *user, bool *fits)
{
	const struct permuting *x = user;

	orr_permuted_back(x->permuted, x->place->searcher->tried, x->n, ORR_N_PASSES);
	return consider(x->place, false, fits);
}

static int permute(struct place *x, int64_t *n, int permutation)
{
	struct searcher *o = x->searcher;
	struct orr_permuted permuted;
	struct permuting permuting = {x, &permuted, n};
	int code = orr_permuted_init(&permuted, o->p, permutation, o->err);

	if (!code) {
		struct orr_starts starts = {.p = &permuted.pipeline,
					    .worker = x->worker,
					    .n = n,
					    .stashes = o->most_stashes,
					    .wanted = permuted_wanted,
					    .visit = visit_permuted,
					    .user = &permuting};

		code = orr_starts_visit(&starts, o->err);
		orr_permuted_fini(&permuted);
	}
	return code;
}

/* From the best order with the microbatches as they are, and from others. */
static int start_reordered(struct place *x)
{
	struct searcher *o = x->searcher;
	int64_t *n = calloc((size_t)o->n_jobs, sizeof(*n));
	bool fits;
	int code;

	if (!n)
		return orr_fail(o->err, ORR_E_NOMEM, "search: no memory for %d jobs", o->n_jobs);
	memcpy(o->tried, x->twin->n, (size_t)o->n_jobs * sizeof(*n));
	x->found.start_ns = x->twin->found.start_ns;
	code = consider(x, false, &fits);
	for (int k = 0; k < ORR_N_PERMUTATIONS && !code && is_open(x) && !is_late(o); k++)
		code = permute(x, n, k);
	free(n);
	return code;
}

/* ---- placements ---- */

static int place(const struct searcher *o, int *worker, enum orr_placement placement)
{
	if (placement == ORR_PLACEMENT_PLAN)
		return orr_place_evenly(worker, o->p, o->err);
	if (placement == ORR_PLACEMENT_GIVEN)
		memcpy(worker, o->options->worker, (size_t)o->p->n_stages * sizeof(*worker));
	else
		orr_place_in_turn(worker, o->p, placement == ORR_PLACEMENT_FOLD);
	return 0;
}

static void close_place(struct place *x)
{
	orr_timed_destroy(x->timed);
	free(x->worker);
	free(x->alike);
	free(x->n);
	memset(x, 0, sizeof(*x));
}

/* All microbatches at once: where a minibatch is gathered, they are all held before a backward. */
static int open_gathering(struct place *x, struct orr_starts *starts, bool *fits)
{
	struct searcher *o = x->searcher;
	int64_t most = INT64_MIN;
	int code = orr_starts_waves(starts, fits);

	for (int w = 0; w < o->p->n_workers && !code && !*fits; w++) {
		struct orr_load peak = orr_timed_peak(x->timed, w), limit = x->timed->most[w];
		int64_t stashes = peak.stashes - limit.stashes, bytes = peak.bytes - limit.bytes,
			excess = limit.stashes < INT64_MAX ? stashes : bytes;

		most = excess > most ? excess : most;
	}
	if (!*fits) {
		o->excess = most < o->excess ? most : o->excess;
		o->exact = false;
	}
	return code;
}

/* Its limits, bounds and first order; false in *fits: there is none. */
static int open_place(struct place *x, bool *fits)
{
	struct searcher *o = x->searcher;
	struct orr_starts starts = {
		.p = o->p, .worker = x->worker, .n = o->tried, .visit = visit_start, .user = x};
	struct orr_smallest smallest;
	struct orr_bounds bounds;
	int code;

	if ((code = orr_timed_create(&x->timed, o->p, x->worker, 1, ORR_N_PASSES, true, o->err)))
		return code;
	x->timed->seeks_span = o->options->objective == ORR_OBJECTIVE_SPAN;
	orr_place_limit(x->timed, x->worker, o->limit, o->options->memory_bytes,
			o->options->room_bytes);
	if ((code = orr_bounds_find(&bounds, x->timed, o->err)))
		return code;
	x->found.bound_ns = bounds.largest_ns;
	x->left = o->until_ns ? INT64_MAX : o->options->effort * MILLION;
	x->local = (struct orr_local_search){.timed = x->timed,
					     .bound_ns = bounds.largest_ns,
					     .until_ns = o->until_ns,
					     .random = (uint64_t)o->options->seed * 2 + 1,
					     .found = note_found,
					     .watch = show_life,
					     .user = x};
	if (orr_pipeline_gathers(o->p))
		return open_gathering(x, &starts, fits);
	if ((code = orr_smallest_find(&smallest, x->timed, o->err)))
		return code;
	if (!(code = orr_starts_one_by_one(&starts, smallest.n, fits)) && !*fits) {
		o->excess = smallest.excess < o->excess ? smallest.excess : o->excess;
		o->exact = o->exact && smallest.exact;
	}
	orr_smallest_fini(&smallest);
	return code;
}

static int place_init(struct place *x)
{
	const struct searcher *o = x->searcher;
	size_t n_stages = (size_t)o->p->n_stages;

	x->worker = calloc(n_stages, sizeof(*x->worker));
	x->alike = calloc(n_stages, sizeof(*x->alike));
	x->n = calloc((size_t)o->n_jobs, sizeof(*x->n));
	return x->worker && x->alike && x->n
		       ? 0
		       : orr_fail(o->err, ORR_E_NOMEM, "search: no memory for %d jobs", o->n_jobs);
}

/* A placement more, unless one is there that differs from it only in the workers' names, or nothing
 * fits it. */
static int add_place(struct searcher *o, enum orr_placement placement)
{
	const struct orr_pipeline *p = o->p;
	struct place *x = &o->places[o->n_places];
	size_t n_stages = (size_t)p->n_stages;
	bool fits = true;
	int code;

	x->searcher = o;
	if (!(code = place_init(x)) && !(code = place(o, x->worker, placement))) {
		orr_pipeline_settle(p, x->worker, 1);
		code = orr_seeds_rename(x->alike, x->worker, p, o->err);
	}
	if (!code && placement != ORR_PLACEMENT_GIVEN) /* whose workers may differ */
		memcpy(x->worker, x->alike, n_stages * sizeof(*x->worker));
	for (int i = 0; i < o->n_places && !code && fits; i++)
		fits = !is_alike(&o->places[i], x->alike);
	if (!code && fits) {
		o->n_places++;
		code = open_place(x, &fits);
		o->n_places--;
	}
	if (code || !fits)
		close_place(x);
	else
		o->n_places++;
	return code;
}

/* The same placement, with microbatches that change places. */
static int add_reordered(struct searcher *o, const struct place *twin)
{
	struct place *x = &o->places[o->n_places];
	size_t n_stages = (size_t)o->p->n_stages;
	bool fits;
	int code;

	x->searcher = o;
	x->twin = twin;
	if ((code = place_init(x)))
		return code;
	memcpy(x->worker, twin->worker, n_stages * sizeof(*x->worker));
	memcpy(x->alike, twin->alike, n_stages * sizeof(*x->alike));
	o->n_places++;
	code = open_place(x, &fits);
	x->local.reorder = true;
	return code;
}

static int search_all(struct searcher *o, const struct place **best)
{
	enum orr_placement asked = o->options->placement;
	bool folds = o->p->n_stages > o->p->n_workers && o->p->n_workers > 1;
	int code = 0;

	for (int i = ORR_PLACEMENT_STRAIGHT; i <= ORR_PLACEMENT_GIVEN && !code; i++)
		if (asked == (enum orr_placement)i ||
		    (asked == ORR_PLACEMENT_ANY && i != ORR_PLACEMENT_GIVEN &&
		     (i != ORR_PLACEMENT_FOLD || folds)))
			code = add_place(o, (enum orr_placement)i);
	if (!code && !o->n_places)
		code = orr_search_refuse(
			&(struct orr_refusal){o->p, asked == ORR_PLACEMENT_ANY, o->options->stashes,
					      o->options->stash_bytes, o->options->memory_bytes,
					      o->excess, o->exact},
			o->err);
	for (int i = 0, n = o->n_places;
	     o->options->reorder && o->p->microbatches && i < n && !code; i++)
		code = add_reordered(o, &o->places[i]);
	if (!code)
		code = start(o);
	for (int i = 0; i < o->n_places && !code; i++)
		if (o->places[i].twin)
			code = start_reordered(&o->places[i]);
	if (code || (code = improve_all(o)))
		return code;
	*best = &o->places[0];
	for (int i = 1; i < o->n_places; i++)
		if (o->places[i].found.makespan_ns < (*best)->found.makespan_ns)
			*best = &o->places[i];
	return 0;
}

static _Thread_local struct orr_search_options watching; /* its progress and user */

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
	struct searcher o = {
		.p = p, .options = options, .err = err, .excess = INT64_MAX, .exact = true};
	const struct place *best = NULL;
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
	if (!(o.tried = calloc((size_t)o.n_jobs, sizeof(*o.tried))))
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory for %d jobs", o.n_jobs);
	else
		code = search_all(&o, &best);
	if (!code) {
		memcpy(worker, best->worker, (size_t)p->n_stages * sizeof(*worker));
		memcpy(n, best->n, (size_t)o.n_jobs * sizeof(*n));
		if (result)
			*result = best->found;
	} else if (result) {
		*result =
			(struct orr_search_result){.missing = o.excess < INT64_MAX ? o.excess : 0};
	}
	for (int i = 0; i < o.n_places; i++)
		close_place(&o.places[i]);
	free(o.tried);
	return code;
}
