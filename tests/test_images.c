/* Kernels of images and losses of rows against the textbook: the forward in double, one formula
 * after the other, and its derivatives by finite differences. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../codelets/device.h"
#include "../codelets/program.h"
#include "../codelets/sequence.h"
#include "../codelets/shapes.h"
#include "small_model.h"
#include "suite.h"

static struct orr_device cpu = {.kernels = &orr_kernels_cpu};

/* y = f(x), of a number of samples and a shape, in double. */
struct textbook {
	void (*f)(const struct textbook *t, const double *x, double *y);
	int64_t n, n_x, n_y;
	struct orr_window window;
	struct orr_norm_groups groups;
	struct orr_classes classes;
	const float *given; /* what is not differentiated: a target */
};

static double *exact(int64_t n, const float *x)
{
	double *y = malloc((size_t)(n + 1) * sizeof(*y));

	ck_assert_ptr_nonnull(y);
	for (int64_t i = 0; i < n; i++)
		y[i] = x ? (double)x[i] : 0;
	return y;
}

static void check_near(double value, double expected, double within, const char *what, int64_t i)
{
	ck_assert_msg(fabs(value - expected) <= within, "%s[%lld] is %.9g, should be %.9g", what,
		      (long long)i, value, expected);
}

static void check_value(const struct textbook *t, const float *x, const float *y, const char *what)
{
	double *from = exact(t->n_x, x), *to = exact(t->n_y, NULL);

	t->f(t, from, to);
	for (int64_t i = 0; i < t->n_y; i++)
		check_near((double)y[i], to[i], 2e-6 * (1 + fabs(to[i])), what, i);
	free(from), free(to);
}

/* dx: the derivatives of the sum of dy times y. */
static void check_slope(const struct textbook *t, const float *x, const float *dy, const float *dx,
			const char *what)
{
	double *at = exact(t->n_x, x), *y[2] = {exact(t->n_y, NULL), exact(t->n_y, NULL)};
	const double h = 1e-5;

	for (int64_t i = 0; i < t->n_x; i++) {
		double here = at[i], slope = 0;

		at[i] = here - h;
		t->f(t, at, y[0]);
		at[i] = here + h;
		t->f(t, at, y[1]);
		at[i] = here;
		for (int64_t k = 0; k < t->n_y; k++)
			slope += (double)dy[k] * (y[1][k] - y[0][k]) / (2 * h);
		check_near((double)dx[i], slope, 1e-5 * (1 + fabs(slope)), what, i);
	}
	free(at), free(y[0]), free(y[1]);
}

/* ---- windows ---- */

static const struct orr_window windows[] = {
	{1, 1, 1, 1, 1, 0, 0, 1},   {4, 4, 3, 2, 2, 0, 0, 3}, {5, 7, 2, 3, 1, 1, 0, 2},
	{6, 5, 4, 3, 2, 1, 0, 4},   {5, 5, 6, 3, 2, 2, 2, 3}, {7, 4, 5, 4, 3, 2, 4, 1},
	{3, 8, 17, 3, 1, 1, 0, 17}, {9, 9, 1, 5, 4, 0, 0, 1},
};

/* Pixel (y, x) of sample s, of which it takes channel c; -1: outside. */
static int64_t pixel(const struct orr_window *w, int64_t s, int64_t y, int64_t x, int64_t c)
{
	if (y < 0 || y >= w->height || x < 0 || x >= w->width)
		return -1;
	return ((s * w->height + y) * w->width + x) * w->channels + c;
}

/* y: [sample][place][pixel of the window][channel] */
static void unfolded(const struct textbook *t, const double *x, double *y)
{
	const struct orr_window *w = &t->window;
	int64_t rows = (w->height + 2 * w->padding - w->side) / w->stride + 1;
	int64_t columns = (w->width + 2 * w->padding - w->side) / w->stride + 1;

	for (int64_t s = 0; s < t->n; s++)
		for (int64_t k = 0; k < rows * columns; k++)
			for (int64_t i = 0; i < w->side * w->side; i++)
				for (int64_t c = 0; c < w->count; c++) {
					int64_t at = pixel(
						w, s,
						k / columns * w->stride - w->padding + i / w->side,
						k % columns * w->stride - w->padding + i % w->side,
						w->first + c);

					*y++ = at < 0 ? 0 : x[at];
				}
}

