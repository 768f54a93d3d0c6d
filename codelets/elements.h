#ifndef ORR_ELEMENTS_H
#define ORR_ELEMENTS_H
/* The formulas of single elements, one text for C and for CUDA. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define ORR_ELEMENT static inline __host__ __device__
#else
#define ORR_ELEMENT static inline
#endif

/* Not finite, or so large that its square is not, of which norms and Adam's moments are made. */
ORR_ELEMENT int orr_is_wild(float x)
{
	return !(x * x < INFINITY);
}

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

#define ORR_SQRT_HALF 0.70710678118654752f           /* 1/sqrt(2) */
#define ORR_NORMAL_DENSITY_AT_0 0.39894228040143268f /* 1/sqrt(2 pi) */

ORR_ELEMENT float orr_gelu_of(float x)
{
	return 0.5f * x * erfcf(-x * ORR_SQRT_HALF);
}

ORR_ELEMENT float orr_gelu_slope(float x, float dy)
{
	float below = 0.5f * erfcf(-x * ORR_SQRT_HALF); /* of the normal distribution */
	float density = ORR_NORMAL_DENSITY_AT_0 * expf(-0.5f * x * x);

	return dy * (below + x * density);
}

/* To bfloat16, the upper half of a float32: to nearest, ties to even; what is too large becomes
 * infinite, and NaN stays NaN. */
ORR_ELEMENT uint16_t orr_bf16_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

ORR_ELEMENT float orr_bf16_float(uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* A step's constants, the same for every parameter; see orr_rule_step. */
struct orr_sgd {
	float share, rate, momentum, decay;
};
struct orr_adam {
	float share, beta1, rest1, beta2, rest2, rate, correction, epsilon, decay, shrink;
};

ORR_ELEMENT void orr_sgd_element(const struct orr_sgd *r, float gradient, float *p)
{
	*p -= r->rate * (r->share * gradient + r->decay * *p);
}

ORR_ELEMENT void orr_momentum_element(const struct orr_sgd *r, float gradient, float *p,
				      float *velocity)
{
	float g = r->share * gradient + r->decay * *p;

	*velocity = r->momentum * *velocity + g;
	*p -= r->rate * *velocity;
}

ORR_ELEMENT void orr_adam_element(const struct orr_adam *r, float gradient, float *p, float *first,
				  float *second)
{
	float g = r->share * gradient + r->decay * *p;

	*first = r->beta1 * *first + r->rest1 * g;
	*second = r->beta2 * *second + r->rest2 * g * g;
	*p -= r->shrink * *p;
	*p -= r->rate * *first / (sqrtf(*second) * r->correction + r->epsilon);
}

/* A score as it competes: NaN never wins, but in the first place nothing wins against it. */
ORR_ELEMENT float orr_score(float x, int64_t i)
{
	return i > 0 && isnan(x) ? -INFINITY : x;
}

/* Of scores, the largest wins, and of equal ones the first: does a at i win against b at j? */
ORR_ELEMENT int orr_score_wins(float a, int64_t i, float b, int64_t j)
{
	return a > b || (i < j && !(b > a));
}
#endif
