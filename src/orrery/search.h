#ifndef ORR_SEARCH_H
#define ORR_SEARCH_H
/* The shortest strict order that can be found in a given memory, with one owner a stage and a split
 * backward, and a proof of how far from the best it can be. It starts from every schedule of a list
 * that fits, with the values of its parameters (see seeds.h), so it is never longer than the best
 * of those. Of these jobs, that is: a backward that is not split is a split one whose W follows at
 * once, which takes the overhead of one job more, and on links its gradient leaves before W. Times
 * are the simulator's with the machine's latency_ns and bandwidth_bytes_per_s; while it looks
 * around, transfers do not wait for each other. More effort never finds a longer order. Every
 * stage takes the microbatches in the order of their numbers, unless they differ and it is asked
 * for another one. */
#include <stdbool.h>
#include <stdint.h>
#include "error.h"
#include "pipeline.h"
#include "schedule.h"

ORR_BEGIN

enum orr_placement {
	ORR_PLACEMENT_ANY, /* try the next three, and what `related` adds, and take the one with
			      the shortest order */
	ORR_PLACEMENT_STRAIGHT, /* s mod P */
	ORR_PLACEMENT_FOLD,     /* the V, down and up again, for as many stages as there are */
	ORR_PLACEMENT_PLAN,     /* minimizes the work of the busiest worker [Beaumont21] */
	ORR_PLACEMENT_GIVEN     /* worker[] */
};

enum orr_objective {
	ORR_OBJECTIVE_MAKESPAN,
	ORR_OBJECTIVE_SPAN /* the longest time from a worker's first start to its last end: what a
			      step takes where each worker goes on with the next one at once */
};

struct orr_timeline;

struct orr_search_options {
	/* (optional) to start from, NULL at the end: orr_schedules, see schedules.h */
	const struct orr_schedule *const *schedules;
	int64_t stashes;      /* stage stashes that a worker may hold; 0: no limit */
	int64_t stash_bytes;  /* bytes of stash that a worker may hold; 0: no limit */
	int64_t memory_bytes; /* of a worker, for everything; parameters, gradients and optimizer
				 state leave the rest to stashes; 0: no limit */
	enum orr_objective objective;
	enum orr_placement placement;
	const int *worker;         /* ORR_PLACEMENT_GIVEN: [n_stages] */
	const int64_t *room_bytes; /* (optional) [n_workers] what each may hold of stash_bytes */
	const struct orr_timeline *from; /* (optional) an order to start from as well */
	int64_t effort; /* million jobs timed by the local search on each placement, of whole
			   steps: of orders that repeat eight times as many; with seconds: no limit
			 */
	int related; /* 1: start from what searches of like steps find as well, each with an effort
			of 8: with neighbours as one stage, on folds of more stages a worker on one
			way than on the other; and, beside the rest, so never longer, with memory
			for a stash more; so many times over; 0: no */
	int64_t seconds; /* stop after this time; 0: the effort alone decides, and every run finds
			    the same */
	int64_t seed;
	bool reorder; /* microbatches that differ may change places too; first the order is found in
			 which they do not, so that this is never longer */
	struct orr_observer observer; /* (optional) told with seconds now and then as well */
};

struct orr_search_result {
	/* makespans, or spans where these are the objective */
	int64_t start_ns;    /* of the best schedule of the list that fits; 0: none fits */
	int64_t makespan_ns; /* found */
	int64_t bound_ns; /* no order on these workers in this memory is shorter; on others one may
			     be */
	/* where it refuses: the stashes or bytes that the order which lacks least of the limit
	 * lacks; 0: that is not why */
	int64_t missing;
};

/* Fill worker[n_stages] and n of every job, numbered as in orr_placed with 3 passes.
 * Refuses memory in which no order fits, or none was found: the message says which. */
int orr_search(int *worker, int64_t *n, struct orr_search_result *result,
	       const struct orr_pipeline *p, const struct orr_search_options *options,
	       struct orr_error *err);

ORR_END
#endif
