#ifndef ORR_STEADY_H
#define ORR_STEADY_H
/* The steady state of a stream, found by simulation. */
#include "orrery/figures.h"

/* The start-up and the drain of t, a stream's, and on its machine the steady state of its rounds
 * one after the other. */
int orr_steady_find(struct orr_steady *out, const struct orr_timeline *t, struct orr_error *err);
#endif
