#ifndef ORR_RING_H
#define ORR_RING_H
/* All-reduce of gradients between ranks, round a ring of the stage's owners; or, where each of them
 * updates a part of the parameters, the sums of the parts, and the parameters afterwards. */
#include "cross.h"
#include "reduce.h"
#include "runtime/tasks/slots.h"

struct orr_ring {
	struct orr_slots *slots; /* borrowed, as cross */
	const struct orr_cross *cross;
	bool *rings;                   /* [n_owned] it all-reduces with owners on other ranks */
	starpu_data_handle_t **chunks; /* [n_owned][owners of the stage] of the gradient's sum;
					  NULL unless it rings and is here */
	struct orr_task **tasks;       /* [window * n_updates * n_owned] several for each chunk */
};

/* Of the stages that reduce leaves, those with owners on several ranks. */
int orr_ring_init(struct orr_ring *ring, struct orr_slots *slots, const struct orr_cross *cross,
		  const struct orr_reduce *reduce, struct orr_error *err);
void orr_ring_fini(struct orr_ring *ring);

/* All-reduce the gradients of the owners of s that are here with the others, for update q; parts:
 * each owner gets the sum of its part alone. */
int orr_ring_submit(struct orr_ring *ring, const struct orr_slot *slot, int s, int q, bool parts,
		    struct orr_error *err);
/* After update q of them, each of its part: all get all parameters. */
int orr_ring_gather(struct orr_ring *ring, const struct orr_slot *slot, int s, int q,
		    struct orr_error *err);
#endif
