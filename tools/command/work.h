#pragma once
/* The steps of orrery/open.h in the command: plug-ins are tried first, and searches show
 * themselves. */
#include "orrery/open.h"
#include "options.h"

/* orr_open_schedule(), from the options. */
int work_choose(struct orr_opened *x, const struct options *options, struct orr_error *err);
/* The same, and all up to the pipeline. */
int work_open(struct orr_opened *x, const struct options *options, struct orr_error *err);
/* orr_open_jobs(). */
int work_place(struct orr_opened *x, struct orr_error *err);

/* Refuse --mtbf and --lose in units of another kind than x's costs, a worker that it lacks, one
 * without which it is not known how the others are linked, and once it has jobs and was run, a step
 * that never ends or takes no time. */
int work_check_failures(const struct options *options, const struct orr_opened *x,
			struct orr_error *err);
/* x's pipeline without its last worker, cut into n_stages (0: one per worker). */
int work_cut_fewer(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
		   struct orr_error *err);

/* A line on standard error where g's costs were profiled for other hardware or another precision
 * than they are wanted for. */
void work_tell_profiled(const struct orr_graph *g, enum orr_hardware hardware,
			enum orr_precision precision);
