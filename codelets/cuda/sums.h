#pragma once
/* (private to the .cu files) Sums down the columns of a matrix. They have one order, whichever
 * kernel makes them: of a strip, the rows y, y + Y, ... for each of Y threads, then over these
 * threads; then over the strips of a group, and over the groups; each from the first to the last. Y
 * is ORR_TILE_Y where a row is narrow, so that a warp may have a row, and 1 where it is wide.
 *
 * It takes one launch: the block that is the last to end finds the sums of all others in memory. */
#include "launch.h"

/* Is this block the last of `all` that come here? It then sees what they wrote before, by
 * __ldcg. The ticket is 0 again after the last. */
__device__ inline bool last_of(unsigned *ticket, unsigned all)
{
	__shared__ bool last;

	__threadfence();
	__syncthreads();
	if (!threadIdx.x) {
		last = atomicInc(ticket, all - 1) == all - 1;
		__threadfence();
	}
	__syncthreads();
	return last;
}

/* The sum of the Y threads of a column, in the first of them. */
template <int Y> __device__ inline float down(float v)
{
	if constexpr (Y > 1) {
		constexpr int X = ORR_BLOCK / Y;
		__shared__ float all[ORR_BLOCK];

		__syncthreads();
		all[threadIdx.x] = v;
		__syncthreads();
		for (int k = 1; k < Y && threadIdx.x < X; k++)
			v += all[k * X + threadIdx.x];
	}
	return v;
}

/* Of `count` rows that are `apart` floats apart. */
__device__ inline float sum_of(int64_t count, int64_t apart, const float *from)
{
	float s = __ldcg(from);

	for (int64_t k = 1; k < count; k++)
		s += __ldcg(from + k * apart);
	return s;
}

__device__ inline int64_t strips_of(int64_t strips, int64_t group)
{
	int64_t left = strips - group * ORR_GROUP;

	return left < ORR_GROUP ? left : ORR_GROUP;
}

__device__ inline void put(float *to, bool add, float v)
{
	*to = add ? *to + v : v;
}

/* The sums of the strips of X columns from `first` on, Y threads a column. */
template <int Y>
__device__ inline void sum_groups(int64_t strips, int64_t width, int64_t first, const float *sums,
				  bool add, float *to)
{
	constexpr int X = ORR_BLOCK / Y, MOST = ORR_MOST_STRIPS / ORR_GROUP;
	__shared__ float group[MOST][X];
	int64_t x = threadIdx.x % X, c = first + x, groups = orr_ceil(strips, ORR_GROUP);

	__syncthreads();
	for (int64_t k = threadIdx.x / X; k < groups && c < width; k += Y)
		group[k][x] = sum_of(strips_of(strips, k), width, sums + k * ORR_GROUP * width + c);
	__syncthreads();
	if (threadIdx.x >= X || c >= width)
		return;
	for (int64_t k = 1; k < groups; k++)
		group[0][x] += group[k][x];
	put(to + c, add, group[0][x]);
}
