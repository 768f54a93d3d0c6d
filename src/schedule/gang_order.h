#pragma once
/* Jobs that are on other workers than the schedule gives, or on several, and stages that gather a
 * minibatch. Private to the evaluation of a schedule. */
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/jobs.h"

/* n of every job as its place in an order of all: by its start where each job starts as early as
 * the order of its worker, the one that the schedule gives, lets it. It extends that order. */
int orr_gangs_order(int64_t *n, const struct orr_jobs *jobs, struct orr_error *err);
/* Where the pipeline has each stage, whatever the schedule says: worker [n_jobs]. */
void orr_jobs_settle(const struct orr_jobs *jobs, int *worker);
/* Put every job where the pipeline has its stage; the orders of the workers are to be made anew. */
int orr_gangs_settle(struct orr_jobs *jobs, struct orr_error *err);
/* Stage t, and those before it from which a way leads to it that a gradient takes back. */
void orr_stages_leading(bool *leads, const struct orr_pipeline *p, int t);
/* Refuse what gathers without a flush, or under a cap that lets it never start. */
int orr_gathers_check(const struct orr_jobs *jobs, const struct orr_schedule *schedule,
		      struct orr_error *err);
