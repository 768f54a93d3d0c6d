#include "loops.h"

#include "elements.h"
#include "vector.h"

int64_t orr_row_best(int64_t n, const float *x)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	return best;
}

ORR_VECTOR static float largest(int64_t n, const float *x, float most)
{
	float lanes[ORR_LANES];

	for (int k = 0; k < ORR_LANES; k++)
		lanes[k] = most;
	ORR_IN_LANES(n, lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k]);
	for (int k = 0; k < ORR_LANES; k++)
		most = lanes[k] > most ? lanes[k] : most;
	return most;
}

float orr_row_largest(int64_t n, const float *x, float least)
{
	return largest(n, x, least);
}

ORR_LOOP(row_exps, y[i] = orr_exp_of(factor * x[i] - most),
	 (int64_t count, float factor, float most, const float *x, float *y), factor, most, x, y)

ORR_VECTOR static float exponentials(int64_t n, float most, float *x)
{
	float lanes[ORR_LANES] = {0}, sum = 0;

	for (int64_t j = 0; j < n; j++)
		x[j] = orr_exp_of(x[j] - most);
	ORR_IN_LANES(n, lanes[k] += x[i + k]);
	for (int k = 0; k < ORR_LANES; k++)
		sum += lanes[k];
	return sum;
}

float orr_row_exponentials(int64_t n, float most, float *x)
{
	return exponentials(n, most, x);
}

ORR_VECTOR static float dot(int64_t n, const float *x, const float *y)
{
	float lanes[ORR_LANES] = {0}, sum = 0;

	ORR_IN_LANES(n, lanes[k] += x[i + k] * y[i + k]);
	for (int k = 0; k < ORR_LANES; k++)
		sum += lanes[k];
	return sum;
}

float orr_row_dot(int64_t n, const float *x, const float *y)
{
	return dot(n, x, y);
}

ORR_LOOP(row_add, y[i] += factor * x[i],
	 (int64_t count, float factor, const float *restrict x, float *restrict y), factor, x, y)
ORR_LOOP(row_slopes, (p[i] = orr_exp_of(p[i] - sum), x[i] = p[i] * (x[i] - along) * factor),
	 (int64_t count, float sum, float along, float factor, float *restrict p,
	  float *restrict x),
	 sum, along, factor, p, x)
