#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/sizes.h"
#include "textbook.h"

static int64_t n_parameters(const struct orr_graph *g, int k)
{
	return g->operators[k].n_parameters;
}

int64_t reference_n_parameters(const struct orr_graph *g)
{
	int64_t sum = 0;

	for (int k = 0; k < g->n_operators; k++)
		sum += n_parameters(g, k);
	return sum;
}

static bool has_bias(const struct sample *t)
{
	return t->o->instance->n_parameters == 2;
}

static void linear(const struct sample *t, double *y)
{
	int64_t in = shape_of(t, 0).columns, out = t->o->instance->output.columns;
	const double *x = x_of(t, 0);

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++, x += in, y += out)
		for (int64_t j = 0; j < out; j++) {
			y[j] = has_bias(t) ? t->p[out * in + j] : 0;
			for (int64_t i = 0; i < in; i++)
				y[j] += t->p[j * in + i] * x[i];
		}
}

static void linear_back(const struct sample *t, const double *dy)
{
	int64_t in = shape_of(t, 0).columns, out = t->o->instance->output.columns;
	double *x = x_of(t, 0), *dx = dx_of(t, 0);

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++, x += in, dx += in, dy += out)
		for (int64_t j = 0; j < out; j++) {
			if (has_bias(t))
				t->dp[out * in + j] += dy[j];
			for (int64_t i = 0; i < in; i++) {
				t->dp[j * in + i] += dy[j] * x[i];
				dx[i] += dy[j] * t->p[j * in + i];
			}
		}
}

static void moments(const double *x, int64_t n, double epsilon, double *mean, double *deviation)
{
	double sum = 0, squares = 0;

	for (int64_t i = 0; i < n; i++)
		sum += x[i];
	*mean = sum / (double)n;
	for (int64_t i = 0; i < n; i++)
		squares += pow(x[i] - *mean, 2);
	*deviation = sqrt(squares / (double)n + epsilon);
}

static void layernorm(const struct sample *t, double *y)
{
	double mean, deviation, *x = x_of(t, 0);
	int64_t n = shape_of(t, 0).columns;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++, x += n, y += n) {
		moments(x, n, t->o->instance->values[0], &mean, &deviation);
		for (int64_t i = 0; i < n; i++)
			y[i] = t->p[i] * (x[i] - mean) / deviation + t->p[n + i];
	}
}

/* Entry by entry of the Jacobian: d z_j / d x_i = ((i == j) - 1/n - z_i z_j / n) / deviation */
static void layernorm_row_back(const struct sample *t, const double *x, const double *dy,
			       double *dx)
{
	double mean, deviation;
	int64_t n = shape_of(t, 0).columns;

	moments(x, n, t->o->instance->values[0], &mean, &deviation);
	for (int64_t j = 0; j < n; j++) {
		double zj = (x[j] - mean) / deviation;

		t->dp[j] += dy[j] * zj;
		t->dp[n + j] += dy[j];
		for (int64_t i = 0; i < n; i++) {
			double zi = (x[i] - mean) / deviation;

			dx[i] += dy[j] * t->p[j] *
				 ((i == j ? 1.0 : 0.0) - 1.0 / (double)n - zi * zj / (double)n) /
				 deviation;
		}
	}
}

static void layernorm_back(const struct sample *t, const double *dy)
{
	int64_t n = shape_of(t, 0).columns;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++)
		layernorm_row_back(t, x_of(t, 0) + r * n, dy + r * n, dx_of(t, 0) + r * n);
}

/* Sample r's row of input i, and where its gradient goes. */
static struct sample at(struct sample t, int64_t r)
{
	t.r = r;
	return t;
}

/* Of samples r and k, as contrastive compares them. */
static double score(const struct sample *t, int64_t r, int64_t k)
{
	struct sample left = at(*t, r), right = at(*t, k);
	double product = 0;

	for (int64_t i = 0; i < width_of(t, 0); i++)
		product += x_of(&left, 0)[i] * x_of(&right, 1)[i];
	return product * exp(t->p[0]);
}

