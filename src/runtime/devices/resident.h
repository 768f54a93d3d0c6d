#pragma once
/* Memory of this process that is really there, as Linux says. */
#include <stdint.h>

int64_t orr_resident_bytes(void); /* now; -1: not known */
int64_t orr_resident_peak(void);  /* the most since the last orr_resident_reset */
void orr_resident_reset(void);    /* does nothing where it is not allowed */
