#pragma once
/* Search for the shortest strict order in a given memory, with one owner per stage and a split
 * backward, with a lower bound. It starts from every schedule of a list that fits, with several
 * values of its parameters, so it is never longer than the best of those, counted with a split
 * backward: a backward in one piece becomes B with W right after it, which adds the overhead of a
 * job, and sends the gradient before W. Times are the simulator's, with the machine's latency_ns
 * and bandwidth_bytes_per_s; during the search, transfers do not queue. More effort never finds a
 * longer order. Every stage takes the microbatches in the order of their numbers, unless `reorder`.
 */
#include <stdbool.h>
#include <stdint.h>
#include "orrery.h"
#include "pipeline.h"
#include "schedule.h"

ORR_BEGIN

enum orr_placement {
	ORR_PLACEMENT_ANY,      /* the best of the next three, and of those that `related` adds */
	ORR_PLACEMENT_STRAIGHT, /* s mod P */
	ORR_PLACEMENT_FOLD,     /* the V, down and up again, repeated for more stages */
	ORR_PLACEMENT_PLAN,     /* minimizes the work of the busiest worker [Beaumont21] */
	ORR_PLACEMENT_GIVEN     /* worker[] */
};

enum orr_objective {
	ORR_OBJECTIVE_MAKESPAN,
	ORR_OBJECTIVE_SPAN /* the longest time from a worker's first start to its last end: the
			      duration of a step if each worker begins the next one at once */
};

struct orr_timeline;

struct orr_search_options {
	/* (optional) to start from, NULL at the end: orr_schedules */
	const struct orr_schedule *const *schedules;
	int64_t stashes;      /* most stage stashes on a worker; 0: no limit */
	int64_t stash_bytes;  /* most bytes of stash on a worker; 0: no limit */
	int64_t memory_bytes; /* of a worker, for stashes, parameters, gradients and optimizer
				 state; 0: no limit */
	enum orr_objective objective;
	enum orr_placement placement;
	const int *worker;         /* ORR_PLACEMENT_GIVEN: [n_stages] */
	const int64_t *room_bytes; /* (optional) [n_workers] each worker's limit of stash bytes */
	const struct orr_timeline *from; /* (optional) another order to start from */
	int64_t effort; /* million jobs that the local search times on each placement, in whole
			   steps; eight times as many in orders that repeat; with seconds: no limit
			 */
	int related; /* levels of easier searches to start from; 0: none. Each level searches, with
			an effort of 8, a step in which neighbouring stages are merged (on the
			uneven fold), and one with memory for one more stash; the latter is tried
			in addition, so the result is never longer */
	int64_t seconds; /* stop after this time; 0: the effort decides, and every run finds the
			    same */
	int64_t seed;
	bool reorder; /* also try other orders of microbatches that differ, after the best order
			 without, so the result is never longer */
	const struct orr_pipeline *parked; /* (optional) the same pipeline, where the stashes of
					      some stages are parked; p has all of them stay */
	const struct orr_pipeline *parts;  /* (optional) those that the stages of p were split into:
					      orders are compared by the steps of these, in which
					      workers compute beside exchanges */
	struct orr_observer observer;      /* (optional) with seconds, also called in between */
};

struct orr_search_result {
	/* makespans, or spans where these are the objective */
	int64_t start_ns;    /* of the best schedule of the list that fits; 0: none fits */
	int64_t makespan_ns; /* found */
	int64_t bound_ns;    /* no order on these workers in this memory is shorter; of parked
				stashes, in any */
	int64_t anywhere_ns; /* the least of those on all placements, after a refusal too */
	/* after a refusal: the least excess over the memory, in stashes or bytes, of any order
	 * found; 0: another reason */
	int64_t missing;
};

/* Fill worker[n_stages] and n of every job, numbered as in orr_placed with 3 passes; NULL: not
 * asked for. Refuses memory in which no order fits, or none was found; the message says which. */
int orr_search(int *worker, int64_t *n, struct orr_search_result *result,
	       const struct orr_pipeline *p, const struct orr_search_options *options,
	       struct orr_error *err);

ORR_END
