/* Normalisation down the columns: of a batch over all of its rows, and of each sample in groups of
 * columns; by sums of strips of rows. A thread adds up its own few rows in float, and all else is
 * added in double. */
#include "../shapes.h"
#include "launch.h"

static size_t bytes(int64_t n, const struct orr_norm_groups *g)
{
	return ORR_BLAS_BYTES +
	       orr_cuda_aligned(n * orr_most_strips(g->rows) * g->width, sizeof(double2));
}

/* What a thread adds up of its rows, and what that is in double. Of x and its square: of what they
 * differ from the thread's first row, so that little is lost where they hardly differ. */
struct of_moments {
	const float *x;
	template <class A> __device__ float2 add(A a, int64_t at, int64_t first, int64_t) const
	{
		float v = orr_get(orr_as(a, x) + at) - orr_get(orr_as(a, x) + first);

		return make_float2(v, v * v);
	}
	template <class A> __device__ double2 whole(A a, float2 sum, int64_t first, int64_t m) const
	{
		double mean = (double)sum.x / (double)m;
		double all = mean + (double)orr_get(orr_as(a, x) + first);

		return make_double2((double)m * all,
				    (double)sum.y - (double)sum.x * mean + (double)m * all * all);
	}
};

/* Of dy, and of dy along x; of dy there is left what the relu with the output y lets through. */
struct of_slopes {
	const float *x, *y;
	float *dy;
	const float *means;
	template <class A> __device__ float2 add(A a, int64_t at, int64_t, int64_t c) const
	{
		A *slope = orr_as(a, dy) + at;
		float v = orr_get(slope);

		if (y) {
			v = orr_relu_slope(orr_get(orr_as(a, y) + at), v);
			orr_put(slope, v);
		}
		return make_float2(v, v * (orr_get(orr_as(a, x) + at) - means[c]));
	}
	template <class A> __device__ double2 whole(A, float2 sum, int64_t, int64_t) const
	{
		return make_double2((double)sum.x, (double)sum.y);
	}
};

/* Two sums of each column of a strip: of blockIdx.y of 32 columns of a sample, its rows in turn to
 * the block's, and these from the first to the last. */
template <class A, class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	sum_strips(struct orr_norm_groups g, int64_t rows, F f, double2 *to)
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
		float2 v = f.add(A(), (sample + r) * g.width + c, first, 2 * s * g.width + c);

		own.x += v.x, own.y += v.y;
	}
	if (m)
		sum = f.whole(A(), own, first, m);
	all[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y || c >= g.width)
		return;
	for (int k = 1; k < ORR_TILE_Y; k++)
		sum.x += all[k][threadIdx.x].x, sum.y += all[k][threadIdx.x].y;
	to[strip] = sum;
}

/* Of what f adds up, two sums a column; then store(where its moments are, they). */
template <class F, class G>
static void sum_columns(struct orr_device *d, int64_t n, const struct orr_norm_groups &g, F f,
			G store)
{
	const int64_t strips = orr_strips(g.rows), width = g.width;
	double2 *sums = reinterpret_cast<double2 *>(orr_cuda_workspace(d));
	dim3 grid((unsigned)(n * orr_ceil(width, ORR_TILE_X)), (unsigned)strips);

	orr_typed(d->halves, [=](auto a) {
		orr_launch(d, "sums of strips", sum_strips<decltype(a), F>, grid,
			   dim3(ORR_TILE_X, ORR_TILE_Y), 0, g, orr_strip_rows(g.rows), f, sums);
	});
	orr_each(d, "sums of columns", n * width, [=] __device__(int64_t i) {
		int64_t s = i / width, c = i % width;
		double a = 0, b = 0;

		for (int64_t k = s * strips; k < (s + 1) * strips; k++) {
			a += sums[k * width + c].x;
			b += sums[k * width + c].y;
		}
		store(2 * s * width + c, a, b);
	});
}

/* f(how many, a number of the type of x, from which place on) */
template <class A, class F> struct of_type {
	F f;
	template <class N> __device__ void operator()(N n, int64_t at) const { f(n, A(), at); }
};