/* The sample's cross-entropy in its row, or in its column, times weight; or, where slopes are
 * wanted, what it adds to them. */
static double contrast(const struct sample *t, bool column, double weight, bool slopes, bool *best)
{
	double sum = 0;
	double own = score(t, t->r, t->r);

	*best = true;
	for (int64_t k = 0; k < t->n; k++)
		sum += exp(column ? score(t, k, t->r) : score(t, t->r, k));
	for (int64_t k = 0; k < t->n; k++) {
		struct sample left = at(*t, column ? k : t->r), right = at(*t, column ? t->r : k);
		double found = score(t, left.r, right.r);
		double slope = weight * (exp(found) / sum - (k == t->r ? 1.0 : 0.0));

		*best = *best && (k == t->r || found < own);
		for (int64_t i = 0; i < width_of(t, 0) && slopes; i++) {
			dx_of(&left, 0)[i] += slope * exp(t->p[0]) * x_of(&right, 1)[i];
			dx_of(&right, 1)[i] += slope * exp(t->p[0]) * x_of(&left, 0)[i];
		}
		if (slopes)
			t->dp[0] += slope * found;
	}
	return weight * (log(sum) - own);
}

static void contrastive(const struct sample *t, double *y)
{
	bool hit;

	*y = contrast(t, true, 0.5, false, &hit) + contrast(t, false, 0.5, false, &hit);
}

static void contrastive_back(const struct sample *t, const double *dy)
{
	bool hit;

	(void)contrast(t, true, *dy / 2, true, &hit);
	(void)contrast(t, false, *dy / 2, true, &hit);
}

static void count_pairs(const struct sample *t, struct reference_pass *pass)
{
	bool hit;

	(void)contrast(t, false, 1, false, &hit);
	pass->correct += hit;
	pass->classified++;
}

static double probability(const double *scores, int64_t n, int64_t i)
{
	double sum = 0;

	for (int64_t j = 0; j < n; j++)
		sum += exp(scores[j] - scores[i]);
	return 1.0 / sum;
}

static void cross_entropy(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns, rows = shape_of(t, 0).rows, n_counted = 0;
	double smoothing = said(t, "smoothing"), sum = 0;

	for (int64_t r = 0; r < rows; r++) {
		if (!counts(t, r))
			continue;
		n_counted++;
		for (int64_t i = 0; i < n; i++) {
			double target = smoothing / (double)n +
					(i == (int64_t)x_of(t, 1)[r] ? 1 - smoothing : 0);

			sum -= target * log(probability(x_of(t, 0) + r * n, n, i));
		}
	}
	*y = n_counted ? sum / (double)n_counted : 0;
}

static void count_classes(const struct sample *t, struct reference_pass *pass)
{
	int64_t n = shape_of(t, 0).columns;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++) {
		const double *x = x_of(t, 0) + r * n;
		int64_t best = 0;

		for (int64_t i = 0; i < n; i++)
			best = x[i] > x[best] ? i : best;
		pass->classified += counts(t, r);
		pass->correct += counts(t, r) && best == (int64_t)x_of(t, 1)[r];
	}
}

static void mse(const struct sample *t, double *y)
{
	int64_t n = width_of(t, 0);

	*y = 0;
	for (int64_t i = 0; i < n; i++)
		*y += pow(x_of(t, 0)[i] - x_of(t, 1)[i], 2) / (double)n;
}

static void bce(const struct sample *t, double *y)
{
	int64_t n = width_of(t, 0);

	*y = 0;
	for (int64_t i = 0; i < n; i++) {
		double p = 1 / (1 + exp(-x_of(t, 0)[i])), target = x_of(t, 1)[i];

		*y -= (target * log(p) + (1 - target) * log(1 - p)) / (double)n;
	}
}

static void count_sides(const struct sample *t, struct reference_pass *pass)
{
	for (int64_t i = 0; i < width_of(t, 0); i++) {
		pass->classified++;
		pass->correct += (x_of(t, 0)[i] > 0) == (x_of(t, 1)[i] > 0.5);
	}
}

