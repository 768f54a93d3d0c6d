#ifndef ORR_SCHEDULE_SPLIT_H
#define ORR_SCHEDULE_SPLIT_H
/* Jobs of a pipeline whose graph was split: a schedule that knows groups of workers, evaluated. */
#include "orrery/error.h"

struct orr_groups;
struct orr_jobs;
struct orr_pipeline;
struct orr_schedule;

/* orr_jobs_create_at() for p with p->split. The schedule is evaluated on the stages before the
 * split, whose workers are groups, one behind the other: as many as there is room for. A group has
 * as many workers as the widest stage that the schedule puts there. A job of worker i of a stage is
 * on number i of its group, and takes the place of the job of the whole stage, forward passes level
 * by level and backward passes the other way round. home is of the stages before the split, and of
 * groups.
 *
 * A strict order of them cannot deadlock where that of the schedule cannot: take an order of all
 * jobs of the stages before which extends their dependencies and the order on every group, and put
 * in place of each job those of its parts, F by ascending level, B by descending level, and W after
 * any B that is in the same place. Parts of a stage exchange forward from lower to higher levels
 * and gradients from higher to lower ones, and what else a part waits for is a part of what its
 * whole waits for. So it extends all dependencies of the parts, and the order on every worker. */
int orr_split_jobs(struct orr_jobs **out, const struct orr_pipeline *p,
		   const struct orr_schedule *schedule, const int *home, struct orr_error *err);

void orr_groups_destroy(struct orr_groups *groups); /* NULL is fine */

/* orr_jobs_create_at() of the pipeline as it is. (evaluate.c) */
int orr_jobs_evaluate(struct orr_jobs **out, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, const int *home, struct orr_error *err);
#endif
