/* GEMS: two pipelines in opposite directions, and one microbatch at a time: the forwards of one
 * follow the backwards of the one before over the workers. The least memory, and the most idle
 * time. */
#include "two_ways.h"

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	(void)p, (void)s, (void)data;
	return 2 * (int64_t)b + (d == ORR_PASS_B);
}

extern const struct orr_schedule orr_schedule_gems;
const struct orr_schedule orr_schedule_gems = {
	.name = "gems",
	.summary = "two pipelines in opposite directions, one stash a worker; forwards follow "
		   "backwards",
	.paper = "Jain et al. 2020",
	.order = ORR_ORDER_STRICT,
	.check = two_ways_check,
	.compute = two_ways_compute,
	.priority = priority,
};
