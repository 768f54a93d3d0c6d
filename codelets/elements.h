#pragma once
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

/* exp(x) to 2 units in the last place, without a call or a branch, so that loops of it become
 * vectors: x = k ln 2 + r with |r| <= ln 2 / 2, and a polynomial of r fitted for the smallest
 * relative error. 2^k is two factors, for results below the normal numbers. */
ORR_ELEMENT float orr_exp_of(float x)
{
	const float to_whole = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
	float within = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x; /* NaN passes */
	float shifted = within * 1.44269504f + to_whole, k = shifted - to_whole, r, g, low, high;
	uint32_t bits, half;

	r = (within - k * 0.693145752f) - k * 1.42860677e-6f; /* ln 2 in two parts */
	g = 0.499999996f +
	    r * (0.166665773f + r * (0.0416668535f + r * (0.00836314036f + r * 0.0013901274f)));
	memcpy(&bits, &shifted, sizeof(bits));
	bits -= 0x4b400000u - 256u; /* k + 256: the bits of to_whole off */
	half = bits >> 1;
	bits = (bits - half - 1u) << 23; /* of 2^(k - k/2), where 127 is 2^0 */
	memcpy(&high, &bits, sizeof(high));
	bits = (half - 1u) << 23;
	memcpy(&low, &bits, sizeof(low));
	return (1.0f + (r + r * r * g)) * low * high;
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

/* A step's constants, the same for every parameter; see optimizer.h. */
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
