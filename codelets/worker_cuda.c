#include "worker_cuda.h"

#include <starpu.h>

#include "cuda/stream.h"

int orr_worker_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			 size_t size)
{
	return orr_cuda_stream_init(device, precision, starpu_cuda_get_local_stream(), why, size);
}

void orr_worker_cuda_fini(struct orr_device *device)
{
	orr_cuda_stream_fini(device);
}

void *orr_worker_stream(void)
{
	bool cuda = starpu_worker_get_type(starpu_worker_get_id()) == STARPU_CUDA_WORKER;

	return cuda ? starpu_cuda_get_local_stream() : NULL;
}
