#pragma once
/* Periodic patterns on a chain of stages, one worker each [Beaumont21]: what a stage does to one
 * microbatch starts at an offset, and every T again. A transfer over a link of half duplex is one
 * more stage, of a worker of its own that stands for the link: 2P - 1 in all. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_pipeline;

/* 1F1B* for a period (algorithm 1): of all 1-periodic patterns with this period, it holds the
 * fewest microbatches on every stage (theorem 3). */
struct orr_star {
	int64_t period_ns;
	int *in_flight; /* [n_stages] microbatches that the stage holds: the number of its group */
	int64_t *forward_ns, *backward_ns; /* [n_stages] offsets of the first microbatch */
	struct orr_arrays all;             /* these; free them */
};

/* period_ns 0: the smallest, which is the longest stage's F + B. Refuses less, and what is no
 * chain. */
int orr_star_init(struct orr_star *x, const struct orr_pipeline *p, int64_t period_ns,
		  struct orr_error *err);

/* A period at which some stage holds fewer microbatches than with any smaller one. */
struct orr_star_point {
	int64_t period_ns;
	int64_t stash_bytes; /* of the worker that holds most */
	int in_flight;       /* of the first stage */
};
bool orr_star_serves(const struct orr_pipeline *p); /* is it a chain? */
/* Every such period, ascending, the smallest possible first. *points is the caller's to free. */
int orr_star_points(struct orr_star_point **points, int *n, const struct orr_pipeline *p,
		    struct orr_error *err);

ORR_END
