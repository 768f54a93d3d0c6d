/* What chimera and gems share: even microbatches go down the workers and odd ones up, so that every
 * stage has two owners, replicas that all-reduce. Their orders are those of a chain, which has a
 * path between any two stages, so they hold for any DAG. */
#include "direct.h"

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	(void)data;
	if (p->n_stages == p->n_workers)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"two-way pipelines need a worker a stage, and there are %d stages and %d "
			"workers: set [workers] %d",
			p->n_stages, p->n_workers, p->n_stages);
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)d, (void)data;
	return b % 2 ? p->n_stages - 1 - s : s;
}

/* Chimera: two pipelines in opposite directions over the same workers, for even and for odd
 * microbatches. In units of one F and one B each, a microbatch of either moves one stage a unit; S
 * microbatches make a block of 2S units, which leaves S/2 - 1 of them idle at either end, and
 * blocks fit into each other. With an even number of stages no two jobs of a worker meet. */
static int64_t chimera(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
		       const void *data)
{
	int pairs = (p->n_stages + 1) / 2; /* microbatches of one direction in a block */
	int64_t block = b / 2 / pairs, start = block * 4 * pairs + 2 * (b / 2 % pairs);
	int64_t unit = start + (d == ORR_PASS_F ? s : 2 * p->n_stages - 1 - s);

	(void)data;
	return 2 * unit + b % 2; /* an odd number of stages: both directions may want one unit */
}

const struct orr_schedule orr_schedule_chimera = {
	.name = "chimera",
	.summary = "two pipelines in opposite directions, two replicas of every stage; half the "
		   "bubble of 1f1b",
	.paper = "Li & Hoefler 2021",
	.check = check,
	.compute = compute,
	.priority = chimera,
};

/* GEMS: two pipelines in opposite directions, and one microbatch at a time: the forwards of one
 * follow the backwards of the one before over the workers. The least memory, and the most idle
 * time. */
static int64_t gems(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	(void)p, (void)s, (void)data;
	return 2 * (int64_t)b + (d == ORR_PASS_B);
}

const struct orr_schedule orr_schedule_gems = {
	.name = "gems",
	.summary = "two pipelines in opposite directions, one stash a worker; forwards follow "
		   "backwards",
	.paper = "Jain et al. 2020",
	.check = check,
	.compute = compute,
	.priority = gems,
};
