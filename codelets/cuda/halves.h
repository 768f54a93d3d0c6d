#pragma once
/* (private to the .cu files) What goes element by element over floats or bfloat16. */
#include "launch.h"

#define ORR_EIGHT 8 /* bfloat16 at once: 16 bytes */

/* y = f(a, b), in float32; y may be a or b. HAS_B: it reads b, else zeros take its place. A, B, Y:
 * float, or uint16_t of bfloat16. */
template <bool HAS_B, class F, class A, class B, class Y>
static void orr_each_value(struct orr_device *d, const char *name, int64_t count, const A *a,
			   const B *b, Y *y, F f)
{
	constexpr int W = sizeof(A) + sizeof(B) + sizeof(Y) == 3 * sizeof(float) ? 4 : ORR_EIGHT;

	orr_each_item<W>(d, name, count, count,
			 orr_address(a) | (HAS_B ? orr_address(b) : 0) | orr_address(y),
			 [=] __device__(auto n, int64_t at) {
				 float u[n.value], v[n.value] = {};

				 orr_load<n.value>(u, a + at);
				 if (HAS_B)
					 orr_load<n.value>(v, b + at);
				 for (int k = 0; k < n.value; k++)
					 u[k] = f(u[k], v[k]);
				 orr_store<n.value>(y + at, u);
			 });
}
