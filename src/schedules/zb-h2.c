/* ZB-H2: forwards fill the wait for the first gradient as well, at twice the memory. At unit times
 * no worker idles between its first job and its last. */
#include "order/split_one_f_one_b.h"

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)s, (void)data;
	return 2 * p->depth - 1;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	return split_one_f_one_b(p, s, b, d, 2 * p->stages[s].depth - 1, in_flight(p, s, data));
}

extern const struct orr_schedule orr_schedule_zb_h2;
const struct orr_schedule orr_schedule_zb_h2 = {
	.name = "zb-h2",
	.summary = "split backward; 2 depth(s) - 1 forwards first, no idling at unit times",
	.paper = "Qi et al. 2024 (Zero Bubble), section 2.2",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.compute = split_one_f_one_b_compute,
	.priority = priority,
	.in_flight = in_flight,
};
