#pragma once
/* Places for what belongs to others, each taken by one job after the other. A worker has places for
 * parameters of other owners that its jobs read, and for weight gradients that its jobs make for
 * other owners; they take them in turn, in the order of all jobs. An owner has places for gradients
 * that come from other workers, which it adds up in the order of microbatches. */
#include "orrery/orrery.h"

struct orr_jobs;

enum orr_place {
	ORR_PLACE_PARAMETERS, /* from when they are asked for to the end of the job */
	ORR_PLACE_GRADIENT,   /* from the start of the job until it has left */
	ORR_PLACE_COMING      /* the same gradient at its owner, until it has been added */
};
#define ORR_N_PLACES 3
#define ORR_N_COMING 2 /* of an owner: one can come while the other is added */

/* n: places of a worker or an owner. before[n_jobs]: the job whose place j takes; j: it takes one
 * that no job had; -1: it needs none. rank_of: of each worker, since what is of the same rank needs
 * none; NULL: every worker is a rank of its own. Nothing deadlocks: a job whose gradient is needed
 * before the one in its place can leave gets no place. */
int orr_places_find(int *before, const struct orr_jobs *jobs, int n, enum orr_place place,
		    const int *rank_of, struct orr_error *err);
