/* 1F1B: one forward, one backward, as many microbatches in flight as stages to the sink. Eager
 * 1F1B: nearly twice as many, so that a transfer each way fits between two jobs without idling.
 * data: how many times. */
#include "direct.h"
#include "one_f_one_b.h"

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	int times = *(const int *)data;

	return times * (p->stages[s].depth - 1) + 1;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	return one_f_one_b(p, s, b, d, in_flight(p, s, data));
}

const struct orr_schedule orr_schedule_1f1b = {
	.name = "1f1b",
	.summary = "one forward, one backward; depth(s) microbatches in flight",
	.paper = "Narayanan et al. 2019 (PipeDream), with a flush",
	.compute = orr_compute_in_turn,
	.priority = priority,
	.in_flight = in_flight,
	.data = &(const int){1},
};

const struct orr_schedule orr_schedule_eager_1f1b = {
	.name = "eager-1f1b",
	.summary = "1f1b with 2 depth(s) - 1 in flight, to hide transfers",
	.paper = "Zhuang et al. 2023 (cross-mesh resharding)",
	.compute = orr_compute_in_turn,
	.priority = priority,
	.in_flight = in_flight,
	.data = &(const int){2},
};

/* 1F1B that keeps a stage's input alone and runs F again before B: memory for time. */
static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p, (void)s, (void)data;
	return true;
}

const struct orr_schedule orr_schedule_1f1b_r = {
	.name = "1f1b-r",
	.summary = "1f1b with recomputation: B runs F again from the stage's input, all that is "
		   "kept of it",
	.paper = "Chen et al. 2016 (recomputation), on 1f1b",
	.compute = orr_compute_in_turn,
	.priority = priority,
	.in_flight = in_flight,
	.data = &(const int){1},
	.recompute = recompute,
};
