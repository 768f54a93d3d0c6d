#include "orrery/try.h"

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "schedule/room.h"
#include "simulate.h"
#include "steady.h"
#include "orrery/timeline.h"

int orr_try_init(struct orr_try *x, const struct orr_pipeline *p,
		 const struct orr_schedule *schedule, const int *home, struct orr_error *err)
{
	return orr_try_init_in(x, p, schedule, home, ORR_RUN_AS_SCHEDULED, err);
}

/* A worker of a split waits for what the others send it, level by level. Where it has streams, it
 * computes what is next in its order meanwhile, in the same memory, if that makes the step shorter.
 */
static int fill_exchanges(struct orr_try *x, struct orr_error *err)
{
	struct orr_timeline *strict = NULL, *filled = NULL;
	int code = orr_simulate(&strict, x->jobs, err), freed = 0;

	if (!code && !(freed = orr_jobs_free(x->jobs, err)) &&
	    !(code = orr_simulate(&filled, x->jobs, err))) {
		bool shorter = orr_timeline_makespan(filled) < orr_timeline_makespan(strict);

		code = orr_jobs_fix(x->jobs, (shorter ? filled : strict)->start_ns, err);
	}
	orr_timeline_destroy(filled);
	orr_timeline_destroy(strict);
	/* where stashes move, its memory could not be kept */
	return freed == ORR_E_INPUT || !freed ? code : freed;
}

int orr_try_init_in(struct orr_try *x, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, const int *home, enum orr_run_order order,
		    struct orr_error *err)
{
	struct orr_schedule in = *schedule;
	struct orr_timeline *t = NULL;
	int code;

	*x = (struct orr_try){0};
	if (order == ORR_RUN_STRICT && schedule->order == ORR_ORDER_BOUNDED)
		in.order = ORR_ORDER_STRICT;
	if ((code = orr_jobs_create_at(&x->jobs, p, &in, home, err)))
		return code;
	if (order == ORR_RUN_AS_SCHEDULED && x->jobs->order == ORR_ORDER_STRICT &&
	    x->jobs->groups && p->machine.cluster && p->machine.cluster->streams)
		return fill_exchanges(x, err);
	if (order == ORR_RUN_GREEDY && x->jobs->order == ORR_ORDER_STRICT)
		return orr_jobs_free(x->jobs, err);
	if (order != ORR_RUN_STRICT || x->jobs->order != ORR_ORDER_GREEDY)
		return 0;
	if (!(code = orr_simulate(&t, x->jobs, err)))
		code = orr_jobs_fix(x->jobs, t->start_ns, err);
	orr_timeline_destroy(t);
	return code;
}

int orr_try_time(struct orr_try *x, struct orr_error *err)
{
	return orr_simulate(&x->timeline, x->jobs, err);
}

int orr_try_run(struct orr_try *x, struct orr_error *err)
{
	int code;

	orr_figures_destroy(x->figures); /* of another run */
	orr_timeline_destroy(x->timeline);
	x->figures = NULL;
	x->timeline = NULL;
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
