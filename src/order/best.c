#include "orrery/search.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/clock.h"
#include "base/max.h"
#include "cyclic.h"
#include "searcher.h"
#include "seeds.h"
#include "starts.h"

#define MILLION INT64_C(1000000)
#define LEAST_REPEATS 4  /* in the whole step, and more: with fewer of them it hardly repeats */
#define RELATED_EFFORT 8 /* of a search of a step that is like the one at hand, and easier */
#define MORE_TIMED 8     /* jobs are timed of repetitions, for each one of whole steps */
#define LEAST_TIMED \
	5000 /* times all jobs of a repetition: with fewer it finds nothing \
	      */

/* Microbatches after which an order repeats, in successive searches: period 1 starts best from the
 * results of longer periods. */
static const int repeats_after[] = {2, 4, 1, 2, 3, 6};

/* ---- where to start ---- */

/* What the worker with the most room has. */
static int64_t most_bytes(const struct orr_timed *t)
{
	int64_t most = 1;

	for (int w = 0; w < t->jobs.pipeline->n_workers; w++)
		most = larger(most, t->most[w].bytes);
	return most;
}

/* Stage stashes that a worker may hold, where their bytes are what is limited. */
static void count_stashes(struct orr_searcher *o)
{
	const struct orr_pipeline *p = o->p;
	int64_t bytes = o->options->stash_bytes, least = INT64_MAX, most = 1,
		all = (int64_t)p->n_stages * p->n_microbatches;

	o->least_stashes = o->options->stashes;
	o->most_stashes = o->options->stashes ? o->options->stashes : INT64_MAX;
	for (int i = 0; i < o->n_places && o->options->memory_bytes; i++) {
		int64_t room = most_bytes(o->places[i].timed);

		bytes = room < INT64_MAX ? larger(bytes, room) : bytes;
	}
	for (int64_t i = 0; i < all; i++) {
		int64_t stash =
			orr_pipeline_stash_bytes(p, (int)(i % p->n_stages), (int)(i / p->n_stages));

		most = larger(most, stash);
		least = stash > 0 ? smaller(least, stash) : least;
	}
	if (o->options->stashes || !bytes || least == INT64_MAX)
		return;
	o->least_stashes = larger(1, smaller(bytes / most, all));
	o->most_stashes = larger(1, smaller(bytes / least, all));
}

static int start(struct orr_searcher *o)
{
	int code;

	count_stashes(o);
	if ((code = orr_seeds_named(o)))
		return code;
	for (int i = 0; i < o->n_places && !code && !o->places[i].twin; i++) {
		struct orr_searched *x = &o->places[i];

		if (!(code = orr_starts_visit(x, -1, o->tried)) && !(code = orr_rigid_visit(x)))
			code = orr_packed_visit(x);
	}
	return code ? code : orr_seeds_swept(o);
}

/* ---- from there on: orders that repeat ---- */

static int found_repeating(void *user)
{
	struct orr_searched *x = user;

	orr_cyclic_number(x->cyclic, x->searcher->tried);
	x->cyclic->timed->n_timed += x->searcher->n_jobs;
	return orr_searched_consider(x, false);
}

/* Search orders that repeat after k microbatches, from those in the middle of x's, which is timed,
 * and look at the whole step in each one that is better: in little memory on workers of several
 * stages no other start comes near. As long as x->local says. */
static int search_repeating(struct orr_searched *x, int k)
{
	const struct orr_searcher *o = x->searcher;
	struct orr_local_search search = x->local;
	struct orr_cyclic cyclic;
	int code;

	if (x->timed->jobs.most_at > 1 || o->p->microbatches || orr_pipeline_gathers(o->p) ||
	    o->p->n_microbatches < LEAST_REPEATS * (k + 1) ||
	    MORE_TIMED * search.n_timed / LEAST_TIMED < (int64_t)k * o->p->n_stages * ORR_N_PASSES)
		return 0;
	code = orr_cyclic_init(&cyclic, x->timed, k, o->err);
	if (!code && cyclic.n) {
		x->cyclic = &cyclic;
		search.n_timed *= MORE_TIMED;
		search.stop *= MORE_TIMED;
		search.timed = cyclic.timed;
		search.cyclic = &cyclic;
		search.best_ns = INT64_MAX;
		search.found = found_repeating;
		code = orr_local_search(&search, o->err);
		x->cyclic = NULL;
	}
	orr_cyclic_fini(&cyclic);
	return code;
}

