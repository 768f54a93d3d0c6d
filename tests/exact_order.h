#pragma once
/* The shortest order of a small step, by branch and bound over all of them. It reads a pipeline's
 * costs and shares nothing with the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/pipeline.h"

#define EXACT_JOBS 60
#define EXACT_STAGES 8

struct exact_order {
	const struct orr_pipeline *p;
	const int *worker;             /* [n_stages] */
	int64_t stashes[EXACT_STAGES]; /* of each worker, at most */
	int64_t bytes[EXACT_STAGES];   /* the same */
	int64_t most_nodes;            /* then it gives up */
	int64_t n_nodes;
	int64_t makespan, span; /* at first, none as long as this is looked for */
	bool seeks_span;        /* else the makespan */
};

/* Lowers makespan, or span, to that of the shortest order where it is lower; false: it gave up. */
bool exact_order_find(struct exact_order *x);
