/* Normalisation down the columns: of a batch over all of its rows, and of each sample in groups of
 * columns; by sums of strips of rows. A thread adds up its own few rows in float, and all else is
 * added in double. */
#include "halves.h"

#include "../shapes.h"

/* Two sums of each column of a strip. */
struct sums {
	double *strips[2];
};

static size_t bytes(int64_t n, const struct orr_norm_groups *g)
{
	return ORR_BLAS_BYTES +
	       2 * orr_cuda_aligned(n * orr_most_strips(g->rows) * g->width, sizeof(double));
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

/* Strip blockIdx.y of 32 columns of a sample: its rows in turn to the block's, and these from the
 * first to the last. */
template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	sum_strips(struct orr_norm_groups g, int64_t rows, F f, struct sums to)
{
	__shared__ double2 all[ORR_TILE_Y][ORR_TILE_X];
	int64_t tiles = orr_ceil(g.width, ORR_TILE_X), s = blockIdx.x / tiles, m = 0;
	int64_t c = blockIdx.x % tiles * ORR_TILE_X + threadIdx.x, begin = blockIdx.y * rows;
	int64_t end = begin + rows < g.rows ? begin + rows : g.rows, sample = s * g.rows;
	int64_t first = (sample + begin + threadIdx.y) * g.width + c;
	int64_t strip = (s * gridDim.y + blockIdx.y) * g.width + c;
	float2 own = make_float2(0, 0);
	double2 sum = make_double2(0, 0);

	for (int64_t r = begin + threadIdx.y; r < end && c < g.width; r += ORR_TILE_Y, m++) {
		float2 v = f((sample + r) * g.width + c, first, 2 * s * g.width + c);

		own.x += v.x, own.y += v.y;
	}
	if (m)
		sum = f.whole(own, first, m);
	all[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y || c >= g.width)
		return;
	for (int k = 1; k < ORR_TILE_Y; k++)
		sum.x += all[k][threadIdx.x].x, sum.y += all[k][threadIdx.x].y;
	to.strips[0][strip] = sum.x;
	to.strips[1][strip] = sum.y;
}

/* Of what f adds up, two sums a column; then store(where its moments are, they). */
template <class F, class G>
static void sum_columns(struct orr_device *d, int64_t n, const struct orr_norm_groups &g, F f,
			G store)
{
	const int64_t strips = orr_strips(g.rows), width = g.width;
	double *at = reinterpret_cast<double *>(orr_cuda_workspace(d));
	const struct sums sums = {{at, at + n * strips * width}};
	dim3 grid((unsigned)(n * orr_ceil(width, ORR_TILE_X)), (unsigned)strips);
	dim3 tile(ORR_TILE_X, ORR_TILE_Y);
	const auto add = sum_strips<F>;

	ORR_LAUNCH(add, grid, tile, 0, d->cuda->stream, g, orr_strip_rows(g.rows), f, sums);
	orr_each(d, "sums of columns", n * width, [=] __device__(int64_t i) {
		int64_t s = i / width, c = i % width;
		double a = 0, b = 0;

		for (int64_t k = s * strips; k < (s + 1) * strips; k++) {
			a += sums.strips[0][k * width + c];
			b += sums.strips[1][k * width + c];
		}
		store(2 * s * width + c, a, b);
	});
}

/* Of all rows, eight values of one at once where that divides it. */
template <class F>
static void all_cells(struct orr_device *d, const char *name, int64_t n,
		      const struct orr_norm_groups *g, F f, uintptr_t together)
{
	int64_t cells = n * g->rows * g->width;

	orr_each_item<ORR_EIGHT>(d, name, g->width % ORR_EIGHT ? 0 : cells, cells, f, together);
}

template <class A>
static void find_moments(struct orr_device *d, int64_t n, const struct orr_norm_groups &g,
			 const A *x, float *moments)
{
	sum_columns(d, n, g, of_moments<A>{x}, [=] __device__(int64_t own, double a, double b) {
		double mean = a / (double)g.rows, variance = b / (double)g.rows - mean * mean;

		moments[own] = (float)mean;
		moments[own + g.width] = variance < 0 ? 0.0f : (float)variance;
	});
	if (orr_norm_columns(&g) > 1)
		orr_each(d, "moments of groups", n * g.groups,
			 [=] __device__(int64_t k) { orr_norm_join_moments(&g, k, moments); });
}

template <class A> struct normalised {
	struct orr_norm_groups g;
	const A *x;
	const float *gain, *bias, *moments;
	float epsilon, least;
	A *y;

	template <int V> __device__ void operator()(int64_t at) const
	{
		int64_t c = at % g.width, own = at / g.width / g.rows * 2 * g.width + c;
		float v[V];

		orr_load<V>(v, x + at);
		for (int k = 0; k < V; k++, c++, own++) {
			v[k] = (v[k] - moments[own]) *
				       (gain[c] / sqrtf(moments[own + g.width] + epsilon)) +
			       bias[c];
			v[k] = v[k] < least ? 0.0f : v[k];
		}
		orr_store<V>(y + at, v);
	}
};

/* dx = factor (gain dy - its mean - normal, times its mean along gain dy), each of its group; a
 * column that is alone has its gain in the factor. */
template <class A> struct input_slopes {
	struct orr_norm_groups g;
	const A *x, *dy;
	const float *moments, *gain, *sums;
	float epsilon, share;
	A *dx;

	template <int V> __device__ void operator()(int64_t at) const
	{
		int64_t c = at % g.width, own = at / g.width / g.rows * 2 * g.width + c;
		bool alone = g.groups == g.width;
		float u[V], v[V];

		orr_load<V>(u, x + at);
		orr_load<V>(v, dy + at);
		for (int k = 0; k < V; k++, c++, own++) {
			float factor = 1.0f / sqrtf(moments[own + g.width] + epsilon);
			float normal = (u[k] - moments[own]) * factor;
			float slope = alone ? v[k] : gain[c] * v[k];

			v[k] = (alone ? gain[c] * factor : factor) *
			       (slope - share * (sums[own + g.width] + normal * sums[own]));
		}
		orr_store<V>(dx + at, v);
	}
};

template <class A>
static void find_slopes(struct orr_device *d, int64_t n, const struct orr_norm_groups &g,
			const A *x, const float *moments, const A *y, A *dy, float *slopes)
{
	sum_columns(d, n, g, of_slopes<A>{x, y, dy, moments},
		    [=] __device__(int64_t own, double sum, double along) {
			    double variance = (double)moments[own + g.width];

			    slopes[own] = (float)(along / sqrt(variance + g.epsilon));
			    slopes[own + g.width] = (float)sum;
		    });
}

static void moments(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		    const float *x, float *moments)
{
	orr_typed(d->halves, [=](auto a) { find_moments(d, n, *g, orr_as(a, x), moments); });
}

static void normalise(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		      const float *x, const float *gain, const float *bias, const float *moments,
		      float least, float *y)
{
	orr_typed(d->halves, [=](auto a) {
		all_cells(d, "normalise columns", n, g,
			  normalised<decltype(a)>{*g, orr_as(a, x), gain, bias, moments,
						  (float)g->epsilon, least, orr_as(a, y)},
			  orr_address(x) | orr_address(y));
	});
}

static void slopes(struct orr_device *d, int64_t n, const struct orr_norm_groups *g, const float *x,
		   const float *moments, const float *y, float *dy, float *slopes)
{
	orr_typed(d->halves, [=](auto a) {
		find_slopes(d, n, *g, orr_as(a, x), moments, orr_as(a, y), orr_as(a, dy), slopes);
	});
}

static void join(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
		 const float *gain, const float *slopes, float *sums)
{
	const struct orr_norm_groups g = *of;

	orr_each(d, "slopes of groups", n * g.groups,
		 [=] __device__(int64_t k) { orr_norm_join_slopes(&g, k, gain, slopes, sums); });
}

static void input(struct orr_device *d, int64_t n, const struct orr_norm_groups *g, const float *x,
		  const float *moments, const float *gain, const float *dy, const float *sums,
		  float *dx)
{
	float share = 1.0f / (float)(g->rows * orr_norm_columns(g));

	orr_typed(d->halves, [=](auto a) {
		all_cells(d, "normalise columns backward", n, g,
			  input_slopes<decltype(a)>{*g, orr_as(a, x), orr_as(a, dy), moments, gain,
						    sums, (float)g->epsilon, share, orr_as(a, dx)},
			  orr_address(x) | orr_address(dy) | orr_address(dx));
	});
}

const struct orr_column_norm_kernels orr_column_norms_cuda = {ORR_COLUMN_NORM_KERNELS(ORR_KERNEL)};
