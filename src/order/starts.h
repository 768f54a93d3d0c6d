#ifndef ORR_STARTS_H
#define ORR_STARTS_H
/* Orders to start a search from on any placement, of which the schedules know a few. Private
 * to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/error.h"
#include "orrery/pipeline.h"

struct orr_starts {
	const struct orr_pipeline *p;
	const int *worker; /* [n_stages] */
	int64_t stashes;   /* stage stashes that a worker may hold, about */
	int64_t *n;        /* [n_jobs] room to write an order into, as with a split backward */
	bool (*wanted)(void *user);           /* can another order still be of use? */
	int (*visit)(void *user, bool *fits); /* an order is in n; *fits: the memory */
	void *user;
};

/* Microbatch after microbatch, each in the order of `smallest` (see smallest.h). */
int orr_starts_one_by_one(struct orr_starts *starts, const int64_t *smallest, bool *fits);
/* All forwards, then all backwards: stage after stage that gathers a minibatch what comes before
 * it, and back. */
int orr_starts_waves(struct orr_starts *starts, bool *fits);
/* All others. */
int orr_starts_visit(struct orr_starts *starts, struct orr_error *err);
#endif
