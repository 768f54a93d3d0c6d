/* Kernels of sequences against the textbook in double, and their gradients against its finite
 * differences. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "small_model.h"
#include "codelets/sequence.h"
#include "../codelets/device.h"
#include "suite.h"

static struct orr_device cpu = {.kernels = &orr_kernels_cpu};

#define MOST_INPUTS 3

/* A function of up to three inputs, as the textbook has it: what[] are the kernel's own sizes. */
struct textbook {
	void (*f)(const void *sizes, const double *const *x, double *y);
	const void *sizes;
	int64_t n_x[MOST_INPUTS], n_y;
};

/* Of a test: inputs, as the kernel and as the textbook read them, and an upstream gradient. */
struct point {
	struct textbook t;
	float *x[MOST_INPUTS], *dx[MOST_INPUTS], *y, *dy;
	double *exact[MOST_INPUTS], *exact_y;
};

static float *floats(int64_t n, uint64_t seed)
{
	float *x = malloc((size_t)(n + 1) * sizeof(*x));

	ck_assert_ptr_nonnull(x);
	seed = seed * 7919 + 1;
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)small_random(&seed);
	return x;
}

static double *doubles(int64_t n, const float *from)
{
	double *x = malloc((size_t)(n + 1) * sizeof(*x));

	ck_assert_ptr_nonnull(x);
	for (int64_t i = 0; i < n && from; i++)
		x[i] = (double)from[i];
	return x;
}

static struct point point(struct textbook t)
{
	struct point p = {.t = t};

	for (int i = 0; i < MOST_INPUTS; i++) {
		p.x[i] = floats(t.n_x[i], (uint64_t)i + 1);
		p.dx[i] = floats(t.n_x[i], 50); /* to be written over */
		p.exact[i] = doubles(t.n_x[i], p.x[i]);
	}
	p.y = floats(t.n_y, 51);
	p.dy = floats(t.n_y, 9);
	p.exact_y = doubles(t.n_y, NULL);
	return p;
}

static void point_free(struct point *p)
{
	for (int i = 0; i < MOST_INPUTS; i++)
		free(p->x[i]), free(p->dx[i]), free(p->exact[i]);
	free(p->y), free(p->dy), free(p->exact_y);
}

static double along(struct point *p)
{
	double sum = 0;

	p->t.f(p->t.sizes, (const double *const *)p->exact, p->exact_y);
	for (int64_t i = 0; i < p->t.n_y; i++)
		sum += p->exact_y[i] * (double)p->dy[i];
	return sum;
}

static double largest(int64_t n, const float *x)
{
	double most = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs((double)x[i]));
	return most;
}

/* y, and some entries of dx from a random one on; relative to the largest. */
static void check_point(struct point *p, double most)
{
	const double h = 1e-5;
	int n = 0;

	(void)along(p);
	for (int64_t i = 0; i < p->t.n_y; i++)
		ck_assert_msg(fabs((double)p->y[i] - p->exact_y[i]) <=
				      most * (1e-6 + largest(p->t.n_y, p->y)),
			      "y[%lld] is %.9g, should be %.9g", (long long)i, (double)p->y[i],
			      p->exact_y[i]);
	for (int k = 0; k < MOST_INPUTS; k++)
		for (int64_t i = 0; i < p->t.n_x[k]; i += 1 + p->t.n_x[k] / 40, n++) {
			double at = p->exact[k][i], side[2], slope;

			p->exact[k][i] = at + h;
			side[1] = along(p);
			p->exact[k][i] = at - h;
			side[0] = along(p);
			p->exact[k][i] = at;
			slope = (side[1] - side[0]) / (2 * h);
			ck_assert_msg(fabs((double)p->dx[k][i] - slope) <=
					      1e-7 + most * largest(p->t.n_x[k], p->dx[k]),
				      "dx[%d][%lld] is %.9g, should be %.9g", k, (long long)i,
				      (double)p->dx[k][i], slope);
		}
	ck_assert_int_gt(n, 0);
}

/* ---- attention ---- */

struct attention_case {
	struct orr_attention a;
	const float *lengths;
};

