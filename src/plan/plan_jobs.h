#ifndef ORR_PLAN_JOBS_H
#define ORR_PLAN_JOBS_H
/* The jobs of a plan's file, written and read: the worker and the owner of each, in which order,
 * and the rules of the order. See the keys in plan_jobs.c. */
#include <jansson.h>
#include "orrery/error.h"

struct orr_jobs;
struct orr_plan_file;

/* Into a worker's object: its jobs in the order of n, and n. Not 0: there is no memory. */
int orr_plan_order_json(json_t *worker, const struct orr_jobs *jobs, int w);
/* Into a plan's object, whose `stages` are there: whether the order is strict, what it holds
 * besides for each stage, the period of an asynchronous schedule, and a bound that the schedule has
 * proved. Not 0: there is no memory. */
int orr_plan_rules_json(json_t *plan, const struct orr_jobs *jobs);

/* Fill file->table, and the file's entries on an asynchronous schedule, from all that. Every job
 * exactly once. */
int orr_plan_jobs_read(struct orr_plan_file *file, const json_t *json, int n_microbatches,
		       struct orr_error *err);
#endif
