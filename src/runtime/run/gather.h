#ifndef ORR_GATHER_H
#define ORR_GATHER_H
/* The end of a step: its times and metrics, on rank 0 those of all ranks. */
#include "runtime/tasks/slots.h"

struct orr_gather {
	struct orr_slots *slots; /* borrowed */
	int64_t clock_ns;        /* to add to StarPU's clock here for one that all ranks share */
	size_t *report_bytes;    /* [n_ranks] */
	void *report;            /* of this rank, for rank 0; on rank 0, of one rank */
	struct orr_timeline *timeline; /* of the last whole step that has ended */
	bool has_timeline;
};

/* Collective. */
int orr_gather_init(struct orr_gather *gather, struct orr_slots *slots, struct orr_error *err);
void orr_gather_fini(struct orr_gather *gather);

/* Wait until the slot's step has ended, and take its times and metrics. whole: all of its jobs ran,
 * so that its timeline becomes the last one. */
int orr_gather_end(struct orr_gather *gather, struct orr_slot *slot, bool whole,
		   struct orr_error *err);
#endif
