#pragma once
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_jobs;

/* What a run has of a stage that gathers: one worker for all its Fs, which has the minibatch, and
 * one for its Bs, which send it back. Otherwise ORR_E_INPUT. */
int orr_gathers_check_trained(const struct orr_jobs *jobs, struct orr_error *err);

ORR_END
