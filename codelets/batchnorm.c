/* Normalisation down the columns: of a batch over all of its rows, and of each sample in groups of
 * columns. Sums are kept in double, from the first row to the last. Of a batch, rows may be
 * bfloat16. */
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "device.h"
#include "loops.h"
#include "shapes.h"
#include "vector.h"

/* Columns that are added up at a time, each in a sum of its own. */
#define BLOCK 64

/* Of `count` columns, at most BLOCK, of n rows that lie `stride` floats apart. */
ORR_VECTOR static void sum_columns(int64_t n, int64_t stride, int64_t count,
				   const float *restrict x, double *restrict sums)
{
	for (int64_t c = 0; c < count; c++)
		sums[c] = 0;
	for (int64_t r = 0; r < n; r++, x += stride)
		for (int64_t c = 0; c < count; c++)
			sums[c] += (double)x[c];
}

ORR_VECTOR static void column_squares(int64_t n, int64_t stride, int64_t count,
				      const float *restrict x, const double *restrict means,
				      double *restrict sums)
{
	for (int64_t c = 0; c < count; c++)
		sums[c] = 0;
	for (int64_t r = 0; r < n; r++, x += stride)
		for (int64_t c = 0; c < count; c++) {
			double difference = (double)x[c] - means[c];

			sums[c] += difference * difference;
		}
}

/* Of dy, and of dy along the normal rows. */
ORR_VECTOR static void column_slopes(int64_t n, int64_t stride, int64_t count,
				     const float *restrict dy, const float *restrict normal,
				     double *restrict sums, double *restrict along)
{
	for (int64_t c = 0; c < count; c++)
		sums[c] = along[c] = 0;
	for (int64_t r = 0; r < n; r++, dy += stride, normal += stride)
		for (int64_t c = 0; c < count; c++) {
			sums[c] += (double)dy[c];
			along[c] += (double)dy[c] * (double)normal[c];
		}
}

ORR_VECTOR static void normalise_columns(int64_t n, int64_t stride, int64_t count,
					 const float *restrict x, const double *restrict means,
					 const double *restrict factors, const float *restrict gain,
					 const float *restrict bias, float *restrict y,
					 float *restrict normal)
{
	for (int64_t r = 0; r < n; r++, x += stride, y += stride, normal += stride)
		for (int64_t c = 0; c < count; c++) {
			normal[c] = (float)(((double)x[c] - means[c]) * factors[c]);
			y[c] = normal[c] * gain[c] + bias[c];
		}
}

/* dx = factor (gain dy - mean - normal along), each of its column. */
ORR_VECTOR static void column_input_slopes(int64_t n, int64_t stride, int64_t count,
					   const float *restrict dy, const float *restrict normal,
					   const float *restrict gain,
					   const double *restrict factors,
					   const double *restrict means,
					   const double *restrict along, float *restrict dx)
{
	for (int64_t r = 0; r < n; r++, dy += stride, normal += stride, dx += stride)
		for (int64_t c = 0; c < count; c++)
			dx[c] = (float)(factors[c] * ((double)gain[c] * (double)dy[c] - means[c] -
						      (double)normal[c] * along[c]));
}

static int64_t block_of(int64_t count, int64_t first)
{
	return count - first < BLOCK ? count - first : BLOCK;
}

static void fill(double *to, double value)
{
	for (int c = 0; c < BLOCK; c++)
		to[c] = value;
}

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

/* `count` activations from place `at` on, as floats, which may lie in room. */
static const float *floats_at(const struct orr_device *d, int64_t count, const float *x, int64_t at,
			      float *room)
{
	if (!d->halves)
		return x + at;
	orr_from_bf16(count, (const uint16_t *)x + at, room);
	return room;
}

/* Those that were made in room, unless they were made in their place. */
static void keep(const struct orr_device *d, int64_t count, const float *room, float *y, int64_t at)
{
	if (d->halves)
		orr_to_bf16(count, room, (uint16_t *)y + at);
}

/* Slopes from place `at` on, as floats, which may lie in room; of dy there is left what a relu with
 * the output y, if there is one, lets through. */
static const float *slopes_at(const struct orr_device *d, int64_t count, const float *y, float *dy,
			      int64_t at, float *room_y, float *room)
{
	float *slopes = d->halves ? room : dy + at;

	(void)floats_at(d, count, dy, at, room);
	if (y) {
		mask_row(count, floats_at(d, count, y, at, room_y), slopes);
		keep(d, count, slopes, dy, at);
	}
	return slopes;
}

static int64_t wide_of(int64_t width, int64_t first)
{
	return width - first < WIDE ? width - first : WIDE;
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
		int64_t count = wide_of(width, first);
		float room[WIDE];

		for (int64_t r = 0; r < n; r++)
			add_moments(count, floats_at(d, count, x, r * width + first, room), sums,
				    squares);
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
		int64_t count = wide_of(width, first);
		float factors[WIDE], room[WIDE], made[WIDE];

		for (int64_t c = first; c < first + count; c++)
			factors[c - first] =
				(float)((double)gain[c] *
					factor_of((double)moments[width + c], epsilon));
		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			normalise_row(count, floats_at(d, count, x, at, room), moments + first,
				      factors, bias + first, least, d->halves ? made : y + at);
			keep(d, count, made, y, at);
		}
	}
}

