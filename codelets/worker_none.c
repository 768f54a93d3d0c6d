#include "workspace.h"

#include <stdio.h>

#include "base/absent.h"
#include "cuda/stream.h"

int orr_cuda_stream_init(struct orr_device *device, enum orr_precision precision, void *stream,
			 char *why, size_t size)
{
	snprintf(why, size, "built without CUDA kernels");
	return -1;
}

ORR_ABSENT(void, , orr_cuda_stream_fini, struct orr_device *device)
ORR_ABSENT(void *, NULL, orr_worker_stream, void)
