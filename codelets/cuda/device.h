#pragma once
/* The CUDA devices of this machine. Nothing here prints; a machine without a driver has none. */
#include <stddef.h>

/* Devices that can run the kernels here. 0: why, of size bytes, says in a few words what is
 * missing; may be NULL. */
int orr_cuda_devices(char *why, size_t size);
/* CUDA's number of the i-th of them: an older device may come before it. */
int orr_cuda_device(int i);

/* What no other device anywhere has, of device CUDA's number. Not 0: unknown. */
int orr_cuda_uuid(int device, unsigned char uuid[16]);

/* Its PCI address, "0000:17:00.0", 13 bytes. Not 0: unknown. */
int orr_cuda_bus(int device, char *text, size_t size);

/* CUDA's number `device` becomes the calling thread's, with a stream of its own there. Not 0: why,
 * of size bytes, says what CUDA says. */
int orr_cuda_take(int device, void **stream, char *why, size_t size);
void orr_cuda_give_back(void *stream);

/* What this thread asks of CUDA is for this device; else it would be for the first one, which may
 * be another process's. */
void orr_cuda_use(int device);
