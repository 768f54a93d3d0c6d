#pragma once
/* What no order of the jobs on their workers can beat. Private to this room. */
#include "orrery/orrery.h"
#include "orrery/jobs.h"

struct orr_bound {
	int64_t makespan_ns;
	int64_t work_ns;     /* of all stages and microbatches, what is run again left out */
	int64_t lifespan_ns; /* all stashes together live so long at least */
};

int orr_bound_find(struct orr_bound *out, const struct orr_jobs *jobs, struct orr_error *err);
