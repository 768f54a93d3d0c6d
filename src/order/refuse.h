#ifndef ORR_REFUSE_H
#define ORR_REFUSE_H
/* Why the search has found no order. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/error.h"
#include "orrery/pipeline.h"

struct orr_refusal {
	const struct orr_pipeline *p;
	bool any;                                   /* placement was allowed */
	int64_t stashes, stash_bytes, memory_bytes; /* limits, as they were given */
	int64_t excess;                             /* the least of all placements */
	bool exact;                                 /* and none has less */
};

int orr_search_refuse(const struct orr_refusal *o, struct orr_error *err);
#endif
