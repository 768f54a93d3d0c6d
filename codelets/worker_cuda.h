#pragma once
/* (private to codelets.c and workspace.c) The device of a StarPU worker that is one; with CUDA
 * (worker_cuda.c) or without (worker_none.c). To be called by the worker's thread. */
#include <stddef.h>
#include "device.h"

int orr_worker_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			 size_t size);
void orr_worker_cuda_fini(struct orr_device *device);
void *orr_worker_stream(void); /* a cudaStream_t; NULL: of a core */
