#ifndef ORR_CUDA_LAUNCH_H
#define ORR_CUDA_LAUNCH_H
/* (private to the .cu files) Starting kernels, and what kernels share. Tests compile the same files
 * with a C++ compiler and tests/cuda_emulation.h, which runs a kernel thread by thread. */
#include "geometry.h"
#include "private.h"

#ifndef ORR_CUDA_EMULATION
#include <cuda_runtime.h>
#define ORR_LAUNCH(kernel, grid, block, shared, stream, ...) \
	kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define ORR_SHARED_FLOATS(name) extern __shared__ __align__(16) float name[]
#endif

#define ORR_ALL_LANES 0xffffffffu

/* V floats at once: 4 need a multiple of 16 bytes. */
template <int V> __device__ inline void orr_load(float *v, const float *from)
{
	if constexpr (V == 4) {
		const float4 all = *reinterpret_cast<const float4 *>(from);

		v[0] = all.x, v[1] = all.y, v[2] = all.z, v[3] = all.w;
	} else {
		v[0] = *from;
	}
}

template <int V> __device__ inline void orr_store(float *to, const float *v)
{
	if constexpr (V == 4)
		*reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
	else
		*to = v[0];
}

/* The same of bfloat16, where 4 need a multiple of 8. */
template <int V> __device__ inline void orr_load(float *v, const uint16_t *from)
{
	if constexpr (V == 4) {
		const ushort4 all = *reinterpret_cast<const ushort4 *>(from);

		v[0] = orr_bf16_float(all.x), v[1] = orr_bf16_float(all.y);
		v[2] = orr_bf16_float(all.z), v[3] = orr_bf16_float(all.w);
	} else {
		v[0] = orr_bf16_float(*from);
	}
}

template <int V> __device__ inline void orr_store(uint16_t *to, const float *v)
{
	if constexpr (V == 4) {
		ushort4 all;

		all.x = orr_bf16_of(v[0]), all.y = orr_bf16_of(v[1]);
		all.z = orr_bf16_of(v[2]), all.w = orr_bf16_of(v[3]);
		*reinterpret_cast<ushort4 *>(to) = all;
	} else {
		*to = orr_bf16_of(v[0]);
	}
}

static inline uintptr_t orr_address(const void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}
#endif
