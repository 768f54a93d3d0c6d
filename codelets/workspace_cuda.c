#include "workspace_cuda.h"

#include <starpu.h>

#include "cuda/stream.h"

int orr_workspace_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			    size_t size)
{
	return orr_cuda_stream_init(device, precision, starpu_cuda_get_local_stream(), why, size);
}

void orr_workspace_cuda_fini(struct orr_device *device)
{
	orr_cuda_stream_fini(device);
}
