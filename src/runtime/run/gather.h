#pragma once
/* The end of a step: its times and metrics, on rank 0 those of all ranks. */
#include "runtime/tasks/slots.h"

struct orr_gather {
	struct orr_slots *slots; /* borrowed */
	int64_t clock_ns;        /* to add to StarPU's clock here for one that all ranks share */
	double *numbers;         /* [n_numbers] of a step, with several ranks */
	int n_numbers;
	struct orr_timeline *timeline; /* owned by the run; of the last whole step that has ended */
	bool has_timeline;
};

/* Collective. */
void orr_gather_init(struct orr_gather *gather, struct orr_slots *slots);

/* Wait until the slot's step has ended, and take its times and metrics. whole: all of its jobs ran,
 * so that its timeline becomes the last one. */
int orr_gather_end(struct orr_gather *gather, struct orr_slot *slot, bool whole,
		   struct orr_error *err);
