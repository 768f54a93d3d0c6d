#pragma once
/* Orders to start a search from: those of a list of schedules. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/schedule.h"
#include "searcher.h"

/* Every schedule of the options that serves the pipeline with one owner a stage, as a split
 * backward, and the order that they give to start from. Where nothing waits for a link, an order
 * takes the time that the schedule takes. */
int orr_seeds_named(struct orr_searcher *o);
/* Those that lay out a whole step by its durations as if all passes took the same time; then all
 * with other values of their parameters, as long as a placement is open: every word with every
 * value of one number: all values that can make a difference where a step is small, ever fewer of
 * the larger ones where it is not. */
int orr_seeds_swept(struct orr_searcher *o);
/* n of every job of p under a schedule with its data as it is, with a split backward. *serves: it
 * serves p with one owner a stage; if not, it is no seed, and no failure. */
int orr_seeds_lay_out(int64_t *n, bool *serves, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, struct orr_error *err);
