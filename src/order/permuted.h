#pragma once
/* A pipeline whose microbatches have changed places: number i is the one that was order[i]. Private
 * to the search. */
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

/* Orders of microbatches to start from, by their work: small ones at both ends, where the pipeline
 * fills and drains; small ones first; large ones first. */
#define ORR_N_PERMUTATIONS 3

struct orr_permuted {
	struct orr_pipeline pipeline; /* but for its table all p's */
	int *order;                   /* [n_microbatches] owned */
};

/* Of p, which has a table of microbatches. */
int orr_permuted_init(struct orr_permuted *x, const struct orr_pipeline *p, int permutation,
		      struct orr_error *err);
void orr_permuted_fini(struct orr_permuted *x);
/* n of p's jobs, from that of the jobs of x. */
void orr_permuted_back(const struct orr_permuted *x, int64_t *to, const int64_t *from,
		       int n_passes);
