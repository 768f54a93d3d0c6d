#pragma once
/* (private to the runtime) What the options say to the optimizer's kernels. */
#include "codelets/optimizer.h"
#include "orrery/run.h"

/* The learning rate of a step, from 0; pure. */
double orr_run_rate(const struct orr_run_options *options, int64_t step);
struct orr_rule orr_run_rule(const struct orr_run_options *options);
