#pragma once
/* (private to the .cu files) Threads that add up a row: T of them, a warp or a block; and
 * kernels that go row by row. */
#include "launch.h"

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

/* ---- kernels that go row by row: a narrow row is a warp's, a wide one a block's ---- */

/* A row in memory, and in shared memory what is kept of it as floats: NULL where there is no room.
 */
template <class A> struct kept_row {
	float *kept;
	const A *row;
};

/* V of its elements, from i on. */
template <int V, class A> __device__ inline void load(float *v, const A *row, int64_t i)
{
	orr_load<V>(v, row + i);
}

template <int V, class A> __device__ inline void load(float *v, kept_row<A> from, int64_t i)
{
	if (from.kept)
		orr_load<V>(v, from.kept + i);
	else
		orr_load<V>(v, from.row + i);
}

/* The threads of a row. Each takes VALUES elements at once, from V * x() on, and every T V from
 * there; the row is number y() of its block's. */
template <int THREADS, int VALUES> struct row_threads {
	static constexpr int T = THREADS, V = VALUES, rows = ORR_BLOCK / THREADS;

	__device__ static unsigned x() { return threadIdx.x % T; }
	__device__ static unsigned y() { return threadIdx.x / T; }
	template <class N> __device__ static N sum(N v) { return row_sum<T>(v); }

	/* f(i) for the thread's elements i, i + 1, ..., i + V - 1. */
	template <class F> __device__ static void each(int64_t width, F f)
	{
		for (int64_t i = (int64_t)V * x(); i < width; i += T * V)
			f(i);
	}
	/* f(i, element i), of a row that may be kept */
	template <class R, class F> __device__ static void each(int64_t width, R from, F f)
	{
		each(width, [&](int64_t i) {
			float v[V];

			load<V>(v, from, i);
			for (int k = 0; k < V; k++)
				f(i + k, v[k]);
		});
	}
	/* to[i] = f(i, element i), or of two rows' */
	template <class R, class A, class F>
	__device__ static void map(int64_t width, R from, A *to, F f)
	{
		each(width, [&](int64_t i) {
			float v[V];

			load<V>(v, from, i);
			for (int k = 0; k < V; k++)
				v[k] = f(i + k, v[k]);
			orr_store<V>(to + i, v);
		});
	}
	template <class A, class F>
	__device__ static void map(int64_t width, const A *a, const A *b, A *to, F f)
	{
		each(width, [&](int64_t i) {
			float v[V], w[V];

			orr_load<V>(v, a + i);
			orr_load<V>(w, b + i);
			for (int k = 0; k < V; k++)
				v[k] = f(i + k, v[k], w[k]);
			orr_store<V>(to + i, v);
		});
	}
	/* each(), of a row that is kept from now on where there is room */
	template <class A, class F>
	__device__ static void keep(int64_t width, kept_row<A> from, F f)
	{
		auto read = [&](int64_t i, float v) { return f(i, v), v; };

		if (from.kept)
			map(width, from.row, from.kept, read);
		else
			each(width, from.row, read);
	}
};

/* f(threads, a number of type A, of type B, r, room of the row) for each row, whose threads are in
 * step. */
template <class R, class A, class B, class F>
__global__ void __launch_bounds__(ORR_BLOCK)
	at_each_row(int64_t n, int64_t room, const __grid_constant__ F f)
{
	ORR_SHARED_FLOATS(shared);
	R t;
	float *kept = room ? shared + room * t.y() : NULL;

	for (int64_t r = (int64_t)blockIdx.x * t.rows + t.y(); r < n;
	     r += (int64_t)gridDim.x * t.rows)
		f(t, A(), B(), r, kept);
}

/* room: floats that f would like to keep of a row */
template <class R, class A, class B, class F>
static inline void start_rows(struct orr_device *d, const char *name, int64_t n, int64_t room, F f)
{
	size_t shared = (size_t)R::rows * (size_t)room * sizeof(float);

	if (shared > ORR_SHARED - 1024) /* the sums have some, too */
		room = 0, shared = 0;
	orr_launch(d, name, at_each_row<R, A, B, F>, orr_blocks(n, R::rows), ORR_BLOCK, shared, n,
		   room, f);
}

/* f(the threads of a row of this width): four columns at once if every row of every pointer is at a
 * multiple of 16 bytes; all: the pointers, or-ed. */
template <class F> static inline void by_width(int64_t width, uintptr_t all, F f)
{
	bool quads = width % 4 == 0 && all % 16 == 0;

	if (width <= ORR_NARROW && quads)
		f(row_threads<32, 4>());
	else if (width <= ORR_NARROW)
		f(row_threads<32, 1>());
	else if (quads)
		f(row_threads<ORR_BLOCK, 4>());
	else
		f(row_threads<ORR_BLOCK, 1>());
}

/* A row of floats: f(threads, r). */
template <class F> struct of_floats {
	F f;
	template <class R> __device__ void operator()(R t, float, float, int64_t r, float *) const
	{
		f(t, r);
	}
};

template <class F>
static void by_row(struct orr_device *d, const char *name, int64_t n, int64_t width, uintptr_t all,
		   F f)
{
	by_width(width, all, [=](auto t) {
		start_rows<decltype(t), float, float>(d, name, n, 0, of_floats<F>{f});
	});
}

template <class F> static void by_warp(struct orr_device *d, const char *name, int64_t n, F f)
{
	start_rows<row_threads<32, 1>, float, float>(d, name, n, 0, of_floats<F>{f});
}

/* f(threads, a number of type A, of type B): of what activations are; x and dx of a norm are A. */
template <class F> static void by_type(struct orr_device *d, int64_t width, uintptr_t all, F f)
{
	by_width(width, all, [=](auto t) {
		if (d->halves && d->floats)
			f(t, float(), uint16_t());
		else if (d->halves)
			f(t, uint16_t(), uint16_t());
		else
			f(t, float(), float());
	});
}

template <class F>
static void by_typed_row(struct orr_device *d, const char *name, int64_t n, int64_t width,
			 int64_t room, uintptr_t all, F f)
{
	by_type(d, width, all, [=](auto t, auto a, auto b) {
		start_rows<decltype(t), decltype(a), decltype(b)>(d, name, n, room, f);
	});
}

/* So many floats of a row that the next one is at a multiple of 16 bytes, too. */
ORR_ELEMENT int64_t whole(int64_t width)
{
	return orr_ceil(width, 4) * 4;
}