static const float short_keys[3] = {2, 0, 5}, all_keys[1] = {300}, some_keys[2] = {129, 128};

static const struct attention_case attentions[] = {
	{{1, 1, 1, 1, 1, 1, false, false}, NULL},
	{{2, 5, 5, 2, 2, 3, false, false}, NULL},
	{{2, 5, 5, 2, 2, 3, true, false}, NULL},
	{{3, 4, 7, 4, 2, 2, false, false}, short_keys}, /* cross, grouped */
	{{2, 7, 4, 3, 1, 5, true, false}, NULL},
	{{2, 4, 9, 2, 1, 4, true, false}, NULL},
	{{3, 6, 5, 2, 2, 4, true, false}, short_keys},
	{{1, 130, 300, 2, 1, 8, false, false}, all_keys}, /* several tiles */
	{{1, 260, 260, 1, 1, 16, true, false}, NULL},
	{{2, 129, 257, 2, 2, 4, false, false}, some_keys},
	{{2, 300, 140, 2, 1, 4, true, false}, some_keys},
};

/* One row after the other, as one writes it on a blackboard. */
static void attention(const void *sizes, const double *const *x, double *y)
{
	const struct attention_case *c = sizes;
	const struct orr_attention *a = &c->a;
	int64_t columns = a->heads * a->width, key_columns = a->kv_heads * a->width;

	for (int64_t at = 0; at < a->n * a->queries * a->heads; at++) {
		int64_t s = at / a->heads / a->queries, i = at / a->heads % a->queries;
		int64_t h = at % a->heads, g = h * a->kv_heads / a->heads;
		int64_t n = c->lengths ? (int64_t)c->lengths[s] : a->keys;
		const double *q = x[0] + (s * a->queries + i) * columns + h * a->width;
		double total = 0, *to = y + (s * a->queries + i) * columns + h * a->width;

		n = n > a->keys ? a->keys : n;
		n = a->causal && n > i + 1 ? i + 1 : n;
		memset(to, 0, (size_t)a->width * sizeof(*to));
		for (int64_t j = 0; j < n; j++) {
			int64_t from = (s * a->keys + j) * key_columns + g * a->width;
			double score = 0;

			for (int64_t e = 0; e < a->width; e++)
				score += q[e] * x[1][from + e];
			score = exp(score / sqrt((double)a->width));
			total += score;
			for (int64_t e = 0; e < a->width; e++)
				to[e] += score * x[2][from + e];
		}
		for (int64_t e = 0; e < a->width && n; e++)
			to[e] /= total;
	}
}

static struct point attention_point(const struct attention_case *c)
{
	const struct orr_attention *a = &c->a;
	int64_t n_q = a->n * a->queries * a->heads * a->width;
	int64_t n_k = a->n * a->keys * a->kv_heads * a->width;

	return point((struct textbook){attention, c, {n_q, n_k, n_k}, n_q});
}

static void run_attention(const struct orr_attention *a, const float *lengths, struct point *p)
{
	float *sums = floats(a->n * a->heads * a->queries, 7);

	cpu.workspace = malloc(orr_attention_cpu.bytes(a));
	ck_assert_ptr_nonnull(cpu.workspace);
	orr_attention_cpu.forward(&cpu, a, p->x[0], p->x[1], p->x[2], lengths, p->y, sums);
	orr_attention_cpu.input(&cpu, a, p->x[0], p->x[1], p->x[2], lengths, p->y, sums, p->dy,
				p->dx[0], p->dx[1], p->dx[2]);
	free(cpu.workspace), free(sums);
}

START_TEST(attention_is_that_of_the_textbook)
{
	struct point p = attention_point(&attentions[_i]);

	run_attention(&attentions[_i].a, attentions[_i].lengths, &p);
	check_point(&p, 2e-6 * sqrt((double)attentions[_i].a.queries));
	point_free(&p);
}
END_TEST

