/* What goes row by row: softmax, and rows of length 1. A row is added up in float: of what a thread
 * has of it, then by a tree. */
#include "rows.h"
#include "../sequence.h"

static void softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
			    float *y)
{
	by_row(d, "softmax", n, width, orr_address(x, y), [=] __device__(auto t, int64_t r) {
		const float *row = x + r * width;
		float *to = y + r * width, most = row[0], sum = 0;

		t.each(width, row, [&](int64_t, float v) { most = v > most ? v : most; });
		most = row_fold<t.T>(best{most, 0}, better).score;
		t.map(width, row, to, [&](int64_t, float v) {
			float e = orr_exp_of(v - most);

			sum += e;
			return e;
		});
		sum = 1.0f / t.sum(sum);
		t.map(width, to, to, [&](int64_t, float v) { return v * sum; });
	});
}

/* The product of two rows, in all threads of the row. */
template <int T, int V>
__device__ inline float row_dot(row_threads<T, V> t, int64_t width, const float *a, const float *b)
{
	float sum = 0;

	t.each(width, [&](int64_t i) {
		float v[V], w[V];

		orr_load<V>(v, a + i);
		orr_load<V>(w, b + i);
		for (int k = 0; k < V; k++)
			sum = fmaf(v[k], w[k], sum);
	});
	return t.sum(sum);
}

static void softmax_input(struct orr_device *d, int64_t n, int64_t width, const float *y,
			  const float *dy, float *dx)
{
	by_row(d, "softmax backward", n, width, orr_address(y, dy, dx),
	       [=] __device__(auto t, int64_t r) {
		       const float *row = y + r * width, *row_dy = dy + r * width;
		       float along = row_dot(t, width, row, row_dy);

		       t.map(width, row, row_dy, dx + r * width,
			     [&](int64_t, float v, float g) { return v * (g - along); });
	       });
}

static void normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			      const float *x, float *y, float *factors)
{
	by_row(d, "normalise", n, width, orr_address(x, y), [=] __device__(auto t, int64_t r) {
		const float *row = x + r * width;
		float length = sqrtf(row_dot(t, width, row, row));
		float factor = 1.0f / (length < epsilon ? epsilon : length);

		if (!t.x())
			factors[r] = factor;
		t.map(width, row, y + r * width, [&](int64_t, float v) { return v * factor; });
	});
}

static void normalise_input(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			    const float *y, const float *factors, const float *dy, float *dx)
{
	by_row(d, "normalise backward", n, width, orr_address(y, dy, dx),
	       [=] __device__(auto t, int64_t r) {
		       const float *row = y + r * width, *row_dy = dy + r * width;
		       float along = row_dot(t, width, row, row_dy), factor = factors[r];

		       along = factor < 1.0f / epsilon ? along : 0.0f;
		       t.map(width, row, row_dy, dx + r * width,
			     [&](int64_t, float v, float g) { return factor * (g - along * v); });
	       });
}

const struct orr_row_kernels orr_rows_cuda = {ORR_ROW_KERNELS(ORR_KERNEL)};
