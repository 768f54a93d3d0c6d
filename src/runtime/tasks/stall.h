#pragma once
/* Waiting for steps in flight, and giving up: a report of which worker waits for which job. */
#include "slots.h"

/* Wait until the slot's step has ended, or, where it is NULL, until n_done tasks have. When none
 * ends for timeout_s, or a kernel fails: ORR_E_RUNTIME. */
int orr_stall_wait(const struct orr_slots *slots, const struct orr_slot *slot, int64_t n_done,
		   struct orr_error *err);

/* The same until all that has been submitted has ended, and each submission that goes on alone is
 * left. */
void orr_stall_all(const struct orr_slots *slots);

/* A large step does not lie in memory as a whole: wait while too many tasks are in flight. Those
 * that were submitted can run to their end, since the sequence extends every dependency and every
 * worker's order. */
void orr_stall_throttle(const struct orr_slots *slots);