START_TEST(attention_of_bfloat16_is_near)
{
	struct orr_attention a = attentions[_i].a;
	struct point p = attention_point(&attentions[_i]), q = attention_point(&attentions[_i]);
	float *x[4] = {p.y, p.dx[0], p.dx[1], p.dx[2]}, *y[4] = {q.y, q.dx[0], q.dx[1], q.dx[2]};
	int64_t n[4] = {p.t.n_y, p.t.n_x[0], p.t.n_x[1], p.t.n_x[2]};

	run_attention(&a, attentions[_i].lengths, &p);
	a.rounded = true;
	run_attention(&a, attentions[_i].lengths, &q);
	for (int k = 0; k < 4; k++) {
		double difference = 0, norm = 0;

		for (int64_t i = 0; i < n[k]; i++) {
			difference += pow((double)x[k][i] - (double)y[k][i], 2);
			norm += pow((double)x[k][i], 2);
		}
		ck_assert_msg(sqrt(difference) <= 0.02 * sqrt(norm) + 1e-6, "%d: %g of %g", k,
			      sqrt(difference), sqrt(norm));
		ck_assert(k || difference > 0);
	}
	point_free(&p), point_free(&q);
}
END_TEST

/* Whatever is asked for, and whoever else is in the microbatch. */
START_TEST(attention_of_a_sample_has_its_bits)
{
	const struct orr_attention *a = &attentions[_i].a;
	struct point p = attention_point(&attentions[_i]), q = attention_point(&attentions[_i]);
	float *sums = floats(a->n * a->heads * a->queries, 7);
	const float *lengths = attentions[_i].lengths;
	struct orr_attention one = *a;

	run_attention(a, lengths, &p);
	one.n = 1;
	cpu.workspace = malloc(orr_attention_cpu.bytes(a));
	for (int64_t s = 0; s < a->n; s++) {
		int64_t at = s * (p.t.n_y / a->n), key = s * (p.t.n_x[1] / a->n);
		const float *x[3] = {q.x[0] + at, q.x[1] + key, q.x[2] + key};
		const float *length = lengths ? lengths + s : NULL;

		orr_attention_cpu.forward(&cpu, &one, x[0], x[1], x[2], length, q.y + at, sums);
		for (int k = 0; k < 3; k++)
			orr_attention_cpu.input(&cpu, &one, x[0], x[1], x[2], length, q.y + at,
						sums, q.dy + at, k == 0 ? q.dx[0] + at : NULL,
						k == 1 ? q.dx[1] + key : NULL,
						k == 2 ? q.dx[2] + key : NULL);
	}
	ck_assert_mem_eq(p.y, q.y, (size_t)p.t.n_y * sizeof(float));
	for (int k = 0; k < 3; k++)
		ck_assert_mem_eq(p.dx[k], q.dx[k], (size_t)p.t.n_x[k] * sizeof(float));
	free(cpu.workspace), free(sums);
	point_free(&p), point_free(&q);
}
END_TEST

static const struct {
	float length;
	int64_t keys;
} lengths[] = {{-3, 0}, {0, 0}, {0.5f, 0}, {3, 3}, {4, 4}, {1e20f, 4}, {NAN, 0}, {INFINITY, 4}};

START_TEST(keys_beyond_the_length_are_never_read)
{
	struct attention_case c = {{1, 3, 4, 2, 1, 3, false, false}, &lengths[_i].length};
	struct orr_attention shorter = c.a;
	struct point p = attention_point(&c), q = attention_point(&c);

	for (int64_t i = lengths[_i].keys * 3; i < 4 * 3; i++)
		p.x[1][i] = p.x[2][i] = NAN;
	run_attention(&c.a, c.lengths, &p);
	shorter.keys = lengths[_i].keys;
	run_attention(&shorter, NULL, &q);
	ck_assert_mem_eq(p.y, q.y, (size_t)p.t.n_y * sizeof(float));
	ck_assert_mem_eq(p.dx[0], q.dx[0], (size_t)p.t.n_y * sizeof(float));
	for (int k = 1; k < 3; k++)
		for (int64_t i = 0; i < 4 * 3; i++)
			ck_assert(i < shorter.keys * 3
					  ? !memcmp(&p.dx[k][i], &q.dx[k][i], sizeof(float))
					  : fabsf(p.dx[k][i]) <= 0);
	point_free(&p), point_free(&q);
}
END_TEST