static void relu(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = fmax(x_of(t, 0)[i], 0);
}

static void relu_back(const struct sample *t, const double *dy)
{
	for (int64_t i = 0; i < t->o->width; i++)
		if (x_of(t, 0)[i] > 0)
			dx_of(t, 0)[i] += dy[i];
}

static void gelu(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = x_of(t, 0)[i] * (1 + erf(x_of(t, 0)[i] / sqrt(2))) / 2;
}

static void add(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++) {
		y[i] = 0;
		for (int j = 0; j < t->o->n_inputs; j++)
			y[i] += x_of(t, j)[i];
	}
}

static void concat(const struct sample *t, double *y)
{
	if (t->o->instance->values[0] > 0) /* rows below each other */
		for (int j = 0; j < t->o->n_inputs; y += width_of(t, j++))
			memcpy(y, x_of(t, j), (size_t)width_of(t, j) * sizeof(*y));
	else
		for (int64_t r = 0; r < t->o->instance->output.rows; r++)
			for (int j = 0; j < t->o->n_inputs; j++)
				for (int64_t i = 0; i < shape_of(t, j).columns; i++)
					*y++ = x_of(t, j)[r * shape_of(t, j).columns + i];
}

struct reference_draws reference_draws;

static double value(const struct sample *t, int i)
{
	return t->o->instance->values[i];
}

static void silu(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = x_of(t, 0)[i] / (1 + exp(-x_of(t, 0)[i]));
}

static void sigmoid(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = 1 / (1 + exp(-x_of(t, 0)[i]));
}

static void hyperbolic(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = tanh(x_of(t, 0)[i]);
}

static void gelu_tanh(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++) {
		double x = x_of(t, 0)[i];

		y[i] = x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
	}
}

static void multiply(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++) {
		y[i] = 1;
		for (int j = 0; j < t->o->n_inputs; j++)
			y[i] *= x_of(t, j)[i];
	}
}

static void scale(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = value(t, 0) * x_of(t, 0)[i];
}

static void slice(const struct sample *t, double *y)
{
	struct orr_shape whole = shape_of(t, 0);
	int64_t last_row = value(t, 1) < 0 ? whole.rows : (int64_t)value(t, 1);
	int64_t last_column = value(t, 3) < 0 ? whole.columns : (int64_t)value(t, 3);

	for (int64_t r = (int64_t)value(t, 0); r < last_row; r++)
		for (int64_t c = (int64_t)value(t, 2); c < last_column; c++)
			*y++ = x_of(t, 0)[r * whole.columns + c];
}

static void first(const struct sample *t, double *y)
{
	memcpy(y, x_of(t, 0), (size_t)t->o->width * sizeof(*y));
}

static void last(const struct sample *t, double *y)
{
	memcpy(y, x_of(t, 0) + width_of(t, 0) - t->o->width, (size_t)t->o->width * sizeof(*y));
}

static void mean(const struct sample *t, double *y)
{
	memset(y, 0, (size_t)t->o->width * sizeof(*y));
	for (int64_t i = 0; i < width_of(t, 0); i++)
		y[i % t->o->width] += x_of(t, 0)[i] / (double)shape_of(t, 0).rows;
}

static void positions(const struct sample *t, double *y)
{
	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = x_of(t, 0)[i] + t->p[i];
}

static void rmsnorm(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns;

	for (int64_t i = 0; i < t->o->width; i++) {
		const double *row = x_of(t, 0) + i / n * n;
		double squares = 0;

		for (int64_t j = 0; j < n; j++)
			squares += row[j] * row[j];
		y[i] = t->p[i % n] * row[i % n] / sqrt(squares / (double)n + value(t, 0));
	}
}

