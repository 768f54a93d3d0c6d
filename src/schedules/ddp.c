/* Distributed data parallelism: a worker takes whole microbatches through all stages, and holds all
 * parameters. The workers' gradients are all-reduced before the update. */
#include "data_parallel.h"

extern const struct orr_schedule orr_schedule_ddp;
const struct orr_schedule orr_schedule_ddp = {
	.name = "ddp",
	.summary = "data parallel: microbatch b on worker b mod W, parameters everywhere",
	.paper = "Rahimi 2025, table 1",
	.order = ORR_ORDER_STRICT,
	.compute = data_parallel_compute,
	.priority = data_parallel_priority,
};
