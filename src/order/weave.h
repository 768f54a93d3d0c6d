#ifndef ORR_WEAVE_H
#define ORR_WEAVE_H
/* Private to the building blocks: the order of every worker while it is made, and the times at
 * which jobs start if every job starts as early as its order and its predecessors allow. */
#include <stdbool.h>
#include <stdint.h>
#include "block.h"
#include "orrery/jobs.h"
#include "base/sort.h"

/* What is held on a worker, or may be: both are looked after where stages differ in size. */
struct orr_held {
	int64_t stashes, bytes;
};

/* A job adds `up` as it starts and takes `down` away as it ends; peak follows. */
static inline void orr_held_add(struct orr_held *held, struct orr_held *peak, struct orr_held up,
				struct orr_held down)
{
	held->stashes += up.stashes;
	held->bytes += up.bytes;
	if (peak->stashes < held->stashes)
		peak->stashes = held->stashes;
	if (peak->bytes < held->bytes)
		peak->bytes = held->bytes;
	held->stashes -= down.stashes;
	held->bytes -= down.bytes;
}

struct orr_weave {
	struct orr_jobs jobs; /* pipeline, n_passes, n_jobs, compute, by_worker, first; the rest is
				 unused */
	int n_kinds; /* jobs of one block: j and j + n_kinds are the same pass of the next one */
	int64_t *duration; /* [n_jobs] */
	int64_t *start;    /* [n_jobs] */
	int64_t makespan;
	int64_t span;          /* max over workers of last end - first start */
	struct orr_held *peak; /* [n_workers] of the order that was repeated; not to be exceeded */
	/* the DAG: predecessors of j are before[first_before[j]] up to [first_before[j + 1] - 1] */
	int *before, *first_before, *after, *first_after;
	int *waits, *queue; /* [n_jobs] room to work in */
	int *next;          /* likewise: a worker's jobs as a list */
	struct orr_keyed *keyed;
	bool backwards;
};

/* The jobs of block's pipeline on block's workers. Serves every block of that placement. */
int orr_weave_create(struct orr_weave **out, const struct orr_block *block, struct orr_error *err);
void orr_weave_destroy(struct orr_weave *weave); /* NULL is fine */

/* Repeat a filled block over all microbatches: the order of every worker, and its peak. */
int orr_weave_repeat(struct orr_weave *weave, const struct orr_block *block, struct orr_error *err);
/* Every worker keeps its order, every job starts as early as it can: fills start, makespan and
 * span. */
void orr_weave_squeeze(struct orr_weave *weave);
/* What worker w holds at most, by its order. */
struct orr_held orr_weave_peak(const struct orr_weave *weave, int w);
/* Warm-up and cool-down of [Qi24] appendix C, in place, on a squeezed weave. */
int orr_weave_reorder(struct orr_weave *weave, struct orr_error *err);
/* Makespan and span of the starts as they are. */
void orr_weave_measure(struct orr_weave *weave);
/* Turn time round, and back: the last job becomes the first, what waited is waited for, a stash is
 * taken when its last pass ends and left when F starts. Draining is filling then. Starts are void
 * until squeezed. */
void orr_weave_turn(struct orr_weave *weave);
/* n of every job: its place in its worker's order. */
void orr_weave_number(const struct orr_weave *weave, int64_t *n);

/* What job j adds to its worker's stash as it starts; with up false, what it takes away as it ends.
 * A stash that is recomputed is the stage's input until B starts. */
static inline struct orr_held orr_weave_held(const struct orr_weave *weave, int j, bool up)
{
	const struct orr_stage *stage =
		&weave->jobs.pipeline->stages[orr_jobs_at(&weave->jobs, j).s];
	int64_t all = stage->stash_bytes, early = all;
	int d = j % weave->jobs.n_passes;

	if (stage->recompute) {
		early = stage->input_bytes;
		all = early > all ? early : all;
	}
	if (up == weave->backwards)
		return d == weave->jobs.n_passes - 1 ? (struct orr_held){1, all}
						     : (struct orr_held){0, 0};
	return d == ORR_PASS_F   ? (struct orr_held){1, early}
	       : d == ORR_PASS_B ? (struct orr_held){0, all - early}
				 : (struct orr_held){0, 0};
}
#endif
