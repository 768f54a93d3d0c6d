#pragma once
/* Warm-up and cool-down of [Qi24] appendix C. */
#include "timed.h"

/* Let later jobs fill the gaps of a timed order, in place, where no worker comes to hold more than
 * it may. Jobs j and j + n_alike are the same pass of two microbatches that take turns. */
int orr_reorder(struct orr_timed *t, int n_alike, struct orr_error *err);
