#ifndef ORR_REPEATING_H
#define ORR_REPEATING_H
/* Orders that repeat, found by the local search on the lists of cyclic.h. In little memory on
 * workers of several stages no other start comes near. Private to the search. */
#include "local_search.h"
#include "starts.h"

/* Search orders that repeat after k microbatches, from those in the middle of local's order, and
 * visit the whole step in each one that is better. local: as for an order that does not repeat, its
 * order timed; it stays as it is. */
int orr_repeating_visit(struct orr_starts *starts, const struct orr_local_search *local, int k,
			struct orr_error *err);
#endif
