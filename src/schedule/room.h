#pragma once
/* A strict order made greedy in its memory, and a greedy one made strict. */
#include <stdint.h>
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_room;

/* Make a strict order greedy, as ORR_ORDER_BOUNDED does: jobs that keep a stash wait until there is
 * room for it, so that no worker ever holds more than in strict order. Refuses one without a flush,
 * whose n says which version of the parameters a job reads, and stashes that move between workers.
 *
 * M is the most that a worker holds in its strict order: a number of stashes, and bytes. Of its
 * jobs that keep something from their start, number k of that order waits until as many of the
 * first jobs that free a stash have ended as leave no more than M, were all k jobs under way. So
 * whichever of them run in whichever order, the last in the strict order that has started bounds
 * what is held by M. The strict order satisfies all of it, and with it every dependency: no cycle.
 * So some job is ready whenever nothing runs and nothing moves, and of those that are the one of
 * least n is first on each of its workers, one or several: it starts. Nothing moves for such a
 * condition, whichever stages it joins. Durations have no part in it. */
int orr_jobs_free(struct orr_jobs *jobs, struct orr_error *err);
/* Make a greedy order strict: that in which it ran, job j from start_ns[j] on. */
int orr_jobs_fix(struct orr_jobs *jobs, const int64_t *start_ns, struct orr_error *err);

void orr_room_destroy(struct orr_room *room); /* NULL is fine */

ORR_END
