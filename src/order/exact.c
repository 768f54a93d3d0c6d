#include "exact.h"

#include "orrery/table.h"
#include "orrery/timeline.h"
#include "orrery/try.h"

#define EXACTLY 16 /* jobs timed in the time of one that is simulated, about */

int orr_timed_simulate(struct orr_timed *timed, int64_t *n, int64_t *makespan_ns,
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

	*makespan_ns = timed->sought_ns;
	if (!(p->machine.bandwidth_bytes_per_s > 0))
		return 0; /* timed is exact */
	timed->n_timed += EXACTLY * timed->jobs.n_jobs;
	orr_table_schedule(&schedule, &table);
	schedule.check = NULL; /* it has a worker for passes that do not exist, too */
	if (!(code = orr_try_init(&tried, p, &schedule, NULL, err)) &&
	    !(code = orr_try_time(&tried, err)))
		*makespan_ns = timed->seeks_span ? orr_timeline_span(tried.timeline)
						 : orr_timeline_makespan(tried.timeline);
	orr_try_fini(&tried);
	return code;
}
