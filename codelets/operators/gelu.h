#pragma once
/* The exact form, x (1 + erf(x / sqrt(2))) / 2, not the tanh approximation. */
#include "../elements.h"

#define ORR_SQRT_HALF 0.70710678118654752f           /* 1/sqrt(2) */
#define ORR_NORMAL_DENSITY_AT_0 0.39894228040143268f /* 1/sqrt(2 pi) */

/* The normal distribution below x; density: exp(-x^2/2). With z = |x| / sqrt(2) and t = 1 / (1 +
 * 0.3 z), erfc(z) is exp(-z^2) t times a polynomial of t, fitted for the smallest relative error,
 * 2e-8, up to z = 9.5. */
ORR_ELEMENT float orr_normal_below(float x, float density)
{
	float t = 1.0f / (1.0f + 0.3f * ORR_SQRT_HALF * fabsf(x));
	float q = t * (0.54640035f + t * (-0.51123098f + t * (0.4850986f + t * -0.12943451f)));
	float tail = 0.5f * density * t *
		     (0.16918961f +
		      t * (0.170692f + t * (0.148482f + t * (0.21443792f + t * (-0.093635f + q)))));

	return x < 0.0f ? tail : 1.0f - tail;
}

ORR_ELEMENT float orr_gelu_of(float x)
{
	return x * orr_normal_below(x, orr_exp_of(-0.5f * x * x));
}

ORR_ELEMENT float orr_gelu_slope(float x, float dy)
{
	float density = orr_exp_of(-0.5f * x * x);

	return dy * (orr_normal_below(x, density) + x * (ORR_NORMAL_DENSITY_AT_0 * density));
}
