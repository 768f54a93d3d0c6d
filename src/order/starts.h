#pragma once
/* Orders to start a search from on any placement, of which the schedules know a few. Each is
 * considered (searcher.h) as long as x is open. Private to the search. */
#include <stdint.h>
#include "searcher.h"

/* A gang that keeps nothing and reads nothing holds up all of its workers, and no memory while it
 * waits: it may run for all microbatches at first, and back at last, and delays no other job then.
 */
static inline bool orr_gang_is_apart(const struct orr_pipeline *p, int s)
{
	return !p->stages[s].n_in && !p->stages[s].stash_bytes && orr_pipeline_n_at(p, s) > 1;
}

/* permutation: of ORR_N_PERMUTATIONS by which microbatches that differ change places; -1: none. n:
 * room for such an order. */
#define ORR_N_PERMUTATIONS 3
int orr_starts_visit(struct orr_searched *x, int permutation, int64_t *n);
/* Orders in which no microbatch waits on its way: each comes as soon as all its Fs and Bs fit
 * between those of the microbatches before it, and its stashes into memory. Ws fill the gaps. In
 * little memory that makes, on equal stages, a grid of slots of F + B in which the microbatches
 * pass each other (rigid.c). */
int orr_rigid_visit(struct orr_searched *x);
/* Orders that repeat a period of one microbatch in which the busiest worker never waits, where jobs
 * hold several workers at once: modulo scheduling with eviction, as compilers do it for loops
 * (packed.c). */
int orr_packed_visit(struct orr_searched *x);
