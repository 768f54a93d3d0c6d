#pragma once
/* The traffic of one step between ranks, from the jobs alone: beside the counters of a run and the
 * figures of the simulator. */
#include "orrery/jobs.h"
#include "orrery/figures.h"

/* Fills traffic[n_ranks]; rank_of has the rank of each worker. The replicas of a stage all-reduce
 * in a ring, in the order of jobs->owners: the gradient is cut into a chunk for each; chunk c is
 * summed from owner c+1 on round to owner c, and goes round again to all of them. padded: with the
 * zeros between parameters, which a run sends and the simulator does not count. */
void derive_traffic(struct orr_traffic *traffic, const struct orr_jobs *jobs, const int *rank_of,
		    int n_ranks, bool padded);
