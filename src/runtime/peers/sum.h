#pragma once
/* The sum of the gradients of a stage's owners, and of the operators that share parameters: the way
 * is chosen for each stage when the run is made. Of owners on one rank the update adds up the
 * gradients itself; between ranks they go round a ring; among CUDA devices NCCL adds them up. All
 * but NCCL add in the same order, so that the bits do not depend on the way. */
#include "reduce.h"
#include "ring.h"
#include "ties.h"

enum orr_sum_way { ORR_SUM_IN_UPDATE, ORR_SUM_RING, ORR_SUM_NCCL };

struct orr_sum {
	struct orr_slots *slots; /* borrowed */
	bool whole;              /* all owners get all of it, also those that update a part */
	enum orr_sum_way *ways;  /* [n_stages] */
	struct orr_reduce reduce;
	struct orr_ring ring;
	struct orr_ties ties;
};

/* policy and alone as in orr_reduce_init. Collective. */
void orr_sum_init(struct orr_sum *sum, struct orr_slots *slots, const struct orr_cross *cross,
		  const struct orr_policy *policy, bool whole, bool alone);

/* Does the sum of stage s wait for the gradients of the whole step? Sums by NCCL come in one order
 * on all ranks, whichever job is a rank's last; and operators that share parameters may be in
 * several stages. */
bool orr_sum_is_late(const struct orr_sum *sum, int s);

/* All gradients of the owners of s for update q have been submitted: they become their sum. Of a
 * step's late sums those that several stages share come first (orr_ties_submit). */
void orr_sum_submit(struct orr_sum *sum, struct orr_slot *slot, int s, int q);

/* What a task of owner i reads to have the sum, and what of *arg says how it lies there; part: that
 * of its own part alone, where it is apart. The last of them drops it. */
void orr_sum_read(const struct orr_sum *sum, int i, bool part, struct orr_codelet_arg *arg);
void orr_sum_drop(const struct orr_sum *sum, int i);

/* After update q of the owners of s: where each has updated a part of the parameters, all get all
 * of them. */
void orr_sum_gather(struct orr_sum *sum, struct orr_slot *slot, int s, int q);
