#pragma once
#include "orrery/jobs.h"
#include "orrery/timeline.h"

/* Worker w's jobs by their starts. */
static inline void order_by_start(const struct orr_timeline *t, int w, int *order)
{
	const struct orr_jobs *jobs = t->jobs;
	int n = jobs->first[w + 1] - jobs->first[w];

	for (int i = 0; i < n; i++) {
		int j = jobs->by_worker[jobs->first[w + 1] - 1 - i], k = i; /* from the wrong end */

		for (; k > 0 && t->start_ns[order[k - 1]] > t->start_ns[j]; k--)
			order[k] = order[k - 1];
		order[k] = j;
	}
}
