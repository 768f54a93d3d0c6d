#pragma once
/* (sum.h's) All-reduce of gradients between ranks, round a ring of the stage's owners; or, where
 * each of them updates a part of the parameters, the sums of the parts, and the parameters
 * afterwards. */
#include "cross.h"
#include "runtime/tasks/slots.h"

struct orr_ring {
	struct orr_slots *slots; /* borrowed, as cross */
	const struct orr_cross *cross;
	starpu_data_handle_t **chunks; /* [n_owned][owners of the stage] of the gradient's sum;
					  NULL unless it has joined and is here */
};

void orr_ring_init(struct orr_ring *ring, struct orr_slots *slots, const struct orr_cross *cross);

/* The owners of s, on several ranks, add up their gradients so. */
void orr_ring_join(struct orr_ring *ring, int s);

/* All-reduce the gradients of the owners of s that are here with the others, for update q; part:
 * each owner gets the sum of its part alone. */
void orr_ring_submit(struct orr_ring *ring, struct orr_slot *slot, int s, int q, bool part);
/* After update q of them, each of its part: all get all parameters. */
void orr_ring_gather(struct orr_ring *ring, struct orr_slot *slot, int s, int q);
