#ifndef ORR_TWO_WAYS_H
#define ORR_TWO_WAYS_H
/* What chimera and gems share: even microbatches go down the workers and odd ones up, so that every
 * stage has two owners, replicas that all-reduce. Their orders are those of a chain, which has a
 * path between any two stages, so they hold for any DAG. */
#include <stdio.h>
#include "orrery/schedule.h"

static inline int two_ways_check(const struct orr_pipeline *p, const void *data,
				 struct orr_error *err)
{
	(void)data;
	if (p->n_stages == p->n_workers)
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"two-way pipelines need a worker a stage, and there are %d stages and %d workers: "
		"set [workers] %d",
		p->n_stages, p->n_workers, p->n_stages);
}

static inline int two_ways_compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
				   const void *data)
{
	(void)d, (void)data;
	return b % 2 ? p->n_stages - 1 - s : s;
}
#endif
