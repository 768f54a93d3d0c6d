/* 1F1B that keeps a stage's input alone and runs F again before B: memory for time. */
#include "one_f_one_b.h"

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

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	return true;
}

extern const struct orr_schedule orr_schedule_1f1b_r;
const struct orr_schedule orr_schedule_1f1b_r = {
	.name = "1f1b-r",
	.summary = "1f1b with recomputation: B runs F again from the stage's input, all that is "
		   "kept of it",
	.paper = "Chen et al. 2016 (recomputation), on 1f1b",
	.order = ORR_ORDER_STRICT,
	.compute = compute,
	.priority = priority,
	.in_flight = in_flight,
	.recompute = recompute,
};
