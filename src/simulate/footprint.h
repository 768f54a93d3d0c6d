#pragma once
/* Peak memory of a rank, or of a single worker, predicted from the jobs and a timeline: what it
 * owns, what it holds of others at a time, and what lives as long as a microbatch. Not included:
 * the data set, scratch, and the memory of libraries. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_timeline;

/* Bytes, of one rank. */
struct orr_footprint {
	int64_t owned;   /* parameters, their gradients and optimizer's state (parameter_cost.h) */
	int64_t state;   /* of that, the optimizer's state */
	int64_t rounded; /* BF16 copies of parameters, one per worker that computes with them */
	int64_t fetched; /* parameters of other owners, for `prefetch` jobs and one more a worker */
	int64_t partial; /* weight gradients for other ranks, of as many jobs; two incoming ones of
			    the largest stage; one that waits to be added */
	int64_t ring;    /* running sums of the all-reduce among replicas on several ranks */
	int64_t versions; /* peak of older versions of the parameters, without a flush */
	int64_t passing;  /* peak of stashes, activations and gradients on the timeline */
	int64_t all;      /* together */
};

/* Fill footprint[n_ranks] but for `passing`; needs no timeline. rank_of: the rank of each worker
 * (orrery/figures.h); NULL: every worker is a rank of its own, as memory limits count. prefetch is
 * the pipeline's. */
int orr_footprint_keep(struct orr_footprint *footprint, const struct orr_jobs *jobs,
		       const int *rank_of, int n_ranks, struct orr_error *err);

/* Fill all of it. */
int orr_footprint_predict(struct orr_footprint *footprint, const struct orr_timeline *t,
			  const int *rank_of, int n_ranks, struct orr_error *err);

ORR_END
