#pragma once
/* Divergence: losses and gradients that are not finite; and the step after which all ranks stop.
 * All of this is collective, and all ranks get the same result. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "runtime/tasks/slots.h"

/* How far training has come. */
struct orr_trained {
	int64_t n_steps;     /* since the start of training */
	int64_t n_skipped;   /* of them, since orr_run_create */
	int n_skipped_last;  /* the last of them in a row */
	int64_t last_end_ns; /* of the step before, or the start of orr_run_train */
	atomic_bool stop;    /* this rank is asked to end */
	bool ends;           /* all agree that no further step begins */
	int failed;          /* code of the first failure */
	bool drained;        /* after a failure: nothing is left in StarPU */
};

/* The slot's step has ended, here; first_step is the number of its first step, from 0.
 * ORR_E_DIVERGED where its first loss or gradient that is not finite ends training. Sets
 * trained->ends. */
int orr_finite_check(const struct orr_slots *slots, const struct orr_slot *slot, int64_t first_step,
		     struct orr_trained *trained, struct orr_error *err);
/* Before any update of the slot's step: is all of it finite, on every rank? */
int orr_finite_judge(const struct orr_slots *slots, const struct orr_slot *slot, bool *finite,
		     struct orr_error *err);
