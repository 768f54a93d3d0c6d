#ifndef ORR_STEADY_H
#define ORR_STEADY_H
/* How fast a stream is that goes on for ever: simulated until it repeats itself, so the figure is
 * exact. A timeline of a stream has a start-up and a drain besides, which endless training pays
 * once. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

struct orr_timeline;

struct orr_steady {
	/* of the timeline at hand: from the first start until the input stages start their first
	 * backward; and from the end of the last forward at the input to the last end [Narayanan19,
	 * figure 4] */
	int64_t startup_ns, drain_ns;
	/* in between, endlessly: so many microbatches take so long, with the updates and rings that
	 * anything waits for; 0: no stream, or it has not
	 * repeated itself within the longest stream that was tried */
	int64_t microbatches, period_ns;
};

/* The start-up and the drain of t, a stream's, and on its machine the steady state of its rounds
 * one after the other. */
int orr_steady_find(struct orr_steady *out, const struct orr_timeline *t, struct orr_error *err);

ORR_END
#endif