START_TEST(attention_stays_finite_at_any_score)
{
	static const struct attention_case c = {{1, 2, 300, 1, 1, 2, false, false}, NULL};
	struct point p = attention_point(&c);

	for (int64_t i = 0; i < p.t.n_x[1]; i++)
		p.x[1][i] *= 1e4f;
	run_attention(&c.a, NULL, &p);
	for (int64_t i = 0; i < p.t.n_y; i++)
		ck_assert(fabsf(p.y[i]) <= 1 && isfinite(p.dx[0][i]));
	p.x[0][0] = NAN;
	run_attention(&c.a, NULL, &p);
	ck_assert(isnan(p.y[0]) && isnan(p.y[1]) && !isnan(p.y[2]));
	point_free(&p);
}
END_TEST

/* ---- row by row ---- */

struct rows {
	int64_t n, rows, width;
};

static const struct rows shapes[] = {{1, 1, 1}, {2, 3, 5}, {3, 1, 16}, {2, 5, 33}, {1, 27, 16}};

static struct point rows_point(const struct rows *r, int64_t n_y,
			       void (*f)(const void *, const double *const *, double *))
{
	return point((struct textbook){f, r, {r->n * r->rows * r->width, 0, 0}, n_y});
}

static void softmax(const void *sizes, const double *const *x, double *y)
{
	const struct rows *r = sizes;

	for (int64_t i = 0; i < r->n * r->rows * r->width; i++) {
		const double *row = x[0] + i / r->width * r->width;
		double sum = 0;

		for (int64_t j = 0; j < r->width; j++)
			sum += exp(row[j] - x[0][i]);
		y[i] = 1 / sum;
	}
}

START_TEST(softmax_is_that_of_the_textbook)
{
	const struct rows *r = &shapes[_i];
	struct point p = rows_point(r, r->n * r->rows * r->width, softmax);

	orr_rows_cpu.softmax_forward(&cpu, r->n * r->rows, r->width, p.x[0], p.y);
	orr_rows_cpu.softmax_input(&cpu, r->n * r->rows, r->width, p.y, p.dy, p.dx[0]);
	check_point(&p, 1e-6);
	point_free(&p);
}
END_TEST

static void unit(const void *sizes, const double *const *x, double *y)
{
	const struct rows *r = sizes;

	for (int64_t i = 0; i < r->n * r->rows * r->width; i++) {
		const double *row = x[0] + i / r->width * r->width;
		double sum = 0;

		for (int64_t j = 0; j < r->width; j++)
			sum += row[j] * row[j];
		y[i] = x[0][i] / fmax(sqrt(sum), 0.5);
	}
}

/* Of width 1 some rows are shorter than epsilon. */
START_TEST(normalise_is_that_of_the_textbook)
{
	const struct rows *r = &shapes[_i];
	int64_t n = r->n * r->rows;
	struct point p = rows_point(r, n * r->width, unit);
	float *factors = floats(n, 4);

	orr_rows_cpu.normalise_forward(&cpu, n, r->width, 0.5f, p.x[0], p.y, factors);
	orr_rows_cpu.normalise_input(&cpu, n, r->width, 0.5f, p.y, factors, p.dy, p.dx[0]);
	check_point(&p, 2e-6);
	free(factors);
	point_free(&p);
}
END_TEST

static void mean(const void *sizes, const double *const *x, double *y)
{
	const struct rows *r = sizes;

	memset(y, 0, (size_t)(r->n * r->width) * sizeof(*y));
	for (int64_t i = 0; i < r->n * r->rows * r->width; i++)
		y[i / r->width / r->rows * r->width + i % r->width] += x[0][i] / (double)r->rows;
}

START_TEST(mean_is_that_of_the_textbook)
{
	const struct rows *r = &shapes[_i];
	struct point p = rows_point(r, r->n * r->width, mean);

	orr_sequence_cpu.mean_forward(&cpu, r->n, r->rows, r->width, p.x[0], p.y);
	orr_sequence_cpu.mean_input(&cpu, r->n, r->rows, r->width, p.dy, p.dx[0]);
	check_point(&p, 1e-6);
	point_free(&p);
}
END_TEST

