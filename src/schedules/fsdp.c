/* Fully sharded data parallelism: microbatches as in ddp, but each stage's parameters have one
 * owner; the others fetch them for a job and drop them afterwards. */
#include "data_parallel.h"

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d, (void)data;
	return s % p->n_workers;
}

extern const struct orr_schedule orr_schedule_fsdp;
const struct orr_schedule orr_schedule_fsdp = {
	.name = "fsdp",
	.summary = "fully sharded: ddp with one owner of each stage's parameters, s mod W",
	.paper = "Rahimi 2025, table 1",
	.order = ORR_ORDER_STRICT,
	.compute = data_parallel_compute,
	.weights = weights,
	.priority = data_parallel_priority,
};
