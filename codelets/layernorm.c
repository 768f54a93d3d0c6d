#include "kernels.h"

#include <math.h>
#include <string.h>

/* Sums along a row are kept in double: a row is short, and float would lose digits for nothing. */

void orr_layernorm_forward(int64_t n, int64_t width, const float *x, const float *gain,
			   const float *bias, float *y, float *normal)
{
	float *factors = normal + n * width;

	for (int64_t r = 0; r < n; r++, x += width, y += width, normal += width) {
		double mean = 0, variance = 0, factor;

		for (int64_t i = 0; i < width; i++)
			mean += (double)x[i];
		mean /= (double)width;
		for (int64_t i = 0; i < width; i++)
			variance += ((double)x[i] - mean) * ((double)x[i] - mean);
		factor = 1.0 / sqrt(variance / (double)width + 1e-5);
		factors[r] = (float)factor;
		for (int64_t i = 0; i < width; i++) {
			normal[i] = (float)(((double)x[i] - mean) * factor);
			y[i] = normal[i] * gain[i] + bias[i];
		}
	}
}

void orr_layernorm_input(int64_t n, int64_t width, const float *normal, const float *gain,
			 const float *dy, float *dx)
{
	const float *factors = normal + n * width;

	for (int64_t r = 0; r < n; r++, dy += width, dx += width, normal += width) {
		double sum = 0, along = 0; /* of the gradient, and of it along the normal row */

		for (int64_t i = 0; i < width; i++) {
			double g = (double)dy[i] * (double)gain[i];

			sum += g;
			along += g * (double)normal[i];
		}
		sum /= (double)width;
		along /= (double)width;
		for (int64_t i = 0; i < width; i++) {
			double g = (double)dy[i] * (double)gain[i];

			dx[i] = (float)((double)factors[r] * (g - sum - (double)normal[i] * along));
		}
	}
}

void orr_layernorm_weight(int64_t n, int64_t width, const float *normal, const float *dy,
			  float *dgain, float *dbias)
{
	for (int64_t i = 0; i < width; i++)
		dgain[i] = dy[i] * normal[i];
	memcpy(dbias, dy, (size_t)width * sizeof(*dbias));
	for (int64_t r = 1; r < n; r++) {
		dy += width;
		normal += width;
		for (int64_t i = 0; i < width; i++)
			dgain[i] += dy[i] * normal[i];
		orr_add(width, dy, dbias);
	}
}
