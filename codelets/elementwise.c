#include "kernels.h"

#include <math.h>
#include <string.h>

/* x < 0 rather than x > 0: NaN passes, so that a training that diverges shows it. */
void orr_relu_forward(int64_t count, const float *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void orr_relu_backward(int64_t count, const float *y, const float *dy, float *dx)
{
	for (int64_t i = 0; i < count; i++)
		dx[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

static const float sqrt_half = 0.70710678118654752f;        /* 1/sqrt(2) */
static const float normal_density_at_0 = 0.39894228040143268f; /* 1/sqrt(2 pi) */

void orr_gelu_forward(int64_t count, const float *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = 0.5f * x[i] * erfcf(-x[i] * sqrt_half);
}

void orr_gelu_backward(int64_t count, const float *x, const float *dy, float *dx)
{
	for (int64_t i = 0; i < count; i++) {
		float below = 0.5f * erfcf(-x[i] * sqrt_half); /* of the normal distribution */
		float density = normal_density_at_0 * expf(-0.5f * x[i] * x[i]);

		dx[i] = dy[i] * (below + x[i] * density);
	}
}

void orr_scale(int64_t count, float factor, const float *x, float *y)
{
	for (int64_t i = 0; i < count; i++)
		y[i] = factor * x[i];
}

void orr_add(int64_t count, const float *x, float *sum)
{
	for (int64_t i = 0; i < count; i++)
		sum[i] += x[i];
}

void orr_columns_put(int64_t n, int64_t width, const float *x, int64_t total, int64_t first,
                     float *y)
{
	for (int64_t r = 0; r < n; r++)
		memcpy(y + r * total + first, x + r * width, (size_t)width * sizeof(*y));
}

void orr_columns_take(int64_t n, int64_t total, int64_t first, const float *y, int64_t width,
                      float *x)
{
	for (int64_t r = 0; r < n; r++)
		memcpy(x + r * width, y + r * total + first, (size_t)width * sizeof(*x));
}
