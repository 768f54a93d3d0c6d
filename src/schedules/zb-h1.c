/* ZB-H1: the warm-up and the memory of 1F1B, with W in the time that 1F1B is idle at the end. */
#include "order/split_one_f_one_b.h"

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)s, (void)data;
	return p->depth;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	return split_one_f_one_b(p, s, b, d, p->stages[s].depth, in_flight(p, s, data));
}

extern const struct orr_schedule orr_schedule_zb_h1;
const struct orr_schedule orr_schedule_zb_h1 = {
	.name = "zb-h1",
	.summary =
		"split backward; 1f1b's warm-up, and on every stage the microbatches of its first",
	.paper = "Qi et al. 2024 (Zero Bubble), section 2.1",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.compute = split_one_f_one_b_compute,
	.priority = priority,
	.in_flight = in_flight,
};
