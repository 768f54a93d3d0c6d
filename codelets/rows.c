#include "rows.h"

#include <math.h>
#include <string.h>

#include "elements.h"
#include "kernels.h"
#include "sequence.h"
#include "vector.h"

#define LANES 16

ORR_VECTOR static float largest(int64_t n, const float *x, float most)
{
	float lanes[LANES];
	int64_t i = 0;

	for (int k = 0; k < LANES; k++)
		lanes[k] = most;
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
	for (int k = 0; i + k < n; k++)
		lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
	for (int k = 0; k < LANES; k++)
		most = lanes[k] > most ? lanes[k] : most;
	return most;
}

float orr_row_largest(int64_t n, const float *x, float least)
{
	return largest(n, x, least);
}

ORR_VECTOR static float exponentials(int64_t n, float most, float *x)
{
	float lanes[LANES] = {0}, sum = 0;
	int64_t i = 0;

	for (int64_t j = 0; j < n; j++)
		x[j] = orr_exp_of(x[j] - most);
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lanes[k] += x[i + k];
	for (int k = 0; i + k < n; k++)
		lanes[k] += x[i + k];
	for (int k = 0; k < LANES; k++)
		sum += lanes[k];
	return sum;
}

float orr_row_exponentials(int64_t n, float most, float *x)
{
	return exponentials(n, most, x);
}

ORR_VECTOR static float dot(int64_t n, const float *x, const float *y)
{
	float lanes[LANES] = {0}, sum = 0;
	int64_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++)
			lanes[k] += x[i + k] * y[i + k];
	for (int k = 0; i + k < n; k++)
		lanes[k] += x[i + k] * y[i + k];
	for (int k = 0; k < LANES; k++)
		sum += lanes[k];
	return sum;
}

float orr_row_dot(int64_t n, const float *x, const float *y)
{
	return dot(n, x, y);
}

ORR_VECTOR static void row_add(int64_t n, float factor, const float *restrict x, float *restrict y)
{
	for (int64_t i = 0; i < n; i++)
		y[i] += factor * x[i];
}

void orr_row_add(int64_t n, float factor, const float *x, float *y)
{
	row_add(n, factor, x, y);
}

ORR_VECTOR static void row_slopes(int64_t n, float sum, float along, float factor,
				  float *restrict p, float *restrict x)
{
	for (int64_t i = 0; i < n; i++) {
		p[i] = orr_exp_of(p[i] - sum);
		x[i] = p[i] * (x[i] - along) * factor;
	}
}

void orr_row_slopes(int64_t n, float sum, float along, float factor, float *p, float *x)
{
	row_slopes(n, sum, along, factor, p, x);
}

/* ---- softmax and length 1 ---- */

void orr_softmax_forward(int64_t n, int64_t width, const float *x, float *y)
{
	memcpy(y, x, (size_t)(n * width) * sizeof(*y));
	for (int64_t r = 0; r < n; r++, y += width)
		orr_scale(width,
			  1.0f / orr_row_exponentials(width, orr_row_largest(width, y, y[0]), y), y,
			  y);
}

ORR_VECTOR static void softmax_slopes(int64_t n, float along, const float *restrict y,
				      const float *restrict dy, float *restrict dx)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = y[i] * (dy[i] - along);
}

void orr_softmax_input(int64_t n, int64_t width, const float *y, const float *dy, float *dx)
{
	for (int64_t r = 0; r < n; r++, y += width, dy += width, dx += width)
		softmax_slopes(width, orr_row_dot(width, y, dy), y, dy, dx);
}

void orr_normalise_forward(int64_t n, int64_t width, float epsilon, const float *x, float *y,
			   float *factors)
{
	for (int64_t r = 0; r < n; r++, x += width, y += width) {
		float length = sqrtf(orr_row_dot(width, x, x));

		factors[r] = 1.0f / (length < epsilon ? epsilon : length);
		orr_scale(width, factors[r], x, y);
	}
}

ORR_VECTOR static void length_slopes(int64_t n, float factor, float along, const float *restrict y,
				     const float *restrict dy, float *restrict dx)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = factor * (dy[i] - along * y[i]);
}

/* Shorter rows than epsilon are scaled by a constant, and keep what points along them. */
void orr_normalise_input(int64_t n, int64_t width, float epsilon, const float *y,
			 const float *factors, const float *dy, float *dx)
{
	for (int64_t r = 0; r < n; r++, y += width, dy += width, dx += width)
		length_slopes(width, factors[r],
			      factors[r] < 1.0f / epsilon ? orr_row_dot(width, y, dy) : 0.0f, y, dy,
			      dx);
}
