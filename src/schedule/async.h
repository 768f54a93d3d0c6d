#pragma once
/* The order of an asynchronous schedule: rounds of B microbatches one after the other without a
 * flush, as PipeDream runs them [Narayanan19]. It is a modulo schedule: the same jobs in the same
 * order over and over, one period apart, and a round begins before the previous one has ended.
 *
 * The schedule's functions are then defined for every b >= 0: microbatch b + B is microbatch b of
 * the next round, on the same workers, with n larger by the period. And n orders the jobs of all
 * workers, not of each alone: a job has a larger n than all that it waits for. So a single worker
 * could run everything in the order of n, and "the latest parameters" are those of the updates that
 * come before in that order, whatever the timing. */
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_schedule;

/* Wave k has every job once, in the order of n: job j of round k - lag[j]. Rounds below 0 do not
 * exist: that is the start-up. After R rounds, waves R to R + n_waves - 2 drain the pipeline: they
 * have the remaining jobs of rounds below R. Counted from the start of training, microbatch b is
 * number b mod B of round b / B. */
struct orr_async {
	int64_t period; /* n of a job of the next round, minus n of this one */
	int n_waves;    /* over which the jobs of a round are spread: 1 + the largest lag */
	int *order;     /* [orr_jobs_count(jobs)] the jobs of a wave */
	int *lag;       /* [n_jobs] */
	struct orr_arrays all;
};

/* Refuses, naming the jobs, a schedule whose n contradicts a dependency or is not periodic, or in
 * which a microbatch overtakes another: b + 1 comes after b in every pass of a stage. jobs is
 * evaluated except for its async and versions. */
int orr_async_create(struct orr_async **out, const struct orr_jobs *jobs,
		     const struct orr_schedule *schedule, struct orr_error *err);
void orr_async_destroy(struct orr_async *async); /* NULL is fine */

/* The microbatches whose pass d of stage s comes before n are those below the result, as if rounds
 * had no beginning (negative: of rounds before the first one). */
int64_t orr_async_before(const struct orr_jobs *jobs, int s, enum orr_pass d, int64_t n);

ORR_END
