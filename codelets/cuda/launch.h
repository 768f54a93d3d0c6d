#ifndef ORR_CUDA_LAUNCH_H
#define ORR_CUDA_LAUNCH_H
/* (private to the .cu files) Starting kernels, and what kernels share. Tests compile the same files
 * with a C++ compiler and tests/cuda_emulation.h, which runs a kernel thread by thread. */
#include "geometry.h"
#include "private.h"
#include <type_traits>

#ifndef ORR_CUDA_EMULATION
#include <cuda_runtime.h>
#define ORR_LAUNCH(kernel, grid, block, shared, stream, ...) \
	kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define ORR_SHARED_FLOATS(name) extern __shared__ __align__(16) float name[]
#endif

#define ORR_ALL_LANES 0xffffffffu

/* V floats at once: 4 and 8 need a multiple of 16 bytes. */
template <int V> __device__ inline void orr_load(float *v, const float *from)
{
	if constexpr (V % 4 == 0) {
		for (int k = 0; k < V; k += 4) {
			const float4 all = *reinterpret_cast<const float4 *>(from + k);

			v[k] = all.x, v[k + 1] = all.y, v[k + 2] = all.z, v[k + 3] = all.w;
		}
	} else {
		v[0] = *from;
	}
}

template <int V> __device__ inline void orr_store(float *to, const float *v)
{
	if constexpr (V % 4 == 0)
		for (int k = 0; k < V; k += 4)
			*reinterpret_cast<float4 *>(to + k) =
				make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
	else
		*to = v[0];
}

/* The same of bfloat16: 8 need a multiple of 16 bytes, 4 of 8. */
template <int V> __device__ inline void orr_load(float *v, const uint16_t *from)
{
	if constexpr (V % 4 == 0) {
		using pack = std::conditional_t<V == 8, uint4, uint2>;
		const pack all = *reinterpret_cast<const pack *>(from);
		uint16_t half[V];

		memcpy(half, &all, sizeof(all));
		for (int k = 0; k < V; k++)
			v[k] = orr_bf16_float(half[k]);
	} else {
		v[0] = orr_bf16_float(*from);
	}
}

template <int V> __device__ inline void orr_store(uint16_t *to, const float *v)
{
	if constexpr (V % 4 == 0) {
		using pack = std::conditional_t<V == 8, uint4, uint2>;
		uint16_t half[V];
		pack all;

		for (int k = 0; k < V; k++)
			half[k] = orr_bf16_of(v[k]);
		memcpy(&all, half, sizeof(all));
		*reinterpret_cast<pack *>(to) = all;
	} else {
		*to = orr_bf16_of(v[0]);
	}
}

/* Activations, where the device is told that they are bfloat16. */
static inline const uint16_t *orr_halves_of(const float *x)
{
	return reinterpret_cast<const uint16_t *>(x);
}
static inline uint16_t *orr_halves_of(float *x)
{
	return reinterpret_cast<uint16_t *>(x);
}

static inline uintptr_t orr_address(const void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}
#endif
