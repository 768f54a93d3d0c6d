#pragma once
/* A schedule as data: the worker and the order of every job, as a CSV or a plan gives them. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/schedule.h"
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_table {
	char *name; /* owned: the file; the schedule is called so */
	int n_stages, n_workers, n_microbatches;
	bool split_backward;
	enum orr_order order; /* STRICT unless set */
	/* without a flush: the growth of n in a round of n_microbatches; 0: it flushes */
	int64_t period;
	int64_t bound_ns; /* no order within the schedule's limits is shorter; 0: unknown, as always
			     without a flush */
	/* [n_stages * n_microbatches * n_passes], numbered as in orr_placed; owned */
	int *compute; /* -1: the stage has no such pass, see orr_pipeline_has_pass() */
	int64_t *priority;
	int *weights; /* NULL: as compute */
	int *column;  /* the job's cell in its worker's row of the CSV, from 1; NULL: not from a CSV
		       */
	/* [n_stages]; owned; NULL: none */
	int *cap;
	bool *recompute;
	int *park; /* as park() of the schedule, of every microbatch */
};

static inline int orr_table_n_passes(const struct orr_table *table)
{
	return table->split_backward ? 3 : 2;
}
static inline int orr_table_index(const struct orr_table *table, int s, int b, enum orr_pass d)
{
	return (b * table->n_stages + s) * orr_table_n_passes(table) + (int)d;
}
static inline int orr_table_n_jobs(const struct orr_table *table)
{
	return orr_table_index(table, 0, table->n_microbatches, ORR_PASS_F);
}

/* A table whose jobs the caller fills in; name is copied. */
int orr_table_create(struct orr_table **out, const char *name, int n_stages, int n_workers,
		     int n_microbatches, bool split_backward, struct orr_error *err);
void orr_table_destroy(struct orr_table *table); /* NULL is fine */

/* The first job that is missing where a compute of 0 says that it is, or the number of jobs: every
 * stage and microbatch has an F, and of the other passes those that any of the stage has; whether
 * it should, the model says. */
int orr_table_missing(const struct orr_table *table);

/* The schedule of a table. It refuses a pipeline of another size; without a flush, the microbatches
 * may be any multiple of a round. *out borrows table. */
void orr_table_schedule(struct orr_schedule *out, const struct orr_table *table);

ORR_END
