#include "starts.h"

#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "block.h"
#include "orrery/schedule.h"
#include "pipeline/cost.h"
#include "pipeline/microbatches.h"
#include "seeds.h"
#include "zero_bubble.h"

#define MOST_WAITS 4 /* cells more than a microbatch takes from end to end and back */

struct starts {
	struct orr_searched *of;
	const int
		*order; /* [n_microbatches] number i is the one that was order[i]; NULL: all stay */
	const struct orr_pipeline *p; /* with the microbatches in that order */
	int64_t *n;                   /* [n_jobs] of p's */
	int64_t most;                 /* microbatches at once, about */
};

/* The order in n. */
static int visit(const struct starts *starts)
{
	size_t each = (size_t)starts->p->n_stages * ORR_N_PASSES;

	for (int i = 0; starts->order && i < starts->p->n_microbatches; i++)
		memcpy(starts->of->searcher->tried + (size_t)starts->order[i] * each,
		       starts->n + (size_t)i * each, each * sizeof(*starts->n));
	return orr_searched_consider(starts->of, false);
}

/* ---- one forward one backward: jobs as they become ready, a backward first, and a cap of
 * microbatches on a stage ---- */

struct capped {
	const int *worker;
	int most;
	bool apart; /* gangs that may be */
};

static int compute_capped(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			  const void *data)
{
	(void)p, (void)b, (void)d;
	return ((const struct capped *)data)->worker[s];
}

static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	int64_t n = (int64_t)b * p->n_stages, all = (int64_t)p->n_stages * p->n_microbatches;

	if (((const struct capped *)data)->apart && orr_gang_is_apart(p, s))
		return d == ORR_PASS_F ? n + s - all : (2 + (int64_t)d) * all + n + s;
	return d == ORR_PASS_F   ? all + n + s
	       : d == ORR_PASS_B ? n + p->n_stages - 1 - s
				 : 2 * all + n + s;
}

static int in_flight_capped(const struct orr_pipeline *p, int s, const void *data)
{
	const struct capped *capped = data;
	int most = capped->most, depth = p->stages[s].depth;

	return capped->apart && orr_gang_is_apart(p, s) ? 0 : depth < most ? depth : most;
}

static int visit_capped(struct starts *starts, int most, bool split, bool apart)
{
	struct capped capped = {starts->of->worker, most, apart};
	struct orr_schedule schedule = {.name = "capped",
					.summary = "",
					.order = ORR_ORDER_GREEDY,
					.split_backward = split,
					.compute = compute_capped,
					.priority = backward_first,
					.in_flight = in_flight_capped,
					.data = &capped};
	bool serves;
	int code = orr_seeds_lay_out(starts->n, &serves, starts->p, &schedule,
				     starts->of->searcher->err);

	return code || !serves ? code : visit(starts);
}

/* ---- the greedy orders of the zero-bubble schedules ---- */

static int visit_zero_bubble(const struct starts *starts)
{
	const struct orr_pipeline *p = starts->p;
	int64_t most = starts->most;
	int code;

	for (int s = 0; s < p->n_stages; s++)
		if (starts->of->worker[s] != s % p->n_workers)
			return 0;
	for (int64_t k = most; k > 0 && k >= most / 2 && orr_searched_is_open(starts->of);
	     k = k > 4 ? k * 3 / 4 : k - 1) {
		struct orr_zero_bubble limit = {(int)k, 100};

		if ((code = orr_zero_bubble(p, &limit, starts->n, starts->of->searcher->err)) ||
		    (code = visit(starts)))
			return code;
	}
	return 0;
}

/* ---- 1F1B without its waits, and with fewer microbatches at once, evenly spaced ---- */

/* k microbatches in `cells` cells: one cell a pass, F as 1f1b has it and B as early as it can, an
 * even and an odd cell, so that no two of them fall together where a stage has a worker to itself;
 * W in the cells between. */
static int visit_spaced(const struct starts *starts, int k, int64_t cells)
{
	const struct orr_pipeline *p = starts->p;
	const struct orr_searcher *o = starts->of->searcher;
	struct orr_block block = {0};
	struct orr_error why = {""};
	int code = orr_block_init(&block, p, true, k, cells, o->err);

	if (code)
		return code;
	for (int i = 0; i < k * p->n_stages; i++) {
		int s = i % p->n_stages, depth = p->stages[s].depth;
		int64_t at = (i / p->n_stages) * cells / k & ~INT64_C(1);

		block.worker[i] = starts->of->worker[s];
		block.start[i * ORR_N_PASSES + ORR_PASS_F] = at + p->depth - depth;
		block.start[i * ORR_N_PASSES + ORR_PASS_B] = at + p->depth + depth - 1;
	}
	code = orr_block_lay_out(&block, o->most_stashes, starts->n, NULL, &why);
	orr_arrays_free(&block.all);
	if (code) /* no such block is no failure */
		return code == ORR_E_NOMEM ? orr_fail(o->err, code, "%s", why.msg) : 0;
	return visit(starts);
}

