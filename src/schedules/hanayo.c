/* Hanayo: waves. The stages go down the workers and up again, `waves` times: the V repeated. It is
 * Chimera with its two directions joined end to end, and one copy of the parameters. */
#include <stdio.h>
#include "direct.h"

static const struct orr_parameter parameters[] = {
	{"in_flight",
	 "most microbatches of a stage between F and B, 0: as many as workers; more of them "
	 "shorten steps in which B takes longer than F",
	 ORR_PARAMETER_MICROBATCHES, 0, 1 << 20, 0, NULL},
	{0},
};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	char workers[64] = "";

	(void)data;
	if (p->n_stages % (2 * p->n_workers) == 0)
		return 0;
	if (p->n_stages % 2 == 0)
		snprintf(workers, sizeof(workers), ", or set [workers] to a divisor of %d",
			 p->n_stages / 2);
	return orr_fail(err, ORR_E_INPUT,
			"hanayo: %d stages on %d workers: a wave goes down and up, two stages a "
			"worker; cut the model into a multiple of %d stages%s",
			p->n_stages, p->n_workers, 2 * p->n_workers, workers);
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	int64_t value = ((const struct orr_value *)data)->integer;

	(void)s;
	return value ? (int)value : p->n_workers;
}

/* Of the ready jobs: a backward, else the forward nearest to the sink. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t m = p->n_microbatches;

	(void)data;
	if (d == ORR_PASS_B)
		return b * (int64_t)p->n_stages + s;
	return m * p->n_stages + b + (p->n_stages - 1 - s) / p->n_workers * m;
}

const struct orr_schedule orr_schedule_hanayo = {
	.name = "hanayo",
	.summary = "waves: the V of stages repeated stages/(2 workers) times, P microbatches in "
		   "flight",
	.paper = "Liu et al. 2023 (Hanayo)",
	.order = ORR_ORDER_GREEDY,
	.parameters = parameters,
	.check = check,
	.compute = orr_compute_folded,
	.priority = priority,
	.in_flight = in_flight,
};
