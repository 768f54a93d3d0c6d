/* Zero bubble: the backward split into B and W. */
#include "order/zero_bubble.h"
#include "direct.h"

/* data: how many times the warm-up of 1F1B, but for one microbatch. */
static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)s;
	return split_one_f_one_b_at_once(p->depth, *(const int *)data);
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int k = split_one_f_one_b_at_once(p->stages[s].depth, *(const int *)data);

	return split_one_f_one_b(p, s, b, d, k, in_flight(p, s, data));
}

/* ZB-H1: the warm-up and the memory of 1F1B, with W in the time that 1F1B is idle at the end. */
const struct orr_schedule orr_schedule_zb_h1 = {
	.name = "zb-h1",
	.summary =
		"split backward; 1f1b's warm-up, and on every stage the microbatches of its first",
	.paper = "Qi et al. 2024 (Zero Bubble), section 2.1",
	.split_backward = true,
	.compute = orr_compute_in_turn,
	.priority = priority,
	.in_flight = in_flight,
	.data = &(const int){1},
};

/* ZB-H2: forwards fill the wait for the first gradient as well, at twice the memory. At unit times
 * no worker idles between its first job and its last. */
const struct orr_schedule orr_schedule_zb_h2 = {
	.name = "zb-h2",
	.summary = "split backward; 2 depth(s) - 1 forwards first, no idling at unit times",
	.paper = "Qi et al. 2024 (Zero Bubble), section 2.2",
	.split_backward = true,
	.compute = orr_compute_in_turn,
	.priority = priority,
	.in_flight = in_flight,
	.data = &(const int){2},
};

static const char kept[] =
	"percent of a stash that W still reads, B frees the rest; reported peaks count whole "
	"stashes until W (the published 1.5B model: 37, 6.2B: 43)";

static int place(const struct orr_pipeline *p, int most, const struct orr_value *value,
		 struct orr_placed *out, struct orr_error *err)
{
	struct orr_zero_bubble limit = {most, (int)value->integer};

	return orr_zero_bubble(p, &limit, out->n, err);
}

/* ZB-1P: the order that a search finds for the real durations, with as many microbatches on every
 * stage as 1f1b has on its first. */
static const struct orr_parameter one_parameters[] = {
	{"kept", kept, ORR_PARAMETER_INTEGER, 1, 100, 100, NULL},
	{0},
};

static int one_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		     struct orr_error *err)
{
	return place(p, p->depth, data, out, err);
}

const struct orr_schedule orr_schedule_zb_1p = {
	.name = "zb-1p",
	.summary =
		"split backward; the best order that a search finds, D microbatches on every stage",
	.paper = "Qi et al. 2024 (Zero Bubble), section 3.1",
	.split_backward = true,
	.parameters = one_parameters,
	.compute = orr_compute_in_turn,
	.place = one_place,
};

/* ZB-2P: the order that a search finds for the real durations, with twice the memory of 1f1b,
 * counted as the paper counts it: B frees all of a stash but what W still reads, which makes room
 * for enough weight gradients to fill the idle time of the last workers. kept=100 holds 2 D whole
 * stashes. */
static const struct orr_parameter twice_parameters[] = {
	{"kept", kept, ORR_PARAMETER_INTEGER, 1, 100, 50, NULL},
	{0},
};

static int twice_place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		       struct orr_error *err)
{
	return place(p, 2 * p->depth, data, out, err);
}

const struct orr_schedule orr_schedule_zb_2p = {
	.name = "zb-2p",
	.summary = "split backward; the best order that a search finds, in twice 1f1b's memory",
	.paper = "Qi et al. 2024 (Zero Bubble), section 3.1",
	.split_backward = true,
	.parameters = twice_parameters,
	.compute = orr_compute_in_turn,
	.place = twice_place,
};
