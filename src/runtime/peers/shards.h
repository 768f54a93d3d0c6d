#ifndef ORR_SHARDS_H
#define ORR_SHARDS_H
/* Parameters whose owners, all on this rank, have each updated a part: every other owner copies it.
 * Between ranks the ring does this (ring.h), among devices NCCL (reduce.h). */
#include "reduce.h"
#include "ring.h"

struct orr_shards {
	struct orr_slots *slots;
	struct orr_task **tasks; /* [window * n_updates * n_owned], for every owner of the stage;
				    NULL: the owner copies nothing */
};

/* Of the stages that reduce and ring leave. */
int orr_shards_init(struct orr_shards *shards, struct orr_slots *slots,
		    const struct orr_reduce *reduce, const struct orr_ring *ring,
		    struct orr_error *err);
void orr_shards_fini(struct orr_shards *shards);

/* After update q of the owners of s. */
int orr_shards_gather(struct orr_shards *shards, const struct orr_slot *slot, int s, int q,
		      struct orr_error *err);
#endif
