#include "stream.h"
#include "../sequence.h"

#include <stdio.h>
#include <stdlib.h>

#include "../contrastive.h"
#include "geometry.h"
#include "private.h"

/* ---- what runs apart from StarPU ---- */

static void *allocate(size_t bytes)
{
	void *at = NULL;

	if (cudaMalloc(&at, bytes ? bytes : 1) == cudaSuccess)
		return at;
	(void)cudaGetLastError(); /* or the next kernel would report it */
	return NULL;
}

static void release(void *at)
{
	if (at)
		(void)cudaFree(at);
}

static void wait(struct orr_device *d)
{
	orr_cuda_ok(d, cudaStreamSynchronize(d->cuda->stream), "stream");
}

/* From memory that may be reused at once. */
static void put(struct orr_device *d, int64_t count, const float *from, float *to)
{
	orr_cuda_ok(d,
		    cudaMemcpyAsync(to, from, (size_t)count * sizeof(*to), cudaMemcpyHostToDevice,
				    d->cuda->stream),
		    "copy");
	wait(d);
}

/* ---- the device ---- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t workspace_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	size_t bytes = orr_cuda_product_bytes(precision, n, in, out);

	bytes = larger(bytes, orr_cuda_sums_bytes(n, in > out ? in : out));
	return ORR_BLAS_BYTES + larger(bytes, orr_cuda_rows_bytes(n));
}

#define ORR_TABLE(NAME, KIND) .NAME = &orr_##NAME##_cuda,
const struct orr_kernels orr_kernels_cuda = {.halves = true,
					     .unfolded = 1 << 24,
					     .workspace_bytes = workspace_bytes,
					     .begin = orr_cuda_begin,
					     .replay = orr_cuda_replay,
					     .allocate = allocate,
					     .release = release,
					     .put = put,
					     .wait = wait,
					     ORR_KERNEL_TABLES(ORR_TABLE)};

int orr_cuda_stream_init(struct orr_device *device, enum orr_precision precision, void *stream,
			 char *why, size_t size)
{
	struct orr_cuda *cuda = calloc(1, sizeof(*cuda));
	cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
	const char *missing = NULL;

	*device = (struct orr_device){
		.kernels = &orr_kernels_cuda, .precision = precision, .cuda = cuda};
	if (cuda)
		cuda->stream = stream;
	if (!cuda)
		missing = "no memory";
	else if (cudaMalloc((void **)&cuda->partial, ORR_SLICES * sizeof(*cuda->partial)) ||
		 cudaMalloc((void **)&cuda->tickets, ORR_TICKETS * sizeof(*cuda->tickets)) ||
		 cudaMemsetAsync(cuda->tickets, 0, ORR_TICKETS * sizeof(*cuda->tickets), stream))
		missing = "no memory on the device";
	else if (!(cuda->graphs = orr_cuda_graphs_create()))
		missing = "no memory, or no second stream";
	else if ((code = cublasLtCreate(&cuda->lt)) || (code = cublasCreate(&cuda->blas)))
		missing = "cuBLAS does not start: ";
	if (!missing)
		return 0;
	snprintf(why, size, "%s%s", missing, code ? cublasGetStatusString(code) : "");
	orr_cuda_stream_fini(device);
	return -1;
}

void orr_cuda_stream_fini(struct orr_device *device)
{
	struct orr_cuda *cuda = device->cuda;

	if (!cuda)
		return;
	if (cuda->blas)
		cublasDestroy(cuda->blas);
	if (cuda->lt)
		cublasLtDestroy(cuda->lt);
	orr_cuda_graphs_destroy(cuda->graphs);
	cudaFree(cuda->partial);
	cudaFree(cuda->tickets);
	free(cuda);
	device->cuda = NULL;
}