static struct textbook images(const struct orr_window *w, int64_t n)
{
	return (struct textbook){.f = unfolded,
				 .n = n,
				 .n_x = n * w->height * w->width * w->channels,
				 .n_y = n * orr_window_places(w) * w->side * w->side * w->count,
				 .window = *w};
}

START_TEST(windows_show_their_pixels_and_give_back_their_gradients)
{
	struct textbook t = images(&windows[_i], 2);
	float *x = small_filled(t.n_x, 1), *y = small_filled(t.n_y, 0),
	      *dy = small_filled(t.n_y, 2);
	float *dx = small_filled(t.n_x, 0);

	memset(dx, 0, (size_t)t.n_x * sizeof(*dx)); /* channels that the window does not see */
	orr_images_cpu.unfold(&cpu, t.n, &t.window, x, y);
	check_value(&t, x, y, "unfolded");
	orr_images_cpu.fold(&cpu, t.n, &t.window, dy, dx);
	check_slope(&t, x, dy, dx, "folded");
	free(x), free(y), free(dy), free(dx);
}
END_TEST

START_TEST(matrices_are_transposed)
{
	float x[2 * 3 * 5], y[2 * 3 * 5];

	for (int i = 0; i < 30; i++)
		x[i] = (float)i;
	orr_images_cpu.turn(&cpu, 2, 3, 5, x, y);
	for (int k = 0; k < 2; k++)
		for (int c = 0; c < 5; c++)
			for (int r = 0; r < 3; r++)
				ck_assert_int_eq((int)y[k * 15 + c * 3 + r], k * 15 + r * 5 + c);
}
END_TEST

static void mean_pooled(const struct textbook *t, const double *x, double *y)
{
	const struct orr_window *w = &t->window;
	int64_t area = w->side * w->side, places = orr_window_places(w);
	double *all = exact(t->n * places * area * w->channels, NULL);

	unfolded(t, x, all);
	for (int64_t k = 0; k < t->n * places; k++)
		for (int64_t c = 0; c < w->channels; c++) {
			double sum = 0;

			for (int64_t i = 0; i < area; i++)
				sum += all[(k * area + i) * w->channels + c];
			*y++ = sum / (double)area;
		}
	free(all);
}

static void max_pooled(const struct textbook *t, const double *x, double *y)
{
	const struct orr_window *w = &t->window;
	int64_t columns = orr_window_columns(w), places = orr_window_places(w);

	for (int64_t k = 0; k < t->n * places; k++)
		for (int64_t c = 0; c < w->channels; c++) {
			double most = -INFINITY;

			for (int64_t i = 0; i < w->side * w->side; i++) {
				int64_t row = k % places / columns, column = k % columns;
				int64_t at = pixel(
					w, k / places, row * w->stride - w->padding + i / w->side,
					column * w->stride - w->padding + i % w->side, c);

				most = at < 0 ? most : fmax(most, x[at]);
			}
			*y++ = most;
		}
}

static const struct orr_window pools[] = {
	{1, 1, 1, 1, 1, 0, 0, 1}, {4, 4, 3, 2, 2, 0, 0, 3},   {5, 7, 2, 3, 1, 1, 0, 2},
	{6, 5, 4, 3, 2, 1, 0, 4}, {7, 4, 5, 4, 3, 2, 0, 5},   {3, 8, 17, 2, 1, 1, 0, 17},
	{9, 9, 1, 5, 4, 0, 0, 1}, {8, 8, 33, 8, 8, 0, 0, 33}, {5, 5, 2, 2, 3, 0, 0, 2},
};

START_TEST(pools_are_the_mean_and_the_largest)
{
	struct textbook t = images(&pools[_i], 2);
	int64_t n_y = t.n * orr_window_places(&t.window) * t.window.channels;
	float *x = small_filled(t.n_x, 3), *y = small_filled(n_y, 0), *dy = small_filled(n_y, 4);
	float *at = small_filled(n_y, 0), *dx = small_filled(t.n_x, 0);

	t.n_y = n_y;
	t.f = mean_pooled;
	orr_images_cpu.pool_forward(&cpu, t.n, &t.window, x, y, NULL);
	check_value(&t, x, y, "mean");
	orr_images_cpu.pool_backward(&cpu, t.n, &t.window, NULL, dy, dx);
	check_slope(&t, x, dy, dx, "slope of the mean");
	t.f = max_pooled;
	orr_images_cpu.pool_forward(&cpu, t.n, &t.window, x, y, at);
	check_value(&t, x, y, "largest");
	orr_images_cpu.pool_backward(&cpu, t.n, &t.window, at, dy, dx);
	check_slope(&t, x, dy, dx, "slope of the largest");
	free(x), free(y), free(dy), free(at), free(dx);
}
END_TEST

