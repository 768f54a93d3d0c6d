#pragma once
/* Memory against makespan: in which memories `auto` is to be tried. Private to the comparison. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

struct orr_pipeline;

struct orr_front {
	const struct orr_pipeline *p; /* on machines that do not limit memory */
	int64_t within_ns;            /* seek the least memory for this makespan; 0: all of it */
	int64_t stashes, stash_bytes; /* no order needs more: the last limit is enough for them */
	int most;                     /* limits that are tried, at least 2 */
	/* Try a limit of stage stashes or, with bytes, of a worker's memory. *held: what the order
	 * that was found holds of it, 0: there is none. */
	int (*visit)(void *user, bool bytes, int64_t limit, int64_t *held, int64_t *makespan_ns,
		     struct orr_error *err);
	void *user;
};

/* In bytes where stages have stashes of a size, unless workers have memories of their own. The
 * first limit is the least in which auto finds an order. */
int orr_front_visit(const struct orr_front *front, struct orr_error *err);
