#ifndef ORR_CUDA_ROWS_H
#define ORR_CUDA_ROWS_H
/* (private to the .cu files) Threads that add up a row: T of them, a warp or a block. */
#include "launch.h"

/* A thread's place: element V * x of a row, and every T V from there; row y of the block. */
template <int T> struct place {
	__device__ static unsigned rows() { return ORR_BLOCK / T; }
	__device__ static unsigned x() { return threadIdx.x % T; }
	__device__ static unsigned y() { return threadIdx.x / T; }
};

/* The same sum in all threads of a row; their values are added in one order. */
template <int T> __device__ inline double row_sum(double v)
{
	for (int offset = 16; offset; offset /= 2)
		v += __shfl_xor_sync(ORR_ALL_LANES, v, offset);
	if constexpr (T > 32) {
		__shared__ double warps[T / 32];

		__syncthreads();
		if (threadIdx.x % 32 == 0)
			warps[threadIdx.x / 32] = v;
		__syncthreads();
		v = 0;
		for (int k = 0; k < T / 32; k++)
			v += warps[k];
	}
	return v;
}
#endif