static void pairs(const void *sizes, const double *const *x, double *y)
{
	const struct rows *r = sizes;

	for (int64_t s = 0; s < r->n; s++)
		for (int64_t i = 0; i < r->rows; i++)
			for (int64_t j = 0; j < i; j++, y++) {
				*y = 0;
				for (int64_t e = 0; e < r->width; e++)
					*y += x[0][(s * r->rows + i) * r->width + e] *
					      x[0][(s * r->rows + j) * r->width + e];
			}
}

START_TEST(interaction_is_that_of_the_textbook)
{
	const struct rows *r = &shapes[_i];
	struct point p = rows_point(r, r->n * r->rows * (r->rows - 1) / 2, pairs);

	orr_sequence_cpu.interaction_forward(&cpu, r->n, r->rows, r->width, p.x[0], p.y);
	orr_sequence_cpu.interaction_input(&cpu, r->n, r->rows, r->width, 0, r->rows, p.x[0], p.dy,
					   p.dx[0]);
	check_point(&p, 2e-6);
	point_free(&p);
}
END_TEST

static const struct orr_rotary rotaries[] = {
	{1, 1, 1, 2, 10000, false},
	{2, 5, 3, 6, 10000, false},
	{1, 700, 1, 32, 100, false},
};

static void rotary(const void *sizes, const double *const *x, double *y)
{
	const struct orr_rotary *t = sizes;
	int64_t half = t->width / 2;

	for (int64_t i = 0; i < t->n * t->rows * t->heads * t->width; i++) {
		int64_t row = i / t->width / t->heads % t->rows, at = i % t->width;
		double angle =
			(double)row / pow(t->base, 2 * (double)(at % half) / (double)t->width);

		y[i] = x[0][i] * cos(angle) +
		       (at < half ? -x[0][i + half] : x[0][i - half]) * sin(angle);
	}
}

START_TEST(rotary_is_that_of_the_textbook)
{
	struct orr_rotary t = rotaries[_i];
	int64_t n = t.n * t.rows * t.heads * t.width;
	struct point p = point((struct textbook){rotary, &rotaries[_i], {n, 0, 0}, n});

	cpu.workspace = malloc(orr_sequence_cpu.rotary_bytes(&t));
	orr_sequence_cpu.rotary(&cpu, &t, p.x[0], p.y);
	t.back = true;
	orr_sequence_cpu.rotary(&cpu, &t, p.dy, p.dx[0]);
	check_point(&p, 1e-6);
	free(cpu.workspace);
	point_free(&p);
}
END_TEST

/* ---- ids ---- */

static const struct orr_bag bags[] = {
	{1, 1, 1, 1, false, false, 0, 0}, {7, 1, 5, 3, false, false, 0, 0},
	{4, 6, 9, 17, true, false, 0, 0}, {4, 6, 9, 17, true, true, 0, 0},
	{3, 5, 2, 33, true, true, 0, 0},  {9, 1, 3, 4, false, false, 2, 7},
	{4, 6, 5, 17, true, true, 4, 0},
};

/* Every third is padding where that is allowed, and all of the second bag. */
static float *ids_of(const struct orr_bag *b)
{
	float *ids = floats(b->n * b->ids, 1);

	for (int64_t i = 0; i < b->n * b->ids; i++) {
		ids[i] = (float)((i * 7 + i / 3) % orr_bag_all(b));
		if (b->padding && (i % 3 == 1 || i / b->ids == 1))
			ids[i] = -1;
	}
	return ids;
}

static void bag(const void *sizes, const double *const *x, double *y)
{
	const struct orr_bag *b = sizes;
	float *ids = ids_of(b);

	memset(y, 0, (size_t)(b->n * b->features) * sizeof(*y));
	for (int64_t s = 0; s < b->n; s++)
		for (int64_t e = 0; e < b->features; e++) {
			int64_t n = 0;

			for (int64_t i = 0; i < b->ids; i++) {
				float id = ids[s * b->ids + i];

				if (id < 0)
					continue;
				n++;
				id -= (float)b->first;
				if (id >= 0 && id < (float)b->vocabulary)
					y[s * b->features + e] +=
						x[0][(int64_t)id * b->features + e];
			}
			y[s * b->features + e] /= b->mean && n ? (double)n : 1.0;
		}
	free(ids);
}

