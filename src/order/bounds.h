#ifndef ORR_BOUNDS_H
#define ORR_BOUNDS_H
/* What no order of a placement can beat: lower bounds on the makespan under a limit of memory. */
#include <stdint.h>
#include "orrery/error.h"
#include "orrery/pipeline.h"
#include "timed.h"

struct orr_bounds {
	int64_t path_ns; /* critical path, with what memory and the order of microbatches add to it
			  */
	int64_t worker_ns; /* a worker's jobs between their heads and tails, preemption allowed */
	int64_t memory_ns; /* memory-time: the stashes' shortest lives in the memory of a worker
			    * [Rahimi25]
			    */
	int64_t room_ns;   /* a worker's jobs, and how little of it memory allows before Bs come and
			      after Fs end */
	int64_t largest_ns; /* the proof */
};

/* Of every order of trial's jobs on their workers, with or without a split backward, in trial's
 * limit (its order is not read). Makespans count from the first start to the last end. Of a
 * transfer between two workers the latency counts alone. */
int orr_bounds_find(struct orr_bounds *out, const struct orr_timed *timed, struct orr_error *err);

/* Part of it: room_ns of worker w, if larger than *bound, by the shortest durations, heads and
 * tails of all jobs. */
int orr_bounds_room(int64_t *bound, const struct orr_timed *timed, int w, const int64_t *duration,
		    const int64_t *head, const int64_t *tail, struct orr_error *err);
#endif
