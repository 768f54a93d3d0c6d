#pragma once
#include <stdbool.h>
#include "orrery/orrery.h"

struct orr_groups;
struct orr_jobs;
struct orr_pipeline;
struct orr_schedule;

/* orr_jobs_create_at() of the stages as they are, whether or not the graph was split. */
int orr_jobs_evaluate(struct orr_jobs **out, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, const int *home, struct orr_error *err);
/* The same of p's replicas: the schedule is evaluated on one, whose workers home names, and
 * repeated on the others. */
int orr_jobs_repeat(struct orr_jobs **out, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, const int *home, struct orr_error *err);
/* Jobs of p that take the places of others: where these are, in their order, with their parameters.
 */
struct orr_stand_in {
	const struct orr_jobs *jobs;     /* of one of p's replicas, or of stages before a split */
	const struct orr_groups *groups; /* of these; NULL: of a replica */
};
/* schedule: that of x's jobs. */
int orr_jobs_stand_in(struct orr_jobs **out, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, const struct orr_stand_in *x,
		      struct orr_error *err);
/* Where stashes are parked. */
int orr_jobs_evaluate_park(struct orr_jobs *jobs, const struct orr_schedule *schedule,
			   struct orr_error *err);
/* Can the pipeline be divided into its replicas, each under this schedule? */
int orr_replicas_check(const struct orr_pipeline *p, const struct orr_schedule *schedule,
		       struct orr_error *err);
/* Do all of p's replicas the same at the same times, but for rings? */
bool orr_replicas_are_alike(const struct orr_pipeline *p);
void orr_groups_clear(struct orr_groups *groups);   /* all zeros again */
void orr_groups_destroy(struct orr_groups *groups); /* NULL is fine */
