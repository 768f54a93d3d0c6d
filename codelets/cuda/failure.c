/* What CUDA and cuBLAS refuse. CUDA has two kinds of failures: a call's own, and that of a kernel
 * as it ran, which some later call tells and then every one. A call's own stays the thread's last
 * error until it is asked for, StarPU's too: an allocation that fails, and that it does in another
 * way. */
#include "private.h"

#include <stdio.h>

static bool note(struct orr_device *d, const char *library, const char *what, const char *where,
		 const char *message)
{
	if (!d->failure) {
		snprintf(d->cuda->message, sizeof(d->cuda->message), "%s, %s%s: %s", library, what,
			 where, message);
		d->failure = d->cuda->message;
	}
	return false;
}

/* Of a kernel as it ran? The device is lost to this process then. */
static bool is_late(cudaError_t code)
{
	static const cudaError_t late[] = {
		cudaErrorIllegalAddress,
		cudaErrorLaunchFailure,
		cudaErrorLaunchTimeout,
		cudaErrorHardwareStackError,
		cudaErrorInvalidPc,
		cudaErrorIllegalInstruction,
		cudaErrorMisalignedAddress,
		cudaErrorInvalidAddressSpace,
		cudaErrorECCUncorrectable,
		cudaErrorNvlinkUncorrectable,
		cudaErrorAssert,
		cudaErrorUnknown,
	};

	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		if (code == late[i])
			return true;
	return false;
}

bool orr_cuda_ok(struct orr_device *d, cudaError_t code, const char *what)
{
	bool late = is_late(code);

	d->lost = d->lost || late;
	return code == cudaSuccess || note(d, "CUDA", what, late ? ", or a kernel before it" : "",
					   cudaGetErrorString(code));
}

bool orr_cuda_blas_ok(struct orr_device *d, cublasStatus_t code, const char *what)
{
	return code == CUBLAS_STATUS_SUCCESS ||
	       note(d, "cuBLAS", what, "", cublasGetStatusString(code));
}

void orr_cuda_begin(struct orr_device *d)
{
	cudaError_t code;

	(void)cudaGetLastError();
	code = cudaStreamQuery(d->cuda->stream);
	if (code == cudaErrorNotReady)
		(void)cudaGetLastError(); /* of which it makes an error */
	else
		orr_cuda_ok(d, code, "the start of a task");
}
