#pragma once
/* How k owners add up B bytes each other than in one ring, and how long that takes alone.
 *
 * Tree: two binary trees, each for half of the bytes, upwards and beside that downwards; none of
 * the owners has children in both, if k is even [Sanders09]. They are laid out as in
 * NCCL: numbers that are odd are leaves of the first, and the second is its mirror image or, of an
 * odd k, the first by one further. Pieces are so small that only the way up and down waits:
 *
 *     2 latencies of the longest way to a root + h B / 2 / bandwidth
 *
 * where h halves pass the stretch with the most of them for each of its lanes. With equal links and
 * ports, h is 4 (k even, 4 or more): 2 log2(k) latencies + 2 B / bandwidth. Of two owners it is the
 * ring.
 *
 * Hierarchical: the groups of the machine that have equally many of the owners, innermost first: a
 * group of level l consists of n[l] of level l - 1. Of every level the owners at the same place of
 * these are a ring: a reduce-scatter on the way out, an all-gather on the way back, of what is left
 * of B:
 *
 *     sum over l of 2 (n[l] - 1) (latency[l] + t[l] B / (n[0] .. n[l]) / bandwidth[l])
 *
 * where t[l] go over the stretch with the most of them for each of its lanes. On g nodes of n, with
 * u lanes for what leaves a node: 2 (g - 1) / g B / n over a lane, ceil(n / u) times; a ring of all
 * sends 2 (k - 1) / k B over one. Owners that no level divides are one ring.
 *
 * Only an all-reduce goes by trees: its halves, for an optimizer in parts, are rings. */
#include <stdbool.h>
#include "orrery/machine.h"
#include "path.h"

#define ORR_MOST_SUM_LEVELS 31 /* each has twice as many owners, or more */

struct orr_passing {
	struct orr_stretch stretch;
	int hops; /* pass it at once */
};

struct orr_reduction {
	struct orr_passing *loads; /* owned: of all levels, in each by key */
	int n_loads, room;
	int n_levels; /* 0: the machine may not choose it */
	struct orr_reduction_level {
		int first, n;     /* loads */
		int steps, parts; /* bytes * steps / parts in each hop, there and back */
		int64_t latency_ns, least_ns; /* of all steps; the least of an edge */
	} levels[ORR_MOST_SUM_LEVELS];
};

/* By enum orr_all_reduce: a ring, and all that the machine may choose from. */
struct orr_reductions {
	struct orr_reduction by[ORR_ALL_REDUCES];
};

/* sums is zero, or made already. */
int orr_reductions_make(struct orr_reductions *sums, const struct orr_machine *m, const int *owners,
			int k, struct orr_error *err);
void orr_reductions_fini(struct orr_reductions *sums);

/* The fastest that the machine may choose, of equally fast ones the first, and how long it takes.
 */
enum orr_all_reduce orr_reductions_choose(const struct orr_reductions *sums,
					  const struct orr_machine *m, const int *owners, int k,
					  enum orr_ring_part part, int64_t bytes, int64_t *ns);

/* Are the sums of a machine rings, whatever their bytes? in_parts: a reduce-scatter, and an
 * all-gather after the update. */
bool orr_sums_are_rings(const struct orr_machine *m, bool in_parts);
/* What k owners take alone to add up, as the machine says. */
int orr_sum_ns(int64_t *ns, const struct orr_machine *m, const int *owners, int k, bool in_parts,
	       int64_t bytes, struct orr_error *err);

/* Level of step i of what it moves one after the other, and the share: bytes * steps / parts; -1:
 * there are no more. */
int orr_reduction_step(const struct orr_reduction *sum, enum orr_ring_part part, int i, int *steps,
		       int *parts);
/* All latencies, and the least of an edge in the last step. */
int64_t orr_reduction_latency(const struct orr_reduction *sum, enum orr_ring_part part);
int64_t orr_reduction_last_ns(const struct orr_reduction *sum, enum orr_ring_part part);
