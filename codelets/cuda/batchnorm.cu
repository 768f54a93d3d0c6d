/* Normalisation down the columns: of a batch over all of its rows, by sums of strips of them, and
 * of a sample's groups, a block each. Added up in double, as on a CPU. */
#include "rows.h"

#include "../shapes.h"

/* ---- of a batch ---- */

/* Two sums of each column: of a strip, then of all. */
struct sums {
	double *strips[2], *all[2];
};

size_t orr_cuda_batchnorm_bytes(int64_t n, int64_t width)
{
	return 2 * orr_cuda_aligned((orr_strips(n) + 1) * width, sizeof(double));
}

static struct sums sums_of(const struct orr_device *d, int64_t n, int64_t width)
{
	double *at = reinterpret_cast<double *>(orr_cuda_workspace(d));
	int64_t strips = orr_strips(n) * width;

	return {{at, at + strips}, {at + 2 * strips, at + 2 * strips + width}};
}

/* Strip blockIdx.y of 32 columns: its rows in turn to the block's, and these from the first to the
 * last. */
template <class F>
__global__ void __launch_bounds__(ORR_TILE_X *ORR_TILE_Y)
	sum_strips(int64_t n, int64_t width, int64_t rows, F f, struct sums to)
{
	__shared__ double2 all[ORR_TILE_Y][ORR_TILE_X];
	int64_t c = (int64_t)blockIdx.x * ORR_TILE_X + threadIdx.x, begin = blockIdx.y * rows;
	int64_t end = begin + rows < n ? begin + rows : n;
	double2 sum = make_double2(0, 0);

	for (int64_t r = begin + threadIdx.y; r < end && c < width; r += ORR_TILE_Y) {
		double2 v = f(r * width + c, c);

		sum.x += v.x, sum.y += v.y;
	}
	all[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y || c >= width)
		return;
	for (int k = 1; k < ORR_TILE_Y; k++)
		sum.x += all[k][threadIdx.x].x, sum.y += all[k][threadIdx.x].y;
	to.strips[0][blockIdx.y * width + c] = sum.x;
	to.strips[1][blockIdx.y * width + c] = sum.y;
}

/* Of what f(cell, its column) gives, two sums a column; then g(column, their means). */
template <class F, class G>
static void mean_columns(struct orr_device *d, int64_t n, int64_t width, struct sums sums, F f, G g)
{
	int64_t strips = orr_strips(n);
	dim3 grid((unsigned)orr_ceil(width, ORR_TILE_X), (unsigned)strips);
	dim3 tile(ORR_TILE_X, ORR_TILE_Y);
	const auto add = sum_strips<F>;

	ORR_LAUNCH(add, grid, tile, 0, d->cuda->stream, n, width, orr_strip_rows(n), f, sums);
	orr_each(d, "means of columns", width, [=] __device__(int64_t c) {
		double a = 0, b = 0;

		for (int64_t k = 0; k < strips; k++) {
			a += sums.strips[0][k * width + c];
			b += sums.strips[1][k * width + c];
		}
		g(c, a / (double)n, b / (double)n);
	});
}

/* f(cell, its column) */
template <class F>
static void all_cells(struct orr_device *d, const char *name, int64_t n, int64_t width, F f)
{
	orr_each(d, name, n * width, [=] __device__(int64_t i) { f(i, i % width); });
}

static void start_batchnorm_forward(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				    const float *x, const float *gain, const float *bias, float *y,
				    float *normal, float *moments)
{
	struct sums s = sums_of(d, n, width);
	double *means = s.all[0], *factors = s.all[1];

	mean_columns(
		d, n, width, s,
		[=] __device__(int64_t at, int64_t) { return make_double2((double)x[at], 0); },
		[=] __device__(int64_t c, double mean, double) {
			means[c] = mean;
			moments[c] = (float)mean;
		});
	mean_columns(
		d, n, width, s,
		[=] __device__(int64_t at, int64_t c) {
			double difference = (double)x[at] - means[c];

			return make_double2(difference * difference, 0);
		},
		[=] __device__(int64_t c, double variance, double) {
			factors[c] = 1.0 / sqrt(variance + epsilon);
			moments[width + c] = (float)variance;
		});
	all_cells(d, "batchnorm", n, width, [=] __device__(int64_t at, int64_t c) {
		normal[at] = (float)(((double)x[at] - means[c]) * factors[c]);
		y[at] = normal[at] * gain[c] + bias[c];
	});
}

static void start_batchnorm_evaluate(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				     const float *x, const float *gain, const float *bias,
				     const float *moments, float *y)
{
	all_cells(d, "batchnorm's evaluation", n, width, [=] __device__(int64_t at, int64_t c) {
		double factor = (double)gain[c] / sqrt((double)moments[width + c] + epsilon);

		y[at] = (float)(((double)x[at] - (double)moments[c]) * factor + (double)bias[c]);
	});
}

