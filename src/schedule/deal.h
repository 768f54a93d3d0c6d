#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

struct orr_jobs;

/* by_worker, first and position by n[n_jobs]; equal ones in the order of their numbers. all: also
 * those that do not exist. */
int orr_jobs_sort(struct orr_jobs *jobs, const int64_t *n, bool all, struct orr_error *err);
