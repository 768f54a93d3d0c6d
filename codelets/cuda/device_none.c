#include "device.h"

#include <stdio.h>

#include "base/absent.h"

#define WHY "this build has none; it takes nvcc and a StarPU with CUDA (tools/build-starpu)"

int orr_cuda_devices(char *why, size_t size)
{
	if (why)
		snprintf(why, size, WHY);
	return -1;
}

ORR_ABSENT(int, i, orr_cuda_device, int i)
ORR_ABSENT(int, -1, orr_cuda_uuid, int device, unsigned char uuid[16])
ORR_ABSENT(int, -1, orr_cuda_bus, int device, char *text, size_t size)
ORR_ABSENT(int, snprintf(why, size, WHY), orr_cuda_take, int device, void **stream, char *why,
	   size_t size)
ORR_ABSENT(void, , orr_cuda_give_back, void *stream)
ORR_ABSENT(void, , orr_cuda_use, int device)