START_TEST(of_equal_pixels_the_first_has_the_gradient_and_nan_shows)
{
	struct orr_window w = {2, 2, 1, 2, 2, 0, 0, 1};
	float x[4] = {3, 5, 5, 1}, y, at, dy = 7, dx[4];

	orr_images_cpu.pool_forward(&cpu, 1, &w, x, &y, &at);
	orr_images_cpu.pool_backward(&cpu, 1, &w, &at, &dy, dx);
	ck_assert(dx[1] > 6 && fabsf(dx[2]) <= 0 && fabsf(dx[0]) <= 0 && y > 4);
	x[3] = NAN;
	orr_images_cpu.pool_forward(&cpu, 1, &w, x, &y, &at);
	ck_assert(isnan(y));
	for (int i = 0; i < 4; i++)
		x[i] = -INFINITY;
	orr_images_cpu.pool_forward(&cpu, 1, &w, x, &y, &at);
	ck_assert(isinf(y) && at >= 0 && at < 4);
}
END_TEST

/* ---- normalisation; x: the rows, then gain, then bias ---- */

static const struct {
	int64_t n;
	struct orr_norm_groups groups;
} norms[] = {
	{1, {1, 2, 1, 1e-5}}, {2, {3, 4, 2, 1e-5}},   {3, {5, 6, 6, 1e-3}},
	{5, {1, 7, 1, 1e-5}}, {2, {4, 130, 1, 1e-2}}, {3, {2, 65, 5, 1e-5}},
};

/* Cells of a matrix that are normalised together. */
static void normalised(const double *x, const int64_t *cells, int64_t n_cells, int64_t width,
		       double epsilon, const double *gain, const double *bias, double *y)
{
	double mean = 0, variance = 0;

	for (int64_t i = 0; i < n_cells; i++)
		mean += x[cells[i]] / (double)n_cells;
	for (int64_t i = 0; i < n_cells; i++)
		variance += pow(x[cells[i]] - mean, 2) / (double)n_cells;
	for (int64_t i = 0; i < n_cells; i++) {
		int64_t c = cells[i] % width;

		y[cells[i]] = gain[c] * (x[cells[i]] - mean) / sqrt(variance + epsilon) + bias[c];
	}
}

static void group_normalised(const struct textbook *t, const double *x, double *y)
{
	const struct orr_norm_groups *g = &t->groups;
	int64_t *cells = malloc((size_t)t->n_y * sizeof(*cells));
	const double *gain = x + t->n_y, *bias = gain + g->width;

	ck_assert_ptr_nonnull(cells);
	for (int64_t s = 0; s < t->n; s++)
		for (int64_t k = 0; k < g->groups; k++) {
			int64_t n = 0;

			for (int64_t i = 0; i < g->rows * g->width; i++)
				if (i % g->width / (g->width / g->groups) == k)
					cells[n++] = s * g->rows * g->width + i;
			normalised(x, cells, n, g->width, g->epsilon, gain, bias, y);
		}
	free(cells);
}

static void batch_normalised(const struct textbook *t, const double *x, double *y)
{
	const struct orr_norm_groups *g = &t->groups;
	int64_t *cells = malloc((size_t)t->n_y * sizeof(*cells)), rows = t->n * g->rows;
	const double *gain = x + t->n_y, *bias = gain + g->width;

	ck_assert_ptr_nonnull(cells);
	for (int64_t c = 0; c < g->width; c++) {
		for (int64_t r = 0; r < rows; r++)
			cells[r] = r * g->width + c;
		normalised(x, cells, rows, g->width, g->epsilon, gain, bias, y);
	}
	free(cells);
}

