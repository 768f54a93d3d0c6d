/* Normalisation down the columns: of a batch over all of its rows, and of each sample in groups of
 * columns. Sums are kept in double, from the first row to the last. Of a batch, rows may be
 * bfloat16. */
#include "kernels.h"

#include <math.h>
#include "base/max.h"
#include "device.h"
#include "loops.h"
#include "shapes.h"
#include "vector.h"

/* ---- of a batch ---- */

/* Columns of a row that go together: their sums stay in the first cache. */
#define WIDE 256

/* In double, which has room for squares of floats around any mean. */
ORR_VECTOR static void add_moments(int64_t count, const float *restrict x, double *restrict sums,
				   double *restrict squares)
{
	for (int64_t c = 0; c < count; c++) {
		sums[c] += (double)x[c];
		squares[c] += (double)x[c] * (double)x[c];
	}
}

/* Of dy, and of dy along x. */
ORR_VECTOR static void add_slopes(int64_t count, const float *restrict x, const float *restrict dy,
				  const float *restrict means, double *restrict sums,
				  double *restrict along)
{
	for (int64_t c = 0; c < count; c++) {
		sums[c] += (double)dy[c];
		along[c] += (double)dy[c] * (double)(x[c] - means[c]);
	}
}

ORR_VECTOR static void normalise_row(int64_t count, const float *restrict x,
				     const float *restrict means, const float *restrict factors,
				     const float *restrict bias, float least, float *restrict y)
{
	for (int64_t c = 0; c < count; c++) {
		float v = (x[c] - means[c]) * factors[c] + bias[c];

		y[c] = v < least ? 0.0f : v;
	}
}

ORR_VECTOR static void mask_row(int64_t count, const float *restrict y, float *restrict dy)
{
	for (int64_t c = 0; c < count; c++)
		dy[c] = orr_relu_slope(y[c], dy[c]);
}

ORR_VECTOR static void row_input_slopes(int64_t count, const float *restrict x,
					const float *restrict dy, const float *restrict means,
					const float *restrict factors,
					const float *restrict mean_slopes,
					const float *restrict along, float *restrict dx)
{
	for (int64_t c = 0; c < count; c++)
		dx[c] = factors[c] * (dy[c] - mean_slopes[c] - (x[c] - means[c]) * along[c]);
}

/* Slopes from place `at` on, as floats, which may lie in room; of dy there is left what a relu with
 * the output y, if there is one, lets through. */
static const float *slopes_at(const struct orr_device *d, int64_t count, const float *y, float *dy,
			      int64_t at, float *room_y, float *room)
{
	float *slopes = d->halves ? room : dy + at;

	(void)orr_floats_at(d->halves, dy, at, count, room);
	if (y) {
		mask_row(count, orr_floats_at(d->halves, y, at, count, room_y), slopes);
		orr_floats_keep(d->halves, dy, at, count, slopes);
	}
	return slopes;
}

static double factor_of(double variance, double epsilon)
{
	return 1.0 / sqrt(variance + epsilon);
}

static void batchnorm_moments(struct orr_device *d, int64_t n, int64_t width, const float *x,
			      float *moments)
{
	for (int64_t first = 0; first < width; first += WIDE) {
		double sums[WIDE] = {0}, squares[WIDE] = {0};
		int64_t count = smaller(WIDE, width - first);
		float room[WIDE];

		for (int64_t r = 0; r < n; r++)
			add_moments(count,
				    orr_floats_at(d->halves, x, r * width + first, count, room),
				    sums, squares);
		for (int64_t c = 0; c < count; c++) {
			double mean = sums[c] / (double)n;
			double variance = squares[c] / (double)n - mean * mean;

			moments[first + c] = (float)mean;
			moments[width + first + c] = variance < 0 ? 0.0f : (float)variance;
		}
	}
}

