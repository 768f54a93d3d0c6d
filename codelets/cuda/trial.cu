/* What a trial of a product needs: random operands, and whether two results have the same bits. */
#include "launch.h"

/* In [-1, 1), by the place alone. */
__device__ inline float drawn(int64_t i, unsigned seed)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	x = (x ^ x >> 16) * 0x45d9f3bu;
	x = (x ^ x >> 16) * 0x45d9f3bu;
	return (float)(int32_t)(x ^ x >> 16) * 0x1p-31f;
}

template <class T>
__global__ void __launch_bounds__(ORR_BLOCK) fill(int64_t count, unsigned seed, T *to)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < count; i += stride)
		if constexpr (sizeof(T) == sizeof(float))
			to[i] = drawn(i, seed);
		else
			to[i] = orr_bf16_of(drawn(i, seed));
}

void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to)
{
	unsigned grid = orr_blocks(count, ORR_BLOCK);

	if (halves)
		ORR_LAUNCH(fill<uint16_t>, grid, ORR_BLOCK, 0, d->cuda->stream, count, seed,
			   static_cast<uint16_t *>(to));
	else
		ORR_LAUNCH(fill<float>, grid, ORR_BLOCK, 0, d->cuda->stream, count, seed,
			   static_cast<float *>(to));
	orr_cuda_ok(d, cudaGetLastError(), "random operands");
}

__global__ void __launch_bounds__(ORR_BLOCK)
	find_difference(int64_t count, const uint32_t *a, const uint32_t *b, long long *first)
{
	int64_t stride = (int64_t)gridDim.x * ORR_BLOCK;

	for (int64_t i = (int64_t)blockIdx.x * ORR_BLOCK + threadIdx.x; i < count; i += stride)
		if (a[i] != b[i])
			atomicMin(first, (long long)i);
}

void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first)
{
	ORR_LAUNCH(find_difference, orr_blocks(count, ORR_BLOCK), ORR_BLOCK, 0, d->cuda->stream,
		   count, reinterpret_cast<const uint32_t *>(a),
		   reinterpret_cast<const uint32_t *>(b), reinterpret_cast<long long *>(first));
	orr_cuda_ok(d, cudaGetLastError(), "difference");
}