START_TEST(groupnorm_is_that_of_the_textbook)
{
	const struct orr_norm_groups *g = &norms[_i].groups;
	int64_t n = norms[_i].n, rows = n * g->rows, cells = rows * g->width;
	struct textbook t = {.f = group_normalised,
			     .n = n,
			     .n_x = cells + 2 * g->width,
			     .n_y = cells,
			     .groups = *g};
	float *x = small_filled(t.n_x, 5), *y = small_filled(cells, 0),
	      *dy = small_filled(cells, 6);
	float *moments = small_filled(2 * n * g->width, 0),
	      *slopes = small_filled(2 * n * g->width, 0);
	float *sums = small_filled(2 * n * g->width, 0), *dx = small_filled(t.n_x, 0);

	orr_column_norms_cpu.moments(&cpu, n, g, x, moments);
	orr_column_norms_cpu.normalise(&cpu, n, g, x, x + cells, x + cells + g->width, moments,
				       -INFINITY, y);
	check_value(&t, x, y, "groupnorm");
	orr_column_norms_cpu.slopes(&cpu, n, g, x, moments, NULL, dy, slopes);
	orr_column_norms_cpu.join(&cpu, n, g, x + cells, slopes, sums);
	orr_column_norms_cpu.input(&cpu, n, g, x, moments, x + cells, dy, sums, dx);
	orr_sequence_cpu.sum_rows(&cpu, n, 2 * g->width, slopes, NULL, dx + cells);
	check_slope(&t, x, dy, dx, "slope of groupnorm");
	free(x), free(y), free(dy), free(moments), free(slopes), free(sums), free(dx);
}
END_TEST

START_TEST(batchnorm_is_that_of_the_textbook)
{
	const struct orr_norm_groups *g = &norms[_i].groups;
	int64_t n = norms[_i].n, rows = n * g->rows, width = g->width, cells = rows * width;
	const struct orr_norm_groups batch = {rows, width, width, g->epsilon};
	struct textbook t = {.f = batch_normalised,
			     .n = n,
			     .n_x = cells + 2 * width,
			     .n_y = cells,
			     .groups = *g};
	float *x = small_filled(t.n_x, 7), *y = small_filled(cells, 0),
	      *dy = small_filled(cells, 8);
	float *dx = small_filled(t.n_x, 0), *moments = small_filled(2 * width, 0);

	orr_column_norms_cpu.moments(&cpu, 1, &batch, x, moments);
	orr_column_norms_cpu.normalise(&cpu, 1, &batch, x, x + cells, x + cells + width, moments,
				       -INFINITY, y);
	check_value(&t, x, y, "batchnorm");
	orr_column_norms_cpu.slopes(&cpu, 1, &batch, x, moments, NULL, dy, dx + cells);
	orr_column_norms_cpu.input(&cpu, 1, &batch, x, moments, x + cells, dy, dx + cells, dx);
	check_slope(&t, x, dy, dx, "slope of batchnorm");
	free(x), free(y), free(dy), free(dx), free(moments);
}
END_TEST

/* ---- losses; y: their sum over the samples ---- */

static const struct {
	int64_t n;
	struct orr_classes classes;
} entropies[] = {
	{3, {1, 5, NAN, 0}}, {2, {4, 3, NAN, 0}},   {2, {3, 7, NAN, 0.1}},
	{3, {4, 5, 0, 0}},   {2, {5, 6, -1, 0.25}}, {1, {1, 2, 9, 0.5}},
};

static void entropy(const struct textbook *t, const double *x, double *y)
{
	const struct orr_classes *k = &t->classes;

	*y = 0;
	for (int64_t s = 0; s < t->n; s++) {
		double sum = 0, counted = 0;

		for (int64_t r = s * k->rows; r < (s + 1) * k->rows; r++) {
			const double *row = x + r * k->width;
			double all = 0;

			if ((int)t->given[r] == (int)k->ignored && !isnan(k->ignored))
				continue;
			counted++;
			for (int64_t i = 0; i < k->width; i++)
				all += exp(row[i]);
			for (int64_t i = 0; i < k->width; i++) {
				double target = k->smoothing / (double)k->width +
						(i == (int64_t)t->given[r] ? 1 - k->smoothing : 0);

				sum -= target * log(exp(row[i]) / all);
			}
		}
		*y += counted > 0 ? sum / counted : 0;
	}
}

