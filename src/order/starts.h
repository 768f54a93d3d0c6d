#pragma once
/* Orders to start a search from on any placement, of which the schedules know a few. Private
 * to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"
#include "timed.h"

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

/* The next two: on timed's workers, within its limits. */

/* Orders in which no microbatch waits on its way: each comes as soon as all its Fs and Bs fit
 * between those of the microbatches before it, and its stashes into memory. Ws fill the gaps. In
 * little memory that makes, on equal stages, a grid of slots of F + B in which the microbatches
 * pass each other (rigid.c). */
int orr_rigid_visit(struct orr_starts *starts, const struct orr_timed *timed,
		    struct orr_error *err);
/* Orders that repeat a period of one microbatch in which the busiest worker never waits, where jobs
 * hold several workers at once: modulo scheduling with eviction, as compilers do it for loops
 * (packed.c). */
int orr_packed_visit(struct orr_starts *starts, const struct orr_timed *timed,
		     struct orr_error *err);
