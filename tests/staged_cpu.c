#include "staged.h"

#include <stdlib.h>

struct orr_device staged_device(enum orr_precision precision)
{
	return orr_device_cpu(precision);
}

void staged_device_fini(struct orr_device *device)
{
	(void)device;
}

void *staged_allocate(size_t alignment, size_t size)
{
	void *memory = NULL;

	return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

void staged_free(void *memory)
{
	free(memory);
}

void staged_wait(struct orr_device *device)
{
	(void)device;
}
