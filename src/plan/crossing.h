#pragma once
/* What operators send to each other. Private to the planner. */
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_graph;
struct orr_sent; /* pipeline/charge.h: there, and back; per microbatch */

/* What each of n operators makes is read by readers[first[i]] to readers[first[i + 1] - 1], in
 * ascending order, one of them more than once where it reads it more than once. */
struct orr_sent_list {
	int *first, *readers;
	struct orr_sent *sent;
	struct orr_arrays all; /* owned: these */
};

/* number: of each of g's operators, or -1: left out. */
int orr_sent_list_init(struct orr_sent_list *x, const struct orr_graph *g, const int *number, int n,
		       int64_t samples, struct orr_error *err);
