#pragma once
/* The hierarchical dynamic program of [Narayanan19], section 3.1: where to cut and how often to
 * replicate so that the slowest stage is as fast as can be, level by level of the machine from the
 * innermost outwards, over the ideals of the graph. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/machine.h"

struct orr_ideals;

struct orr_hierarchy_options {
	struct orr_levels levels;
	const struct orr_machine *machine; /* (optional) its duplex, and of workers that differ,
					      with one level: */
	const int *order;   /* [workers of the level] successive stages take successive ones of
			       these */
	bool activations;   /* count the traffic between stages */
	bool added;         /* to what a stage computes; else a link is busy beside it */
	bool connected;     /* only stages that hang together */
	bool straight;      /* no replicas */
	int least_replicas; /* of a stage at each level, or all that the level has; 0: 1 */
	int n_microbatches; /* of a step, which ends with one all-reduce of replicas and one update;
			       0: as PipeDream's published optimizer counts, see hierarchy.c */
	int64_t memory_bytes;         /* of a worker; 0: no limit */
	struct orr_numerics numerics; /* memory of a parameter (parameter_cost.h) */
	int least_in_flight;          /* microbatches that a stage holds at least, for the memory */
	int most_in_flight; /* and at most; 0: the number that keeps the workers after it busy */
};

/* The operators between two ideals, on n workers. */
struct orr_hierarchy_stage {
	int from, to, workers;
	/* where they are: counted at each level, replicas[l] components from first[l] on */
	int first[ORR_MOST_LEVELS], replicas[ORR_MOST_LEVELS];
};

struct orr_hierarchy {
	int n_stages, n_workers; /* workers used; may be fewer than there are */
	struct orr_hierarchy_stage *stages;
	double slowest_s; /* seconds per microbatch; with several levels, at most */
	bool proven;      /* no cut at these ideals has a faster slowest stage */
};

/* n_stages 0 with code 0: nothing fits the memory. h->stages are the caller's to free, after an
 * error too. Takes time in proportion to the third power of the ideals. */
int orr_hierarchy_find(struct orr_hierarchy *h, const struct orr_ideals *ideals,
		       const struct orr_hierarchy_options *options, struct orr_error *err);
/* The workers of the first n replicas; order: (optional) as it was asked for. Successive ones are
 * in different groups of the outermost level, so that a microbatch stays in one group where the
 * stages inside a group have replicas together. */
void orr_hierarchy_workers(int *workers, int n, const struct orr_hierarchy_stage *stage,
			   const struct orr_levels *levels, const int *order);
