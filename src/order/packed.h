#ifndef ORR_PACKED_H
#define ORR_PACKED_H
/* Orders that repeat a period of one microbatch in which the busiest worker never waits, where jobs
 * hold several workers at once: modulo scheduling with eviction, as compilers do it for loops.
 * Private to the search. */
#include "orrery/error.h"
#include "starts.h"
#include "timed.h"

/* Visits those that are found within the limits of timed, which is on starts->worker. */
int orr_packed_visit(struct orr_starts *starts, const struct orr_timed *timed,
		     struct orr_error *err);
#endif