static int visit_all_spaced(const struct starts *starts)
{
	int64_t depth = starts->p->depth, k = starts->most;
	int code = 0;

	if (k >= depth) /* 1f1b and the zero-bubble schedules fit */
		return 0;
	for (int more = 0; more <= MOST_WAITS && !code && orr_searched_is_open(starts->of);
	     more += 2)
		code = visit_spaced(starts, (int)k, larger(2 * depth, 3 * k + k % 2) + more);
	return code;
}

static int visit_all(struct starts *starts)
{
	const struct orr_pipeline *p = starts->p;
	bool gangs = orr_pipeline_has_gangs(p);
	int code = 0;

	for (int k = (int)smaller(p->depth, p->n_microbatches);
	     k > 0 && !code && orr_searched_is_open(starts->of); k = k > 4 ? k * 3 / 4 : k - 1)
		for (int i = 0; i < (gangs ? 4 : 1) && !code; i++)
			code = visit_capped(starts, k, i & 1, i & 2);
	if (code || (code = visit_zero_bubble(starts)))
		return code;
	return visit_all_spaced(starts);
}

/* ---- microbatches in another order ---- */

static int sort_by_work(struct orr_keyed *keyed, const struct orr_pipeline *p,
			struct orr_error *err)
{
	const struct orr_microbatches *x = p->microbatches;

	for (int b = 0; b < x->n; b++) {
		keyed[b] = (struct orr_keyed){0, b};
		for (int s = 0; s < p->n_stages; s++) {
			const struct orr_cost *cost = &x->costs[b * p->n_stages + s];

			keyed[b].key += cost->forward_ns + cost->backward_ns + cost->weight_ns;
		}
	}
	return orr_sort(keyed, x->n, err);
}

/* Of the i-th by its work: small ones at both ends, where the pipeline fills and drains; small ones
 * first; large ones first. */
static int place_of(int permutation, int i, int n)
{
	if (permutation == 0)
		return i % 2 ? n - 1 - i / 2 : i / 2;
	return permutation == 1 ? i : n - 1 - i;
}

static void permute(struct orr_microbatches *x, const struct orr_pipeline *p, const int *order)
{
	const struct orr_microbatches *from = p->microbatches;
	size_t n_stages = (size_t)p->n_stages, n_edges = (size_t)p->n_edges;

	for (size_t i = 0; i < (size_t)x->n; i++) {
		size_t b = (size_t)order[i];

		memcpy(x->costs + i * n_stages, from->costs + b * n_stages,
		       n_stages * sizeof(*x->costs));
		memcpy(x->bytes + i * n_edges, from->bytes + b * n_edges,
		       n_edges * sizeof(*x->bytes));
		memcpy(x->gradient_bytes + i * n_edges, from->gradient_bytes + b * n_edges,
		       n_edges * sizeof(*x->gradient_bytes));
	}
}

int orr_starts_visit(struct orr_searched *x, int permutation, int64_t *n)
{
	const struct orr_pipeline *p = x->searcher->p;
	struct orr_pipeline permuted = *p; /* but for its table */
	struct starts starts = {x, NULL, p, n,
				smaller(x->searcher->most_stashes, p->n_microbatches)};
	size_t m = (size_t)p->n_microbatches;
	struct orr_arrays all = {0};
	struct orr_keyed *keyed;
	int *order, code;

	if (permutation < 0)
		return visit_all(&starts);
	permuted.microbatches = NULL;
	orr_arrays_make(&all, keyed, m);
	orr_arrays_make(&all, order, m);
	if (!(code = orr_arrays_check(&all, "search", x->searcher->err)) &&
	    !(code = sort_by_work(keyed, p, x->searcher->err)) &&
	    !(code = orr_microbatches_create(&permuted, p->n_microbatches, x->searcher->err))) {
		for (int i = 0; i < p->n_microbatches; i++)
			order[place_of(permutation, i, p->n_microbatches)] = keyed[i].value;
		permute(permuted.microbatches, p, order);
		starts.order = order;
		starts.p = &permuted;
		code = visit_all(&starts);
	}
	orr_pipeline_free_microbatches(permuted.microbatches);
	orr_arrays_free(&all);
	return code;
}
