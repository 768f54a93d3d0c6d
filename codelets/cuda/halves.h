#pragma once
/* (private to the .cu files) What goes element by element over bfloat16. */
#include "launch.h"

#define ORR_EIGHT 8 /* values at once: 16 bytes */

/* The first `eights` times eight values eight by eight, then the rest. f is asked for V values from
 * a place on. */
template <class F> struct each_half {
	int64_t eights;
	F f;
	__device__ void operator()(int64_t i) const
	{
		if (i < eights)
			f.template operator()<ORR_EIGHT>(ORR_EIGHT * i);
		else
			f.template operator()<1>(7 * eights + i);
	}
};

/* Over `count` values, of which the first `whole` may be taken eight at a time; together: the
 * addresses of all that it reads and writes, or-ed. */
template <class F>
static void start_halves(struct orr_device *d, const char *name, int64_t whole, int64_t count, F f,
			 uintptr_t together)
{
	int64_t eights = together % 16 == 0 ? whole / ORR_EIGHT : 0;

	orr_each(d, name, count - 7 * eights, each_half<F>{eights, f});
}

/* y = f(a, b), in float32; y may be a or b. HAS_B: it reads b, else zeros take its place. A, B, Y:
 * float, or uint16_t of bfloat16. */
template <bool HAS_B, class F, class A, class B = A, class Y = A> struct orr_map {
	F f;
	const A *a;
	const B *b;
	Y *y;

	template <int V> __device__ void operator()(int64_t at) const
	{
		float u[V], v[V] = {};

		orr_load<V>(u, a + at);
		if constexpr (HAS_B)
			orr_load<V>(v, b + at);
		for (int k = 0; k < V; k++)
			u[k] = f(u[k], v[k]);
		orr_store<V>(y + at, u);
	}
};

/* Where not all of them are floats. */
template <bool HAS_B, class F, class A, class B, class Y>
static void orr_each_half(struct orr_device *d, const char *name, int64_t count, F f, const A *a,
			  const B *b, Y *y)
{
	start_halves(d, name, count, count, orr_map<HAS_B, F, A, B, Y>{f, a, b, y},
		     orr_address(a) | (HAS_B ? orr_address(b) : 0) | orr_address(y));
}
