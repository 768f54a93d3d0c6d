#pragma once
/* Orders of steps that are like the one at hand and easier to search: with memory for a stash more,
 * and with neighbours on one worker as one stage. They are what a search goes on from. Private to
 * the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/search.h"

struct orr_related {
	const struct orr_pipeline *p;
	const struct orr_search_options *options; /* of the search at hand */
	int (*search)(int *worker, int64_t *n, struct orr_search_result *result,
		      const struct orr_pipeline *p, const struct orr_search_options *options,
		      struct orr_error *err); /* orr_search() */
	const int *worker;                    /* [n_stages] */
	int64_t *n;                           /* [n_jobs] room for an order, which need not fit */
};

/* The order that a search finds in memory for a stash more. found: there is one. */
int orr_related_relaxed(const struct orr_related *related, bool *found, struct orr_error *err);
/* Stages that are plain enough for the next. */
bool orr_related_can_fuse(const struct orr_pipeline *p);
/* The order that a search finds where stages of a block, neighbours on one worker, are one:
 * block[n_stages] ascends by 1 from 0. */
int orr_related_fused(const struct orr_related *related, const int *block, bool *found,
		      struct orr_error *err);
