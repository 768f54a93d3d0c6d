#include "exact.h"

#include "orrery/table.h"
#include "orrery/timeline.h"
#include "orrery/try.h"

static int64_t end_of(const struct orr_timeline *t)
{
	int64_t end = 0;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		end = t->end_ns[j] > end ? t->end_ns[j] : end;
	for (int u = 0; u < t->n_updates; u++)
		end = t->updates[u].end_ns > end ? t->updates[u].end_ns : end;
	return end;
}

int orr_timed_simulate(const struct orr_timed *timed, int64_t *n, int64_t *makespan_ns,
		       struct orr_error *err)
{
	const struct orr_pipeline *p = timed->jobs.pipeline;
	static char name[] = "search";
	struct orr_table table = {.name = name,
				  .n_stages = p->n_stages,
				  .n_workers = p->n_workers,
				  .n_microbatches = p->n_microbatches,
				  .split_backward = true,
				  .compute = timed->jobs.compute,
				  .priority = n};
	struct orr_schedule schedule;
	struct orr_try tried;
	int code;

	orr_table_schedule(&schedule, &table);
	schedule.check = NULL; /* it has a worker for passes that do not exist, too */
	if (!(code = orr_try_init(&tried, p, &schedule, NULL, err)) &&
	    !(code = orr_try_time(&tried, err)))
		*makespan_ns = end_of(tried.timeline);
	orr_try_fini(&tried);
	return code;
}
