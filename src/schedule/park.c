/* Stashes that leave their worker between F and the pass that reads them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "functions.h"
#include "orrery/jobs.h"
#include "orrery/schedule.h"

/* Where worker and reader of F j's stash are says whether it can be parked. */
static int check_park(const struct orr_jobs *jobs, const struct orr_schedule *schedule, int j,
		      struct orr_error *err)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	int place = jobs->park[j / jobs->n_passes] - 1, reader = orr_jobs_next_pass(jobs, j);
	const char *why = schedule->asynchronous ? "never flushes"
			  : schedule->order != ORR_ORDER_STRICT
				  ? "takes what is ready, and stashes leave by a strict order"
			  : jobs->most_at > 1                  ? "has jobs on several workers"
			  : place == jobs->compute[j]          ? "computes it there"
			  : place >= jobs->pipeline->n_workers ? "has no such worker"
			  : reader >= 0 && jobs->compute[reader] != jobs->compute[j]
				  ? "moves it to another worker, where its backward is"
				  : NULL;
	char where[32] = "with the host";

	if (!why)
		return 0;
	if (place >= 0)
		(void)snprintf(where, sizeof(where), "with worker %d", place);
	return orr_fail(err, ORR_E_INPUT,
			"the stash of stage %d cannot be parked %s: schedule %s %s: change [park]",
			job.s, where, schedule->name, why);
}

int orr_jobs_evaluate_park(struct orr_jobs *jobs, const struct orr_schedule *schedule,
			   struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n = (size_t)p->n_stages * (size_t)p->n_microbatches;
	bool any = false;
	int code = 0;

	if (!(jobs->park = calloc(n, sizeof(*jobs->park))))
		return orr_no_memory(err, "jobs");
	for (int j = 0; j < jobs->n_jobs && !code; j += jobs->n_passes) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int *park = &jobs->park[j / jobs->n_passes];

		*park = schedule->park ? schedule->park(p, job.s, job.b, schedule->data) : 0;
		*park = *park ? *park : p->stages[job.s].park;
		any = any || *park;
		code = *park ? check_park(jobs, schedule, j, err) : 0;
	}
	if (any)
		return code;
	free(jobs->park);
	jobs->park = NULL;
	return 0;
}

int orr_jobs_parked(const struct orr_jobs *jobs, int j)
{
	int reader = orr_jobs_next_pass(jobs, j), ahead = orr_jobs_park_ahead(jobs);

	if (!jobs->park || orr_jobs_at(jobs, j).d != ORR_PASS_F || reader < 0 ||
	    orr_jobs_position(jobs, reader, 0) - orr_jobs_position(jobs, j, 0) < 2 * ahead + 2)
		return 0;
	return jobs->park[j / jobs->n_passes];
}

int orr_jobs_parked_beside(const struct orr_jobs *jobs, int j, bool back)
{
	int ahead = orr_jobs_park_ahead(jobs),
	    k = jobs->park ? orr_jobs_beside(jobs, j, 0, back ? ahead : -ahead - 1) : -1;

	if (back && k >= 0)
		k = orr_jobs_pass_before(jobs, k);
	return k >= 0 && orr_jobs_parked(jobs, k) ? k : -1;
}
