#ifndef ORR_PLACE_H
#define ORR_PLACE_H
/* Private to the search. */
#include "orrery/error.h"
#include "orrery/pipeline.h"

/* Stages shared out evenly, wherever they are in the graph: fills worker[n_stages]. */
int orr_place_evenly(int *worker, const struct orr_pipeline *p, struct orr_error *err);
#endif
