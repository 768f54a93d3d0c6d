#ifndef ORR_STREAM_H
#define ORR_STREAM_H
/* A stream: rounds of B microbatches one after the other without a flush, as PipeDream runs them
 * [Narayanan19]. It is a modulo schedule: the same jobs in the same order over and over, one period
 * apart, and a round begins before the one before it has ended.
 *
 * In a stream the schedule's functions are defined for every b >= 0: microbatch b + B is microbatch
 * b of the next round, on the same workers, with n larger by the period. And n orders the jobs of
 * all workers, not of each alone: what waits has the larger n. So the order of n is one in which a
 * single worker could run everything, and "the latest parameters" mean the same whatever the
 * timing: those of the updates that come before in it. */
#include <stdint.h>
#include "error.h"
#include "orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_schedule;

/* Wave k has every job once, in the order of n: job j of round k - lag[j]. Rounds below 0 do not
 * exist: that is the start-up. After R rounds, waves R to R + n_waves - 2 drain the pipeline: they
 * have what is left of rounds below R. Microbatch b of the stream is number b mod B of round b / B.
 */
struct orr_stream {
	int64_t period; /* n of a job of the next round, minus n of this one */
	int n_waves;    /* over which the jobs of a round are spread: 1 + the largest lag */
	int *order;     /* [orr_jobs_count(jobs)] the jobs of a wave */
	int *lag;       /* [n_jobs] */
};

/* Refuses, naming the jobs, a schedule whose n contradicts what waits for what, or is not periodic,
 * or in which a microbatch overtakes another: b + 1 comes after b in every pass of a stage. jobs is
 * evaluated but for its stream and its versions. */
int orr_stream_create(struct orr_stream **out, const struct orr_jobs *jobs,
		      const struct orr_schedule *schedule, struct orr_error *err);
void orr_stream_destroy(struct orr_stream *stream); /* NULL is fine */

/* Microbatches of the stream whose pass d of stage s comes before n: those of b below the result,
 * as if the stream had no beginning (below 0: of rounds before the first one). */
int64_t orr_stream_before(const struct orr_jobs *jobs, int s, enum orr_pass d, int64_t n);

ORR_END
#endif
