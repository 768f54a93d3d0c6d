#pragma once
/* The order in which a run's jobs began, beside the simulated one. */
#include <check.h>
#include <stdlib.h>
#include "orrery/jobs.h"
#include "orrery/run.h"
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

struct watch {
	const char *name;
	const struct orr_run *run;
	const struct orr_timeline *predicted;
	int n; /* steps so far */
};

/* After a step: its timeline holds, and in strict order each worker ran its jobs as simulated. */
static inline void check_step(void *user, const struct orr_step *step)
{
	struct watch *watch = user;
	const struct orr_timeline *measured = orr_run_timeline(watch->run);
	const struct orr_jobs *jobs = measured->jobs;
	int *expected = calloc((size_t)jobs->n_jobs, sizeof(int)),
	    *found = calloc((size_t)jobs->n_jobs, sizeof(int));
	struct orr_error err = {""};

	ck_assert(expected && found);
	ck_assert_msg(!orr_timeline_check(measured, &err), "%s, step %lld: %s", watch->name,
		      (long long)step->step, err.msg);
	for (int w = 0; w < jobs->pipeline->n_workers && jobs->order == ORR_ORDER_STRICT; w++) {
		order_by_start(watch->predicted, w, expected);
		order_by_start(measured, w, found);
		for (int i = 0; i < jobs->first[w + 1] - jobs->first[w]; i++)
			ck_assert_msg(expected[i] == found[i],
				      "%s, step %lld, worker %d: job %d of its order differs",
				      watch->name, (long long)step->step, w, i);
	}
	free(expected);
	free(found);
	watch->n++;
}
