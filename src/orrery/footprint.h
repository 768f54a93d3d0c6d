#ifndef ORR_FOOTPRINT_H
#define ORR_FOOTPRINT_H
/* What a rank, or a worker by itself, holds in memory at its peak, predicted from the jobs and a
 * timeline: what it owns for good, what it holds of others at a time, and what comes and goes with
 * a microbatch. Not in it: the data set, a worker's scratch, and what the libraries take. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_jobs;
struct orr_timeline;

/* Bytes, of one rank. */
struct orr_footprint {
	int64_t owned;   /* parameters, their gradients and the optimizer's state (parameter_cost.h)
			  */
	int64_t rounded; /* copies in BF16, of each worker, of the parameters that it computes with
			  */
	int64_t fetched; /* parameters of others, for `prefetch` jobs and one more of each worker */
	int64_t partial; /* weight gradients that are made for other ranks, as many; those that come
			    from them, two for the largest stage; those that wait to be added here,
			    one */
	int64_t ring;    /* the sum of gradients that goes round among replicas on several ranks */
	int64_t versions; /* older versions of the parameters, at most, in a stream */
	int64_t passing;  /* stashes, activations and gradients: the most at once on the timeline */
	int64_t all;      /* together */
};

/* All but what passes, of footprint[n_ranks], for which the jobs are enough. rank_of says which
 * rank has which worker (traffic.h); NULL: each worker counts as a rank of its own, as --memory
 * does. prefetch is the pipeline's. */
int orr_footprint_keep(struct orr_footprint *footprint, const struct orr_jobs *jobs,
		       const int *rank_of, int n_ranks, struct orr_error *err);

/* All of it. */
int orr_footprint_predict(struct orr_footprint *footprint, const struct orr_timeline *t,
			  const int *rank_of, int n_ranks, struct orr_error *err);

ORR_END
#endif
