/* Normalisation down the columns: of a batch over all of its rows, by sums of strips of them, and
 * of a sample's groups, a block each. A thread adds up its own few rows of a batch in float, and
 * all else is added in double. */
#include "halves.h"
#include "rows.h"

#include "../shapes.h"

/* ---- of a batch ---- */

/* Two sums of each column of a strip. */
struct sums {
	double *strips[2];
};

size_t orr_cuda_batchnorm_bytes(int64_t n, int64_t width)
{
	return 2 * orr_cuda_aligned(orr_strips(n) * width, sizeof(double));
}

static struct sums sums_of(const struct orr_device *d, int64_t n, int64_t width)
{
	double *at = reinterpret_cast<double *>(orr_cuda_workspace(d));

	return {{at, at + orr_strips(n) * width}};
}

/* What a thread adds up of its rows, and what that is in double. Of x and its square: of what they
 * differ from the thread's first row, so that little is lost where they hardly differ. */
template <class A> struct of_moments {
	const A *x;
	__device__ float2 operator()(int64_t at, int64_t first, int64_t) const
	{
		float v = orr_get(x + at) - orr_get(x + first);

		return make_float2(v, v * v);
	}
	__device__ double2 whole(float2 sum, int64_t first, int64_t m) const
	{
		double mean = (double)sum.x / (double)m, all = mean + (double)orr_get(x + first);

		return make_double2((double)m * all,
				    (double)sum.y - (double)sum.x * mean + (double)m * all * all);
	}
};

/* Of dy, and of dy along x; of dy there is left what the relu with the output y lets through. */
template <class A> struct of_slopes {
	const A *x, *y;
	A *dy;
	const float *means;
	__device__ float2 operator()(int64_t at, int64_t, int64_t c) const
	{
		float v = orr_get(dy + at);

		if (y) {
			v = orr_relu_slope(orr_get(y + at), v);
			orr_put(dy + at, v);
		}
		return make_float2(v, v * (orr_get(x + at) - means[c]));
	}
	__device__ double2 whole(float2 sum, int64_t, int64_t) const
	{
		return make_double2((double)sum.x, (double)sum.y);
	}
};

/* Strip blockIdx.y of 32 columns: its rows in turn to the block's, and these from the first to the
 * last. */
template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	sum_strips(int64_t n, int64_t width, int64_t rows, F f, struct sums to)
{
	__shared__ double2 all[ORR_TILE_Y][ORR_TILE_X];
	int64_t c = (int64_t)blockIdx.x * ORR_TILE_X + threadIdx.x, begin = blockIdx.y * rows;
	int64_t end = begin + rows < n ? begin + rows : n, m = 0;
	int64_t first = (begin + threadIdx.y) * width + c;
	float2 own = make_float2(0, 0);
	double2 sum = make_double2(0, 0);

	for (int64_t r = begin + threadIdx.y; r < end && c < width; r += ORR_TILE_Y, m++) {
		float2 v = f(r * width + c, first, c);

		own.x += v.x, own.y += v.y;
	}
	if (m)
		sum = f.whole(own, first, m);
	all[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y || c >= width)
		return;
	for (int k = 1; k < ORR_TILE_Y; k++)
		sum.x += all[k][threadIdx.x].x, sum.y += all[k][threadIdx.x].y;
	to.strips[0][blockIdx.y * width + c] = sum.x;
	to.strips[1][blockIdx.y * width + c] = sum.y;
}

/* Of what f adds up, two sums a column; then g(column, they). */
template <class F, class G>
static void sum_columns(struct orr_device *d, int64_t n, int64_t width, F f, G g)
{
	struct sums sums = sums_of(d, n, width);
	int64_t strips = orr_strips(n);
	dim3 grid((unsigned)orr_ceil(width, ORR_TILE_X), (unsigned)strips);
	dim3 tile(ORR_TILE_X, ORR_TILE_Y);
	const auto add = sum_strips<F>;

	ORR_LAUNCH(add, grid, tile, 0, d->cuda->stream, n, width, orr_strip_rows(n), f, sums);
	orr_each(d, "sums of columns", width, [=] __device__(int64_t c) {
		double a = 0, b = 0;

		for (int64_t k = 0; k < strips; k++) {
			a += sums.strips[0][k * width + c];
			b += sums.strips[1][k * width + c];
		}
		g(c, a, b);
	});
}

/* Of n rows of a width, eight values of a row at once where that divides it. */
template <class F>
static void all_cells(struct orr_device *d, const char *name, int64_t n, int64_t width, F f,
		      uintptr_t together)
{
	orr_each_item<ORR_EIGHT>(d, name, width % ORR_EIGHT ? 0 : n * width, n * width, f,
				 together);
}

template <class A>
static void find_moments(struct orr_device *d, int64_t n, int64_t width, const A *x, float *moments)
{
	sum_columns(d, n, width, of_moments<A>{x}, [=] __device__(int64_t c, double a, double b) {
		double mean = a / (double)n, variance = b / (double)n - mean * mean;

		moments[c] = (float)mean;
		moments[width + c] = variance < 0 ? 0.0f : (float)variance;
	});
}

template <class A> struct normalised {
	const A *x;
	const float *gain, *bias, *moments;
	int64_t width;
	float epsilon, least;
	A *y;

	template <int V> __device__ void operator()(int64_t at) const
	{
		int64_t c = at % width;
		float v[V];

		orr_load<V>(v, x + at);
		for (int k = 0; k < V; k++, c++) {
			v[k] = (v[k] - moments[c]) *
				       (gain[c] / sqrtf(moments[width + c] + epsilon)) +
			       bias[c];
			v[k] = v[k] < least ? 0.0f : v[k];
		}
		orr_store<V>(y + at, v);
	}
};

