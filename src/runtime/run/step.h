#pragma once
/* The tasks of a step, job by job. */
#include "parts.h"

/* The next step, in its slot, of a schedule that flushes. */
int orr_step_submit(struct orr_run *run, struct orr_error *err);

/* Parts of it, which rounds are made of: job j, computed here, with its messages; */
void orr_step_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn);
/* update q of the step by all owners of s that are here, which add up their gradients first. */
void orr_step_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q);