/* As they are drawn, and then with a sample none of whose rows counts. */
START_TEST(cross_entropy_of_rows_is_that_of_the_textbook)
{
	const struct orr_classes *k = &entropies[_i].classes;
	int64_t n = entropies[_i].n, rows = n * k->rows;
	struct textbook t = {.f = entropy, .n = n, .n_y = 1, .n_x = rows * k->width, .classes = *k};
	float *x = small_filled(t.n_x, 9), *slope = small_filled(t.n_x, 0),
	      *classes = small_filled(rows, 10);
	float one = 1;

	for (int64_t r = 0; r < rows; r++) {
		classes[r] = (float)((int64_t)((double)(classes[r] + 1) * 500) % k->width);
		if (!isnan(k->ignored) && r % 3 == 1)
			classes[r] = k->ignored;
	}
	t.given = classes;
	for (int turn = 0; turn < 2; turn++) {
		struct orr_metrics m = {7, 7, 7};
		int64_t counted = 0, correct = 0;

		for (int64_t r = 0; r < rows; r++) {
			int64_t best = 0;

			for (int64_t i = 1; i < k->width; i++)
				best = x[r * k->width + i] > x[r * k->width + best] ? i : best;
			if ((int)classes[r] == (int)k->ignored && !isnan(k->ignored))
				continue;
			counted++;
			correct += best == (int64_t)classes[r];
		}
		orr_losses_cpu.softmax_cross_entropy(&cpu, n, k, x, classes, slope, &m);
		check_value(&t, x, &(float){(float)m.loss}, "loss");
		check_slope(&t, x, &one, slope, "slope");
		ck_assert_double_eq(m.classified, (double)counted);
		ck_assert_double_eq(m.correct, (double)correct);
		for (int64_t r = 0; r < k->rows && !isnan(k->ignored); r++)
			classes[r] = k->ignored;
	}
	free(x), free(slope), free(classes);
}
END_TEST

static void binary_entropy(const struct textbook *t, const double *x, double *y)
{
	int64_t width = t->n_x / t->n;

	*y = 0;
	for (int64_t i = 0; i < t->n_x; i++) {
		double p = 1 / (1 + exp(-x[i])), target = (double)t->given[i];

		*y -= (target * log(p) + (1 - target) * log(1 - p)) / (double)width;
	}
}

START_TEST(binary_cross_entropy_is_that_of_the_textbook)
{
	struct textbook t = {.f = binary_entropy, .n = 3, .n_x = 15, .n_y = 1};
	float *x = small_filled(15, 11), *target = small_filled(15, 12), slope[15], one = 1;
	struct orr_metrics m = {0};
	int64_t correct = 0;

	for (int i = 0; i < 15; i++) {
		x[i] *= 6;
		target[i] = i % 4 ? (float)(target[i] > 0) : 0.25f;
		correct += (x[i] > 0) == (target[i] > 0.5f);
	}
	t.given = target;
	orr_losses_cpu.bce(&cpu, 3, 5, x, target, slope, &m);
	check_value(&t, x, &(float){(float)m.loss}, "loss");
	check_slope(&t, x, &one, slope, "slope");
	ck_assert_double_eq(m.classified, 15);
	ck_assert_double_eq(m.correct, (double)correct);
	free(x), free(target);
}
END_TEST

START_TEST(binary_cross_entropy_stays_finite_at_any_score)
{
	float x[4] = {1000, -1000, 1000, -1000}, target[4] = {1, 0, 0, 1}, slope[4];
	double expected[4] = {0, 0, 0.25, -0.25};
	struct orr_metrics m;

	orr_losses_cpu.bce(&cpu, 1, 4, x, target, slope, &m);
	check_near(m.loss, 500, 1e-9, "loss", 0);
	for (int i = 0; i < 4; i++)
		check_near((double)slope[i], expected[i], 1e-7, "slope", i);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(windows_show_their_pixels_and_give_back_their_gradients, N_OF(windows)),
	ONCE(matrices_are_transposed),
	EACH(pools_are_the_mean_and_the_largest, N_OF(pools)),
	ONCE(of_equal_pixels_the_first_has_the_gradient_and_nan_shows),
	EACH(groupnorm_is_that_of_the_textbook, N_OF(norms)),
	EACH(batchnorm_is_that_of_the_textbook, N_OF(norms)),
	EACH(cross_entropy_of_rows_is_that_of_the_textbook, N_OF(entropies)),
	ONCE(binary_cross_entropy_is_that_of_the_textbook),
	ONCE(binary_cross_entropy_stays_finite_at_any_score),
};
SUITE("images")
