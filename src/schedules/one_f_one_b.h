#pragma once
/* The order of 1F1B in closed form, on any stage DAG. It extends every dependency, so no placement
 * of it can deadlock.
 *
 * A stage with cap(s) microbatches in flight runs B of microbatch b at 2b + D + depth - 1, when the
 * gradient has come back from the sink, and F of microbatch b just after B of b - cap. With cap =
 * depth(s) that is n_F = 2b + D - depth(s); on a chain 2b + s and 2b + 2S - 1 - s. */
#include "orrery/schedule.h"

static inline int64_t one_f_one_b(const struct orr_pipeline *p, int s, int64_t b, enum orr_pass d,
				  int cap)
{
	int64_t along = p->depth + p->stages[s].depth;
	int64_t n = d == ORR_PASS_F ? 2 * (b - cap) + along : 2 * b + along - 1;

	/* of stages that share a worker: backward first, then the stage nearer to the input */
	return (2 * n + (d == ORR_PASS_F)) * p->n_stages + s;
}
