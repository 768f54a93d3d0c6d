#ifndef ORR_TESTS_CUDA_EMULATION_H
#define ORR_TESTS_CUDA_EMULATION_H
/* Included before a .cu file that a C++ compiler compiles: a kernel runs on the host, a block after
 * the other and every thread of a block as a fiber. Threads meet at barriers and shuffles as on a
 * device; where they cannot meet, the test ends. See cuda_emulation.cpp. */
#define ORR_CUDA_EMULATION
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __shared__ static
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <cmath>
#include <cstring>
#include <functional>
#undef __launch_bounds__
#define __launch_bounds__(...)

extern uint3 threadIdx, blockIdx;
extern dim3 gridDim, blockDim;

void emulation_launch(dim3 grid, dim3 block, size_t shared, const std::function<void()> &kernel);
float *emulation_shared();      /* of the block, of exactly as many bytes as the launch says */
void emulation_meet(bool warp); /* wait for the threads of the warp, or of the block */
extern double emulation_lanes[32][32]; /* [warp][lane] */

#define ORR_LAUNCH(kernel, grid, block, shared, stream, ...) \
	((void)(stream), emulation_launch(grid, block, shared, [=]() { kernel(__VA_ARGS__); }))
#define ORR_SHARED_FLOATS(name) float *name = emulation_shared()

/* One thread runs at a time. */
static inline long long atomicMin(long long *at, long long value)
{
	long long before = *at;

	*at = value < before ? value : before;
	return before;
}

static inline unsigned atomicInc(unsigned *at, unsigned most)
{
	unsigned before = *at;

	*at = before >= most ? 0 : before + 1;
	return before;
}

static inline float __ldcg(const float *at)
{
	return *at;
}

static inline float __fmul_rn(float a, float b)
{
	return a * b;
}

static inline void __threadfence()
{
}

#define __syncthreads() emulation_meet(false)

template <class T> static inline T __shfl_xor_sync(unsigned, T value, int offset)
{
	unsigned t = threadIdx.x + blockDim.x * threadIdx.y, lane = t % 32;
	double *lanes = emulation_lanes[t / 32];
	T other;

	static_assert(sizeof(T) <= sizeof(double), "a lane has 8 bytes");
	std::memcpy(&lanes[lane], &value, sizeof(value));
	emulation_meet(true);
	std::memcpy(&other, &lanes[lane ^ (unsigned)offset], sizeof(other));
	emulation_meet(true);
	return other;
}
#endif
