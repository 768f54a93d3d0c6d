#ifndef ORR_LATE_H
#define ORR_LATE_H
/* (tests) A long link between ranks, where the machine cannot make one: who reads what has come
 * waits a little longer. Does nothing without a delay (orr_ranks_delay_data). */
#include <starpu.h>
#include "orrery/error.h"

int orr_late_start(void); /* 0, or a number of errno */
void orr_late_stop(void); /* nothing is on its way any more */
/* handle is received: what is submitted from here on reads it so much later than it came. */
int orr_late_read(starpu_data_handle_t handle, struct orr_error *err);
#endif
