#include "worker_cuda.h"

#include <stdio.h>

#include "base/absent.h"

int orr_worker_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			 size_t size)
{
	snprintf(why, size, "built without CUDA kernels");
	return -1;
}

ORR_ABSENT(void, , orr_worker_cuda_fini, struct orr_device *device)
ORR_ABSENT(void *, NULL, orr_worker_stream, void)
