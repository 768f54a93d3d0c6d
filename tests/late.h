#pragma once
/* Long links: what comes from another rank can be read only so much later than it came. */
#include <starpu.h>
#include "orrery/orrery.h"

/* For the hook `received` of a run; us 0: NULL, at once. */
int (*late_by(int us))(starpu_data_handle_t handle, struct orr_error *err);
