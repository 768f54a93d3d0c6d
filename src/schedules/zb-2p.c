/* ZB-2P: the order that a search finds for the real durations, with twice the memory of 1f1b,
 * counted as the paper counts it: B frees all of a stash but what W still reads, which makes room
 * for enough weight gradients to fill the idle time of the last workers. kept=100 holds 2 D whole
 * stashes. */
#include "order/zero_bubble.h"
#include "order/split_one_f_one_b.h"

static const struct orr_parameter parameters[] = {
	{"kept",
	 "percent of a stash that W still reads, B frees the rest; reported peaks count whole "
	 "stashes until W (the published 1.5B model: 37, 6.2B: 43)",
	 ORR_PARAMETER_INTEGER, 1, 100, 50, NULL},
	{0},
};

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_zero_bubble limit = {2 * p->depth,
					(int)((const struct orr_value *)data)->integer};

	return orr_zero_bubble(p, &limit, out->n, err);
}

extern const struct orr_schedule orr_schedule_zb_2p;
const struct orr_schedule orr_schedule_zb_2p = {
	.name = "zb-2p",
	.summary = "split backward; the best order that a search finds, in twice 1f1b's memory",
	.paper = "Qi et al. 2024 (Zero Bubble), section 3.1",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.parameters = parameters,
	.compute = split_one_f_one_b_compute,
	.place = place,
};
