#pragma once
/* (private to the .cu files) Starting kernels, and what kernels share. Tests compile the same files
 * with a C++ compiler and tests/cuda_emulation.h, which runs a kernel thread by thread. */
#include "geometry.h"
#include "private.h"
#include <type_traits>

#ifndef ORR_CUDA_EMULATION
#include <cuda_runtime.h>
#define ORR_LAUNCH(kernel, grid, block, shared, stream, ...) \
	kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#define ORR_SHARED_FLOATS(name) extern __shared__ __align__(32) float name[]
#define ORR_UNROLL _Pragma("unroll") /* where what a loop counts must be in registers */
#endif

#define ORR_ALL_LANES 0xffffffffu
#define ORR_EIGHT 8 /* bfloat16 at once: 16 bytes */

/* Starts a kernel; a failure to is noted by that name. */
template <class... P, class... A>
static void orr_launch(struct orr_device *d, const char *name, void (*kernel)(P...), dim3 grid,
		       dim3 block, size_t shared, A... arguments)
{
	ORR_LAUNCH(kernel, grid, block, shared, d->cuda->stream, arguments...);
	orr_cuda_ok(d, cudaGetLastError(), name);
}

/* f(i) for i below n, in turn to the threads of a grid. */
template <class I, class F>
__global__ void __launch_bounds__(ORR_BLOCK) orr_each_index(I n, const __grid_constant__ F f)
{
	I stride = (I)gridDim.x * ORR_BLOCK;

	for (I i = (I)blockIdx.x * ORR_BLOCK + threadIdx.x; i < n; i += stride)
		f(i);
}

template <class I, class F> static void orr_each(struct orr_device *d, const char *name, I n, F f)
{
	const auto kernel = orr_each_index<I, F>;

	if (!n)
		return;
	ORR_LAUNCH(kernel, orr_blocks(n, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream, n, f);
	orr_cuda_ok(d, cudaGetLastError(), name);
}

/* f(i) for i below n, a block's threads all at once. */
template <class F>
__global__ void __launch_bounds__(ORR_BLOCK) orr_in_blocks(int64_t n, const __grid_constant__ F f)
{
	for (int64_t i = blockIdx.x; i < n; i += gridDim.x)
		f(i);
}

template <class F>
static void orr_each_block(struct orr_device *d, const char *name, int64_t n, F f)
{
	orr_launch(d, name, orr_in_blocks<F>, orr_blocks(n, 1), ORR_BLOCK, 0, n, f);
}

/* The first `wide` times W values W by W, then the rest: f(how many, from which place on). */
template <int W, class F> struct orr_item {
	int64_t wide;
	F f;
	__device__ void operator()(int64_t i) const
	{
		if (i < wide)
			f(std::integral_constant<int, W>(), W * i);
		else
			f(std::integral_constant<int, 1>(), (W - 1) * wide + i);
	}
};

/* Over `count` values, of which the first `whole` may be taken W at a time, 16 bytes; together: the
 * addresses of all that it reads and writes, or-ed. */
template <int W, class F>
static void orr_each_item(struct orr_device *d, const char *name, int64_t whole, int64_t count,
			  uintptr_t together, F f)
{
	int64_t wide = together % 16 == 0 ? whole / W : 0;

	orr_each(d, name, count - (W - 1) * wide, orr_item<W, F>{wide, f});
}

/* V values, floats or bfloat16, that are read or written at once: they lie at a multiple of 16
 * bytes, or of all their bytes where these are fewer. */
template <int V, class A> struct alignas(V * sizeof(A) < 16 ? V * sizeof(A) : 16) orr_values {
	A at[V];
};

template <int V, class A> __device__ inline void orr_load(float *v, const A *from)
{
	const orr_values<V, A> all = *reinterpret_cast<const orr_values<V, A> *>(from);

	for (int k = 0; k < V; k++)
		if constexpr (std::is_same_v<A, float>)
			v[k] = all.at[k];
		else
			v[k] = orr_bf16_float(all.at[k]);
}

template <int V, class A> __device__ inline void orr_store(A *to, const float *v)
{
	orr_values<V, A> all;

	for (int k = 0; k < V; k++)
		if constexpr (std::is_same_v<A, float>)
			all.at[k] = v[k];
		else
			all.at[k] = orr_bf16_of(v[k]);
	*reinterpret_cast<orr_values<V, A> *>(to) = all;
}

/* One of them. */
template <class A> __device__ inline float orr_get(const A *from)
{
	float v;

	orr_load<1>(&v, from);
	return v;
}

template <class A> __device__ inline void orr_put(A *to, float v)
{
	orr_store<1>(to, &v);
}

/* f(a number of the type that activations have) */
template <class F> static void orr_typed(bool halves, F f)
{
	if (halves)
		f(uint16_t());
	else
		f(float());
}

/* x as numbers of that type */
template <class A> __host__ __device__ static inline const A *orr_as(A, const void *x)
{
	return static_cast<const A *>(x);
}
template <class A> __host__ __device__ static inline A *orr_as(A, void *x)
{
	return static_cast<A *>(x);
}

/* Addresses, or-ed: a multiple of what all of them are. */
template <class... P> static inline uintptr_t orr_address(P *...p)
{
	return (reinterpret_cast<uintptr_t>(p) | ...);
}

/* ---- kernels over the places of a matrix, in tiles of 32 columns and 8 rows ---- */

template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	at_each(int64_t rows, int64_t columns, F f)
{
	int64_t turn_y = (int64_t)gridDim.y * ORR_TILE_Y, turn_x = (int64_t)gridDim.x * ORR_TILE_X;

	for (int64_t r = (int64_t)blockIdx.y * ORR_TILE_Y + threadIdx.y; r < rows; r += turn_y)
		for (int64_t c = (int64_t)blockIdx.x * ORR_TILE_X + threadIdx.x; c < columns;
		     c += turn_x)
			f(r, c);
}

/* f(row, column) for all places of a matrix. */
template <class F>
static void start(struct orr_device *d, const char *name, int64_t rows, int64_t columns, F f)
{
	dim3 grid(orr_blocks(columns, ORR_TILE_X), orr_blocks(rows, ORR_TILE_Y));

	if (rows && columns)
		orr_launch(d, name, at_each<F>, grid, dim3(ORR_TILE_X, ORR_TILE_Y), 0, rows,
			   columns, f);
}
