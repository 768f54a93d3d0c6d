/* What runs on a device apart from StarPU: its memory, and waiting for it. */
#include "private.h"

void *orr_cuda_allocate(size_t bytes)
{
	void *at = NULL;

	if (cudaMalloc(&at, bytes ? bytes : 1) == cudaSuccess)
		return at;
	(void)cudaGetLastError(); /* or the next kernel would report it */
	return NULL;
}

void orr_cuda_release(void *at)
{
	if (at)
		(void)cudaFree(at);
}

/* From memory that may be reused at once. */
void orr_cuda_put(struct orr_device *d, int64_t count, const float *from, float *to)
{
	orr_cuda_ok(d,
		    cudaMemcpyAsync(to, from, (size_t)count * sizeof(*to), cudaMemcpyHostToDevice,
				    d->cuda->stream),
		    "copy");
	orr_cuda_wait(d);
}

void orr_cuda_wait(struct orr_device *d)
{
	orr_cuda_ok(d, cudaStreamSynchronize(d->cuda->stream), "stream");
}
