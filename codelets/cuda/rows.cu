/* What goes row by row: softmax, and rows of length 1. A row is added up in float: of what a thread
 * has of it, then by a tree. */
#include "rows.h"
#include "../sequence.h"

template <int T> __device__ inline float row_most(float v)
{
	return row_best<T>(best{v, 0}).score;
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	softmax_forward(int64_t n, int64_t width, const float *x, float *y)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = x + r * width;
		float most = row[0], *to = y + r * width;
		float sum = 0;

		each_of<T, V>(width, row, [&](int64_t, float *v) {
			for (int k = 0; k < V; k++)
				most = v[k] > most ? v[k] : most;
		});
		most = row_most<T>(most);
		each_of<T, V>(width, row, [&](int64_t i, float *v) {
			for (int k = 0; k < V; k++) {
				v[k] = orr_exp_of(v[k] - most);
				sum += v[k];
			}
			orr_store<V>(to + i, v);
		});
		sum = 1.0f / row_sum<T>(sum);
		each_of<T, V>(width, to, [&](int64_t i, float *v) {
			for (int k = 0; k < V; k++)
				v[k] *= sum;
			orr_store<V>(to + i, v);
		});
	});
}

/* The product of two rows, in all threads of the row. */
template <int T, int V>
__device__ inline float row_dot(int64_t width, const float *a, const float *b)
{
	float sum = 0;

	each_of<T, V>(width, a, b, [&](int64_t, float *v, float *w) {
		for (int k = 0; k < V; k++)
			sum = fmaf(v[k], w[k], sum);
	});
	return row_sum<T>(sum);
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	softmax_input(int64_t n, int64_t width, const float *y, const float *dy, float *dx)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = y + r * width, *row_dy = dy + r * width;
		float along = row_dot<T, V>(width, row, row_dy);

		each_of<T, V>(width, row, row_dy, [&](int64_t i, float *v, float *g) {
			for (int k = 0; k < V; k++)
				g[k] = v[k] * (g[k] - along);
			orr_store<V>(dx + r * width + i, g);
		});
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	normalise_forward(int64_t n, int64_t width, float epsilon, const float *x, float *y,
			  float *factors)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = x + r * width;
		float length = sqrtf(row_dot<T, V>(width, row, row));
		float factor = 1.0f / (length < epsilon ? epsilon : length);

		if (!place<T>::x())
			factors[r] = factor;
		each_of<T, V>(width, row, [&](int64_t i, float *v) {
			for (int k = 0; k < V; k++)
				v[k] *= factor;
			orr_store<V>(y + r * width + i, v);
		});
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	normalise_input(int64_t n, int64_t width, float epsilon, const float *y,
			const float *factors, const float *dy, float *dx)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = y + r * width, *row_dy = dy + r * width;
		float along = row_dot<T, V>(width, row, row_dy), factor = factors[r];

		along = factor < 1.0f / epsilon ? along : 0.0f;
		each_of<T, V>(width, row, row_dy, [&](int64_t i, float *v, float *g) {
			for (int k = 0; k < V; k++)
				g[k] = factor * (g[k] - along * v[k]);
			orr_store<V>(dx + r * width + i, g);
		});
	});
}

static void start_softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
				  float *y)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax", s, orr_address(x) | orr_address(y), width, softmax_forward, n, width, x,
	      y);
}

static void start_softmax_input(struct orr_device *d, int64_t n, int64_t width, const float *y,
				const float *dy, float *dx)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax backward", s, orr_address(y) | orr_address(dy) | orr_address(dx), width,
	      softmax_input, n, width, y, dy, dx);
}

static void start_normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				    const float *x, float *y, float *factors)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "normalise", s, orr_address(x) | orr_address(y), width, normalise_forward, n,
	      width, epsilon, x, y, factors);
}

static void start_normalise_input(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				  const float *y, const float *factors, const float *dy, float *dx)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "normalise backward", s, orr_address(y) | orr_address(dy) | orr_address(dx), width,
	      normalise_input, n, width, epsilon, y, factors, dy, dx);
}

const struct orr_row_kernels orr_rows_cuda = {
	.softmax_forward = start_softmax_forward,
	.softmax_input = start_softmax_input,
	.normalise_forward = start_normalise_forward,
	.normalise_input = start_normalise_input,
};
