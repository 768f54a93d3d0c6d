#include "orrery/try.h"

#include <stdlib.h>

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/simulate.h"
#include "steady.h"
#include "orrery/timeline.h"

int orr_try_init(struct orr_try *x, const struct orr_pipeline *p,
		 const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	*x = (struct orr_try){0};
	return orr_jobs_create_at(&x->jobs, p, schedule, home, err);
}

int orr_try_time(struct orr_try *x, struct orr_error *err)
{
	return orr_simulate(&x->timeline, x->jobs, err);
}

int orr_try_run(struct orr_try *x, struct orr_error *err)
{
	int code;

	if ((code = orr_try_time(x, err)) || (code = orr_timeline_check(x->timeline, err)) ||
	    (code = orr_figures_create(&x->figures, x->timeline, err)))
		return code;
	return orr_steady_find(&x->figures->steady, x->timeline, err);
}

void orr_try_fini(struct orr_try *x)
{
	orr_figures_destroy(x->figures);
	orr_timeline_destroy(x->timeline);
	orr_jobs_destroy(x->jobs);
	*x = (struct orr_try){0};
}
