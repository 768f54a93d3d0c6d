/* Operators of images: rows are pixels, columns channels. */
#include "textbook.h"

#include <math.h>

/* Pixel (y, x), channel c of input 0; outside: `outside`. */
static double pixel(const struct sample *t, int64_t height, int64_t y, int64_t x, int64_t c,
		    double outside)
{
	int64_t width = shape_of(t, 0).rows / height;

	if (y < 0 || y >= height || x < 0 || x >= width)
		return outside;
	return x_of(t, 0)[(y * width + x) * shape_of(t, 0).columns + c];
}

static int64_t height_of(const struct sample *t)
{
	double height = said(t, "image_height");

	return (int64_t)(height > 0 ? height : sqrt((double)shape_of(t, 0).rows) + 0.5);
}

/* Places of a window beside each other. */
static int64_t places_of(const struct sample *t, int64_t side, int64_t stride, int64_t padding)
{
	int64_t width = shape_of(t, 0).rows / height_of(t);

	return (width + 2 * padding - side) / stride + 1;
}

/* [feature][channel of its group][row][column], then the bias */
void textbook_conv2d(const struct sample *t, double *y)
{
	int64_t side = (int64_t)said(t, "kernel"), stride = (int64_t)said(t, "stride");
	int64_t padding = (int64_t)said(t, "padding"), features = (int64_t)said(t, "features");
	int64_t groups = (int64_t)said(t, "groups"), count = shape_of(t, 0).columns / groups;
	int64_t beside = places_of(t, side, stride, padding), seen = count * side * side;
	int64_t height = height_of(t);
	bool bias = said(t, "bias") > 0;

	for (int64_t p = 0; p < t->o->instance->output.rows; p++)
		for (int64_t f = 0; f < features; f++, y++) {
			const double *w = t->p + f * seen;

			*y = bias ? t->p[features * seen + f] : 0;
			for (int64_t i = 0; i < seen; i++)
				*y += w[i] *
				      pixel(t, height,
					    p / beside * stride - padding + i / side % side,
					    p % beside * stride - padding + i % side,
					    f / (features / groups) * count + i / side / side, 0);
		}
}

void textbook_pool(const struct sample *t, double *y)
{
	int64_t side = (int64_t)said(t, "kernel"), padding = (int64_t)said(t, "padding");
	int64_t stride = said(t, "stride") > 0 ? (int64_t)said(t, "stride") : side;
	int64_t beside = places_of(t, side, stride, padding);
	int64_t height = height_of(t);
	bool max = is(t, "max_pool");

	for (int64_t p = 0; p < t->o->instance->output.rows; p++)
		for (int64_t c = 0; c < shape_of(t, 0).columns; c++, y++) {
			*y = max ? -INFINITY : 0;
			for (int64_t i = 0; i < side * side; i++) {
				double x =
					pixel(t, height, p / beside * stride - padding + i / side,
					      p % beside * stride - padding + i % side, c,
					      max ? -INFINITY : 0);

				*y = max ? fmax(*y, x) : *y + x / (double)(side * side);
			}
		}
}

void textbook_patches(const struct sample *t, double *y)
{
	int64_t side = (int64_t)said(t, "size"), beside = places_of(t, side, side, 0);
	int64_t height = height_of(t);

	for (int64_t p = 0; p < t->o->instance->output.rows; p++)
		for (int64_t i = 0; i < side * side; i++)
			for (int64_t c = 0; c < shape_of(t, 0).columns; c++)
				*y++ = pixel(t, height, p / beside * side + i / side,
					     p % beside * side + i % side, c, NAN);
}

void textbook_groupnorm(const struct sample *t, double *y)
{
	int64_t rows = shape_of(t, 0).rows, n = shape_of(t, 0).columns;
	int64_t count = n / (int64_t)said(t, "groups");
	const double *x = x_of(t, 0);

	for (int64_t first = 0; first < n; first += count) {
		double sum = 0, squares = 0, cells = (double)(rows * count);

		for (int64_t i = 0; i < rows * count; i++)
			sum += x[i / count * n + first + i % count];
		for (int64_t i = 0; i < rows * count; i++)
			squares += pow(x[i / count * n + first + i % count] - sum / cells, 2);
		for (int64_t i = 0; i < rows * count; i++) {
			int64_t c = first + i % count, at = i / count * n + c;

			y[at] = t->p[c] * (x[at] - sum / cells) /
					sqrt(squares / cells + said(t, "epsilon")) +
				t->p[n + c];
		}
	}
}

/* Row r of those of all samples, of input 0 or, where `slopes`, of its gradient. */
static double *row_of(struct sample t, int64_t r, bool slopes)
{
	int64_t rows = shape_of(&t, 0).rows;

	t.r = r / rows;
	return (slopes ? dx_of(&t, 0) : x_of(&t, 0)) + r % rows * shape_of(&t, 0).columns;
}

/* Mean of column c over all rows of all samples. *squares: the sum of the squared differences. */
static double mean_of(const struct sample *t, int64_t c, double *squares)
{
	int64_t rows = t->n * shape_of(t, 0).rows;
	double mean = 0;

	for (int64_t r = 0; r < rows; r++)
		mean += row_of(*t, r, false)[c] / (double)rows;
	*squares = 0;
	for (int64_t r = 0; r < rows; r++)
		*squares += pow(row_of(*t, r, false)[c] - mean, 2);
	return mean;
}

void textbook_batchnorm(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns, rows = shape_of(t, 0).rows;

	for (int64_t c = 0; c < n; c++) {
		double squares, mean = mean_of(t, c, &squares);
		double variance = squares / (double)(t->n * rows);

		for (int64_t r = 0; r < rows; r++)
			y[r * n + c] = t->p[c] * (x_of(t, 0)[r * n + c] - mean) /
					       sqrt(variance + said(t, "epsilon")) +
				       t->p[n + c];
	}
}

/* What the sample's rows j add to all rows i: d z_j / d x_i = ((i == j) - 1/m - z_i z_j / m) /
 * deviation of m rows, summed over j. */
static void column_back(const struct sample *t, int64_t c, const double *dy)
{
	int64_t n = shape_of(t, 0).columns, rows = shape_of(t, 0).rows, all = t->n * rows;
	double squares, mean = mean_of(t, c, &squares), m = (double)all, sum = 0, along = 0;
	double deviation = sqrt(squares / m + said(t, "epsilon"));

	for (int64_t j = 0; j < rows; j++) {
		sum += dy[j * n + c];
		along += dy[j * n + c] * (x_of(t, 0)[j * n + c] - mean) / deviation;
		dx_of(t, 0)[j * n + c] += t->p[c] * dy[j * n + c] / deviation;
	}
	for (int64_t i = 0; i < all; i++) {
		double zi = (row_of(*t, i, false)[c] - mean) / deviation;

		row_of(*t, i, true)[c] -= t->p[c] * (sum + zi * along) / m / deviation;
	}
	t->dp[c] += along;
	t->dp[n + c] += sum;
	if (t->r == 0) { /* in place of a gradient */
		t->dp[2 * n + c] += mean;
		t->dp[3 * n + c] += squares / (m - 1);
	}
}

void textbook_batchnorm_back(const struct sample *t, const double *dy)
{
	for (int64_t c = 0; c < shape_of(t, 0).columns; c++)
		column_back(t, c, dy);
}
