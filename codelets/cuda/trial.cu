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

template <class T> struct fill {
	unsigned seed;
	T *to;
	__device__ void operator()(int64_t i) const
	{
		float v = drawn(i, seed);

		orr_store<1>(to + i, &v);
	}
};

void orr_cuda_fill(struct orr_device *d, int64_t count, unsigned seed, bool halves, void *to)
{
	if (halves)
		orr_each(d, "random operands", count,
			 fill<uint16_t>{seed, static_cast<uint16_t *>(to)});
	else
		orr_each(d, "random operands", count, fill<float>{seed, static_cast<float *>(to)});
}

struct find_difference {
	const uint32_t *a, *b;
	long long *first;
	__device__ void operator()(int64_t i) const
	{
		if (a[i] != b[i])
			atomicMin(first, (long long)i);
	}
};

void orr_cuda_find_difference(struct orr_device *d, int64_t count, const float *a, const float *b,
			      int64_t *first)
{
	orr_each(d, "difference", count,
		 find_difference{reinterpret_cast<const uint32_t *>(a),
				 reinterpret_cast<const uint32_t *>(b),
				 reinterpret_cast<long long *>(first)});
}