START_TEST(bags_are_those_of_the_textbook)
{
	const struct orr_bag *b = &bags[_i];
	int64_t n = b->vocabulary * b->features;
	struct point p = point((struct textbook){bag, b, {n, 0, 0}, b->n * b->features});
	float *ids = ids_of(b);

	orr_sequence_cpu.bag_forward(&cpu, b, ids, p.x[0], p.y);
	orr_sequence_cpu.bag_weight(&cpu, b, ids, p.dy, NULL, p.dx[0]);
	check_point(&p, 1e-6);
	free(ids);
	point_free(&p);
}
END_TEST

START_TEST(a_bag_adds_a_gradient_as_if_it_were_computed_apart)
{
	const struct orr_bag *b = &bags[_i];
	int64_t n = b->vocabulary * b->features;
	float *ids = ids_of(b), *dy = floats(b->n * b->features, 1);
	float *apart = floats(b->features, 2);
	float *dw = floats(n, 3), *sum = floats(n, 3), *part = floats(n, 4);

	cpu.workspace = malloc(orr_sequence_cpu.bag_bytes(b));
	ck_assert_ptr_nonnull(cpu.workspace);
	orr_sequence_cpu.bag_weight(&cpu, b, ids, dy, NULL, part);
	for (int64_t i = 0; i < n; i++)
		sum[i] += part[i];
	orr_sequence_cpu.bag_weight(&cpu, b, ids, dy, apart, dw);
	ck_assert_mem_eq(dw, sum, (size_t)n * sizeof(*sum));
	for (int64_t i = 0; i < n; i++) /* no zero with a sign, which adding zero would change */
		ck_assert(part[i] < 0 || part[i] > 0 || !signbit(part[i]));
	free(ids), free(dy), free(apart), free(dw), free(sum), free(part), free(cpu.workspace);
}
END_TEST

START_TEST(a_wrong_id_makes_its_row_nan_and_reads_nothing)
{
	static const float wrong[] = {3, 0.5f, 1e20f, NAN, INFINITY, -1, -1e20f, -INFINITY};
	struct orr_bag b = {2, 1, 3, 2, false, false, 0, 0};
	float ids[2] = {1, wrong[_i]}, w[6] = {1, 2, 3, 4, 5, 6}, y[4], dw[6], dy[4] = {1, 2, 3, 4};

	orr_sequence_cpu.bag_forward(&cpu, &b, ids, w, y);
	ck_assert(y[0] >= 3 && y[1] >= 4 && isnan(y[2]) && isnan(y[3]));
	orr_sequence_cpu.bag_weight(&cpu, &b, ids, dy, NULL, dw);
	for (int i = 0; i < 6; i++)
		ck_assert(fabsf(dw[i] - (i == 2 ? 1.0f : i == 3 ? 2.0f : 0.0f)) <= 0);
	b.padding = true;
	orr_sequence_cpu.bag_forward(&cpu, &b, ids, w, y);
	for (int i = 2; i < 4; i++)
		ck_assert(wrong[_i] < 0 ? fabsf(y[i]) <= 0 : isnan(y[i]));
}
END_TEST

/* ---- dropout ---- */

#define N_DRAWN 100000

START_TEST(dropout_keeps_its_share_and_the_mean)
{
	static const double rates[] = {0, 0.1, 0.5, 0.99};
	struct orr_drop d = {.seed = 1, .sample = 2, .operator_number = 3, .rate = rates[_i]};
	float *x = floats(N_DRAWN, 1), *y = floats(N_DRAWN, 2);
	int64_t n = 0;

	for (int64_t i = 0; i < N_DRAWN; i++)
		x[i] = 1 + fabsf(x[i]);
	orr_sequence_cpu.dropout(&cpu, &d, 10, N_DRAWN / 10, x, y);
	for (int64_t i = 0; i < N_DRAWN; i++) {
		n += y[i] > 0;
		ck_assert(y[i] <= 0 || fabs((double)y[i] * (1 - rates[_i]) - (double)x[i]) <= 1e-6);
	}
	ck_assert_double_le(fabs((double)n / N_DRAWN - (1 - rates[_i])),
			    4 * sqrt(rates[_i] * (1 - rates[_i]) / N_DRAWN));
	free(x), free(y);
}
END_TEST

