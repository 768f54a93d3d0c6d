#ifndef ORR_TRY_H
#define ORR_TRY_H
/* A try: a schedule on a pipeline and its machine, from its jobs to its figures. */
#include "error.h"

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
	struct orr_figures *figures; /* without a flush, with the steady state */
};

/* The jobs: orr_jobs_create_at() says what is refused, and what home is; NULL: no plan. Borrows p
 * and schedule's name. *x is overwritten. After an error, here and below, orr_try_fini() frees
 * what there is. */
int orr_try_init(struct orr_try *x, const struct orr_pipeline *p,
		 const struct orr_schedule *schedule, const int *home, struct orr_error *err);
/* The same, run in another order than the schedule's own: strictly, a greedy one as it runs
 * (orr_jobs_fix), or greedily, a strict one in its memory (orr_jobs_free). */
enum orr_run_order { ORR_RUN_AS_SCHEDULED, ORR_RUN_STRICT, ORR_RUN_GREEDY };
int orr_try_init_in(struct orr_try *x, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, const int *home, enum orr_run_order order,
		    struct orr_error *err);
/* Their timeline, and no more: for a search that looks at nothing but times. */
int orr_try_time(struct orr_try *x, struct orr_error *err);
/* Their timeline, checked, and its figures. */
int orr_try_run(struct orr_try *x, struct orr_error *err);
void orr_try_fini(struct orr_try *x); /* all zeros is fine */

ORR_END
#endif
