#pragma once
/* The steady state of an asynchronous schedule, found by simulation. */
#include "orrery/figures.h"

/* The start-up and the drain of t, of an asynchronous schedule, and the steady state of its rounds
 * on its machine. */
int orr_steady_find(struct orr_steady *out, const struct orr_timeline *t, struct orr_error *err);
