/* GPipe: all forwards of a minibatch, then all backwards; all stashes are held at once. */
#include "direct.h"

/* Two wavefronts: when each job would start if every one took a unit of time. Where a minibatch is
 * gathered, another one begins. */
static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t depth = p->stages[s].depth;
	int64_t wave = p->n_microbatches + p->depth + 1, gathers = p->stages[s].n_gathers;
	int64_t n = d == ORR_PASS_F ? gathers * wave + b + p->depth - depth
				    : (2 * p->n_stages + 1 - gathers) * wave + b + depth;

	(void)data;
	return n * p->n_stages + s;
}

const struct orr_schedule orr_schedule_gpipe = {
	.name = "gpipe",
	.summary = "all forwards, then all backwards",
	.paper = "Huang et al. 2019 (GPipe); Rahimi 2025",
	.compute = orr_compute_in_turn,
	.priority = priority,
};
