#pragma once
/* The operators that go element by element, and their formulas, one text for C and for CUDA:
 * orr_NAME_of(x) and orr_NAME_slope(kept, dy), which is dy times the derivative there. */
#include "elements.h"

/* ---- relu ---- */

/* x < 0 rather than x > 0: NaN passes, so that a training that diverges shows it. */
ORR_ELEMENT float orr_relu_of(float x)
{
	return x < 0.0f ? 0.0f : x;
}

/* What comes through, y being the relu's output. */
ORR_ELEMENT float orr_relu_slope(float y, float dy)
{
	return y > 0.0f ? dy : 0.0f;
}

/* ---- gelu ---- */

/* The exact form, x (1 + erf(x / sqrt(2))) / 2, not the tanh approximation. */

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

/* ---- tanh ---- */

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

/* ---- gelu_tanh ---- */

/* The approximation of gelu by tanh, as GPT-2 has it. */

#define ORR_GELU_RATE 0.79788456080286536f /* sqrt(2 / pi) */
#define ORR_GELU_CUBE 0.044715f

ORR_ELEMENT float orr_gelu_tanh_of(float x)
{
	return 0.5f * x * (1.0f + orr_tanh_of(ORR_GELU_RATE * (x + ORR_GELU_CUBE * (x * x * x))));
}

ORR_ELEMENT float orr_gelu_tanh_slope(float x, float dy)
{
	float t = orr_tanh_of(ORR_GELU_RATE * (x + ORR_GELU_CUBE * (x * x * x)));
	float inner = ORR_GELU_RATE * (1.0f + 3.0f * ORR_GELU_CUBE * (x * x));

	return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner);
}

/* ---- sigmoid ---- */

ORR_ELEMENT float orr_sigmoid_of(float x)
{
	return 1.0f / (1.0f + orr_exp_of(-x));
}

ORR_ELEMENT float orr_sigmoid_slope(float y, float dy)
{
	return dy * (y * (1.0f - y));
}

/* ---- silu ---- */

ORR_ELEMENT float orr_silu_of(float x)
{
	return x * orr_sigmoid_of(x);
}

ORR_ELEMENT float orr_silu_slope(float x, float dy)
{
	float s = orr_sigmoid_of(x);

	return dy * (s * (1.0f + x * (1.0f - s)));
}

/* ---- all of them ---- */

/* Name; what is kept, the input or the output; operations an element, forward and backward, an exp,
 * tanh or root as one. */
#define ORR_ELEMENTWISE(X) \
	X(relu, OUTPUT, 1, 1) \
	X(gelu, INPUTS, 8, 16) \
	X(gelu_tanh, INPUTS, 9, 18) \
	X(silu, INPUTS, 4, 8) \
	X(sigmoid, OUTPUT, 3, 3) \
	X(tanh, OUTPUT, 1, 3)

enum orr_elementwise {
#define ORR_NAME(name, kept, forward, backward) ORR_ELEMENTWISE_##name,
	ORR_ELEMENTWISE(ORR_NAME)
#undef ORR_NAME
};
