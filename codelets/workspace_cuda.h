#ifndef ORR_WORKSPACE_CUDA_H
#define ORR_WORKSPACE_CUDA_H
/* (private to workspace.c) The device of a StarPU worker that is one; with CUDA (workspace_cuda.c)
 * or without (workspace_none.c). Both are called by the worker's thread. */
#include <stddef.h>
#include "device.h"

int orr_workspace_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
			    size_t size);
void orr_workspace_cuda_fini(struct orr_device *device);
#endif