/* From x's best order on: orders that repeat after k microbatches, then all. */
static int improve(struct orr_searched *x, int k, int64_t n_timed)
{
	struct orr_searcher *o = x->searcher;
	struct orr_local_search *local = &x->local;
	int code = orr_timed_order(x->timed, x->n, o->err);

	if (code || !orr_timed_time(x->timed))
		return code;
	local->n_timed = n_timed;
	local->stop = smaller(n_timed, x->left);
	x->left -= local->stop;
	if ((code = search_repeating(x, k)) || !orr_searched_is_open(x) ||
	    (code = orr_timed_order(x->timed, x->n, o->err)) || !orr_timed_time(x->timed))
		return code;
	local->best_ns = x->found.makespan_ns ? x->timed->sought_ns : INT64_MAX;
	return orr_local_search(local, o->err);
}

/* ---- from orders of steps that are like this one and easier to search ---- */

/* What is asked of a search of another step on these workers. */
static struct orr_search_options ask(const struct orr_searched *x, const int *worker)
{
	struct orr_search_options options = *x->searcher->options;

	options.placement = ORR_PLACEMENT_GIVEN;
	options.worker = worker;
	options.from = NULL;
	options.parked = NULL;
	options.parts = NULL;
	options.effort = RELATED_EFFORT;
	options.seconds = 0;
	options.reorder = false;
	options.related--;
	options.observer = (struct orr_observer){0};
	return options;
}

static int search_related(const struct orr_searched *x, int64_t *n, const struct orr_pipeline *p,
			  const struct orr_search_options *options, bool *found)
{
	struct orr_error why = {""};
	int code = orr_search(NULL, n, NULL, p, options, &why);

	*found = !code;
	return code == ORR_E_NOMEM ? orr_fail(x->searcher->err, code, "%s", why.msg)
				   : 0; /* it fits nowhere */
}

/* ---- neighbours as one stage ---- */

static void add_stage(struct orr_stage *to, const struct orr_stage *from, bool by_bytes)
{
	to->forward_ns += from->forward_ns;
	to->backward_ns += from->backward_ns;
	to->weight_ns += from->weight_ns;
	to->update_ns += from->update_ns;
	to->stash_bytes += by_bytes ? from->stash_bytes : 1;
	to->parameter_bytes += from->parameter_bytes;
	to->frozen_bytes += from->frozen_bytes;
	to->has_loss = to->has_loss || from->has_loss;
}

/* All that one block sends another goes over one edge. */
static int fuse_edges(struct orr_edge *to, const struct orr_pipeline *p, const int *block)
{
	int n = 0, k;

	for (int e = 0; e < p->n_edges; e++) {
		struct orr_edge edge = p->edges[e];

		edge.from = block[edge.from];
		edge.to = block[edge.to];
		for (k = 0; k < n && (to[k].from != edge.from || to[k].to != edge.to); k++)
			;
		if (edge.from == edge.to)
			continue;
		if (k == n) {
			to[n++] = edge;
			continue;
		}
		to[k].bytes += edge.bytes;
		to[k].gradient_bytes += edge.gradient_bytes;
		to[k].detached = to[k].detached && edge.detached;
	}
	for (k = 0; k < n; k++)
		to[k].gradient_bytes = to[k].gradient_bytes ? to[k].gradient_bytes : ORR_NO_BYTES;
	return n;
}

/* A stash counts for as many as it is of, where they are counted. */
static int fuse(struct orr_pipeline **out, const struct orr_pipeline *p, const int *block,
		bool by_bytes, struct orr_error *err)
{
	int n = block[p->n_stages - 1] + 1, code;
	struct orr_arrays all = {0};
	struct orr_stage *stages = orr_arrays_add(&all, (size_t)n, sizeof(*stages));
	struct orr_edge *edges = orr_arrays_add(&all, (size_t)p->n_edges + 1, sizeof(*edges));

	if ((code = orr_arrays_check(&all, "search", err)))
		return code;
	for (int s = 0; s < p->n_stages; s++)
		add_stage(&stages[block[s]], &p->stages[s], by_bytes);
	if (!(code = orr_pipeline_create(out, stages, n, edges, fuse_edges(edges, p, block),
					 err))) {
		struct orr_pipeline *fused = *out;

		fused->has_weight = p->has_weight;
		fused->units = p->units;
		fused->n_workers = p->n_workers;
		fused->n_microbatches = p->n_microbatches;
		fused->numerics = p->numerics;
		fused->overhead_ns = p->overhead_ns;
		fused->machine = p->machine;
	}
	orr_arrays_free(&all);
	return code;
}

