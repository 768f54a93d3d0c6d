/* Distributed data parallelism: a worker takes whole microbatches through all stages, and holds all
 * parameters. The workers' gradients are all-reduced before the update. */
#include "direct.h"

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)s, (void)d, (void)data;
	return b % p->n_workers;
}

/* Forward through the stages, then backward, then the next microbatch. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t place = d == ORR_PASS_F ? s : 2 * p->n_stages - 1 - s;

	(void)data;
	return (int64_t)b * 2 * p->n_stages + place;
}

const struct orr_schedule orr_schedule_ddp = {
	.name = "ddp",
	.summary = "data parallel: microbatch b on worker b mod W, parameters everywhere",
	.paper = "Rahimi 2025, table 1",
	.compute = compute,
	.priority = priority,
};

/* Fully sharded data parallelism: microbatches as in ddp, but each stage's parameters have one
 * owner; the others fetch them for a job and drop them afterwards. */
const struct orr_schedule orr_schedule_fsdp = {
	.name = "fsdp",
	.summary = "fully sharded: ddp with one owner of each stage's parameters, s mod W",
	.paper = "Rahimi 2025, table 1",
	.compute = compute,
	.weights = orr_compute_in_turn,
	.priority = priority,
};
