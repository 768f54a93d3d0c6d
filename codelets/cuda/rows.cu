/* What goes row by row: layer norm, softmax and losses. A row is read once, kept in shared memory
 * where it fits, and added up in double as on a CPU. A narrow row is a warp's, a wide one a
 * block's. */
#include "rows.h"

#include "../shapes.h"

/* How a kernel is started: T threads a row, rows a block, floats kept of each. */
struct shape {
	unsigned threads, rows, grid;
	int64_t kept;
	size_t shared;
};

/* kept: floats that a kernel would like to keep of a row */
static struct shape shape_of(int64_t n, int64_t width, int64_t kept)
{
	struct shape s = {32, ORR_BLOCK / 32, 0, kept, 0};

	if (width > ORR_NARROW)
		s.threads = ORR_BLOCK, s.rows = 1;
	s.grid = orr_blocks(n, s.rows);
	s.shared = (size_t)s.rows * (size_t)kept * sizeof(float);
	if (s.shared > ORR_SHARED - 1024) /* the sums have some, too */
		s.kept = 0, s.shared = 0;
	return s;
}

/* A score and where it is. */
struct best {
	float score;
	int64_t at;
};

__device__ inline best better(best a, best b)
{
	return orr_score_wins(b.score, b.at, a.score, a.at) ? b : a;
}

template <int T> __device__ inline best row_best(best b)
{
	for (int offset = 16; offset; offset /= 2)
		b = better(b, best{__shfl_xor_sync(ORR_ALL_LANES, b.score, offset),
				   __shfl_xor_sync(ORR_ALL_LANES, b.at, offset)});
	if constexpr (T > 32) {
		__shared__ best warps[T / 32];

		__syncthreads();
		if (threadIdx.x % 32 == 0)
			warps[threadIdx.x / 32] = b;
		__syncthreads();
		b = warps[0];
		for (int k = 1; k < T / 32; k++)
			b = better(b, warps[k]);
	}
	return b;
}

/* f(i) for the thread's elements i, i + 1, ..., i + V - 1 of a row. */
template <int T, int V, class F> __device__ inline void each_of(int64_t width, F f)
{
	for (int64_t i = (int64_t)V * place<T>::x(); i < width; i += T * V)
		f(i);
}

/* f(r) for the rows of the thread; all threads of a row are in step. */
template <int T, class F> __device__ inline void each_row(int64_t n, F f)
{
	for (int64_t r = (int64_t)blockIdx.x * place<T>::rows() + place<T>::y(); r < n;
	     r += (int64_t)gridDim.x * place<T>::rows())
		f(r);
}

/* V elements from i on: kept ones, if any, else those in memory. */
template <int V>
__device__ inline void again(float *v, const float *kept, const float *row, int64_t i)
{
	orr_load<V>(v, kept ? kept + i : row + i);
}

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

/* Starts kernel<T, V> for the rows of a shape, four columns at once if every row of every pointer
 * is at a multiple of 16 bytes: `all` is all of them or'ed. */
#define START(d, name, s, all, width, kernel, ...) \
	do { \
		bool quads_ = (width) % 4 == 0 && (all) % 16 == 0; \
		const auto start_ = \
			(s).threads == 32 \
				? (quads_ ? kernel<32, 4> : kernel<32, 1>) \
				: (quads_ ? kernel<ORR_BLOCK, 4> : kernel<ORR_BLOCK, 1>); \
\
		ORR_LAUNCH(start_, (s).grid, ORR_BLOCK, (s).shared, (d)->cuda->stream, \
			   __VA_ARGS__); \
		orr_cuda_ok(d, cudaGetLastError(), name); \
	} while (0)

