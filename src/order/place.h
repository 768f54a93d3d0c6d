#ifndef ORR_PLACE_H
#define ORR_PLACE_H
/* Private to the search: on which workers stages are, and the room that this leaves there. */
#include "orrery/error.h"
#include "orrery/pipeline.h"
#include "orrery/search.h"
#include "timed.h"

/* Fills worker[n_stages] by any placement but ORR_PLACEMENT_ANY. */
int orr_place(int *worker, const struct orr_pipeline *p, const struct orr_search_options *options,
	      enum orr_placement placement, struct orr_error *err);

/* Sets what orders on t may hold of each worker: limit, and what parameters leave of its memory. */
void orr_place_limit(struct orr_timed *t, const int *worker,
		     const struct orr_search_options *options, struct orr_load limit);
#endif
