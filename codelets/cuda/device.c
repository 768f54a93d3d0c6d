#include "device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

/* The oldest that the kernels are compiled for (meson.build). */
#define OLDEST 8

static int capability(int device)
{
	int major = 0;

	return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
			       cudaSuccess
		       ? major
		       : 0;
}

int orr_cuda_device(int i)
{
	int device = 0;

	while (capability(device) < OLDEST || i-- > 0)
		device++;
	return device;
}

int orr_cuda_devices(char *why, size_t size)
{
	int n = 0, fit = 0;
	cudaError_t code = cudaGetDeviceCount(&n);

	(void)cudaGetLastError(); /* or the next call that asks would report it */
	for (int i = 0; code == cudaSuccess && i < n; i++)
		fit += capability(i) >= OLDEST;
	if (fit || !why)
		return fit;
	if (code == cudaSuccess)
		snprintf(why, size, "compute capability %d, and %d.0 is needed", capability(0),
			 OLDEST);
	else
		snprintf(why, size, "%s", cudaGetErrorString(code));
	return 0;
}

int orr_cuda_uuid(int device, unsigned char uuid[16])
{
	struct cudaDeviceProp p;

	if (cudaGetDeviceProperties(&p, device) != cudaSuccess)
		return -1;
	memcpy(uuid, p.uuid.bytes, 16);
	return 0;
}

int orr_cuda_bus(int device, char *text, size_t size)
{
	return cudaDeviceGetPCIBusId(text, (int)size, device) != cudaSuccess;
}

int orr_cuda_take(int device, void **stream, char *why, size_t size)
{
	cudaStream_t made = NULL;
	cudaError_t code = cudaSetDevice(device);

	if (code == cudaSuccess)
		code = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
	*stream = made;
	if (code == cudaSuccess)
		return 0;
	(void)cudaGetLastError();
	snprintf(why, size, "%s", cudaGetErrorString(code));
	return -1;
}

void orr_cuda_give_back(void *stream)
{
	if (stream)
		(void)cudaStreamDestroy(stream);
}

void orr_cuda_use(int device)
{
	(void)cudaSetDevice(device);
	(void)cudaGetLastError(); /* StarPU meets it again, and says so */
}
