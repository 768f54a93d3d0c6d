/* What goes row by row: layer norm and softmax. A row is read once, kept in shared memory where it
 * fits, and added up in double as on a CPU. */
#include "rows.h"

/* ---- layer norm ---- */

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	layernorm_forward(struct orr_norm norm, int64_t room, const float *x, const float *gain,
			  const float *bias, float *y, float *normal, float *factors)
{
	ORR_SHARED_FLOATS(shared);
	float *kept = room ? shared + room * place<T>::y() : NULL;

	const int64_t width = norm.width;

	each_row<T>(norm.n, [=](int64_t r) {
		const float *row = x + r * width;
		double mean = 0, variance = 0, factor;

		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, row + i);
			if (kept)
				orr_store<V>(kept + i, v);
			for (int k = 0; k < V; k++)
				mean += (double)v[k];
		});
		mean = norm.centred ? row_sum<T>(mean) / (double)width : 0.0;
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			again<V>(v, kept, row, i);
			for (int k = 0; k < V; k++)
				variance += ((double)v[k] - mean) * ((double)v[k] - mean);
		});
		factor = 1.0 / sqrt(row_sum<T>(variance) / (double)width + norm.epsilon);
		if (!place<T>::x())
			factors[r] = (float)factor;
		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V], b[V] = {};

			again<V>(v, kept, row, i);
			orr_load<V>(g, gain + i);
			if (norm.centred)
				orr_load<V>(b, bias + i);
			for (int k = 0; k < V; k++) {
				v[k] = (float)(((double)v[k] - mean) * factor);
				b[k] = norm.centred ? v[k] * g[k] + b[k] : v[k] * g[k];
			}
			orr_store<V>(normal + r * width + i, v);
			orr_store<V>(y + r * width + i, b);
		});
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	layernorm_input(struct orr_norm norm, int64_t room, const float *normal,
			const float *factors, const float *gain, const float *dy, float *dx)
{
	ORR_SHARED_FLOATS(shared);
	float *kept = room ? shared + room * place<T>::y() : NULL;
	float *kept_dy = room ? kept + room / 2 : NULL;

	const int64_t width = norm.width;

	each_row<T>(norm.n, [=](int64_t r) {
		const float *row = normal + r * width, *row_dy = dy + r * width;
		double sum = 0, along = 0; /* of the gradient, and of it along the normal row */
		double factor = (double)factors[r];

		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V], w[V];

			orr_load<V>(v, row + i);
			orr_load<V>(g, row_dy + i);
			orr_load<V>(w, gain + i);
			if (kept) {
				orr_store<V>(kept + i, v);
				orr_store<V>(kept_dy + i, g);
			}
			for (int k = 0; k < V; k++) {
				double slope = (double)g[k] * (double)w[k];

				sum += slope;
				along += slope * (double)v[k];
			}
		});
		sum = norm.centred ? row_sum<T>(sum) / (double)width : 0.0;
		along = row_sum<T>(along) / (double)width;
		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V], w[V];

			again<V>(v, kept, row, i);
			again<V>(g, kept_dy, row_dy, i);
			orr_load<V>(w, gain + i);
			for (int k = 0; k < V; k++)
				g[k] = (float)(factor * ((double)g[k] * (double)w[k] - sum -
							 (double)v[k] * along));
			orr_store<V>(dx + r * width + i, g);
		});
	});
}

void orr_cuda_layernorm_forward(struct orr_device *d, const struct orr_norm *norm, const float *x,
				const float *gain, const float *bias, float *y, float *normal)
{
	int64_t width = norm->width;
	struct shape s = shape_of(norm->n, width, whole(width));
	uintptr_t all = orr_address(x) | orr_address(gain) |
			(norm->centred ? orr_address(bias) : 0) | orr_address(y) |
			orr_address(normal);

	START(d, "layernorm", s, all, width, layernorm_forward, *norm, s.kept, x, gain, bias, y,
	      normal, normal + norm->n * width);
}

void orr_cuda_layernorm_input(struct orr_device *d, const struct orr_norm *norm,
			      const float *normal, const float *gain, const float *dy, float *dx)
{
	int64_t width = norm->width;
	struct shape s = shape_of(norm->n, width, 2 * whole(width));
	uintptr_t all = orr_address(normal) | orr_address(gain) | orr_address(dy) | orr_address(dx);

	START(d, "layernorm backward", s, all, width, layernorm_input, *norm, s.kept, normal,
	      normal + norm->n * width, gain, dy, dx);
}

/* ---- softmax and length 1 ---- */

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
		double sum = 0;

		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, row + i);
			for (int k = 0; k < V; k++)
				most = v[k] > most ? v[k] : most;
		});
		most = row_most<T>(most);
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, row + i);
			for (int k = 0; k < V; k++) {
				v[k] = orr_exp_of(v[k] - most);
				sum += (double)v[k];
			}
			orr_store<V>(to + i, v);
		});
		sum = 1.0 / row_sum<T>(sum);
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, to + i);
			for (int k = 0; k < V; k++)
				v[k] = (float)((double)v[k] * sum);
			orr_store<V>(to + i, v);
		});
	});
}

/* The product of two rows, in all threads of the row. */
template <int T, int V>
__device__ inline double row_dot(int64_t width, const float *a, const float *b)
{
	double sum = 0;

	each_of<T, V>(width, [&](int64_t i) {
		float v[V], w[V];

		orr_load<V>(v, a + i);
		orr_load<V>(w, b + i);
		for (int k = 0; k < V; k++)
			sum += (double)v[k] * (double)w[k];
	});
	return row_sum<T>(sum);
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	softmax_input(int64_t n, int64_t width, const float *y, const float *dy, float *dx)
{
	each_row<T>(n, [=](int64_t r) {
		const float *row = y + r * width, *row_dy = dy + r * width;
		float along = (float)row_dot<T, V>(width, row, row_dy);

		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V];

			orr_load<V>(v, row + i);
			orr_load<V>(g, row_dy + i);
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
		float length = (float)sqrt(row_dot<T, V>(width, row, row));
		float factor = 1.0f / (length < epsilon ? epsilon : length);

		if (!place<T>::x())
			factors[r] = factor;
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, row + i);
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
		float along = (float)row_dot<T, V>(width, row, row_dy), factor = factors[r];

		along = factor < 1.0f / epsilon ? along : 0.0f;
		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V];

			orr_load<V>(v, row + i);
			orr_load<V>(g, row_dy + i);
			for (int k = 0; k < V; k++)
				g[k] = factor * (g[k] - along * v[k]);
			orr_store<V>(dx + r * width + i, g);
		});
	});
}

void orr_cuda_softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
			      float *y)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax", s, orr_address(x) | orr_address(y), width, softmax_forward, n, width, x,
	      y);
}

void orr_cuda_softmax_input(struct orr_device *d, int64_t n, int64_t width, const float *y,
			    const float *dy, float *dx)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "softmax backward", s, orr_address(y) | orr_address(dy) | orr_address(dx), width,
	      softmax_input, n, width, y, dy, dx);
}

void orr_cuda_normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				const float *x, float *y, float *factors)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "normalise", s, orr_address(x) | orr_address(y), width, normalise_forward, n,
	      width, epsilon, x, y, factors);
}

void orr_cuda_normalise_input(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			      const float *y, const float *factors, const float *dy, float *dx)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "normalise backward", s, orr_address(y) | orr_address(dy) | orr_address(dx), width,
	      normalise_input, n, width, epsilon, y, factors, dy, dx);
}