/* Also of an embedding, whose rows have one id each. */
static void bag(const struct sample *t, double *y)
{
	int64_t features = t->o->instance->output.columns, ids = shape_of(t, 0).columns;

	for (int64_t r = 0; r < shape_of(t, 0).rows; r++, y += features) {
		int64_t n = 0;

		memset(y, 0, (size_t)features * sizeof(*y));
		for (int64_t i = 0; i < ids; i++) {
			int64_t id = lround(x_of(t, 0)[r * ids + i]);
			int64_t row = id - (int64_t)said(t, "first");

			n += id >= 0;
			if (row < 0 || row >= (int64_t)said(t, "vocabulary"))
				continue; /* none, or of another part of the table */
			for (int64_t e = 0; e < features; e++)
				y[e] += t->p[row * features + e];
		}
		for (int64_t e = 0; e < features && is(t, "bag") && said(t, "mode") > 0 && n; e++)
			y[e] /= (double)n;
	}
}

static void rotary(const struct sample *t, double *y)
{
	int64_t columns = shape_of(t, 0).columns, width = columns / (int64_t)value(t, 0);

	for (int64_t i = 0; i < t->o->width; i++) {
		int64_t at = i % width, half = width / 2, row = i / columns;
		double angle =
			(double)row / pow(value(t, 1), 2 * (double)(at % half) / (double)width);
		const double *x = x_of(t, 0) + i;

		y[i] = x[0] * cos(angle) + (at < half ? -x[half] : x[-half]) * sin(angle);
	}
}

static void softmax(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns;

	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = probability(x_of(t, 0) + i / n * n, n, i % n);
}

static void normalise(const struct sample *t, double *y)
{
	int64_t n = shape_of(t, 0).columns;

	for (int64_t i = 0; i < t->o->width; i++) {
		double squares = 0;

		for (int64_t j = 0; j < n; j++)
			squares += pow(x_of(t, 0)[i / n * n + j], 2);
		y[i] = x_of(t, 0)[i] / sqrt(squares);
	}
}

/* Row r of all inputs, one below the other. */
static const double *row_of(const struct sample *t, int64_t r)
{
	int i = 0;

	for (; r >= shape_of(t, i).rows; i++)
		r -= shape_of(t, i).rows;
	return x_of(t, i) + r * shape_of(t, i).columns;
}

/* What is drawn is no matter of a textbook: a hash, of which test_sequence.c sees that it draws. */
static void dropout(const struct sample *t, double *y)
{
	struct orr_drop d = {.seed = reference_draws.seed,
			     .sample = reference_draws.first + t->r,
			     .operator_number = t->o - t->g->operators,
			     .rate = value(t, 0)};

	for (int64_t i = 0; i < t->o->width; i++)
		y[i] = orr_dropped(orr_drop_key_of(&d, 0), (uint32_t)i, 1) > 0
			       ? x_of(t, 0)[i] / (1 - value(t, 0))
			       : 0;
}

static void interaction(const struct sample *t, double *y)
{
	for (int64_t i = 1; i * (i - 1) / 2 < t->o->width; i++)
		for (int64_t j = 0; j < i; j++, y++) {
			*y = 0;
			for (int64_t e = 0; e < shape_of(t, 0).columns; e++)
				*y += row_of(t, i)[e] * row_of(t, j)[e];
		}
}

/* Of query i in head h: the weights of all keys, which it needs not see. */
static void attend(const struct sample *t, int64_t h, int64_t i, double *y)
{
	int64_t columns = shape_of(t, 0).columns, heads = (int64_t)value(t, 0);
	int64_t width = columns / heads, kv_columns = shape_of(t, 1).columns;
	int64_t at = h * (kv_columns / width) / heads * width, n = shape_of(t, 1).rows;
	const double *q = x_of(t, 0) + i * columns + h * width;
	double total = 0;

	if (t->o->n_inputs == 4)
		n = lround(fmin(x_of(t, 3)[0], (double)n));
	if (value(t, 2) > 0 && n > i + 1)
		n = i + 1;
	memset(y, 0, (size_t)width * sizeof(*y));
	for (int64_t j = 0; j < n; j++) {
		const double *k = x_of(t, 1) + j * kv_columns + at;
		const double *v = x_of(t, 2) + j * kv_columns + at;
		double score = 0;

		for (int64_t e = 0; e < width; e++)
			score += q[e] * k[e] / sqrt((double)width);
		total += exp(score);
		for (int64_t e = 0; e < width; e++)
			y[e] += exp(score) * v[e];
	}
	for (int64_t e = 0; e < width && n; e++)
		y[e] /= total;
}

