#include "staged.h"

struct orr_device staged_device(enum orr_precision precision)
{
	return orr_device_cpu(precision);
}

void staged_device_fini(struct orr_device *device)
{
	(void)device;
}
