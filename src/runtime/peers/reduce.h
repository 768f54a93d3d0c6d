#pragma once
/* (sum.h's) All-reduce of gradients by NCCL, in place, of stages whose owners are on several CUDA
 * devices; or, where each of them updates a part of the parameters, the sum of its part, and all
 * parameters afterwards. */
#include "cross.h"
#include "runtime/tasks/slots.h"

/* An owner's part in it. */
struct orr_member {
	bool joins; /* its stage takes part */
	/* the owner whose gradient becomes the sum: the first of the stage on its device, which
	 * joins for the others there */
	int speaker;
	struct orr_nccl *group;
	int number;                        /* of its device, in the group */
	starpu_data_handle_t chain, ready; /* NULL: not, or not here */
	starpu_data_handle_t gate;         /* at the stage's first owner */
};

struct orr_reduce {
	struct orr_slots *slots; /* borrowed, as the next two; its groups are made here */
	const struct orr_cross *cross;
	const struct orr_policy *policy;
	starpu_data_handle_t *chain; /* [n_workers] at the first worker of a device */
	struct orr_member *members;  /* [n_owned] */
	/* Nothing else may run while members wait for one another, since tasks take or free memory
	 * of a device: in the first steps, or, where this is set, in all of them. */
	bool holds;
	int64_t alone_until; /* steps or rounds */
	int n_alone;         /* so many of each slot */
};

/* policy NULL: StarPU places tasks as it likes, and no stage takes part. alone (tests): a stage
 * with one owner does, and cores count as devices. Collective. */
void orr_reduce_init(struct orr_reduce *reduce, struct orr_slots *slots,
		     const struct orr_cross *cross, const struct orr_policy *policy, bool alone);

/* The gradients of the owners of s, for update q, with those of them that are here; after what has
 * been submitted of them. part: each gets the sum of its part alone. gathers: the parameters after
 * the update, each of its part: all get all of them. */
void orr_reduce_submit(struct orr_reduce *reduce, struct orr_slot *slot, int s, int q, bool part,
		       bool gathers);

/* The next steps are like the first ones: memory was given away. */
void orr_reduce_starts_anew(struct orr_reduce *reduce);

/* The run gives up: end what waits for members that will not come. */
void orr_reduce_abort(struct orr_reduce *reduce);