static void attention(const struct sample *t, double *y)
{
	int64_t columns = shape_of(t, 0).columns, heads = (int64_t)value(t, 0);

	for (int64_t i = 0; i < shape_of(t, 0).rows; i++)
		for (int64_t h = 0; h < heads; h++)
			attend(t, h, i, y + i * columns + h * (columns / heads));
}

/* The textbook, an operator a row. Without a backward it is found from differences of the forward,
 * which is as good as 1e-9 for smooth ones. */
static const struct {
	const char *op;
	void (*forward)(const struct sample *t, double *y);
	void (*backward)(const struct sample *t, const double *dy);
	void (*count)(const struct sample *t, struct reference_pass *pass); /* of a loss */
} textbook[] = {
	{"linear", linear, linear_back, NULL},
	{"relu", relu, relu_back, NULL},
	{"gelu", gelu, NULL, NULL},
	{"layernorm", layernorm, layernorm_back, NULL},
	{"add", add, NULL, NULL},
	{"concat", concat, NULL, NULL},
	{"multiply", multiply, NULL, NULL},
	{"scale", scale, NULL, NULL},
	{"slice", slice, NULL, NULL},
	{"first", first, NULL, NULL},
	{"last", last, NULL, NULL},
	{"mean", mean, NULL, NULL},
	{"silu", silu, NULL, NULL},
	{"sigmoid", sigmoid, NULL, NULL},
	{"tanh", hyperbolic, NULL, NULL},
	{"gelu_tanh", gelu_tanh, NULL, NULL},
	{"rmsnorm", rmsnorm, NULL, NULL},
	{"softmax", softmax, NULL, NULL},
	{"normalise", normalise, NULL, NULL},
	{"embedding", bag, NULL, NULL},
	{"bag", bag, NULL, NULL},
	{"positions", positions, NULL, NULL},
	{"rotary", rotary, NULL, NULL},
	{"attention", attention, NULL, NULL},
	{"interaction", interaction, NULL, NULL},
	{"dropout", dropout, NULL, NULL},
	{"conv2d", textbook_conv2d, NULL, NULL},
	{"max_pool", textbook_pool, NULL, NULL},
	{"mean_pool", textbook_pool, NULL, NULL},
	{"patches", textbook_patches, NULL, NULL},
	{"groupnorm", textbook_groupnorm, NULL, NULL},
	{"batchnorm", textbook_batchnorm, textbook_batchnorm_back, NULL},
	{"softmax_cross_entropy", cross_entropy, NULL, count_classes},
	{"mse", mse, NULL, NULL},
	{"bce", bce, NULL, count_sides},
	{"contrastive", contrastive, contrastive_back, count_pairs},
	{"softmax_part", textbook_softmax_part, NULL, NULL},
	{"softmax_cross_entropy_parts", textbook_parts_entropy, NULL, textbook_count_parts},
	{"route", textbook_route, NULL, NULL},
	{"dispatch", textbook_dispatch, NULL, NULL},
	{"combine", textbook_combine, NULL, NULL},
	{"balance", textbook_balance, NULL, textbook_count_choices},
};
#define N_TEXTBOOK (sizeof(textbook) / sizeof(textbook[0]))

static size_t find(const struct sample *t)
{
	size_t k = 0;

	while (k < N_TEXTBOOK && !is(t, textbook[k].op))
		k++;
	if (k == N_TEXTBOOK) {
		(void)fprintf(stderr, "tests/reference.c: no textbook for %s\n",
			      orr_operator_op(t->o));
		abort();
	}
	return k;
}

