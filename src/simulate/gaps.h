#pragma once
/* The engine's time between jobs, in a measured step. */
#include "orrery/orrery.h"
#include "orrery/timeline.h"

/* Before each job or update that could have started when the one before it on its worker ended,
 * since it waits for jobs of that worker alone, which owns its parameters: the time between the
 * two, in ns. gaps: room for all jobs and updates of t. None without a flush. */
int orr_timeline_gaps(int64_t *gaps, int *n_gaps, const struct orr_timeline *t,
		      struct orr_error *err);
