#include "private.h"

#include <stdio.h>

static bool note(struct orr_device *d, const char *library, const char *what, const char *message)
{
	if (!d->failure) {
		snprintf(d->cuda->message, sizeof(d->cuda->message), "%s, %s: %s", library, what,
			 message);
		d->failure = d->cuda->message;
	}
	return false;
}

bool orr_cuda_ok(struct orr_device *d, cudaError_t code, const char *what)
{
	return code == cudaSuccess || note(d, "CUDA", what, cudaGetErrorString(code));
}

bool orr_cuda_blas_ok(struct orr_device *d, cublasStatus_t code, const char *what)
{
	return code == CUBLAS_STATUS_SUCCESS ||
	       note(d, "cuBLAS", what, cublasGetStatusString(code));
}
