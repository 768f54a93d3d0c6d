#pragma once
#include "../elements.h"

/* To 2e-7 of its value: near 0, where a quotient of exponentials would keep no digits, by an odd
 * polynomial (Cephes). */
ORR_ELEMENT float orr_tanh_of(float x)
{
	float size = fabsf(x), z = x * x;
	float near =
		x + x * z *
			    (-0.333332819f +
			     z * (0.133314422f + z * (-0.0537397156f +
						      z * (0.0206390888f + z * -0.00570498872f))));
	float far = 1.0f - 2.0f / (orr_exp_of(2.0f * size) + 1.0f);

	return size < 0.625f ? near : x < 0.0f ? -far : far;
}

ORR_ELEMENT float orr_tanh_slope(float y, float dy)
{
	return dy * (1.0f - y * y);
}