/* dx = gain factor (dy - its mean - normal, times its mean along dy), each of its column. */
template <class A> struct input_slopes {
	const A *x, *dy;
	const float *moments, *gain, *slopes;
	int64_t width;
	float epsilon, share;
	A *dx;

	template <int V> __device__ void operator()(int64_t at) const
	{
		int64_t c = at % width;
		float u[V], v[V];

		orr_load<V>(u, x + at);
		orr_load<V>(v, dy + at);
		for (int k = 0; k < V; k++, c++) {
			float factor = 1.0f / sqrtf(moments[width + c] + epsilon);
			float normal = (u[k] - moments[c]) * factor;

			v[k] = gain[c] * factor *
			       (v[k] - share * (slopes[width + c] + normal * slopes[c]));
		}
		orr_store<V>(dx + at, v);
	}
};

template <class A>
static void find_slopes(struct orr_device *d, int64_t n, int64_t width, double epsilon, const A *x,
			const float *moments, const A *y, A *dy, float *slopes)
{
	sum_columns(d, n, width, of_slopes<A>{x, y, dy, moments},
		    [=] __device__(int64_t c, double sum, double along) {
			    slopes[c] = (float)(along / sqrt((double)moments[width + c] + epsilon));
			    slopes[width + c] = (float)sum;
		    });
}

static void batchnorm_moments(struct orr_device *d, int64_t n, int64_t width, const float *x,
			      float *moments)
{
	orr_typed(d->halves, [=](auto a) { find_moments(d, n, width, orr_as(a, x), moments); });
}

static void batchnorm(struct orr_device *d, int64_t n, int64_t width, double epsilon,
		      const float *x, const float *gain, const float *bias, const float *moments,
		      float least, float *y)
{
	orr_typed(d->halves, [=](auto a) {
		all_cells(d, "batchnorm", n, width,
			  normalised<decltype(a)>{orr_as(a, x), gain, bias, moments, width,
						  (float)epsilon, least, orr_as(a, y)},
			  orr_address(x) | orr_address(y));
	});
}

static void batchnorm_slopes(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			     const float *x, const float *moments, const float *y, float *dy,
			     float *slopes)
{
	orr_typed(d->halves, [=](auto a) {
		find_slopes(d, n, width, epsilon, orr_as(a, x), moments, orr_as(a, y),
			    orr_as(a, dy), slopes);
	});
}

static void batchnorm_input(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			    const float *x, const float *moments, const float *gain,
			    const float *dy, const float *slopes, float *dx)
{
	orr_typed(d->halves, [=](auto a) {
		all_cells(d, "batchnorm backward", n, width,
			  input_slopes<decltype(a)>{orr_as(a, x), orr_as(a, dy), moments, gain,
						    slopes, width, (float)epsilon, 1.0f / (float)n,
						    orr_as(a, dx)},
			  orr_address(x) | orr_address(dy) | orr_address(dx));
	});
}

/* ---- of a sample's groups ---- */

/* The cells of a group of a sample: its first lies at `begin`, in column `first`. */
struct group {
	int64_t count, width, begin, first, cells;
	__device__ int64_t column(int64_t i) const { return first + i % count; }
	__device__ int64_t at(int64_t i) const { return begin + i / count * width + i % count; }
};

/* Group number k of all samples'. */
__device__ inline struct group group_of(const struct orr_norm_groups &g, int64_t k)
{
	int64_t count = g.width / g.groups;

	return {count, g.width, k / g.groups * g.rows * g.width + k % g.groups * count,
		k % g.groups * count, g.rows * count};
}

/* The mean of f(cell) over a group, in all of its threads. */
template <class F> __device__ inline double mean_of(const struct group &k, F f)
{
	double sum = 0;

	for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK)
		sum += f(i);
	return row_sum<ORR_BLOCK>(sum) / (double)k.cells;
}

static void groupnorm_forward(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
			      const float *x, const float *gain, const float *bias, float *y,
			      float *normal)
{
	const struct orr_norm_groups g = *of;
	float *factors = normal + n * g.rows * g.width;

	orr_each_block(d, "groupnorm", n * g.groups, [=] __device__(int64_t number) {
		const struct group k = group_of(g, number);
		double mean = mean_of(k, [=](int64_t i) { return (double)x[k.at(i)]; });
		double variance = mean_of(k, [=](int64_t i) {
			double difference = (double)x[k.at(i)] - mean;

			return difference * difference;
		});
		double factor = 1.0 / sqrt(variance + g.epsilon);

		if (!threadIdx.x)
			factors[number] = (float)factor;
		for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK) {
			int64_t at = k.at(i), c = k.column(i);
			float v = (float)(((double)x[at] - mean) * factor);

			normal[at] = v;
			y[at] = v * gain[c] + bias[c];
		}
	});
}

static void groupnorm_input(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
			    const float *normal, const float *gain, const float *dy, float *dx)
{
	const struct orr_norm_groups g = *of;
	const float *factors = normal + n * g.rows * g.width;

	orr_each_block(d, "groupnorm backward", n * g.groups, [=] __device__(int64_t number) {
		const struct group k = group_of(g, number);
		double factor = (double)factors[number];
		auto slope = [=](int64_t i) {
			return (double)dy[k.at(i)] * (double)gain[k.column(i)];
		};
		double mean = mean_of(k, slope);
		double along =
			mean_of(k, [=](int64_t i) { return slope(i) * (double)normal[k.at(i)]; });

		for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK)
			dx[k.at(i)] = (float)(factor *
					      (slope(i) - mean - (double)normal[k.at(i)] * along));
	});
}

const struct orr_column_norm_kernels orr_column_norms_cuda = {ORR_COLUMN_NORM_KERNELS(ORR_KERNEL)};
