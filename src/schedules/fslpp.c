/* Fully sharded looped pipeline parallelism: lpp with one owner of each stage's parameters, h(s,s).
 */
#include "looped.h"

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)b, (void)d;
	return looped_h(p, s, s, data);
}

extern const struct orr_schedule orr_schedule_fslpp;
const struct orr_schedule orr_schedule_fslpp = {
	.name = "fslpp",
	.summary = "fully sharded looped pipeline: lpp with one owner of each stage's parameters",
	.paper = "Rahimi 2025, table 1; breadth: Lamy-Poirier 2023",
	.order = ORR_ORDER_STRICT,
	.parameters = looped_parameters,
	.check = looped_check,
	.compute = looped_compute,
	.weights = weights,
	.priority = looped_priority,
};
