/* Classes in parts, and mixtures of experts, from their definitions. */
#include <math.h>

#include "reference.h"
#include "textbook.h"

/* ---- classes in parts ---- */

void textbook_softmax_part(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns, first = (int64_t)said(t, "first");

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++, y += 6) {
		const double *x = x_of(t, 0) + r * n;
		int64_t best = 0, own = lround(x_of(t, 1)[r]) - first;

		y[2] = (double)n;
		y[3] = y[5] = 0;
		for (int64_t i = 0; i < n; i++)
			best = x[i] > x[best] ? i : best;
		for (int64_t i = 0; i < n; i++) {
			y[3] += exp(x[i] - x[best]);
			y[5] += x[i] - x[best];
		}
		y[0] = x[best];
		y[1] = (double)(first + best);
		y[4] = own >= 0 && own < n ? x[own] : 0;
	}
}

void textbook_parts_entropy(const struct sample *t, double *y)
{
	double smoothing = said(t, "smoothing"), classes = said(t, "classes"), loss = 0;
	int64_t columns = shape_of(t, 0).columns, n = 0;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++) {
		const double *x = x_of(t, 0) + r * columns;
		double sum = 0, own = 0, total = 0;

		if (!counts(t, r))
			continue;
		n++;
		for (int64_t i = 0; i < columns; i += 6) {
			sum += x[i + 3] * exp(x[i]);
			own += x[i + 4];
			total += x[i + 5] + x[i + 2] * x[i];
		}
		loss += log(sum) - (1 - smoothing) * own - smoothing / classes * total;
	}
	*y = n ? loss / (double)n : 0;
}

void textbook_count_parts(const struct sample *t, struct reference_pass *pass)
{
	int64_t columns = shape_of(t, 0).columns;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++) {
		const double *x = x_of(t, 0) + r * columns;
		int64_t best = 0;

		for (int64_t i = 6; i < columns; i += 6)
			best = x[i] > x[best] ? i : best;
		pass->classified += counts(t, r);
		pass->correct += counts(t, r) && lround(x[best + 1]) == lround(x_of(t, 1)[r]);
	}
}

/* ---- experts ---- */

/* How many score better than i, or as well and come before it. */
static int64_t place_of(const double *scores, int64_t n, int64_t i)
{
	int64_t better = 0;

	for (int64_t k = 0; k < n; k++)
		better += scores[k] > scores[i] || (k < i && !(scores[k] < scores[i]));
	return better;
}

void textbook_route(const struct sample *t, double *y)
{
	int64_t rows = shape_of(t, 0).rows, n = shape_of(t, 0).columns;
	int64_t top = (int64_t)said(t, "top"), group = rows / (int64_t)said(t, "groups");
	double most = ceil(said(t, "capacity") * (double)(top * group) / (double)n);

	for (int64_t r = 0; r < rows; r++) {
		const double *x = x_of(t, 0) + r * n;
		double sum = 0;

		for (int64_t i = 0; i < n; i++)
			sum += top == 1 || place_of(x, n, i) < top ? exp(x[i]) : 0;
		for (int64_t i = 0; i < n; i++) {
			int64_t j = place_of(x, n, i);

			if (j >= top)
				continue;
			y[(r * top + j) * 3] = (double)i;
			y[(r * top + j) * 3 + 2] = exp(x[i]) / sum;
		}
	}
	for (int64_t k = 0; k < rows * top; k++) { /* in the order of queues */
		int64_t j = k / rows, r = k % rows, before = 0;

		for (int64_t l = 0; l < k; l++) {
			int64_t other = l % rows * top + l / rows;

			before += l % rows / group == r / group &&
				  lround(y[other * 3]) == lround(y[(r * top + j) * 3]);
		}
		y[(r * top + j) * 3 + 1] = (double)before < most ? (double)before : -1;
	}
}

/* The expert's row that a choice has, or -1. */
static int64_t row_of(const double *choice, int64_t row, int64_t group, int64_t places,
		      int64_t expert)
{
	if (lround(choice[0]) != expert || choice[1] < -0.5)
		return -1;
	return row / group * places + lround(choice[1]);
}

void textbook_dispatch(const struct sample *t, double *y)
{
	int64_t rows = shape_of(t, 0).rows, width = shape_of(t, 0).columns;
	int64_t groups = (int64_t)said(t, "groups"), top = shape_of(t, 1).columns / 3;
	int64_t places = t->o->instance->output.rows / groups;

	memset(y, 0, (size_t)t->o->width * sizeof(*y));
	for (int64_t k = 0; k < rows * top; k++) {
		int64_t to = row_of(x_of(t, 1) + k * 3, k / top, rows / groups, places,
				    (int64_t)said(t, "expert"));

		if (to >= 0)
			memcpy(y + to * width, x_of(t, 0) + k / top * width,
			       (size_t)width * sizeof(*y));
	}
}

void textbook_combine(const struct sample *t, double *y)
{
	int64_t rows = shape_of(t, 0).rows, width = shape_of(t, 1).columns;
	int64_t groups = (int64_t)said(t, "groups"), top = shape_of(t, 0).columns / 3;

	memset(y, 0, (size_t)t->o->width * sizeof(*y));
	for (int64_t k = 0; k < rows * top; k++)
		for (int e = 1; e < t->o->n_inputs; e++) {
			const double *choice = x_of(t, 0) + k * 3;
			int64_t from = row_of(choice, k / top, rows / groups,
					      shape_of(t, e).rows / groups, e - 1);

			for (int64_t c = 0; c < width && from >= 0; c++)
				y[k / top * width + c] += choice[2] * x_of(t, e)[from * width + c];
		}
}

void textbook_balance(const struct sample *t, double *y)
{
	int64_t rows = shape_of(t, 0).rows, n = shape_of(t, 0).columns;
	int64_t columns = shape_of(t, 1).columns;

	*y = 0;
	for (int64_t e = 0; e < n; e++) {
		double share = 0, probability = 0;

		for (int64_t r = 0; r < rows; r++) {
			double sum = 0;

			for (int64_t i = 0; i < n; i++)
				sum += exp(x_of(t, 0)[r * n + i]);
			probability += exp(x_of(t, 0)[r * n + e]) / sum / (double)rows;
			share += lround(x_of(t, 1)[r * columns]) == e ? 1 / (double)rows : 0;
		}
		*y += (double)n * share * probability;
	}
}

void textbook_count_choices(const struct sample *t, struct reference_pass *pass)
{
	for (int64_t k = 1; k < width_of(t, 1); k += 3) {
		pass->classified++;
		pass->correct += x_of(t, 1)[k] > -0.5;
	}
}
