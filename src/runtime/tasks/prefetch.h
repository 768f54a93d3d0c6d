#pragma once
/* Parameters of other owners, where memories differ: those of a worker's next jobs move to its
 * memory while the job before them runs, and copies there go once none of these reads them. */
#include "data.h"

struct orr_prefetch {
	const struct orr_data *data;     /* borrowed */
	const struct orr_policy *policy; /* borrowed */
	int depth;                       /* jobs ahead */
	atomic_llong n_fetched;          /* parameters that were asked for */
	atomic_llong *next; /* [n_workers] the turn after the last job that has ended */
	/* [n_workers] numbers of the owners whose parameters a worker has had copied and not given
	 * back yet; only the StarPU worker that serves it looks */
	struct orr_copied {
		int *owned, n;
	} * copied;
};

/* Does nothing where all is in one memory. depth: jobs ahead; 0: parameters move when a job is
 * about to run. */
void orr_prefetch_init(struct orr_prefetch *prefetch, const struct orr_data *data,
		       struct orr_policy *policy, int depth);
/* Does a worker here have copies of the parameters of another memory? */
bool orr_prefetch_copies(const struct orr_prefetch *prefetch);

/* (the policy's; tests call it from a function of their own) A job has ended: give back what the
 * worker's next jobs do not read. */
void orr_prefetch_drop(void *prefetch, const struct orr_queued *queued);
/* Nothing is in flight: give back all. */
void orr_prefetch_settle(struct orr_prefetch *prefetch);