static void batchnorm(struct orr_device *d, int64_t n, int64_t width, double epsilon,
		      const float *x, const float *gain, const float *bias, const float *moments,
		      float least, float *y)
{
	for (int64_t first = 0; first < width; first += WIDE) {
		int64_t count = smaller(WIDE, width - first);
		float factors[WIDE], room[WIDE], made[WIDE];

		for (int64_t c = first; c < first + count; c++)
			factors[c - first] =
				(float)((double)gain[c] *
					factor_of((double)moments[width + c], epsilon));
		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			normalise_row(count, orr_floats_at(d->halves, x, at, count, room),
				      moments + first, factors, bias + first, least,
				      orr_floats_to(d->halves, y, at, made));
			orr_floats_keep(d->halves, y, at, count, made);
		}
	}
}

static void batchnorm_slopes(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			     const float *x, const float *moments, const float *y, float *dy,
			     float *slopes)
{
	for (int64_t first = 0; first < width; first += WIDE) {
		double sums[WIDE] = {0}, along[WIDE] = {0};
		int64_t count = smaller(WIDE, width - first);
		float room[WIDE], room_dy[WIDE];

		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			const float *dy_at = slopes_at(d, count, y, dy, at, room, room_dy);

			add_slopes(count, orr_floats_at(d->halves, x, at, count, room), dy_at,
				   moments + first, sums, along);
		}
		for (int64_t c = 0; c < count; c++) {
			double variance = (double)moments[width + first + c];

			slopes[first + c] = (float)(along[c] * factor_of(variance, epsilon));
			slopes[width + first + c] = (float)sums[c];
		}
	}
}

static void batchnorm_input(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			    const float *x, const float *moments, const float *gain,
			    const float *dy, const float *slopes, float *dx)
{
	for (int64_t first = 0; first < width; first += WIDE) {
		float factors[WIDE], means[WIDE], along[WIDE], room[WIDE], room_dy[WIDE],
			made[WIDE];
		int64_t count = smaller(WIDE, width - first);

		for (int64_t c = 0, k = first; c < count; c++, k++) {
			double factor = factor_of((double)moments[width + k], epsilon);

			factors[c] = (float)((double)gain[k] * factor);
			means[c] = (float)((double)slopes[width + k] / (double)n);
			along[c] = (float)((double)slopes[k] / (double)n * factor);
		}
		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			row_input_slopes(count, orr_floats_at(d->halves, x, at, count, room),
					 orr_floats_at(d->halves, dy, at, count, room_dy),
					 moments + first, factors, means, along,
					 orr_floats_to(d->halves, dx, at, made));
			orr_floats_keep(d->halves, dx, at, count, made);
		}
	}
}

/* ---- of a sample's groups ---- */

/* Columns of a group that are added up at a time, each in a sum of its own. */
#define BLOCK 64

/* Of `count` columns, at most BLOCK, of n rows that lie `stride` floats apart. */
ORR_VECTOR static void column_sums(int64_t n, int64_t stride, int64_t count,
				   const float *restrict x, double mean, double *restrict sums)
{
	for (int64_t r = 0; r < n; r++, x += stride)
		for (int64_t c = 0; c < count; c++)
			sums[c] += (double)x[c];
}

ORR_VECTOR static void column_squares(int64_t n, int64_t stride, int64_t count,
				      const float *restrict x, double mean, double *restrict sums)
{
	for (int64_t r = 0; r < n; r++, x += stride)
		for (int64_t c = 0; c < count; c++) {
			double difference = (double)x[c] - mean;

			sums[c] += difference * difference;
		}
}

/* Of dy, and of dy along the normal rows. */
ORR_VECTOR static void column_slopes(int64_t n, int64_t stride, int64_t count,
				     const float *restrict dy, const float *restrict normal,
				     double *restrict sums, double *restrict along)
{
	for (int64_t r = 0; r < n; r++, dy += stride, normal += stride)
		for (int64_t c = 0; c < count; c++) {
			sums[c] += (double)dy[c];
			along[c] += (double)dy[c] * (double)normal[c];
		}
}

