#pragma once
/* MPI counts the bytes of a message in an int: what crosses between ranks must stay below 2 GiB a
 * piece. */
#include "runtime/tasks/work.h"

/* Is a message of this number of floats, `what` of stage s, too large? Then the error says so, and
 * the cure. */
int orr_fits(int64_t floats, const char *what, int s, const char *cure, struct orr_error *err);

/* All that jobs send to jobs and owners of other ranks. Every rank finds the same. */
int orr_fits_check(const struct orr_work *work, struct orr_error *err);
