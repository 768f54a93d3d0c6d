/* Chimera: two pipelines in opposite directions over the same workers, for even and for odd
 * microbatches. In units of one F and one B each, a microbatch of either moves one stage a unit; S
 * microbatches make a block of 2S units, which leaves S/2 - 1 of them idle at either end, and
 * blocks fit into each other. With an even number of stages no two jobs of a worker meet. */
#include "two_ways.h"

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int pairs = (p->n_stages + 1) / 2; /* microbatches of one direction in a block */
	int64_t block = b / 2 / pairs, start = block * 4 * pairs + 2 * (b / 2 % pairs);
	int64_t unit = start + (d == ORR_PASS_F ? s : 2 * p->n_stages - 1 - s);

	(void)data;
	return 2 * unit + b % 2; /* an odd number of stages: both directions may want one unit */
}

extern const struct orr_schedule orr_schedule_chimera;
const struct orr_schedule orr_schedule_chimera = {
	.name = "chimera",
	.summary = "two pipelines in opposite directions, two replicas of every stage; half the "
		   "bubble of 1f1b",
	.paper = "Li & Hoefler 2021",
	.order = ORR_ORDER_STRICT,
	.check = two_ways_check,
	.compute = two_ways_compute,
	.priority = priority,
};