static void forward(const struct sample *t, const float *row, double *y,
		    struct reference_pass *pass)
{
	for (int64_t i = 0; orr_operator_is_input(t->o) && i < t->o->width; i++)
		y[i] = (double)row[t->o->columns[i]] * orr_operator_factor(t->o);
	if (orr_operator_is_input(t->o))
		return;
	textbook[find(t)].forward(t, y);
	if (orr_operator_is_loss(t->o))
		pass->loss += orr_operator_factor(t->o) * t->share * *y;
	if (textbook[find(t)].count)
		textbook[find(t)].count(t, pass);
}

/* d (dy . y) / d x[i] for n numbers x that the forward reads, added to dx. */
static void differences(const struct sample *t, const double *dy, double *x, int64_t n, double *dx)
{
	int64_t width = t->o->width;
	double *y = malloc(2 * (size_t)width * sizeof(*y)), h = 1e-5;

	if (!y)
		abort();
	for (int64_t i = 0; i < n; i++) {
		double was = x[i];

		x[i] = was + h;
		textbook[find(t)].forward(t, y);
		x[i] = was - h;
		textbook[find(t)].forward(t, y + width);
		x[i] = was;
		for (int64_t j = 0; j < width; j++)
			dx[i] += dy[j] * (y[j] - y[width + j]) / (2 * h);
	}
	free(y);
}

/* Of input i alone, though another input may be the same tensor. */
static void input_differences(struct sample t, const double *dy, int i)
{
	size_t bytes = (size_t)width_of(&t, i) * sizeof(*t.copy);
	double *copy = malloc(bytes);

	if (!copy)
		abort();
	memcpy(copy, x_of(&t, i), bytes);
	t.copy = copy;
	t.moved = i;
	differences(&t, dy, copy, width_of(&t, i), dx_of(&t, i));
	free(copy);
}

static void backward(const struct sample *t, const double *dy)
{
	double weight;

	if (orr_operator_is_input(t->o))
		return;
	if (orr_operator_is_loss(t->o)) {
		weight = orr_operator_factor(t->o) * t->share;
		dy = &weight;
	}
	if (textbook[find(t)].backward) {
		textbook[find(t)].backward(t, dy);
		return;
	}
	for (int i = 0; i < t->o->n_inputs; i++)
		if (!orr_operator_is_input(&t->g->operators[t->o->inputs[i]]))
			input_differences(*t, dy, i);
	differences(t, dy, t->p, t->o->n_parameters, t->dp);
}

/* Operator after operator, as one may read all samples. */
static void run(struct sample t, struct reference_pass *pass, const float *values,
		int64_t n_columns, const int64_t *rows, double *parameters)
{
	int64_t first = 0;

	for (int k = 0; k < t.g->n_operators; k++) {
		t.o = &t.g->operators[k];
		t.p = parameters + first;
		first += n_parameters(t.g, k);
		for (t.r = 0; t.r < t.n; t.r++)
			forward(&t, values + rows[t.r] * n_columns, t.outputs[k] + t.r * t.o->width,
				pass);
	}
	for (int k = t.g->n_operators - 1; k >= 0 && pass->gradient; k--) {
		t.o = &t.g->operators[k];
		first -= n_parameters(t.g, k);
		t.p = parameters + first;
		t.dp = pass->gradient + first;
		for (t.r = 0; t.r < t.n; t.r++)
			backward(&t, t.slopes[k] + t.r * t.o->width);
	}
}

/* backward: with the gradient. */
static int create(struct reference_pass **out, const struct orr_graph *g, const float *values,
		  int64_t n_columns, const int64_t *rows, int64_t n, double *parameters,
		  bool backward)
{
	struct reference_pass *pass = calloc(1, sizeof(*pass));
	size_t columns = 0, at = 0, n_operators = (size_t)g->n_operators;
	double *cells = NULL;

	for (size_t k = 0; k < n_operators; k++)
		columns += (size_t)g->operators[k].width;
	if (!pass || !(cells = calloc(2 * columns * (size_t)n + columns, sizeof(*cells))) ||
	    (backward &&
	     !(pass->gradient = calloc((size_t)reference_n_parameters(g) + 1, sizeof(double)))) ||
	    !(pass->outputs = calloc(n_operators, sizeof(*pass->outputs))) ||
	    !(pass->slopes = calloc(n_operators, sizeof(*pass->slopes)))) {
		free(cells);
		reference_pass_destroy(pass);
		return -1;
	}
	for (size_t k = 0; k < n_operators; k++) { /* outputs[0] holds all the cells */
		pass->outputs[k] = cells + at;
		pass->slopes[k] = cells + columns * (size_t)n + at;
		at += (size_t)(g->operators[k].width * n);
	}
	run((struct sample){.g = g,
			    .outputs = pass->outputs,
			    .slopes = pass->slopes,
			    .lost = cells + 2 * columns * (size_t)n,
			    .n = n,
			    .share = 1.0 / (double)n},
	    pass, values, n_columns, rows, parameters);
	*out = pass;
	return 0;
}

