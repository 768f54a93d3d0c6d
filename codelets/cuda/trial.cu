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

template <class T> static void fill(struct orr_device *d, int64_t count, unsigned seed, T *to)
{
	orr_each(d, "random operands", count,
		 [=] __device__(int64_t i) { orr_put(to + i, drawn(i, seed)); });
}

void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to)
{
	orr_typed(halves, [=](auto a) { fill(d, count, seed, orr_as(a, to)); });
}

void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first)
{
	const uint32_t *x = reinterpret_cast<const uint32_t *>(a);
	const uint32_t *y = reinterpret_cast<const uint32_t *>(b);
	long long *least = reinterpret_cast<long long *>(first);

	orr_each(d, "difference", count, [=] __device__(int64_t i) {
		if (x[i] != y[i])
			atomicMin(least, (long long)i);
	});
}
