#pragma once
/* Rounds, of interleaved and lpp: stages go round the workers of a ring, and a worker runs its
 * share of round c, then of round c + 1. Two orders of the work of one worker:
 *
 * depth first: microbatches in groups as large as the ring; a group passes all rounds before the
 * next one starts, and after 2(R-r-1) + (v-1)R forwards backwards take turns with them [Narayanan
 * 2021]; breadth first: all microbatches pass a round before any passes the next one [Lamy-Poirier
 * 2023].
 *
 * Both are orders of a chain of stages, which has a path between any two, so they hold for any DAG
 * whose stages are numbered topologically. Jobs that are left out of an order leave a valid order:
 * a number of microbatches that is no multiple of the ring is a larger step without the missing
 * ones. */
#include "orrery/schedule.h"

struct rounds {
	int ring;           /* R workers */
	int rounds;         /* v, the last one possibly short */
	int n_microbatches; /* of this ring */
};

/* The place of F or B in the order of worker r, depth first. */
static inline int64_t rounds_depth_first(const struct rounds *o, int r, int c, int64_t b,
					 enum orr_pass d)
{
	int64_t ring = o->ring, v = o->rounds, groups = (o->n_microbatches + ring - 1) / ring;
	int64_t total = groups * ring * v, warm_up = 2 * (ring - r - 1) + (v - 1) * ring;
	int64_t round = d == ORR_PASS_F ? c : v - 1 - c;
	int64_t k = (b / ring * v + round) * ring + b % ring; /* the k-th forward, or backward */

	if (warm_up > total)
		warm_up = total;
	if (d == ORR_PASS_F)
		return k < warm_up ? k : 2 * k - warm_up;
	return k < total - warm_up ? warm_up + 2 * k + 1 : total + k;
}

static inline int64_t rounds_breadth_first(const struct rounds *o, int c, int64_t b,
					   enum orr_pass d)
{
	int64_t m = o->n_microbatches, v = o->rounds;

	return d == ORR_PASS_F ? c * m + b : (2 * v - 1 - c) * m + b;
}
