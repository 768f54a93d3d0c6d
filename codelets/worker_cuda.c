#include "workspace.h"

void *orr_worker_stream(void)
{
	bool cuda = starpu_worker_get_type(starpu_worker_get_id()) == STARPU_CUDA_WORKER;

	return cuda ? starpu_cuda_get_local_stream() : NULL;
}
