#ifndef ORR_TRIAL_H
#define ORR_TRIAL_H
/* A strict order that is being tried: jobs with a split backward, one worker a stage, moved about
 * and timed many times. Times are those of the simulator as long as no transfer waits
 * for another one on its link, and less than those elsewhere. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/error.h"
#include "orrery/jobs.h"

/* What a worker holds, or may hold at most. */
struct orr_load {
	int64_t stashes, bytes;
};

struct orr_trial {
	struct orr_jobs jobs; /* pipeline, n_passes, n_jobs, first; the order is by_worker; no more
				 than these, rank and compute are filled in */
	int64_t *duration;    /* [n_jobs] */
	struct orr_load *up,
		*down; /* [n_jobs] of its worker's load: added at the start, taken at the end */
	struct orr_load limit;     /* of every worker */
	const int64_t *room_bytes; /* [n_workers] borrowed: the limit's bytes by worker, which are
				      at least these; NULL: no worker has less */
	/* what j waits for is before[first_before[j]] to before[first_before[j + 1] - 1] */
	int *before, *first_before, *after, *first_after;
	int64_t *delay;      /* as after: what the transfer takes */
	int64_t *start;      /* [n_jobs], of the order as it was timed last */
	int64_t makespan_ns; /* likewise */
	int64_t ends_ns;     /* sum over workers of their last ends: the smaller, the more room */
	int64_t n_timed;     /* jobs timed since the trial was made */
	int *waits, *queue;  /* room to work in */
	int *left, *n_of;    /* [n_stages] likewise */
};

/* worker[n_stages] is copied; no order yet. Borrows p. */
int orr_trial_create(struct orr_trial **out, const struct orr_pipeline *p, const int *worker,
		     struct orr_load limit, struct orr_error *err);
void orr_trial_destroy(struct orr_trial *trial); /* NULL is fine */

/* Take the order of n[n_jobs], lower first. */
int orr_trial_order(struct orr_trial *trial, const int64_t *n, struct orr_error *err);
/* Every job as early as the order lets it start. false: the order deadlocks, and start is void. */
bool orr_trial_time(struct orr_trial *trial);
/* From the end of j until what it leaves is with k, which waits for it. */
int64_t orr_trial_delay(const struct orr_trial *trial, int j, int k);
/* Jobs of worker w that start while it holds more than it may; 0: its order fits. */
int orr_trial_excess(const struct orr_trial *trial, int w);
#endif
