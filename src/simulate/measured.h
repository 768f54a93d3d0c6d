#pragma once
/* A step that ran elsewhere, as a timeline beside the simulated one. */
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;
struct orr_timeline;

/* From JSON that has, for each worker, its jobs in the order of n, their starts and their ends in
 * seconds: {"worker": [{"order": ["0F0"], "start": [0], "end": [0.5]}]}. The plan that the jobs
 * come from has the same `order`. Refuses jobs in another order, and times at which they cannot
 * have run. */
int orr_measured_read(struct orr_timeline **out, const struct orr_jobs *jobs, const char *path,
		      struct orr_error *err);

ORR_END
