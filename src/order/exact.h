#ifndef ORR_EXACT_H
#define ORR_EXACT_H
/* Private to the search. */
#include <stdint.h>
#include "orrery/error.h"
#include "timed.h"

/* How long the order n of timed's jobs takes, or spans where that is sought; it is timed: where
 * links are not free in the simulator, in which transfers share them, and that counts as so many
 * jobs timed. */
int orr_timed_simulate(struct orr_timed *timed, int64_t *n, int64_t *makespan_ns,
		       struct orr_error *err);
#endif
