#ifndef ORR_FITS_HOST_H
#define ORR_FITS_HOST_H
/* Does a rank's part of the work fit its host? Asked before anything is allocated: Linux gives
 * memory that it does not have, and ends the process when it is written. */
#include "work.h"

/* Of this host; -1: not known. */
int64_t orr_host_bytes(void);

/* Refuses what does not fit into host_bytes on CPU cores: the parameters that are owned here, with
 * the optimizer's floats of each, and the largest job's own memory. There is more, so what passes
 * may still not fit. */
int orr_fits_host(const struct orr_work *work, int n_state, int64_t host_bytes,
		  struct orr_error *err);
#endif
