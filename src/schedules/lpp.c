/* Looped pipeline parallelism: between ddp (R = 1) and a pipeline (R = W). */
#include "looped.h"

extern const struct orr_schedule orr_schedule_lpp;
const struct orr_schedule orr_schedule_lpp = {
	.name = "lpp",
	.summary = "looped pipeline: G groups of R workers, stages go round in a group",
	.paper = "Rahimi 2025, table 1; breadth: Lamy-Poirier 2023",
	.order = ORR_ORDER_STRICT,
	.parameters = looped_parameters,
	.check = looped_check,
	.compute = looped_compute,
	.priority = looped_priority,
};