ORR_VECTOR static void normalise_columns(int64_t n, int64_t stride, int64_t count,
					 const float *restrict x, double mean, double factor,
					 const float *restrict gain, const float *restrict bias,
					 float *restrict y, float *restrict normal)
{
	for (int64_t r = 0; r < n; r++, x += stride, y += stride, normal += stride)
		for (int64_t c = 0; c < count; c++) {
			normal[c] = (float)(((double)x[c] - mean) * factor);
			y[c] = normal[c] * gain[c] + bias[c];
		}
}

/* dx = factor (gain dy - mean - normal along) */
ORR_VECTOR static void column_input_slopes(int64_t n, int64_t stride, int64_t count,
					   const float *restrict dy, const float *restrict normal,
					   const float *restrict gain, double factor, double mean,
					   double along, float *restrict dx)
{
	for (int64_t r = 0; r < n; r++, dy += stride, normal += stride, dx += stride)
		for (int64_t c = 0; c < count; c++)
			dx[c] = (float)(factor * ((double)gain[c] * (double)dy[c] - mean -
						  (double)normal[c] * along));
}

/* How many there are in a group. */
static int64_t columns_of(const struct orr_norm_groups *g)
{
	return g->width / g->groups;
}

static double cells_of(const struct orr_norm_groups *g)
{
	return (double)(g->rows * columns_of(g));
}

/* The mean over a group of what `add` adds up. */
static double mean_of(const struct orr_norm_groups *g,
		      void (*add)(int64_t n, int64_t stride, int64_t count, const float *x,
				  double mean, double *sums),
		      const float *x, double mean)
{
	double sum = 0;

	for (int64_t at = 0; at < columns_of(g); at += BLOCK) {
		int64_t count = smaller(BLOCK, columns_of(g) - at);
		double sums[BLOCK] = {0};

		add(g->rows, g->width, count, x + at, mean, sums);
		for (int64_t c = 0; c < count; c++)
			sum += sums[c];
	}
	return sum / cells_of(g);
}

static void groupnorm_forward(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			      const float *x, const float *gain, const float *bias, float *y,
			      float *normal)
{
	float *factors = normal + n * g->rows * g->width;

	for (int64_t k = 0; k < n * g->groups; k++) {
		int64_t column = k % g->groups * columns_of(g);
		int64_t at = k / g->groups * g->rows * g->width + column;
		double mean = mean_of(g, column_sums, x + at, 0);
		double factor = factor_of(mean_of(g, column_squares, x + at, mean), g->epsilon);

		factors[k] = (float)factor;
		normalise_columns(g->rows, g->width, columns_of(g), x + at, mean, factor,
				  gain + column, bias + column, y + at, normal + at);
	}
}

/* The means over a group of gain times dy, and of that along the normal rows. */
static void mean_slopes(const struct orr_norm_groups *g, const float *normal, const float *gain,
			const float *dy, double *mean, double *along)
{
	*mean = *along = 0;
	for (int64_t at = 0; at < columns_of(g); at += BLOCK) {
		int64_t count = smaller(BLOCK, columns_of(g) - at);
		double sums[BLOCK] = {0}, along_sums[BLOCK] = {0};

		column_slopes(g->rows, g->width, count, dy + at, normal + at, sums, along_sums);
		for (int64_t c = 0; c < count; c++) {
			*mean += (double)gain[at + c] * sums[c];
			*along += (double)gain[at + c] * along_sums[c];
		}
	}
	*mean /= cells_of(g);
	*along /= cells_of(g);
}

static void groupnorm_input(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			    const float *normal, const float *gain, const float *dy, float *dx)
{
	const float *factors = normal + n * g->rows * g->width;

	for (int64_t k = 0; k < n * g->groups; k++) {
		int64_t column = k % g->groups * columns_of(g);
		int64_t at = k / g->groups * g->rows * g->width + column;
		double mean, along;

		mean_slopes(g, normal + at, gain + column, dy + at, &mean, &along);
		column_input_slopes(g->rows, g->width, columns_of(g), dy + at, normal + at,
				    gain + column, (double)factors[k], mean, along, dx + at);
	}
}

const struct orr_column_norm_kernels orr_column_norms_cpu = {ORR_COLUMN_NORM_KERNELS(ORR_KERNEL)};
