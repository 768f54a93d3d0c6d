#pragma once
/* Training under a schedule without a flush (schedule/async.h): rounds overlap. All jobs are
 * submitted in the order of n, wave after wave. */
#include "orrery/run.h"

/* Refuses steps that overlapping rounds cannot serve; 0 for a schedule that flushes. */
int orr_rounds_check(const struct orr_jobs *jobs, int batch, struct orr_error *err);

/* As orr_run_train; the pipeline starts empty and is drained at the end. */
int orr_rounds_train(struct orr_run *run, int64_t n,
		     void (*visit)(void *user, const struct orr_step *step), void *user,
		     struct orr_error *err);
