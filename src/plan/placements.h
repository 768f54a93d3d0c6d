#pragma once
/* Stages on any workers: the placement whose shortest order is shortest. Private to the planner. */
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"

struct orr_places {
	const struct orr_pipeline *p; /* its step is set; one owner a stage */
	int64_t memory_bytes;         /* of a worker, for everything; 0: no limit */
	int64_t known_ns; /* a step that is known: look for a shorter one alone; 0: none is */
	const int *from;  /* (optional) [n_stages] a placement to start from */
	int64_t seed;     /* from 1 on: another one looks elsewhere */
};

struct orr_places_found {
	int64_t makespan_ns; /* 0: nothing fits, or nothing is shorter than what is known */
	int64_t bound_ns;    /* no order on any placement of these stages is shorter */
	int n_tried;         /* placements */
	bool all;            /* every one of them: tried, or shown to be no shorter */
};

/* Fill worker[n_stages] and n of every job, numbered as in orr_placed with 3 passes. Small problems
 * have all placements tried, others are searched from several of them by moving and swapping
 * stages; those that look best are searched for longer. */
int orr_places_search(int *worker, int64_t *n, struct orr_places_found *found,
		      const struct orr_places *places, struct orr_error *err);
