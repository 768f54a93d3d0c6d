#pragma once
/* A search: the placements that it tries, with their limits and bounds, and the best order on each
 * so far. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "local_search.h"
#include "orrery/search.h"
#include "timed.h"

/* Four, each with two twins; or, where microbatches differ and nothing is fused, three with three
 * twins each. */
#define ORR_MOST_PLACEMENTS 12

/* A placement, and the best order that was found on it. */
struct orr_searched {
	struct orr_searcher *searcher;
	int *worker;
	int *alike; /* the same, by the names of orr_place_rename() */
	int *block; /* of every stage, where neighbours are as one; NULL: none are */
	struct orr_timed *timed;
	int64_t *n; /* [n_jobs] */
	struct orr_search_result found;
	bool fits; /* some order does, or may once stashes are parked */
	struct orr_local_search local;
	const struct orr_cyclic *cyclic; /* lists that are searched at present */
	int64_t left;                    /* jobs that may still be timed */
	const struct orr_searched *twin; /* with the same workers, which came first; else
					    NULL */
	struct orr_arrays all;           /* its arrays */
};

struct orr_searcher {
	const struct orr_pipeline *p;
	const struct orr_search_options *options;
	struct orr_error *err;
	struct orr_load limit;
	struct orr_searched places[ORR_MOST_PLACEMENTS];
	int n_places, n_jobs;
	int64_t until_ns;
	int64_t *tried, *other; /* [n_jobs] orders */
	int *worker;            /* [n_stages] of a seed */
	/* stage stashes that a worker may hold, by the largest and by the smallest of them; most
	 * INT64_MAX: no limit */
	int64_t least_stashes, most_stashes;
	/* of the placements on which nothing fits */
	int64_t excess; /* the least */
	bool exact;     /* and none has less */
};

/* Can another order on x be shorter than all that were found? */
bool orr_searched_is_open(const struct orr_searched *x);
bool orr_searched_is_alike(const struct orr_searched *x, const int *alike);
/* tried[] as an order: take it if it fits and is shorter. named: it is a schedule's. */
int orr_searched_consider(struct orr_searched *x, bool named);

/* The placement with the shortest order; NULL: there is none. */
const struct orr_searched *orr_searcher_best(const struct orr_searcher *o);
/* Is this one of those to try where any placement will do? */
bool orr_searcher_tries(const struct orr_searcher *o, int placement);
/* The last of them, numbered from ORR_PLACEMENT_STRAIGHT on: the uneven fold, which has no name. */
#define ORR_PLACEMENT_LAST ((int)ORR_PLACEMENT_GIVEN + 1)
/* A placement more, unless one is there that differs in workers' names alone, or nothing fits it.
 */
int orr_searcher_add(struct orr_searcher *o, int placement);
/* The same placement, to search from somewhere else, or with microbatches that change places. */
int orr_searcher_add_twin(struct orr_searcher *o, const struct orr_searched *twin, bool reorder);
void orr_searched_fini(struct orr_searched *x);
/* Nothing fits any of them: why, and what would. */
int orr_searcher_refuse(const struct orr_searcher *o);
