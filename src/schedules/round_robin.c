/* Interleaved 1F1B as a building block: v stages a worker, s mod P, one microbatch every 3v cells,
 * which are v groups of an F and a whole B. Between two stages of a worker lie k groups: Fs need
 * P/3, one cell a worker, and Bs 2P/3. Counting a group later as often as k and v share a divisor,
 * no two meet. [Qi24, appendices G and H] draws two such blocks and does not list them; this is
 * derived. */
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "order/block.h"
#include "direct.h"

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages % p->n_workers == 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"interleaving needs as many stages on each worker: %d stages are no "
			"multiple of %d workers ([workers], [stages])",
			p->n_stages, p->n_workers);
}

/* The group of a worker's c-th stage. */
static int64_t group(int64_t k, int64_t v, int64_t c)
{
	return k * c + c / (v / common_divisor(v, k));
}

/* k groups apart, in a peak of stage stashes. */
static int lay_out(const struct orr_pipeline *p, int64_t k, int64_t peak, int64_t *n,
		   int64_t *makespan_ns, struct orr_error *err)
{
	int64_t P = p->n_workers, v = p->n_stages / P;
	struct orr_block block = {0};
	int code = orr_block_init(&block, p, false, 1, 3 * v, err);

	for (int s = 0; !code && s < p->n_stages; s++) {
		int64_t i = s % P, c = s / P;

		block.worker[s] = (int)i;
		block.start[orr_block_at(&block, s, 0, ORR_PASS_F)] = 3 * group(k, v, c) + i;
		block.start[orr_block_at(&block, s, 0, ORR_PASS_B)] =
			3 * group(k, v, v - 1) + P + 2 * (P - 1 - i) + 3 * group(k, v, v - 1 - c);
	}
	if (!code)
		code = orr_block_lay_out(&block, peak, n, makespan_ns, err);
	orr_arrays_free(&block.all);
	return code;
}

/* What interleaved 1F1B holds on its first worker: its warm-up and one more. */
static int64_t published_peak(const struct orr_pipeline *p)
{
	return p->n_stages + p->n_workers - 1;
}

/* Interleaved 1F1B with microbatches at equal intervals instead of groups of P [Qi24, appendix G]:
 * the same memory and bubble, for any number of microbatches. */
static int place_uniform(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			 struct orr_error *err)
{
	(void)data;
	return lay_out(p, p->n_workers, published_peak(p), out->n, NULL, err);
}

const struct orr_schedule orr_schedule_interleaved_uniform = {
	.name = "interleaved-uniform",
	.summary = "interleaved with microbatches at equal intervals: same memory and bubble, any "
		   "number of them",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix G",
	.check = check,
	.compute = orr_compute_in_turn,
	.place = place_uniform,
};

/* Interleaved 1F1B with its bubble in less memory [Qi24, appendix H]: about vP stage stashes
 * instead of vP + P - 1. The block has the stages of a worker as close as Bs allow, or as close as
 * interleaved-uniform has them; warm-up and cool-down get the least memory with which they end as
 * early. */
#define MARGIN 6 /* stashes above one microbatch a stage that are tried one by one */

/* The first that is no longer than bound_ns replaces n. */
static int find_least(const struct orr_pipeline *p, int64_t k, int64_t bound_ns, int64_t *tried,
		      int64_t *n, bool *found, struct orr_error *err)
{
	size_t size = (size_t)p->n_stages * (size_t)p->n_microbatches * 2 * sizeof(*n);
	int64_t makespan_ns, published = published_peak(p);
	int code = 0;

	for (int64_t peak = p->n_stages;
	     !code && !*found && peak < p->n_stages + MARGIN && peak < published; peak++) {
		code = lay_out(p, k, peak, tried, &makespan_ns, err);
		if (!code && makespan_ns <= bound_ns && (*found = true))
			memcpy(n, tried, size);
	}
	return code;
}

static int place_low_memory(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
			    struct orr_error *err)
{
	int64_t *tried =
		calloc((size_t)p->n_stages * (size_t)p->n_microbatches * 2, sizeof(*tried));
	int64_t bound_ns;
	bool found = false;
	int code;

	(void)data;
	if (!tried)
		return orr_no_memory(err, "interleaved-low-memory");
	if (!(code = lay_out(p, p->n_workers, published_peak(p), out->n, &bound_ns, err)) &&
	    !(code = find_least(p, (2 * p->n_workers + 2) / 3, bound_ns, tried, out->n, &found,
				err)))
		code = find_least(p, p->n_workers, bound_ns, tried, out->n, &found, err);
	free(tried);
	return code;
}

const struct orr_schedule orr_schedule_interleaved_low_memory = {
	.name = "interleaved-low-memory",
	.summary = "interleaved with the same bubble in less memory",
	.paper = "Qi et al. 2024 (Controllable Memory), appendix H",
	.check = check,
	.compute = orr_compute_in_turn,
	.place = place_low_memory,
};
