#pragma once
/* The automatic schedules of Zero Bubble Pipeline Parallelism [Qi24ZB, section 3.1]: a
 * greedy order under a limit of memory, tried with every combination of its rules; the best by
 * exact times is kept. It counts the latency of a transfer (the machine's latency_ns), and
 * bandwidth not at all.
 *
 * A microbatch enters and leaves the DAG in turn, by depth and not by number, so branches need no
 * care; stages of one worker (s mod n_workers) share its time. */
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_zero_bubble {
	int most;    /* whole stashes that a stage may hold */
	int percent; /* of a stash that W still reads; B frees the rest. The simulator keeps stashes
			whole until W ends, that is 100 */
};

/* n of every job, as lay_out of a schedule with a split backward wants it: the smallest span, then
 * the smallest makespan, then the first found. Never worse than zb-h1, nor than zb-h2 where it
 * fits. */
int orr_zero_bubble(const struct orr_pipeline *p, const struct orr_zero_bubble *limit, int64_t *n,
		    struct orr_error *err);
