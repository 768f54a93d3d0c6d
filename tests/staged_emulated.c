/* Memory of an emulated device that the host reaches as well. */
#include <cuda_runtime_api.h>

#include "staged.h"
#include "suite.h"
#include "../codelets/cuda/stream.h"

static cudaStream_t stream;

struct orr_device staged_device(enum orr_precision precision)
{
	struct orr_device device;
	char why[200];

	ck_assert_int_eq(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
	ck_assert_msg(!orr_cuda_stream_init(&device, precision, stream, why, sizeof(why)), "%s",
		      why);
	return device;
}

void staged_device_fini(struct orr_device *device)
{
	if (!device->cuda) /* none was asked for */
		return;
	ck_assert_msg(!device->failure, "%s", device->failure);
	orr_cuda_stream_fini(device);
	ck_assert_int_eq(cudaStreamDestroy(stream), cudaSuccess);
}

void *staged_allocate(size_t alignment, size_t size)
{
	void *memory = NULL;

	(void)alignment; /* 256, as a device's */
	return cudaHostAlloc(&memory, size, cudaHostAllocDefault) ? NULL : memory;
}

void staged_free(void *memory)
{
	ck_assert_int_eq(cudaFreeHost(memory), cudaSuccess);
}

void staged_wait(struct orr_device *device)
{
	(void)device;
	ck_assert_int_eq(cudaStreamSynchronize(stream), cudaSuccess);
}