/* The share of floats for which two dropouts of rate 1/2 agree. */
static double alike(struct orr_drop a, struct orr_drop b)
{
	float *x = floats(N_DRAWN, 1), *y[2] = {floats(N_DRAWN, 2), floats(N_DRAWN, 3)};
	int64_t n = 0;

	orr_sequence_cpu.dropout(&cpu, &a, 100, N_DRAWN / 100, x, y[0]);
	orr_sequence_cpu.dropout(&cpu, &b, 100, N_DRAWN / 100, x, y[1]);
	for (int64_t i = 0; i < N_DRAWN; i++)
		n += (fabsf(y[0][i]) > 0) == (fabsf(y[1][i]) > 0);
	free(x), free(y[0]), free(y[1]);
	return (double)n / N_DRAWN;
}

START_TEST(draws_follow_seed_operator_and_sample_alone)
{
	struct orr_drop d = {.seed = 1, .sample = 400, .operator_number = 3, .rate = 0.5},
			other[3] = {d, d, d};
	float *x = floats(7 * 11, 1), *whole = floats(7 * 11, 2), *parts = floats(7 * 11, 3);

	other[0].seed = 2, other[1].sample = 399, other[2].operator_number = 4;
	ck_assert_double_ge(alike(d, d), 1);
	for (int i = 0; i < 3; i++)
		ck_assert_double_eq_tol(alike(d, other[i]), 0.5, 0.01); /* sigma is 0.0016 */
	orr_sequence_cpu.dropout(&cpu, &d, 7, 11, x, whole);
	for (int s = 0; s < 7; s++, d.sample++)
		orr_sequence_cpu.dropout(&cpu, &d, 1, 11, x + 11 * s, parts + 11 * s);
	ck_assert_mem_eq(whole, parts, 7 * 11 * sizeof(float));
	free(x), free(whole), free(parts);
}
END_TEST

START_TEST(a_box_moves_its_part_and_no_more)
{
	float x[2 * 3 * 4], y[2 * 2 * 2 + 1];
	struct orr_box box = {2, 2, 2, 12, 4, 4, 2};

	for (int i = 0; i < 24; i++)
		x[i] = (float)i;
	y[8] = -1;
	orr_sequence_cpu.move(&cpu, &box, x + 1 * 4 + 1, y); /* rows 1 and 2, columns 1 and 2 */
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq((int)y[i], i / 4 * 12 + (1 + i / 2 % 2) * 4 + 1 + i % 2);
	ck_assert_int_eq((int)y[8], -1);
}
END_TEST

static const struct suite_test tests[] = {
	EACH(attention_is_that_of_the_textbook, N_OF(attentions)),
	EACH(attention_of_bfloat16_is_near, N_OF(attentions)),
	EACH(attention_of_a_sample_has_its_bits, N_OF(attentions)),
	EACH(keys_beyond_the_length_are_never_read, N_OF(lengths)),
	ONCE(attention_stays_finite_at_any_score),
	EACH(softmax_is_that_of_the_textbook, N_OF(shapes)),
	EACH(normalise_is_that_of_the_textbook, N_OF(shapes)),
	EACH(mean_is_that_of_the_textbook, N_OF(shapes)),
	EACH(interaction_is_that_of_the_textbook, N_OF(shapes)),
	EACH(rotary_is_that_of_the_textbook, N_OF(rotaries)),
	EACH(bags_are_those_of_the_textbook, N_OF(bags)),
	EACH(a_bag_adds_a_gradient_as_if_it_were_computed_apart, N_OF(bags)),
	EACH(a_wrong_id_makes_its_row_nan_and_reads_nothing, 8),
	EACH(dropout_keeps_its_share_and_the_mean, 4),
	ONCE(draws_follow_seed_operator_and_sample_alone),
	ONCE(a_box_moves_its_part_and_no_more),
};
SUITE("sequence")
