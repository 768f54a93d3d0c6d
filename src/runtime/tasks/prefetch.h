#ifndef ORR_PREFETCH_H
#define ORR_PREFETCH_H
/* Weights first: the parameters of a worker's next jobs in the same step move to its memory while
 * the job before them runs. */
#include "data.h"

struct orr_prefetch {
	const struct orr_data *data;     /* borrowed */
	const struct orr_policy *policy; /* borrowed */
	int depth;                       /* jobs ahead */
	atomic_llong n_fetched;          /* parameters that were asked for */
};

/* Does nothing where depth is 0, or all is in one memory. */
void orr_prefetch_init(struct orr_prefetch *prefetch, const struct orr_data *data,
		       struct orr_policy *policy, int depth);
#endif
