#pragma once
/* A stream of a CUDA device as a struct orr_device. Kernels are started and not waited for; they
 * allocate nothing, and give the same bits each time on the same kind of device. */
#include <stddef.h>
#include "../device.h"

extern const struct orr_kernels orr_kernels_cuda;

/* To be called where the CUDA device is current; stream is a cudaStream_t of it. The workspace is
 * the caller's to set, in the device's memory. Not 0: why, of size bytes, says what CUDA says. */
int orr_cuda_stream_init(struct orr_device *device, enum orr_precision precision, void *stream,
			 char *why, size_t size);
void orr_cuda_stream_fini(struct orr_device *device);
