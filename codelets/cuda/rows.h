#pragma once
/* (private to the .cu files) Threads that add up a row: T of them, a warp or a block; and
 * kernels that go row by row. */
#include "launch.h"

/* A thread's place: element V * x of a row, and every T V from there; row y of the block. */
template <int T> struct place {
	__device__ static unsigned rows() { return ORR_BLOCK / T; }
	__device__ static unsigned x() { return threadIdx.x % T; }
	__device__ static unsigned y() { return threadIdx.x / T; }
};

/* Two sums at once. */
struct pair {
	float a, b;
	__device__ void operator+=(struct pair other) { a += other.a, b += other.b; }
};

template <class N> __device__ inline N of_lane(N v, int offset)
{
	return __shfl_xor_sync(ORR_ALL_LANES, v, offset);
}
template <> __device__ inline struct pair of_lane(struct pair v, int offset)
{
	return {of_lane(v.a, offset), of_lane(v.b, offset)};
}

/* What join makes of the values of all threads of a row, in one order, in all of them. */
template <int T, class N, class F> __device__ inline N row_fold(N v, F join)
{
	for (int offset = 16; offset; offset /= 2)
		v = join(v, of_lane(v, offset));
	if constexpr (T > 32) {
		__shared__ N warps[T / 32];

		__syncthreads();
		if (threadIdx.x % 32 == 0)
			warps[threadIdx.x / 32] = v;
		__syncthreads();
		v = warps[0];
		for (int k = 1; k < T / 32; k++)
			v = join(v, warps[k]);
	}
	return v;
}

template <int T, class N> __device__ inline N row_sum(N v)
{
	return row_fold<T>(v, [](N a, N b) { return a += b, a; });
}

/* ---- kernels that go row by row: a narrow row is a warp's, a wide one a block's ---- */

/* How a kernel is started: T threads a row, rows a block, floats kept of each. */
struct shape {
	unsigned threads, rows, grid;
	int64_t kept;
	size_t shared;
};

/* kept: floats that a kernel would like to keep of a row */
static inline struct shape shape_of(int64_t n, int64_t width, int64_t kept)
{
	struct shape s = {32, ORR_BLOCK / 32, 0, kept, 0};

	if (width > ORR_NARROW)
		s.threads = ORR_BLOCK, s.rows = 1;
	s.grid = orr_blocks(n, s.rows);
	s.shared = (size_t)s.rows * (size_t)kept * sizeof(float);
	if (s.shared > ORR_SHARED - 1024) /* the sums have some, too */
		s.kept = 0, s.shared = 0;
	return s;
}

/* A score and where it is. */
struct best {
	float score;
	int64_t at;
};

__device__ inline best better(best a, best b)
{
	return orr_score_wins(b.score, b.at, a.score, a.at) ? b : a;
}

template <> __device__ inline best of_lane(best v, int offset)
{
	return {of_lane(v.score, offset), of_lane(v.at, offset)};
}

template <int T> __device__ inline best row_best(best b)
{
	return row_fold<T>(b, better);
}

/* f(i) for the thread's elements i, i + 1, ..., i + V - 1 of a row. */
template <int T, int V, class F> __device__ inline void each_of(int64_t width, F f)
{
	for (int64_t i = (int64_t)V * place<T>::x(); i < width; i += T * V)
		f(i);
}

/* f(i, v) with these elements v of a row, or with those of two. */
template <int T, int V, class A, class F>
__device__ inline void each_of(int64_t width, const A *row, F f)
{
	each_of<T, V>(width, [&](int64_t i) {
		float v[V];

		orr_load<V>(v, row + i);
		f(i, v);
	});
}

template <int T, int V, class A, class F>
__device__ inline void each_of(int64_t width, const A *row, const A *other, F f)
{
	each_of<T, V>(width, row, [&](int64_t i, float *v) {
		float w[V];

		orr_load<V>(w, other + i);
		f(i, v, w);
	});
}

/* f(r) for the rows of the thread; all threads of a row are in step. */
template <int T, class F> __device__ inline void each_row(int64_t n, F f)
{
	for (int64_t r = (int64_t)blockIdx.x * place<T>::rows() + place<T>::y(); r < n;
	     r += (int64_t)gridDim.x * place<T>::rows())
		f(r);
}

/* V elements from i on: kept ones, if any, else those in memory. */
template <int V, class A>
__device__ inline void again(float *v, const float *kept, const A *row, int64_t i)
{
	if (kept)
		orr_load<V>(v, kept + i);
	else
		orr_load<V>(v, row + i);
}

/* Starts kernel<T, V> for the rows of a shape, four columns at once if every row of every pointer
 * is at a multiple of 16 bytes: `all` is all of them or'ed. */
#define START(d, name, s, all, width, kernel, ...) \
	START_ONE(d, name, s, all, width, (kernel<32, 4>), (kernel<32, 1>), \
		  (kernel<ORR_BLOCK, 4>), (kernel<ORR_BLOCK, 1>), __VA_ARGS__)
/* The same of kernel<T, V, A>, whose activations are A. */
#define START_AS(d, name, s, all, width, kernel, A, ...) \
	START_ONE(d, name, s, all, width, (kernel<32, 4, A>), (kernel<32, 1, A>), \
		  (kernel<ORR_BLOCK, 4, A>), (kernel<ORR_BLOCK, 1, A>), __VA_ARGS__)
#define START_ONE(d, name, s, all, width, warp4, warp1, block4, block1, ...) \
	do { \
		bool quads_ = (width) % 4 == 0 && (all) % 16 == 0; \
		const auto start_ = \
			(s).threads == 32 ? (quads_ ? warp4 : warp1) : (quads_ ? block4 : block1); \
\
		ORR_LAUNCH(start_, (s).grid, ORR_BLOCK, (s).shared, (d)->cuda->stream, \
			   __VA_ARGS__); \
		orr_cuda_ok(d, cudaGetLastError(), name); \
	} while (0)

/* So many floats of a row that the next one is at a multiple of 16 bytes, too. */
static inline int64_t whole(int64_t width)
{
	return orr_ceil(width, 4) * 4;
}