static void batchnorm_slopes(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			     const float *x, const float *moments, const float *y, float *dy,
			     float *slopes)
{
	for (int64_t first = 0; first < width; first += WIDE) {
		double sums[WIDE] = {0}, along[WIDE] = {0};
		int64_t count = wide_of(width, first);
		float room[WIDE], room_dy[WIDE];

		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			const float *dy_at = slopes_at(d, count, y, dy, at, room, room_dy);

			add_slopes(count, floats_at(d, count, x, at, room), dy_at, moments + first,
				   sums, along);
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
		int64_t count = wide_of(width, first);

		for (int64_t c = 0, k = first; c < count; c++, k++) {
			double factor = factor_of((double)moments[width + k], epsilon);

			factors[c] = (float)((double)gain[k] * factor);
			means[c] = (float)((double)slopes[width + k] / (double)n);
			along[c] = (float)((double)slopes[k] / (double)n * factor);
		}
		for (int64_t r = 0, at = first; r < n; r++, at += width) {
			row_input_slopes(count, floats_at(d, count, x, at, room),
					 floats_at(d, count, dy, at, room_dy), moments + first,
					 factors, means, along, d->halves ? made : dx + at);
			keep(d, count, made, dx, at);
		}
	}
}

/* ---- of a sample's groups ---- */

/* The columns of a group of one sample; `first` is the first of them among those of the sample. */
struct group {
	int64_t first, count;
	double cells; /* rows times columns */
};

static struct group group_of(const struct orr_norm_groups *g, int64_t k)
{
	int64_t count = g->width / g->groups;

	return (struct group){k * count, count, (double)(g->rows * count)};
}

static double mean_of(const struct orr_norm_groups *g, const struct group *group, const float *x)
{
	double sums[BLOCK], sum = 0;

	for (int64_t at = 0; at < group->count; at += BLOCK) {
		int64_t count = block_of(group->count, at);

		sum_columns(g->rows, g->width, count, x + group->first + at, sums);
		for (int64_t c = 0; c < count; c++)
			sum += sums[c];
	}
	return sum / group->cells;
}

static double variance_of(const struct orr_norm_groups *g, const struct group *group,
			  const float *x, double mean)
{
	double sums[BLOCK], means[BLOCK], sum = 0;

	fill(means, mean);
	for (int64_t at = 0; at < group->count; at += BLOCK) {
		int64_t count = block_of(group->count, at);

		column_squares(g->rows, g->width, count, x + group->first + at, means, sums);
		for (int64_t c = 0; c < count; c++)
			sum += sums[c];
	}
	return sum / group->cells;
}

static void groupnorm_forward(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			      const float *x, const float *gain, const float *bias, float *y,
			      float *normal)
{
	int64_t floats = g->rows * g->width;
	float *kept = normal + n * floats;

	for (int64_t s = 0; s < n; s++, x += floats, y += floats, normal += floats)
		for (int64_t k = 0; k < g->groups; k++) {
			struct group group = group_of(g, k);
			double mean = mean_of(g, &group, x);
			double factor = 1.0 / sqrt(variance_of(g, &group, x, mean) + g->epsilon);
			double means[BLOCK], factors[BLOCK];

			*kept++ = (float)factor;
			fill(means, mean), fill(factors, factor);
			for (int64_t i = 0; i < group.count; i += BLOCK) {
				int64_t at = group.first + i;

				normalise_columns(g->rows, g->width, block_of(group.count, i),
						  x + at, means, factors, gain + at, bias + at,
						  y + at, normal + at);
			}
		}
}

/* The means over a group of gain times dy, and of that along the normal rows. */
static void mean_slopes(const struct orr_norm_groups *g, const struct group *group,
			const float *normal, const float *gain, const float *dy, double *mean,
			double *along)
{
	double sums[BLOCK], along_sums[BLOCK];

	*mean = *along = 0;
	for (int64_t i = 0; i < group->count; i += BLOCK) {
		int64_t at = group->first + i, count = block_of(group->count, i);

		column_slopes(g->rows, g->width, count, dy + at, normal + at, sums, along_sums);
		for (int64_t c = 0; c < count; c++) {
			*mean += (double)gain[at + c] * sums[c];
			*along += (double)gain[at + c] * along_sums[c];
		}
	}
	*mean /= group->cells;
	*along /= group->cells;
}

static void groupnorm_input(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			    const float *normal, const float *gain, const float *dy, float *dx)
{
	int64_t floats = g->rows * g->width;
	const float *kept = normal + n * floats;

	for (int64_t s = 0; s < n; s++, normal += floats, dy += floats, dx += floats)
		for (int64_t k = 0; k < g->groups; k++) {
			struct group group = group_of(g, k);
			double means[BLOCK], along[BLOCK], factors[BLOCK];

			fill(factors, (double)*kept++);
			mean_slopes(g, &group, normal, gain, dy, &means[0], &along[0]);
			fill(means, means[0]), fill(along, along[0]);
			for (int64_t i = 0; i < group.count; i += BLOCK) {
				int64_t at = group.first + i;

				column_input_slopes(g->rows, g->width, block_of(group.count, i),
						    dy + at, normal + at, gain + at, factors, means,
						    along, dx + at);
			}
		}
}

const struct orr_column_norm_kernels orr_column_norms_cpu = {
	.groupnorm_forward = groupnorm_forward,
	.groupnorm_input = groupnorm_input,
	.batchnorm_moments = batchnorm_moments,
	.batchnorm = batchnorm,
	.batchnorm_slopes = batchnorm_slopes,
	.batchnorm_input = batchnorm_input,
};
