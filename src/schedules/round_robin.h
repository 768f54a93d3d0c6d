#ifndef ORR_SCHEDULES_ROUND_ROBIN_H
#define ORR_SCHEDULES_ROUND_ROBIN_H
/* Interleaved 1F1B as a building block: v stages a worker, s mod P, one microbatch every 3v cells,
 * which are v groups of an F and a whole B. Between two stages of a worker lie k groups: Fs need
 * P/3, one cell a worker, and Bs 2P/3. Counting a group later as often as k and v share a divisor,
 * no two meet. [Qi24, appendices G and H] draws two such blocks and does not list them; this is
 * derived. */
#include "order/block.h"
#include "order/lay_out.h"
#include "orrery/schedule.h"

static inline int round_robin_check(const struct orr_pipeline *p, const void *data,
				    struct orr_error *err)
{
	(void)data;
	if (p->n_stages % p->n_workers == 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"interleaving needs as many stages on each worker: %d stages are no "
			"multiple of %d workers "
			"([workers], [stages])",
			p->n_stages, p->n_workers);
}

static inline int round_robin_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
				      const void *data)
{
	(void)b;
	(void)d;
	(void)data;
	return s % p->n_workers;
}

/* The group of a worker's c-th stage. */
static inline int64_t round_robin_group(int64_t k, int64_t v, int64_t c)
{
	int64_t common = v, rest = k;

	while (rest) {
		int64_t next = common % rest;

		common = rest;
		rest = next;
	}
	return k * c + c / (v / common);
}

static inline int round_robin_block(struct orr_block **out, const struct orr_pipeline *p, int64_t k,
				    struct orr_error *err)
{
	int64_t P = p->n_workers, v = p->n_stages / P;
	int code = orr_block_create(out, p, false, 1, 3 * v, err);

	for (int s = 0; !code && s < p->n_stages; s++) {
		int64_t i = s % P, c = s / P;

		(*out)->worker[s] = (int)i;
		(*out)->start[orr_block_at(*out, s, 0, ORR_PASS_F)] =
			3 * round_robin_group(k, v, c) + i;
		(*out)->start[orr_block_at(*out, s, 0, ORR_PASS_B)] =
			3 * round_robin_group(k, v, v - 1) + P + 2 * (P - 1 - i) +
			3 * round_robin_group(k, v, v - 1 - c);
	}
	return code;
}

/* What interleaved 1F1B holds on its first worker: its warm-up and one more. */
static inline int64_t round_robin_published_peak(const struct orr_pipeline *p)
{
	return p->n_stages + p->n_workers - 1;
}

/* P groups apart, in the published memory: interleaved-uniform. */
static inline int round_robin_lay_out(const struct orr_pipeline *p, int64_t *n,
				      int64_t *makespan_ns, struct orr_error *err)
{
	struct orr_block *block = NULL;
	int code = round_robin_block(&block, p, p->n_workers, err);

	if (!code)
		code = orr_block_lay_out_within(block, round_robin_published_peak(p), n,
						makespan_ns, err);
	orr_block_destroy(block);
	return code;
}
#endif
