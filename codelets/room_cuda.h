#ifndef ORR_ROOM_CUDA_H
#define ORR_ROOM_CUDA_H
/* (private to room.c) The device of a StarPU worker that is one; with CUDA (room_cuda.c) or without
 * (room_none.c). Both are called by the worker's thread. */
#include <stddef.h>
#include "device.h"

int orr_room_cuda_init(struct orr_device *device, enum orr_precision precision, char *why,
		       size_t size);
void orr_room_cuda_fini(struct orr_device *device);
#endif
