/* 1F1B: one forward, one backward, with as many microbatches in flight as there are stages to the
 * sink. */
#include "one_f_one_b.h"

/* Fewer workers than stages: placements wrap around. */
static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)data;
	return p->stages[s].depth;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	return one_f_one_b(p, s, b, d, in_flight(p, s, data));
}

extern const struct orr_schedule orr_schedule_1f1b;
const struct orr_schedule orr_schedule_1f1b = {
	.name = "1f1b",
	.summary = "one forward, one backward; depth(s) microbatches in flight",
	.paper = "Narayanan et al. 2019 (PipeDream), with a flush",
	.order = ORR_ORDER_STRICT,
	.compute = compute,
	.priority = priority,
	.in_flight = in_flight,
};
