#pragma once
/* Orders of steps that are like the one at hand and easier to search: with memory for a stash more,
 * and with neighbours on one worker as one stage. They are what a search goes on from. Private to
 * the search. */
#include <stdbool.h>
#include <stdint.h>
#include "searcher.h"

/* The order of x's jobs that a search finds in memory for a stash more: it need not fit. found:
 * there is one. */
int orr_related_relaxed(const struct orr_searched *x, int64_t *n, bool *found);
/* The order that a search finds where stages of a block of x, neighbours on one worker, are one. */
int orr_related_fused(const struct orr_searched *x, int64_t *n, bool *found);