int reference_pass_create(struct reference_pass **out, const struct orr_graph *g,
			  const float *values, int64_t n_columns, const int64_t *rows, int64_t n,
			  double *parameters)
{
	return create(out, g, values, n_columns, rows, n, parameters, true);
}

double reference_loss(const struct orr_graph *g, const float *values, int64_t n_columns,
		      const int64_t *rows, int64_t n, double *parameters)
{
	struct reference_pass *pass = NULL;
	int code = create(&pass, g, values, n_columns, rows, n, parameters, false);
	double loss = code ? NAN : pass->loss;

	reference_pass_destroy(pass);
	return loss;
}

void reference_pass_destroy(struct reference_pass *pass)
{
	if (!pass)
		return;
	if (pass->outputs)
		free(pass->outputs[0]);
	free(pass->outputs);
	free(pass->slopes);
	free(pass->gradient);
	free(pass);
}

void reference_update(const struct reference_rule *rule, int64_t step, int64_t n,
		      double *parameters, double *state, const double *gradient)
{
	for (int64_t i = 0; i < n; i++) {
		double *p = &parameters[i], *m = &state[2 * i], *v = &state[2 * i + 1],
		       g = gradient[i];

		if (rule->kind != REFERENCE_ADAMW)
			g += rule->weight_decay * *p;
		if (rule->kind == REFERENCE_NONE)
			continue;
		if (rule->kind == REFERENCE_SGD) {
			*p -= rule->learning_rate * g;
			continue;
		}
		if (rule->kind == REFERENCE_MOMENTUM) {
			*m = rule->momentum * *m + g;
			*p -= rule->learning_rate * *m;
			continue;
		}
		*m = rule->beta1 * *m + (1 - rule->beta1) * g;
		*v = rule->beta2 * *v + (1 - rule->beta2) * g * g;
		if (rule->kind == REFERENCE_ADAMW)
			*p *= 1 - rule->learning_rate * rule->weight_decay;
		*p -= rule->learning_rate * (*m / (1 - pow(rule->beta1, (double)step))) /
		      (sqrt(*v / (1 - pow(rule->beta2, (double)step))) + rule->epsilon);
	}
}

int reference_train(const struct orr_graph *g, const float *values, int64_t n_columns,
		    const int64_t *rows, int64_t batch, int64_t steps,
		    const struct reference_rule *rule, double *parameters, double *losses)
{
	double *state = calloc(2 * (size_t)reference_n_parameters(g) + 1, sizeof(*state));
	int code = state ? 0 : -1;

	for (int64_t step = 0; step < steps && !code; step++) {
		struct reference_pass *pass = NULL;

		reference_draws.first = step * batch;
		code = reference_pass_create(&pass, g, values, n_columns, rows + step * batch,
					     batch, parameters);
		if (code)
			break;
		if (losses)
			losses[step] = pass->loss;
		for (int64_t k = 0, at = 0; k < g->n_operators; at += n_parameters(g, (int)k++))
			if (!g->operators[k].frozen)
				reference_update(rule, step + 1, n_parameters(g, (int)k),
						 parameters + at, state + 2 * at,
						 pass->gradient + at);
		reference_pass_destroy(pass);
	}
	reference_draws.first = 0;
	free(state);
	return code;
}
