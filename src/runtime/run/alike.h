#ifndef ORR_ALIKE_H
#define ORR_ALIKE_H
/* (private to the runtime) Every rank unrolls the jobs by itself, and all must come to the same. */
#include "orrery/dataset.h"
#include "orrery/jobs.h"
#include "orrery/run.h"

/* Refuses, on every rank alike, what is not the same on all of them: another file on another host,
 * or a plug-in whose functions are not pure. Before anything waits for what never comes. */
int orr_run_check_alike(const struct orr_jobs *jobs, const struct orr_dataset *data,
			const struct orr_run_options *options, struct orr_error *err);
#endif
