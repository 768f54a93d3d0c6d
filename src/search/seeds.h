#ifndef ORR_SEEDS_H
#define ORR_SEEDS_H
/* Orders to start a search from: those of the named schedules. Private to the search. */
#include <stdint.h>
#include "error.h"
#include "pipeline.h"
#include "trial.h"

struct orr_timeline;

struct orr_seed {
	const char *name; /* borrowed */
	int *worker;      /* [n_stages] owned */
	int64_t *n;       /* owned; of every job, 3 passes */
};

struct orr_seeds {
	struct orr_seed *seeds;
	int n, room;
};

/* Every named schedule that serves p with one owner a stage, as a split backward; those that take a
 * limit of memory get it. */
int orr_seeds_gather(struct orr_seeds *seeds, const struct orr_pipeline *p, int64_t stashes,
		     struct orr_error *err);
/* One forward one backward on any placement, as jobs come, a backward first: no stage holds more than `most`
 * microbatches, nor than its depth. */
int orr_seeds_add_capped(struct orr_seeds *seeds, const struct orr_pipeline *p, const int *worker, int most,
			 struct orr_error *err);
/* Another order, if it suits: one worker a stage, which owns it. */
int orr_seeds_add(struct orr_seeds *seeds, const struct orr_timeline *timeline,
		  struct orr_error *err);
void orr_seeds_fini(struct orr_seeds *seeds);
#endif
