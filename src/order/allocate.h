#pragma once
/* Which layers of a chain on which worker, so that the busiest worker does as little as can be,
 * each within its memory [Beaumont21, section 6]: in one piece per worker, or in any way. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/machine.h"

struct orr_layers {
	int n;
	const int64_t *work_ns;            /* [n] F + B of a microbatch */
	const int64_t *bytes;              /* [n] NULL: nothing */
	const struct orr_machine *machine; /* (optional) whose workers may differ in speed and
					      memory */
};

struct orr_allocation {
	int64_t period_ns; /* -1: nothing fits */
	int64_t bound_ns;  /* no allocation is below */
	bool proven;       /* the best there is */
};

/* The best pieces, exact: of workers that differ, for pieces in the order of the workers.
 * worker_of [n] may be NULL. memory_bytes 0: no limit; of a machine with workers that differ, they
 * have limits of their own. */
int orr_allocate_contiguous(struct orr_allocation *out, int *worker_of,
			    const struct orr_layers *layers, int n_workers, int64_t memory_bytes,
			    struct orr_error *err);

/* Any allocation: the heaviest layers first, each to the least busy worker that has room; then
 * branch and bound, of the heavy ones and then of all, within a number of steps. What ends before
 * that is proven. Never worse than the pieces. */
int orr_allocate_any(struct orr_allocation *out, int *worker_of, const struct orr_layers *layers,
		     int n_workers, int64_t memory_bytes, int64_t most_steps,
		     struct orr_error *err);
