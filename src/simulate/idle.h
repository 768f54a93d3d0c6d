#pragma once
/* Why workers are idle, and the critical path of a timeline.
 *
 * A worker is idle before a job because the last thing that the job waits for has yet to come: a
 * job elsewhere, or a transfer. A phase says when that was: while the pipeline fills, until the
 * worker starts its first backward; while it drains, from the end of the worker's last forward; in
 * between; or, in any of them, while what it waits for was computed and on its way. Of a worker
 * whose forwards all end before its first backward, filling goes over into draining when the first
 * backward of the pipeline starts.
 *
 * The causes add up to a worker's idle time. Imbalance is how much less it has to do than the
 * busiest worker, as far as it is idle for that: it would be so in any order. It is taken from what
 * was in between, and then evenly from filling and draining. What is left of these three is the
 * pipeline's: warm-up, drain, and the order of jobs. Of a worker without a job all is imbalance. */
#include "base/arrays.h"
#include "orrery/orrery.h"

struct orr_timeline;

enum orr_cause {
	ORR_CAUSE_WARM_UP,
	ORR_CAUSE_DRAIN,
	ORR_CAUSE_TRANSFER,
	ORR_CAUSE_ORDER, /* as a phase: in between */
	ORR_CAUSE_IMBALANCE
};
#define ORR_CAUSES 5
const char *orr_cause_name(enum orr_cause cause); /* "warm_up" */

/* A job or an update on one of its workers. */
struct orr_item {
	int job, update; /* one of them -1 */
	int w;
	int64_t start_ns, end_ns;
	int64_t free_ns; /* since when the worker was idle; start_ns: it was not */
	/* the last thing to come, both -1 where it waits for nothing: a job, and the transfer that
	 * brought it, or parameters, from no job */
	int from, transfer;
	int64_t made_ns; /* the end of that job; of parameters, when they set out */
	int64_t came_ns; /* when it was there; made_ns without a transfer */
};

static inline bool orr_item_awaits(const struct orr_item *item)
{
	return item->from >= 0 || item->transfer >= 0;
}

/* Idle time of worker w, in one phase. */
struct orr_gap {
	int w;
	enum orr_cause phase;
	int64_t start_ns, end_ns;
};

struct orr_idle {
	const struct orr_timeline *timeline; /* borrowed */
	int n_workers;
	int64_t start_ns, end_ns; /* of the timeline */
	struct orr_item *items;   /* worker w's: items[first[w]] to items[first[w+1]-1], by start */
	int *first;               /* [n_workers + 1] */
	struct orr_gap *gaps;     /* of one worker after the other, in the order of time */
	int n_gaps;
	int64_t (*causes)[ORR_CAUSES]; /* [n_workers] ns */
	struct orr_arrays all;         /* these */
};

/* All jobs must have run. *out borrows t. */
int orr_idle_create(struct orr_idle **out, const struct orr_timeline *t, struct orr_error *err);
void orr_idle_destroy(struct orr_idle *idle); /* NULL is fine */

/* A part of the critical path: an item on worker w, or the transfer that the next one waits for,
 * with its wait for a link. In a simulation each starts when the one before it ends, from the first
 * start to the last end; in a run there is time between them. */
struct orr_path_part {
	int w, item; /* item -1: a transfer, to worker w */
	int transfer;
	int64_t start_ns, end_ns;
};
/* *parts is the caller's to free, in the order of time. */
int orr_idle_path(struct orr_path_part **parts, int *n, const struct orr_idle *idle,
		  struct orr_error *err);
