/* ZB-1P: the order that a search finds for the real durations, with as many microbatches on every
 * stage as 1f1b has on its first. */
#include "order/zero_bubble.h"
#include "order/split_one_f_one_b.h"

static const struct orr_parameter parameters[] = {
	{"kept",
	 "percent of a stash that W still reads, B frees the rest; reported peaks count whole "
	 "stashes until W (the published 1.5B model: 37, 6.2B: 43)",
	 ORR_PARAMETER_INTEGER, 1, 100, 100, NULL},
	{0},
};

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	struct orr_zero_bubble limit = {p->depth, (int)((const struct orr_value *)data)->integer};

	return orr_zero_bubble(p, &limit, out->n, err);
}

extern const struct orr_schedule orr_schedule_zb_1p;
const struct orr_schedule orr_schedule_zb_1p = {
	.name = "zb-1p",
	.summary =
		"split backward; the best order that a search finds, D microbatches on every stage",
	.paper = "Qi et al. 2024 (Zero Bubble), section 3.1",
	.order = ORR_ORDER_STRICT,
	.split_backward = true,
	.parameters = parameters,
	.compute = split_one_f_one_b_compute,
	.place = place,
};
