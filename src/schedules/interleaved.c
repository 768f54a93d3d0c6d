/* Interleaved 1F1B: a worker has v = S/P stages that are P apart, so that filling and draining the
 * pipeline takes 1/v of the time. */
#include "direct.h"
#include "rounds.h"

enum { ORDER_DEPTH, ORDER_BREADTH };

static const struct orr_parameter parameters[] = {
	{"order",
	 "depth: groups of P microbatches, 2(P-r-1) + (v-1)P forwards first; breadth: all "
	 "microbatches of a stage before the worker's next stage",
	 ORR_PARAMETER_WORD, 0, 0, ORDER_DEPTH, "depth|breadth"},
	{0},
};

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages % p->n_workers == 0)
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"interleaved: %d stages on %d workers: every worker takes as many; set [workers] "
		"to a divisor of the stages, or cut the model into a multiple of the workers",
		p->n_stages, p->n_workers);
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	struct rounds o = {p->n_workers, p->n_stages / p->n_workers, p->n_microbatches};
	int r = s % p->n_workers, c = s / p->n_workers;

	if (((const struct orr_value *)data)->integer == ORDER_BREADTH)
		return rounds_breadth_first(&o, c, b, d);
	return rounds_depth_first(&o, r, c, b, d);
}

const struct orr_schedule orr_schedule_interleaved = {
	.name = "interleaved",
	.summary = "1f1b with v = stages/workers stages on each worker, stage s on worker s mod P",
	.paper = "Narayanan et al. 2021 (Megatron-LM); breadth: Lamy-Poirier 2023",
	.parameters = parameters,
	.check = check,
	.compute = orr_compute_in_turn,
	.priority = priority,
};
