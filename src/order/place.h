#pragma once
/* Private to the search: on which workers stages are, and the room that this leaves there. */
#include <stdbool.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"
#include "timed.h"

#define ORR_PLACE_STEPS 200000 /* of branch and bound, for one placement of several */

/* Stages shared out evenly, wherever they are in the graph: fills worker[n_stages]. most_steps: of
 * branch and bound. */
int orr_place_evenly(int *worker, const struct orr_pipeline *p, int64_t most_steps,
		     struct orr_error *err);
/* In turn, or with fold down and up again. */
void orr_place_in_turn(int *worker, const struct orr_pipeline *p, bool fold);

/* A fold with half of every worker's stages in a row on the way down, the others in a row on the
 * way up; of an odd number the larger part up. block[n_stages]: the row of each
 * stage, by number along the way. */
void orr_place_unevenly(int *worker, int *block, const struct orr_pipeline *p);

/* Sets what orders on t may hold of each worker. memory_bytes: of a worker whose machine says no
 * other, for everything, of which parameters leave the rest to stashes; 0: no limit. room_bytes:
 * (optional) [n_workers] for stashes. */
void orr_place_limit(struct orr_timed *t, const int *worker, struct orr_load limit,
		     int64_t memory_bytes, const int64_t *room_bytes);

/* Workers by other names: 0 is that of stage 0, 1 the next one that comes, and so on. Fills
 * alike[n_stages], which may be worker. Workers that differ keep their names. */
int orr_place_rename(int *alike, const int *worker, const struct orr_pipeline *p,
		     struct orr_error *err);
