#pragma once
/* A try: a schedule on a pipeline and its machine, from its jobs to its figures. */
#include "orrery.h"

ORR_BEGIN

struct orr_figures;
struct orr_jobs;
struct orr_pipeline;
struct orr_schedule;
struct orr_timeline;

/* All of it owned; NULL until made. */
struct orr_try {
	struct orr_jobs *jobs;
	struct orr_timeline *timeline;
	struct orr_figures *figures; /* with the steady state, if asynchronous */
};

/* Create the jobs, see orr_jobs_create_at(), also for home. Borrows p and schedule's name. *x is
 * overwritten. After an error, here and below, call orr_try_fini(). */
int orr_try_init(struct orr_try *x, const struct orr_pipeline *p,
		 const struct orr_schedule *schedule, const int *home, struct orr_error *err);
/* The same in another order than the schedule's own. STRICT: fixes a greedy schedule's order to
 * that of its run; GREEDY: runs a strict schedule in ORR_ORDER_BOUNDED. */
enum orr_run_order { ORR_RUN_AS_SCHEDULED, ORR_RUN_STRICT, ORR_RUN_GREEDY };
int orr_try_init_in(struct orr_try *x, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, const int *home, enum orr_run_order order,
		    struct orr_error *err);
/* Their timeline only, for a search that needs nothing but times. */
int orr_try_time(struct orr_try *x, struct orr_error *err);
/* Their timeline, checked, and its figures. */
int orr_try_run(struct orr_try *x, struct orr_error *err);
void orr_try_fini(struct orr_try *x); /* all zeros is fine */

ORR_END
