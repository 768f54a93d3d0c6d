#ifndef ORR_FINITE_H
#define ORR_FINITE_H
/* Divergence: losses and gradients that are not finite; and the step after which all ranks stop.
 * All of this is collective, and all ranks get the same result. */
#include "runtime/tasks/slots.h"
#include "trained.h"

/* The slot's step has ended, here; first_step is the number of its first step, from 0.
 * ORR_E_DIVERGED where its first loss or gradient that is not finite ends training. Sets
 * trained->ends. */
int orr_finite_check(const struct orr_slots *slots, const struct orr_slot *slot, int64_t first_step,
		     struct orr_trained *trained, struct orr_error *err);
/* Before any update of the slot's step: is all of it finite, on every rank? */
int orr_finite_judge(const struct orr_slots *slots, const struct orr_slot *slot, bool *finite,
		     struct orr_error *err);
#endif