/* So many floats of a row that the next one is at a multiple of 16 bytes, too. */
static int64_t whole(int64_t width)
{
	return orr_ceil(width, 4) * 4;
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

/* ---- losses ---- */

/* What a row adds to the metrics: of a loss of classes, whether it counts and is right. */
struct seen {
	double loss, counted, correct;
};

size_t orr_cuda_rows_bytes(int64_t n)
{
	return orr_cuda_aligned(n, sizeof(struct seen));
}

/* The share of a row in its sample: of those that are not ignored. */
template <int T>
__device__ inline double share_of(const struct orr_classes &k, const float *classes)
{
	double counted = 0;

	for (int64_t i = place<T>::x(); i < k.rows; i += T)
		counted += classes[i] == k.ignored ? 0.0 : 1.0;
	return 1.0 / row_sum<T>(counted);
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	cross_entropy(int64_t n, const __grid_constant__ struct orr_classes k, int64_t room,
		      const float *scores, const float *classes, float *slope, struct seen *seen)
{
	ORR_SHARED_FLOATS(shared);
	float *kept = room ? shared + room * place<T>::y() : NULL;
	int64_t width = k.width;
	double rest = k.smoothing / (double)width, whole = 1.0 - k.smoothing + rest;

	each_row<T>(n, [=](int64_t r) {
		const float *row = scores + r * width;
		float *to = slope + r * width, own = classes[r];
		bool ignored = own == k.ignored;
		bool is_class = own >= 0.0f && own < (float)width && own == floorf(own);
		int64_t at = is_class ? (int64_t)own : 0;
		double share = share_of<T>(k, classes + r / k.rows * k.rows);
		best top = {-INFINITY, width};
		double sum = 0, others = 0;

		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			orr_load<V>(v, row + i);
			if (kept)
				orr_store<V>(kept + i, v);
			for (int j = 0; j < V; j++)
				top = better(top, best{orr_score(v[j], i + j), i + j});
		});
		top = row_best<T>(top);
		/* the slope's memory holds the exponentials until their sum is known */
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			again<V>(v, kept, row, i);
			for (int j = 0; j < V; j++) {
				if (rest > 0 && i + j != at)
					others += (double)v[j] - (double)top.score;
				v[j] = expf(v[j] - top.score);
				sum += (double)v[j];
			}
			orr_store<V>(kept ? kept + i : to + i, v);
		});
		sum = row_sum<T>(sum);
		others = row_sum<T>(others);
		if (!place<T>::x()) {
			double loss = log(sum) - whole * ((double)row[at] - (double)top.score) -
				      rest * others;

			seen[r].loss = ignored ? 0.0 : is_class ? share * loss : (double)NAN;
			seen[r].counted = ignored ? 0.0 : 1.0;
			seen[r].correct = is_class && !ignored && top.at == at ? 1.0 : 0.0;
		}
		each_of<T, V>(width, [&](int64_t i) {
			float v[V];

			again<V>(v, kept, to, i);
			for (int j = 0; j < V; j++) {
				double target = i + j == at ? whole : rest;

				v[j] = ignored    ? 0.0f
				       : is_class ? (float)(((double)v[j] - target * sum) / sum *
							    share)
						  : NAN;
			}
			orr_store<V>(to + i, v);
		});
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	squares(int64_t n, int64_t width, const float *prediction, const float *target,
		float *slope, struct seen *seen)
{
	each_row<T>(n, [=](int64_t r) {
		double sum = 0;

		each_of<T, V>(width, [&](int64_t i) {
			float v[V], t[V];

			orr_load<V>(v, prediction + r * width + i);
			orr_load<V>(t, target + r * width + i);
			for (int k = 0; k < V; k++) {
				double difference = (double)v[k] - (double)t[k];

				sum += difference * difference;
				v[k] = (float)(2.0 * difference / (double)width);
			}
			orr_store<V>(slope + r * width + i, v);
		});
		sum = row_sum<T>(sum);
		if (!place<T>::x())
			seen[r] = {sum / (double)width, 0, 0};
	});
}

template <int T, int V>
__global__ void __launch_bounds__(ORR_BLOCK)
	binary_entropy(int64_t n, int64_t width, const float *scores, const float *target,
		       float *slope, struct seen *seen)
{
	each_row<T>(n, [=](int64_t r) {
		double sum = 0, correct = 0;

		each_of<T, V>(width, [&](int64_t i) {
			float v[V], g[V];

			orr_load<V>(v, scores + r * width + i);
			orr_load<V>(g, target + r * width + i);
			for (int k = 0; k < V; k++) {
				double x = (double)v[k], t = (double)g[k], e = exp(-fabs(x));

				sum += (x > 0 ? x - x * t : -x * t) + log1p(e);
				correct += (x > 0) == (t > 0.5) ? 1.0 : 0.0;
				v[k] = (float)(((x > 0 ? 1.0 / (1.0 + e) : e / (1.0 + e)) - t) /
					       (double)width);
			}
			orr_store<V>(slope + r * width + i, v);
		});
		sum = row_sum<T>(sum);
		correct = row_sum<T>(correct);
		if (!place<T>::x())
			seen[r] = {sum / (double)width, (double)width, correct};
	});
}

/* One block: metrics are in the host's memory, and nobody else writes them. */
__global__ void __launch_bounds__(ORR_BLOCK)
	count(int64_t n, const struct seen *seen, struct orr_metrics *metrics)
{
	double loss = 0, counted = 0, correct = 0;

	for (int64_t r = threadIdx.x; r < n; r += ORR_BLOCK) {
		loss += seen[r].loss;
		counted += seen[r].counted;
		correct += seen[r].correct;
	}
	loss = row_sum<ORR_BLOCK>(loss);
	counted = row_sum<ORR_BLOCK>(counted);
	correct = row_sum<ORR_BLOCK>(correct);
	if (threadIdx.x)
		return;
	metrics->loss = loss;
	metrics->correct = (int64_t)correct;
	metrics->classified = (int64_t)counted;
}

static struct seen *seen_of(const struct orr_device *d)
{
	return reinterpret_cast<struct seen *>(orr_cuda_workspace(d));
}

static void count_rows(struct orr_device *d, int64_t n, struct orr_metrics *metrics)
{
	if (!metrics)
		return;
	ORR_LAUNCH(count, 1, ORR_BLOCK, 0, d->cuda->stream, n, seen_of(d), metrics);
	orr_cuda_ok(d, cudaGetLastError(), "metrics");
}

void orr_cuda_softmax_cross_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				    const float *scores, const float *classes, float *slope,
				    struct orr_metrics *metrics)
{
	int64_t rows = n * k->rows, width = k->width;
	struct shape s = shape_of(rows, width, whole(width));

	START(d, "softmax_cross_entropy", s, orr_address(scores) | orr_address(slope), width,
	      cross_entropy, rows, *k, s.kept, scores, classes, slope, seen_of(d));
	count_rows(d, rows, metrics);
}

void orr_cuda_mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		  const float *target, float *slope, struct orr_metrics *metrics)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "mse", s, orr_address(prediction) | orr_address(target) | orr_address(slope),
	      width, squares, n, width, prediction, target, slope, seen_of(d));
	count_rows(d, n, metrics);
}

void orr_cuda_bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		  const float *target, float *slope, struct orr_metrics *metrics)
{
	struct shape s = shape_of(n, width, 0);

	START(d, "bce", s, orr_address(scores) | orr_address(target) | orr_address(slope), width,
	      binary_entropy, n, width, scores, target, slope, seen_of(d));
	count_rows(d, n, metrics);
}
