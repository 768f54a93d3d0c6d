#pragma once
/* The jobs and updates of a worker one after the other, and the time between them; why it is idle:
 * idle.h. A number from n_jobs on is that of an update. */
#include "base/sort.h"

struct orr_timeline;

int64_t orr_timeline_end(const struct orr_timeline *t, int number);

/* The *n of worker w by their starts; what takes no time comes before what starts with it. items:
 * room for all jobs and updates of t. */
int orr_timeline_list(struct orr_keyed *items, int *n, const struct orr_timeline *t, int w,
		      struct orr_error *err);

/* From the first start on worker w to the last end, and how long it was busy; start_ns > end_ns:
 * it never was. */
struct orr_interval {
	int64_t start_ns, end_ns, busy_ns;
};
struct orr_interval orr_timeline_interval(const struct orr_timeline *t, int w);

/* Before each job that could have started when what came before it on its worker ended, since it
 * waits for jobs of that worker alone, which owns its parameters: the time between the two, in ns.
 * gaps: room for all jobs of t. None without a flush. */
int orr_timeline_gaps(int64_t *gaps, int *n_gaps, const struct orr_timeline *t,
		      struct orr_error *err);
