/* Normalisation down the columns: of a batch over all of its rows, and of each sample in groups of
 * columns. Sums are kept in double, from the first row to the last. */
#include "kernels.h"

#include <math.h>
#include "base/max.h"
#include "device.h"
#include "loops.h"
#include "shapes.h"
#include "vector.h"

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
					const float *restrict factors, const float *restrict gain,
					const float *restrict mean_slopes,
					const float *restrict along, float *restrict dx)
{
	for (int64_t c = 0; c < count; c++)
		dx[c] = factors[c] *
			(gain[c] * dy[c] - mean_slopes[c] - (x[c] - means[c]) * along[c]);
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

/* ---- of blocks of columns ---- */

/* Up to WIDE columns of a sample. */
struct block {
	int64_t column, count; /* the first, and how many */
	int64_t at, own; /* where its cells begin, and its moments: the variances `width` on */
};

static int64_t n_blocks(int64_t n, const struct orr_norm_groups *g)
{
	return n * ((g->width + WIDE - 1) / WIDE);
}

static struct block block_of(const struct orr_norm_groups *g, int64_t i)
{
	int64_t s = i / n_blocks(1, g), column = i % n_blocks(1, g) * WIDE;

	return (struct block){column, smaller(WIDE, g->width - column),
			      s * g->rows * g->width + column, 2 * s * g->width + column};
}

static size_t bytes(int64_t n, const struct orr_norm_groups *g)
{
	return 0;
}

static void moments(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		    const float *x, float *moments)
{
	for (int64_t i = 0; i < n_blocks(n, g); i++) {
		const struct block b = block_of(g, i);
		double sums[WIDE] = {0}, squares[WIDE] = {0};
		float room[WIDE];

		for (int64_t r = 0, at = b.at; r < g->rows; r++, at += g->width)
			add_moments(b.count, orr_floats_at(d->halves, x, at, b.count, room), sums,
				    squares);
		for (int64_t c = 0; c < b.count; c++) {
			double mean = sums[c] / (double)g->rows;
			double variance = squares[c] / (double)g->rows - mean * mean;

			moments[b.own + c] = (float)mean;
			moments[b.own + g->width + c] = variance < 0 ? 0.0f : (float)variance;
		}
	}
	for (int64_t k = 0; k < n * g->groups; k++)
		orr_norm_join_moments(g, k, moments);
}

static void normalise(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		      const float *x, const float *gain, const float *bias, const float *moments,
		      float least, float *y)
{
	for (int64_t i = 0; i < n_blocks(n, g); i++) {
		const struct block b = block_of(g, i);
		const float *means = moments + b.own, *variances = means + g->width;
		float factors[WIDE], room[WIDE], made[WIDE];

		for (int64_t c = 0; c < b.count; c++)
			factors[c] = (float)((double)gain[b.column + c] *
					     factor_of((double)variances[c], g->epsilon));
		for (int64_t r = 0, at = b.at; r < g->rows; r++, at += g->width) {
			normalise_row(b.count, orr_floats_at(d->halves, x, at, b.count, room),
				      means, factors, bias + b.column, least,
				      orr_floats_to(d->halves, y, at, made));
			orr_floats_keep(d->halves, y, at, b.count, made);
		}
	}
}

static void slopes(struct orr_device *d, int64_t n, const struct orr_norm_groups *g, const float *x,
		   const float *moments, const float *y, float *dy, float *slopes)
{
	for (int64_t i = 0; i < n_blocks(n, g); i++) {
		const struct block b = block_of(g, i);
		const float *means = moments + b.own, *variances = means + g->width;
		double sums[WIDE] = {0}, along[WIDE] = {0};
		float room[WIDE], room_dy[WIDE];

		for (int64_t r = 0, at = b.at; r < g->rows; r++, at += g->width) {
			const float *dy_at = slopes_at(d, b.count, y, dy, at, room, room_dy);

			add_slopes(b.count, orr_floats_at(d->halves, x, at, b.count, room), dy_at,
				   means, sums, along);
		}
		for (int64_t c = 0; c < b.count; c++) {
			slopes[b.own + c] =
				(float)(along[c] * factor_of((double)variances[c], g->epsilon));
			slopes[b.own + g->width + c] = (float)sums[c];
		}
	}
}

static void join(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		 const float *gain, const float *slopes, float *sums)
{
	for (int64_t k = 0; k < n * g->groups; k++)
		orr_norm_join_slopes(g, k, gain, slopes, sums);
}

/* A column that is alone has its gain in the factor. */
static void input(struct orr_device *d, int64_t n, const struct orr_norm_groups *g, const float *x,
		  const float *moments, const float *gain, const float *dy, const float *sums,
		  float *dx)
{
	double cells = (double)(g->rows * orr_norm_columns(g));
	bool alone = orr_norm_columns(g) == 1;

	for (int64_t i = 0; i < n_blocks(n, g); i++) {
		const struct block b = block_of(g, i);
		const float *means = moments + b.own, *variances = means + g->width;
		float factors[WIDE], gains[WIDE], mean_slopes[WIDE], along[WIDE];
		float room[WIDE], room_dy[WIDE], made[WIDE];

		for (int64_t c = 0; c < b.count; c++) {
			double factor = factor_of((double)variances[c], g->epsilon);
			float own = gain[b.column + c];

			factors[c] = (float)(alone ? (double)own * factor : factor);
			gains[c] = alone ? 1.0f : own;
			mean_slopes[c] = (float)((double)sums[b.own + g->width + c] / cells);
			along[c] = (float)((double)sums[b.own + c] / cells * factor);
		}
		for (int64_t r = 0, at = b.at; r < g->rows; r++, at += g->width) {
			row_input_slopes(b.count, orr_floats_at(d->halves, x, at, b.count, room),
					 orr_floats_at(d->halves, dy, at, b.count, room_dy), means,
					 factors, gains, mean_slopes, along,
					 orr_floats_to(d->halves, dx, at, made));
			orr_floats_keep(d->halves, dx, at, b.count, made);
		}
	}
}

const struct orr_column_norm_kernels orr_column_norms_cpu = {ORR_COLUMN_NORM_KERNELS(ORR_KERNEL)};
