#include "starts.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/schedule.h"
#include "seeds.h"
#include "block.h"
#include "zero_bubble.h"

#define MOST_WAITS 4 /* cells more than a microbatch takes from end to end and back */

int orr_starts_one_by_one(struct orr_starts *starts, const int64_t *smallest, bool *fits)
{
	int n_kinds = starts->p->n_stages * ORR_N_PASSES;

	for (int j = 0; j < n_kinds * starts->p->n_microbatches; j++)
		starts->n[j] = (int64_t)(j / n_kinds) * 2 * n_kinds + smallest[j % n_kinds];
	return starts->visit(starts->user, fits);
}

int orr_starts_waves(struct orr_starts *starts, bool *fits)
{
	const struct orr_pipeline *p = starts->p;
	int64_t each = 2 * p->n_stages, wave = each * p->n_microbatches, most = 0;

	for (int s = 0; s < p->n_stages; s++)
		most = p->stages[s].n_gathers > most ? p->stages[s].n_gathers : most;
	for (int j = 0; j < p->n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int d = j % ORR_N_PASSES, s = j / ORR_N_PASSES % p->n_stages,
		    b = j / ORR_N_PASSES / p->n_stages, n = p->stages[s].n_gathers;

		starts->n[j] = b * each + (d == ORR_PASS_F ? n * wave + s
							   : (2 * most + 1 - n) * wave +
								     2 * (p->n_stages - 1 - s) +
								     (d == ORR_PASS_W));
	}
	return starts->visit(starts->user, fits);
}

/* ---- one forward one backward: jobs as they become ready, a backward first, and a cap of
 * microbatches on a stage ---- */

struct capped {
	const int *worker;
	int most;
	bool apart; /* gangs before all others that keep nothing: at first, and at last */
};

/* Jobs of such a stage hold up all of its workers, and no memory while they wait. */
static bool is_apart(const struct orr_pipeline *p, int s, const struct capped *capped)
{
	return capped->apart && !p->stages[s].n_in && !p->stages[s].stash_bytes &&
	       orr_pipeline_n_at(p, s) > 1;
}

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

	if (is_apart(p, s, data))
		return d == ORR_PASS_F ? n + s - all : (2 + (int64_t)d) * all + n + s;
	return d == ORR_PASS_F   ? all + n + s
	       : d == ORR_PASS_B ? n + p->n_stages - 1 - s
				 : 2 * all + n + s;
}

static int in_flight_capped(const struct orr_pipeline *p, int s, const void *data)
{
	int most = ((const struct capped *)data)->most, depth = p->stages[s].depth;

	return is_apart(p, s, data) ? 0 : depth < most ? depth : most;
}

static int take_seed(void *user, const int *worker, const int64_t *n)
{
	struct orr_starts *starts = user;
	size_t n_jobs =
		(size_t)starts->p->n_stages * (size_t)starts->p->n_microbatches * ORR_N_PASSES;
	bool fits;

	(void)worker;
	memcpy(starts->n, n, n_jobs * sizeof(*n));
	return starts->visit(starts->user, &fits);
}

static int visit_capped(struct orr_starts *starts, int most, bool split, bool apart,
			struct orr_error *err)
{
	struct capped capped = {starts->worker, most, apart};
	struct orr_schedule schedule = {.name = "capped",
					.summary = "",
					.order = ORR_ORDER_GREEDY,
					.split_backward = split,
					.compute = compute_capped,
					.priority = backward_first,
					.in_flight = in_flight_capped,
					.data = &capped};
	struct orr_seeds seeds = {.p = starts->p, .visit = take_seed, .user = starts};

	return orr_seeds_lay_out(&seeds, &schedule, err);
}

/* ---- the greedy orders of the zero-bubble schedules ---- */

static int visit_zero_bubble(struct orr_starts *starts, struct orr_error *err)
{
	const struct orr_pipeline *p = starts->p;
	int64_t most = starts->stashes < p->n_microbatches ? starts->stashes : p->n_microbatches;
	int code;

	for (int s = 0; s < p->n_stages; s++)
		if (starts->worker[s] != s % p->n_workers)
			return 0;
	for (int64_t k = most; k > 0 && k >= most / 2 && starts->wanted(starts->user);
	     k = k > 4 ? k * 3 / 4 : k - 1) {
		struct orr_zero_bubble limit = {(int)k, 100};
		bool fits;

		if ((code = orr_zero_bubble(p, &limit, starts->n, err)) ||
		    (code = starts->visit(starts->user, &fits)))
			return code;
	}
	return 0;
}

/* ---- 1F1B without its waits, and with fewer microbatches at once, evenly spaced ---- */

/* k microbatches in `cells` cells: one cell a pass, F as 1f1b has it and B as early as it can, an
 * even and an odd cell, so that no two of them fall together where a stage has a worker to itself;
 * W in the cells between. */
static int visit_spaced(struct orr_starts *starts, int k, int64_t cells, struct orr_error *err)
{
	const struct orr_pipeline *p = starts->p;
	struct orr_block *block = NULL;
	struct orr_error why = {""};
	bool fits;
	int code = orr_block_create(&block, p, true, k, cells, err);

	if (code)
		return code;
	for (int i = 0; i < k * p->n_stages; i++) {
		int s = i % p->n_stages, depth = p->stages[s].depth;
		int64_t at = (i / p->n_stages) * cells / k & ~INT64_C(1);

		block->worker[i] = starts->worker[s];
		block->start[i * ORR_N_PASSES + ORR_PASS_F] = at + p->depth - depth;
		block->start[i * ORR_N_PASSES + ORR_PASS_B] = at + p->depth + depth - 1;
	}
	code = orr_block_lay_out(block, starts->stashes, starts->n, NULL, &why);
	orr_block_destroy(block);
	if (code) /* no such block is no failure */
		return code == ORR_E_NOMEM ? orr_fail(err, code, "%s", why.msg) : 0;
	return starts->visit(starts->user, &fits);
}

static int visit_all_spaced(struct orr_starts *starts, struct orr_error *err)
{
	const struct orr_pipeline *p = starts->p;
	int64_t k = starts->stashes < p->n_microbatches ? starts->stashes : p->n_microbatches;
	int code = 0;

	if (k >= p->depth) /* 1f1b and the zero-bubble schedules fit */
		return 0;
	for (int64_t more = 0; more <= MOST_WAITS && !code && starts->wanted(starts->user);
	     more += 2)
		code = visit_spaced(starts, (int)k,
				    (2 * p->depth > 3 * k ? 2 * p->depth : 3 * k + k % 2) + more,
				    err);
	return code;
}

int orr_starts_visit(struct orr_starts *starts, struct orr_error *err)
{
	const struct orr_pipeline *p = starts->p;
	int most = p->depth < p->n_microbatches ? p->depth : p->n_microbatches, code = 0;
	bool gangs = orr_pipeline_has_gangs(p);

	for (int k = most; k > 0 && !code && starts->wanted(starts->user);
	     k = k > 4 ? k * 3 / 4 : k - 1)
		for (int i = 0; i < (gangs ? 4 : 1) && !code; i++)
			code = visit_capped(starts, k, i & 1, i & 2, err);
	if (code || (code = visit_zero_bubble(starts, err)))
		return code;
	return visit_all_spaced(starts, err);
}
