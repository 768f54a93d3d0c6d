#pragma once
/* A timed order: the order of every worker's jobs, when each of them starts if it starts as early
 * as the order and its predecessors allow, and what the workers hold meanwhile. Blocks are laid out
 * in one, and the search moves jobs about in one. Private to this room. */
#include <stdbool.h>
#include <stdint.h>
#include "base/arrays.h"
#include "base/max.h"
#include "orrery/orrery.h"
#include "orrery/jobs.h"
#include "schedule/load.h"

struct orr_timed {
	struct orr_jobs jobs; /* pipeline, n_passes, n_jobs, compute, recompute, duration_ns, first;
				 the order is by_worker, and rank follows it by
				 orr_timed_renumber(); no more than these */
	bool exact;   /* transfers and updates take their time, as they do in the simulator where no
			 transfer waits for another one on its link; else jobs alone do */
	bool updates; /* any that takes time */
	const struct orr_pipeline *parked; /* (optional) whose stages say where stashes go */
	int leaves;                        /* places after its F at which a parked stash has left */
	/* [n_jobs] what a job adds to its worker's load as it starts, and takes away as it ends */
	struct orr_load *up, *down;
	struct orr_load *most; /* [n_workers] the limit of each */
	/* the DAG: predecessors of j are before[first_before[j]] to before[first_before[j+1]-1] */
	int *before, *first_before, *after, *first_after;
	int64_t *delay; /* as after: the duration of the transfer; NULL unless exact */
	int64_t *start; /* [n_jobs], of the order as it was timed last */
	int64_t makespan_ns, span_ns; /* span: max over workers of last end - first start */
	bool seeks_span;              /* by the search: steps overlap */
	int64_t sought_ns;            /* one of the two */
	int64_t ends_ns;              /* sum over workers of their last ends, or spans */
	int64_t n_timed;              /* jobs timed so far */
	int *waits, *queue;           /* [n_jobs] room to work in */
	int *left;                    /* [n_stages] the same */
	struct orr_arrays all;
};

/* Jobs of p on worker[b % n_microbatches * n_stages + s], which is copied; in the order of their
 * numbers, and without limits. Exact orders have one worker a stage. Borrows p. */
int orr_timed_create(struct orr_timed **out, const struct orr_pipeline *p, const int *worker,
		     int n_microbatches, int n_passes, bool exact, struct orr_error *err);
void orr_timed_destroy(struct orr_timed *t); /* NULL is fine */

/* Take the order of n[n_jobs], lower first; n may be t->start. */
int orr_timed_order(struct orr_timed *t, const int64_t *n, struct orr_error *err);
/* by_worker has changed. */
void orr_timed_renumber(struct orr_timed *t);
/* Job j at a place, from 0, in w's order. */
void orr_timed_put(struct orr_timed *t, int w, int place, int j);
/* n of every job: its place in its worker's order, or where jobs have several workers its place
 * among all by their starts, as they were timed. */
int orr_timed_number(const struct orr_timed *t, int64_t *n, struct orr_error *err);
/* The longest path: every job as early as the order lets it start. Fills start and what
 * orr_timed_measure() does. false: the order deadlocks, and they are void. */
bool orr_timed_time(struct orr_timed *t);
/* makespan_ns, span_ns, sought_ns and ends_ns of the starts as they are. */
void orr_timed_measure(struct orr_timed *t);
/* From the end of j until what it leaves is with k, which waits for it. */
int64_t orr_timed_delay(const struct orr_timed *t, int j, int k);

/* What worker w holds at most, by its order. */
struct orr_load orr_timed_peak(const struct orr_timed *t, int w);
/* Stashes are parked as the stages of `parked`, which is borrowed, say; NULL: they stay. */
int orr_timed_park(struct orr_timed *t, const struct orr_pipeline *parked, struct orr_error *err);
/* Jobs of worker w that start while it holds more than it may; 0: its order fits. */
int orr_timed_excess(const struct orr_timed *t, int w);
/* The limit of worker w, at least 1; none of parked stashes, which may be elsewhere. */
struct orr_load orr_timed_most(const struct orr_timed *t, int w);

/* Turn time round, and back: the last job becomes the first, what waited is waited for, a stash is
 * taken when its last pass ends and left when F starts. Draining is filling then. Starts are void
 * until timed. Not of an exact order. */
void orr_timed_reverse(struct orr_timed *t);

/* Warm-up and cool-down of [Qi24] appendix C (reorder.c): let later jobs fill the gaps of the
 * order, in place, where no worker comes to hold more than it may. Jobs j and j + n_alike are the
 * same pass of two microbatches that take turns. */
int orr_reorder(struct orr_timed *t, int n_alike, struct orr_error *err);
