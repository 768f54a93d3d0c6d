#pragma once
/* What no order of a placement can beat: lower bounds on the makespan under a limit of memory, or
 * on the span where that is sought: then nothing counts that is before a worker's first job or
 * after its last one. */
#include <stdint.h>
#include "orrery/orrery.h"
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
	int64_t meet_ns;   /* microbatches that follow each other in the memory of a stage, with
			    * what they wait as they pass others
			    */
	int64_t largest_ns; /* the proof */
};

/* Of every order of timed's jobs on their workers, with or without a split backward, in its limit
 * (its order is not read). Makespans count from the first start to the last end. Of a
 * transfer between two workers the latency counts alone. */
int orr_bounds_find(struct orr_bounds *out, const struct orr_timed *timed, struct orr_error *err);

/* Stages that follow each other, with what their jobs and the transfers into them take, and the
 * microbatches that take this way. */
struct orr_way {
	int n;
	int64_t *forward_ns, *backward_ns, *down_ns, *up_ns; /* [n] */
	int64_t weight_ns;                                   /* of the first */
	int n_microbatches;
	int64_t n_at_once; /* that the first may hold */
	/* [n_microbatches + 1] sums over those before: what is at least before F of the first stage
	 * starts; after its B ends; and after its F starts */
	int64_t *start_ns, *left_ns, *rest_ns;
	int64_t far_start_ns; /* before the first F of the last stage starts */
	int64_t *far_left_ns; /* [n_microbatches] after its B starts */
};

/* Part of it: meet_ns of a way. */
int64_t orr_bounds_meet(const struct orr_way *way);

/* Part of it: room_ns of worker w, if larger than *bound, by the shortest durations, heads and
 * tails of all jobs. on: jobs of every worker, those of w from timed->jobs.first[w] on. */
int orr_bounds_room(int64_t *bound, const struct orr_timed *timed, int w, const int *on,
		    const int64_t *duration, const int64_t *head, const int64_t *tail,
		    struct orr_error *err);