/* Of a stage's jobs those of its block, forwards down the block and the others back. */
static void unfuse(int64_t *n, const int64_t *fused, const struct orr_pipeline *p, const int *block)
{
	int n_stages = p->n_stages, n_blocks = block[n_stages - 1] + 1;

	for (int j = 0; j < n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int d = j % ORR_N_PASSES, s = j / ORR_N_PASSES % n_stages,
		    b = j / ORR_N_PASSES / n_stages;

		n[j] = fused[(b * n_blocks + block[s]) * ORR_N_PASSES + d] * n_stages +
		       (d == ORR_PASS_F ? s : n_stages - 1 - s);
	}
}

/* From what a search finds where stages of a block of x, neighbours on one worker, are one. */
static int start_fused(struct orr_searched *x)
{
	const struct orr_pipeline *p = x->searcher->p;
	bool by_bytes = x->searcher->options->stash_bytes || x->searcher->options->memory_bytes;
	struct orr_search_options options;
	struct orr_pipeline *fused = NULL;
	bool found = false;
	struct orr_arrays all = {0};
	int *worker = orr_arrays_add(&all, (size_t)p->n_stages, sizeof(*worker));
	int64_t *fused_n = orr_arrays_add(&all, (size_t)x->searcher->n_jobs, sizeof(*fused_n));
	int code = orr_arrays_check(&all, "search", x->searcher->err);

	if (code || (code = fuse(&fused, p, x->block, by_bytes, x->searcher->err)))
		goto out;
	options = ask(x, worker);
	for (int s = 0; s < p->n_stages; s++)
		worker[x->block[s]] = x->worker[s];
	if (!by_bytes && options.stashes) {
		options.stash_bytes = options.stashes;
		options.stashes = 0;
	}
	code = search_related(x, fused_n, fused, &options, &found);
	if (!code && found) {
		unfuse(x->searcher->tried, fused_n, p, x->block);
		code = orr_searched_consider(x, false);
	}
out:
	orr_pipeline_destroy(fused);
	orr_arrays_free(&all);
	return code;
}

/* ---- and all ---- */

/* From an order, which need not fit, on: those that repeat after k microbatches. */
static int repeat(struct orr_searched *x, const int64_t *n, int k)
{
	int code = orr_timed_order(x->timed, n, x->searcher->err);

	if (code || !orr_timed_time(x->timed))
		return code;
	x->local.n_timed = x->local.stop = MILLION;
	return search_repeating(x, k);
}

/* From what a search finds in memory for a stash more on, which need not fit. */
static int start_relaxed(struct orr_searched *x)
{
	const struct orr_pipeline *p = x->searcher->p;
	struct orr_search_options options = ask(x, x->worker);
	int64_t *n = x->searcher->other, largest = 0;
	bool found = false;
	int code;

	for (int s = 0; s < p->n_stages; s++)
		largest = larger(largest, p->stages[s].stash_bytes);
	options.stashes += options.stashes > 0;
	options.stash_bytes += options.stash_bytes > 0 ? largest : 0;
	options.memory_bytes += options.memory_bytes > 0 ? largest : 0;
	options.room_bytes = NULL;
	if (x->timed->parked) {
		options.stashes = 2 * (int64_t)p->n_stages;
		options.stash_bytes = options.memory_bytes = 0;
	}
	code = search_related(x, n, p, &options, &found);
	if (!code && found && x->timed->parked) {
		memcpy(x->searcher->tried, n, (size_t)x->searcher->n_jobs * sizeof(*n));
		code = orr_searched_consider(x, false);
	}
	for (int i = 0; i < 3 && !code && found && orr_searched_is_open(x); i++)
		code = repeat(x, n, repeats_after[i]);
	return code;
}

/* From the best order on: those that repeat after three microbatches, which improve() comes to with
 * more effort alone. */
static int start_thrice(struct orr_searched *x)
{
	return repeat(x, x->twin->n, 3);
}

/* Ever longer searches, each from the best order so far. With more effort there are more of them
 * and the last one goes on for longer, and up to there all is the same: so what less effort finds,
 * more finds too. */