/* Of all rows, eight values of one at once where that divides it. */
template <class F>
static void all_cells(struct orr_device *d, const char *name, int64_t n,
		      const struct orr_norm_groups *g, uintptr_t together, F f)
{
	int64_t cells = n * g->rows * g->width;

	orr_typed(d->halves, [=](auto a) {
		orr_each_item<ORR_EIGHT>(d, name, g->width % ORR_EIGHT ? 0 : cells, cells, together,
					 of_type<decltype(a), F>{f});
	});
}

static void moments(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
		    const float *x, float *moments)
{
	const struct orr_norm_groups g = *of;

	sum_columns(d, n, g, of_moments{x}, [=] __device__(int64_t own, double a, double b) {
		double mean = a / (double)g.rows, variance = b / (double)g.rows - mean * mean;

		moments[own] = (float)mean;
		moments[own + g.width] = variance < 0 ? 0.0f : (float)variance;
	});
	if (orr_norm_columns(&g) > 1)
		orr_each(d, "moments of groups", n * g.groups,
			 [=] __device__(int64_t k) { orr_norm_join_moments(&g, k, moments); });
}

static void normalise(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
		      const float *x, const float *gain, const float *bias, const float *moments,
		      float least, float *y)
{
	const struct orr_norm_groups g = *of;
	const float epsilon = (float)g.epsilon;

	all_cells(d, "normalise columns", n, of, orr_address(x, y),
		  [=] __device__(auto count, auto a, int64_t at) {
			  constexpr int V = count.value;
			  int64_t c = at % g.width, own = at / g.width / g.rows * 2 * g.width + c;
			  float v[V];

			  orr_load<V>(v, orr_as(a, x) + at);
			  for (int k = 0; k < V; k++, c++, own++) {
				  v[k] = (v[k] - moments[own]) *
						 (gain[c] /
						  sqrtf(moments[own + g.width] + epsilon)) +
					 bias[c];
				  v[k] = v[k] < least ? 0.0f : v[k];
			  }
			  orr_store<V>(orr_as(a, y) + at, v);
		  });
}

static void slopes(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
		   const float *x, const float *moments, const float *y, float *dy, float *slopes)
{
	const struct orr_norm_groups g = *of;

	sum_columns(d, n, g, of_slopes{x, y, dy, moments},
		    [=] __device__(int64_t own, double sum, double along) {
			    double variance = (double)moments[own + g.width];

			    slopes[own] = (float)(along / sqrt(variance + g.epsilon));
			    slopes[own + g.width] = (float)sum;
		    });
}

static void join(struct orr_device *d, int64_t n, const struct orr_norm_groups *of,
		 const float *gain, const float *slopes, float *sums)
{
	const struct orr_norm_groups g = *of;

	orr_each(d, "slopes of groups", n * g.groups,
		 [=] __device__(int64_t k) { orr_norm_join_slopes(&g, k, gain, slopes, sums); });
}

/* dx = factor (gain dy - its mean - normal, times its mean along gain dy), each of its group; a
 * column that is alone has its gain in the factor. */
static void input(struct orr_device *d, int64_t n, const struct orr_norm_groups *of, const float *x,
		  const float *moments, const float *gain, const float *dy, const float *sums,
		  float *dx)
{
	const struct orr_norm_groups g = *of;
	const float epsilon = (float)g.epsilon;
	const float share = 1.0f / (float)(g.rows * orr_norm_columns(&g));

	all_cells(d, "normalise columns backward", n, of, orr_address(x, dy, dx),
		  [=] __device__(auto count, auto a, int64_t at) {
			  constexpr int V = count.value;
			  int64_t c = at % g.width, own = at / g.width / g.rows * 2 * g.width + c;
			  bool alone = g.groups == g.width;
			  float u[V], v[V];

			  orr_load<V>(u, orr_as(a, x) + at);
			  orr_load<V>(v, orr_as(a, dy) + at);
			  for (int k = 0; k < V; k++, c++, own++) {
				  float factor = 1.0f / sqrtf(moments[own + g.width] + epsilon);
				  float normal = (u[k] - moments[own]) * factor;
				  float slope = alone ? v[k] : gain[c] * v[k];

				  v[k] = (alone ? gain[c] * factor : factor) *
					 (slope -
					  share * (sums[own + g.width] + normal * sums[own]));
			  }
			  orr_store<V>(orr_as(a, dx) + at, v);
		  });
}

const struct orr_column_norm_kernels orr_column_norms_cuda = {ORR_COLUMN_NORM_KERNELS(ORR_KERNEL)};
