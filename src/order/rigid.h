#ifndef ORR_RIGID_H
#define ORR_RIGID_H
/* Orders in which no microbatch waits on its way: each comes as soon as all its Fs and Bs fit
 * between those of the microbatches before it, and its stashes into memory. Ws fill the gaps. In
 * little memory that makes, on equal stages, a grid of slots of F + B in which the microbatches
 * pass each other. Private to the search. */
#include "starts.h"
#include "timed.h"

/* Visit them: any placement, any durations. timed: the jobs, with their limits. */
int orr_rigid_visit(struct orr_starts *starts, const struct orr_timed *timed,
		    struct orr_error *err);
#endif
