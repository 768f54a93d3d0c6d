#ifndef ORR_CUDA_DEVICE_H
#define ORR_CUDA_DEVICE_H
/* The CUDA devices of this machine. Nothing here prints; a machine without a driver has none. */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Devices that can run the kernels here. 0: why, of size bytes, says in a few words what is
 * missing; may be NULL. */
int orr_cuda_devices(char *why, size_t size);

/* "NVIDIA H200, compute capability 9.0, 139.8 GiB"; device: from 0. */
void orr_cuda_describe(int device, char *text, size_t size);

/* Its PCI address, "0000:17:00.0", 13 bytes; 0, or nobody knows. */
int orr_cuda_bus(int device, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
