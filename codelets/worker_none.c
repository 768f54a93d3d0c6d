#include "worker_cuda.h"

#include <stdio.h>

int orr_worker_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			 size_t size)
{
	(void)device, (void)precision;
	snprintf(why, size, "built without CUDA kernels");
	return -1;
}

void orr_worker_cuda_fini(struct orr_device *device)
{
	(void)device;
}

void *orr_worker_stream(void)
{
	return NULL;
}
