/* Eager 1F1B: nearly twice the microbatches in flight of 1F1B, so that a transfer each way fits
 * between two jobs without idling. */
#include "one_f_one_b.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)data;
	return 2 * p->stages[s].depth - 1;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	return one_f_one_b(p, s, b, d, in_flight(p, s, data));
}

extern const struct orr_schedule orr_schedule_eager_1f1b;
const struct orr_schedule orr_schedule_eager_1f1b = {
	.name = "eager-1f1b",
	.summary = "1f1b with 2 depth(s) - 1 in flight, to hide transfers",
	.paper = "Zhuang et al. 2023 (cross-mesh resharding)",
	.order = ORR_ORDER_STRICT,
	.compute = compute,
	.priority = priority,
	.in_flight = in_flight,
};
