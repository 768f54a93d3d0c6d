#pragma once
/* What StarPU measures of a host the first time: how fast its memories are for one another. Ranks
 * on one host would do so at the same time, in each other's way: one does, and the others take
 * that. */
#include <starpu.h>
#include "orrery/orrery.h"

/* Can StarPU keep its measurements of this host? It aborts where it cannot. */
int orr_calibrate_check(struct orr_error *err);

/* Measurements are kept in files of the user's, named after the host. Ranks would write and read
 * them at the same time, whereupon 1.3 aborts: rank of n_local on this host has its own. */
void orr_calibrate_apart(int rank, int n_local);

/* Before StarPU starts with conf, in this order on every rank, each after all have done the one
 * before: the first rank of every host measures, unless it has; the others copy that, unless they
 * have their own. Other processes of the user's that measure are waited for, and wait, until the
 * end: where there is one rank once StarPU has started, else before ranks wait for one another.
 * Without orr_calibrate_apart they do nothing. */
int orr_calibrate_first(const struct starpu_conf *conf, struct orr_error *err);
void orr_calibrate_others(void);
void orr_calibrate_end(void);