static void start_batchnorm_input(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				  const float *normal, const float *moments, const float *gain,
				  const float *dy, float *dx)
{
	struct sums s = sums_of(d, n, width);
	double *means = s.all[0], *along = s.all[1];

	mean_columns(
		d, n, width, s,
		[=] __device__(int64_t at, int64_t) {
			return make_double2((double)dy[at], (double)dy[at] * (double)normal[at]);
		},
		[=] __device__(int64_t c, double mean, double mean_along) {
			means[c] = (double)gain[c] * mean;
			along[c] = (double)gain[c] * mean_along;
		});
	all_cells(d, "batchnorm backward", n, width, [=] __device__(int64_t at, int64_t c) {
		double factor = 1.0 / sqrt((double)moments[width + c] + epsilon);

		dx[at] = (float)(factor * ((double)gain[c] * (double)dy[at] - means[c] -
					   (double)normal[at] * along[c]));
	});
}

/* ---- of a sample's groups ---- */

/* The cells of a group of a sample: cell i lies at() floats behind the sample's first. */
struct group {
	int64_t count, width, first, cells;
	__device__ int64_t column(int64_t i) const { return first + i % count; }
	__device__ int64_t at(int64_t i) const { return i / count * width + column(i); }
};

/* f(sample, group) for each of n * groups, a block each. */
template <class F>
__device__ inline void each_group(int64_t n, const struct orr_norm_groups &g, F f)
{
	int64_t count = g.width / g.groups;

	for (int64_t b = blockIdx.x; b < n * g.groups; b += gridDim.x)
		f(b / g.groups * g.rows * g.width,
		  group{count, g.width, b % g.groups * count, g.rows * count}, b);
}

/* The mean of f(cell) over a group, in all of its threads. */
template <class F> __device__ inline double mean_of(const struct group &k, F f)
{
	double sum = 0;

	for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK)
		sum += f(i);
	return row_sum<ORR_BLOCK>(sum) / (double)k.cells;
}

__global__ void __launch_bounds__(ORR_BLOCK)
	groupnorm_forward(int64_t n, const __grid_constant__ struct orr_norm_groups g,
			  const float *x, const float *gain, const float *bias, float *y,
			  float *normal, float *factors)
{
	each_group(n, g, [=](int64_t sample, struct group k, int64_t number) {
		const float *from = x + sample;
		double mean = mean_of(k, [=](int64_t i) { return (double)from[k.at(i)]; });
		double variance = mean_of(k, [=](int64_t i) {
			double difference = (double)from[k.at(i)] - mean;

			return difference * difference;
		});
		double factor = 1.0 / sqrt(variance + g.epsilon);

		if (!threadIdx.x)
			factors[number] = (float)factor;
		for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK) {
			int64_t at = k.at(i), c = k.column(i);
			float v = (float)(((double)from[at] - mean) * factor);

			normal[sample + at] = v;
			y[sample + at] = v * gain[c] + bias[c];
		}
	});
}

__global__ void __launch_bounds__(ORR_BLOCK)
	groupnorm_input(int64_t n, const __grid_constant__ struct orr_norm_groups g,
			const float *normal, const float *factors, const float *gain,
			const float *dy, float *dx)
{
	each_group(n, g, [=](int64_t sample, struct group k, int64_t number) {
		const float *row = normal + sample, *slope = dy + sample;
		double factor = (double)factors[number];
		double mean = mean_of(k, [=](int64_t i) {
			return (double)slope[k.at(i)] * (double)gain[k.column(i)];
		});
		double along = mean_of(k, [=](int64_t i) {
			return (double)slope[k.at(i)] * (double)gain[k.column(i)] *
			       (double)row[k.at(i)];
		});

		for (int64_t i = threadIdx.x; i < k.cells; i += ORR_BLOCK) {
			int64_t at = k.at(i);
			double g_dy = (double)gain[k.column(i)] * (double)slope[at];

			dx[sample + at] = (float)(factor * (g_dy - mean - (double)row[at] * along));
		}
	});
}

static void start_groupnorm_forward(struct orr_device *d, int64_t n,
				    const struct orr_norm_groups *g, const float *x,
				    const float *gain, const float *bias, float *y, float *normal)
{
	ORR_LAUNCH(groupnorm_forward, orr_blocks(n * g->groups, 1), ORR_BLOCK, 0, d->cuda->stream,
		   n, *g, x, gain, bias, y, normal, normal + n * g->rows * g->width);
	orr_cuda_ok(d, cudaGetLastError(), "groupnorm");
}

static void start_groupnorm_input(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
				  const float *normal, const float *gain, const float *dy,
				  float *dx)
{
	ORR_LAUNCH(groupnorm_input, orr_blocks(n * g->groups, 1), ORR_BLOCK, 0, d->cuda->stream, n,
		   *g, normal, normal + n * g->rows * g->width, gain, dy, dx);
	orr_cuda_ok(d, cudaGetLastError(), "groupnorm backward");
}

const struct orr_column_norm_kernels orr_column_norms_cuda = {
	.groupnorm_forward = start_groupnorm_forward,
	.groupnorm_input = start_groupnorm_input,
	.batchnorm_forward = start_batchnorm_forward,
	.batchnorm_evaluate = start_batchnorm_evaluate,
	.batchnorm_input = start_batchnorm_input,
};
