#include "device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

/* The oldest that the kernels are compiled for (meson.build). */
#define OLDEST 8

int orr_cuda_devices(char *why, size_t size)
{
	int n = 0, major = 0, fit = 0;
	cudaError_t code = cudaGetDeviceCount(&n);

	(void)cudaGetLastError(); /* it would be found by whoever asks next */
	for (int i = 0; code == cudaSuccess && i < n; i++)
		fit += cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) ==
			       cudaSuccess &&
		       major >= OLDEST;
	if (fit || !why)
		return fit;
	if (code == cudaSuccess)
		snprintf(why, size, "compute capability %d, and %d.0 is needed", major, OLDEST);
	else
		snprintf(why, size, "%s", cudaGetErrorString(code));
	return 0;
}

void orr_cuda_describe(int device, char *text, size_t size)
{
	struct cudaDeviceProp p;

	if (cudaGetDeviceProperties(&p, device) != cudaSuccess)
		snprintf(text, size, "device %d", device);
	else
		snprintf(text, size, "%s, compute capability %d.%d, %.1f GiB", p.name, p.major, p.minor,
			 (double)p.totalGlobalMem / (1 << 30));
}

int orr_cuda_bus(int device, char *text, size_t size)
{
	return cudaDeviceGetPCIBusId(text, (int)size, device) != cudaSuccess;
}
