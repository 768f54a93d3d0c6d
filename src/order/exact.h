#ifndef ORR_EXACT_H
#define ORR_EXACT_H
/* Private to the search. */
#include <stdint.h>
#include "orrery/error.h"
#include "timed.h"

/* How long the order n of timed's jobs takes in the simulator, where transfers share links. */
int orr_timed_simulate(const struct orr_timed *timed, int64_t *n, int64_t *makespan_ns,
		       struct orr_error *err);
#endif