static int improve_all(struct orr_searcher *o)
{
	int code = 0;
	size_t at = 0;

	for (int64_t n_timed = MILLION, sum = 0; !code; sum += n_timed, n_timed = sum) {
		int k = repeats_after[at++ % (sizeof(repeats_after) / sizeof(*repeats_after))];
		bool any = false;

		for (int i = 0; i < o->n_places && !code; i++) {
			struct orr_searched *x = &o->places[i];

			if (x->left <= 0 || !orr_searched_is_open(x) || orr_is_late(o->until_ns))
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

/* From the best order with the microbatches as they are, and from others. */
static int start_reordered(struct orr_searched *x)
{
	struct orr_searcher *o = x->searcher;
	int code;

	memcpy(o->tried, x->twin->n, (size_t)o->n_jobs * sizeof(*o->tried));
	x->found.start_ns = x->twin->found.start_ns;
	code = orr_searched_consider(x, false);
	for (int k = 0; k < ORR_N_PERMUTATIONS && !code && orr_searched_is_open(x) &&
			!orr_is_late(o->until_ns);
	     k++)
		code = orr_starts_visit(x, k, o->other);
	return code;
}

static int place_all(struct orr_searcher *o)
{
	enum orr_placement asked = o->options->placement;
	int code = 0;

	for (int i = ORR_PLACEMENT_STRAIGHT; i <= ORR_PLACEMENT_LAST && !code; i++)
		if (asked == (enum orr_placement)i ||
		    (asked == ORR_PLACEMENT_ANY && orr_searcher_tries(o, i)))
			code = orr_searcher_add(o, i);
	if (!code && !o->n_places)
		code = orr_searcher_refuse(o);
	for (int i = 0, n = o->n_places;
	     o->options->reorder && o->p->microbatches && i < n && !code; i++)
		code = orr_searcher_add_twin(o, &o->places[i], true);
	return code;
}

/* Beside what was found, so that it is never longer without; and on only from what is shorter. */
static int search_beside(struct orr_searcher *o, int (*start_beside)(struct orr_searched *x))
{
	int code = 0;

	for (int i = 0, n = o->n_places; i < n && !code; i++) {
		struct orr_searched *x = &o->places[i], *beside = &o->places[o->n_places];

		if (x->twin || !orr_searched_is_open(x) || orr_is_late(o->until_ns))
			continue;
		if (!(code = orr_searcher_add_twin(o, x, false)) &&
		    !(code = start_beside(beside)) &&
		    beside->found.makespan_ns >= x->found.makespan_ns)
			beside->left = 0;
	}
	return code;
}

static int search_all(struct orr_searcher *o)
{
	int code = place_all(o);

	if (!code)
		code = start(o);
	for (int i = 0; i < o->n_places && !code; i++)
		if (o->places[i].twin)
			code = start_reordered(&o->places[i]);
		else if (o->places[i].block && orr_searched_is_open(&o->places[i]))
			code = start_fused(&o->places[i]);
	if (!code)
		code = improve_all(o);
	if (!code && o->options->related > 0 && o->options->effort &&
	    !(code = search_beside(o, start_relaxed)) && !(code = search_beside(o, start_thrice)))
		code = improve_all(o);
	for (int i = 0; i < o->n_places && o->until_ns; i++)
		o->places[i].left = INT64_MAX;
	if (!code && !(code = improve_all(o)) && !orr_searcher_best(o))
		code = orr_searcher_refuse(o);
	return code;
}

int orr_search(int *worker, int64_t *n, struct orr_search_result *result,
	       const struct orr_pipeline *p, const struct orr_search_options *options,
	       struct orr_error *err)
{
	struct orr_searcher o = {
		.p = p, .options = options, .err = err, .excess = INT64_MAX, .exact = true};
	int64_t anywhere_ns = INT64_MAX;
	struct orr_arrays all = {0};
	int code;

	o.limit.stashes = options->stashes ? options->stashes : INT64_MAX;
	o.limit.bytes = options->stash_bytes ? options->stash_bytes : INT64_MAX;
	o.n_jobs = p->n_stages * p->n_microbatches * ORR_N_PASSES;
	if (options->seconds)
		o.until_ns = orr_ns_now(CLOCK_MONOTONIC) + options->seconds * 1000000000;
	orr_arrays_make(&all, o.tried, o.n_jobs);
	orr_arrays_make(&all, o.other, o.n_jobs);
	orr_arrays_make(&all, o.worker, p->n_stages);
	if (!(code = orr_arrays_check(&all, "search", err)))
		code = search_all(&o);
	if (!code) {
		const struct orr_searched *best = orr_searcher_best(&o);

		if (worker)
			memcpy(worker, best->worker, (size_t)p->n_stages * sizeof(*worker));
		if (n)
			memcpy(n, best->n, (size_t)o.n_jobs * sizeof(*n));
		if (result)
			*result = best->found;
	} else if (result) {
		*result =
			(struct orr_search_result){.missing = o.excess < INT64_MAX ? o.excess : 0};
	}
	for (int i = 0; i < o.n_places; i++) {
		anywhere_ns = smaller(anywhere_ns, o.places[i].found.bound_ns);
		orr_searched_fini(&o.places[i]);
	}
	if (result)
		result->anywhere_ns = anywhere_ns;
	orr_arrays_free(&all);
	return code;
}
