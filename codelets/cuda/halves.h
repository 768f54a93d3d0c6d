#pragma once
/* (private to the .cu files) What goes element by element over floats or bfloat16. */
#include "launch.h"

#define ORR_EIGHT 8 /* bfloat16 at once: 16 bytes */

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

template <bool HAS_B, class F, class A, class B, class Y>
static void orr_each_value(struct orr_device *d, const char *name, int64_t count, const A *a,
			   const B *b, Y *y, F f)
{
	constexpr int W = sizeof(A) + sizeof(B) + sizeof(Y) == 3 * sizeof(float) ? 4 : ORR_EIGHT;

	orr_each_item<W>(d, name, count, count, orr_map<HAS_B, F, A, B, Y>{f, a, b, y},
			 orr_address(a) | (HAS_B ? orr_address(b) : 0) | orr_address(y));
}
