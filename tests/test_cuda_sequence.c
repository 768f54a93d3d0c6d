/* Kernels of sequences of the CUDA table against those of the CPU table, on random shapes. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "both_devices.h"
#include "codelets/sequence.h"
#include "../codelets/cuda/stream.h"
#include "emulated.h"
#include "suite.h"

/* Does `call` on both devices; it sees d, the device, and ON(t), a tensor there. */
#define ON(t) ((t) ? (d == &cuda ? (t)->on_cuda : (t)->on_cpu) : NULL)
#define BOTH(call) \
	do { \
		for (struct orr_device *d = &cpu; d; d = d == &cpu ? &cuda : NULL) { \
			d->kernels->call; \
		} \
	} while (0)

static void begin(enum orr_precision precision, size_t cpu_bytes, size_t bytes)
{
	start(precision, 1, 1, 1);
	CHECK_CUDA(cudaFree(cuda.workspace));
	CHECK_CUDA(cudaMalloc(&cuda.workspace, bytes + 256));
	free(cpu.workspace);
	cpu.workspace = malloc(cpu_bytes + 1);
}

static void end(void)
{
	stop();
}

static const struct {
	int64_t n, rows, width;
} shapes[] = {{1, 1, 1}, {2, 3, 5}, {3, 7, 64}, {5, 2, 515}, {33, 5, 12}, {2, 27, 32}};

START_TEST(rows_agree)
{
	int64_t n = shapes[_i].n, rows = shapes[_i].rows, width = shapes[_i].width;
	int64_t all = n * rows, count = all * width;

	for (int64_t shift = 0; shift < 3; shift += 2) {
		struct tensor *x = filled(count, shift, 1), *dy = filled(count, shift, 2);
		struct tensor *y = empty(count, shift), *dx = empty(count, shift);
		struct tensor *w = filled(rows * width, 0, 3), *sum = filled(rows * width, 0, 4);
		struct tensor *factors = empty(all, 0), *short_dy = filled(n * width, shift, 5);
		struct tensor *mean = empty(n * width, shift), *apart = empty(rows * width, 0);

		begin(ORR_PRECISION_FP32, 0, 0);
		BOTH(elements->multiply(d, count, ON(x), ON(dy), ON(y)));
		check_close(y, 0, "multiply");
		BOTH(sequence->add_row(d, n, rows * width, ON(x), ON(w), ON(y)));
		check_close(y, 0, "add_row");
		BOTH(sequence->sum_rows(d, n, rows * width, ON(dy), ON(apart), ON(sum)));
		check_close(sum, 0, "sum_rows, added");
		BOTH(sequence->sum_rows(d, n, rows * width, ON(dy), NULL, ON(sum)));
		check_close(sum, 0, "sum_rows");
		BOTH(sequence->mean_forward(d, n, rows, width, ON(x), ON(mean)));
		check_close(mean, 0, "mean");
		BOTH(sequence->mean_input(d, n, rows, width, ON(short_dy), ON(dx)));
		check_close(dx, 0, "mean backward");
		BOTH(rows->softmax_forward(d, all, width, ON(x), ON(y)));
		check_close(y, 1e-6, "softmax");
		BOTH(rows->softmax_input(d, all, width, ON(y), ON(dy), ON(dx)));
		check_close(dx, 1e-5, "softmax backward");
		BOTH(rows->normalise_forward(d, all, width, 0.5f, ON(x), ON(y), ON(factors)));
		check_close(y, 1e-6, "normalise");
		check_close(factors, 1e-6, "its factors");
		BOTH(rows->normalise_input(d, all, width, 0.5f, ON(y), ON(factors), ON(dy),
					   ON(dx)));
		check_close(dx, 1e-5, "normalise backward");
		end();
	}
}
END_TEST

START_TEST(pairs_parts_and_draws_agree)
{
	int64_t n = shapes[_i].n, rows = shapes[_i].rows, width = shapes[_i].width;
	int64_t pairs = rows * (rows - 1) / 2, part = rows > 1 ? rows - 1 : 1;
	struct orr_box box = {n, part, width, rows * width, width, part * width, width};
	struct orr_drop drop = {.seed = 7, .sample = 3, .operator_number = 2, .rate = 0.3};
	struct tensor *x = filled(n * rows * width, 1, 1), *y = empty(n * pairs, 0);
	struct tensor *dy = filled(n * pairs, 1, 2), *dx = empty(n * part * width, 0);
	struct tensor *dropped = empty(n * rows * width, 0);

	begin(ORR_PRECISION_FP32, 0, 0);
	BOTH(sequence->move(d, &box, ON(x) + (rows - part) * width, ON(dx)));
	check_close(dx, 0, "move");
	BOTH(sequence->interaction_forward(d, n, rows, width, ON(x), ON(y)));
	check_close(y, 1e-6, "interaction");
	BOTH(sequence->interaction_input(d, n, rows, width, rows - part, part, ON(x), ON(dy),
					 ON(dx)));
	check_close(dx, 1e-6, "interaction backward");
	BOTH(sequence->dropout(d, &drop, n, rows * width, ON(x), ON(dropped)));
	check_close(dropped, 0, "dropout");
	end();
}
END_TEST

static const struct orr_rotary rotaries[] = {
	{1, 1, 1, 2, 10000, false}, {3, 5, 2, 6, 10000, true}, {2, 130, 4, 16, 100, false}};

START_TEST(rotary_agrees)
{
	struct orr_rotary t = rotaries[_i];
	int64_t count = t.n * t.rows * t.heads * t.width;
	struct tensor *x = filled(count, 0, 1), *y = empty(count, 1);

	begin(ORR_PRECISION_FP32, orr_kernels_cpu.sequence->rotary_bytes(&t),
	      orr_kernels_cuda.sequence->rotary_bytes(&t));
	BOTH(sequence->rotary(d, &t, ON(x), ON(y)));
	check_close(y, 1e-6, "rotary");
	end();
}
END_TEST

/* Ids of every kind, also those that are none. */
static void set_ids(const struct tensor *ids, int64_t vocabulary)
{
	static const float wrong[] = {-1, 0.5f, NAN, 1e20f, INFINITY, -1e20f};

	for (int64_t i = 0; i < ids->n; i++)
		ids->on_cpu[i] = i % 5 == 4 ? wrong[i / 5 % 6] : (float)((i * 7) % vocabulary);
	CHECK_CUDA(cudaMemcpy(ids->on_cuda, ids->on_cpu, (size_t)ids->n * sizeof(float),
			      cudaMemcpyHostToDevice));
}

static const struct orr_bag bags[] = {
	{1, 1, 1, 1, false, false, 0, 0},      {40, 1, 7, 5, false, false, 0, 0},
	{64, 1, 1000, 33, false, false, 0, 0}, {9, 6, 20, 64, true, false, 0, 0},
	{9, 6, 20, 12, true, true, 0, 0},      {40, 1, 3, 5, false, false, 2, 7},
	{9, 6, 8, 12, true, true, 5, 20},      {0, 1, 7, 5, false, false, 0, 0},
	{700, 1, 1, 3, false, false, 0, 0},    {2100, 1, 5000, 2, false, false, 0, 0},
	{800, 1, 9, 33, false, false, 0, 0},   {90, 13, 4, 5, true, true, 0, 0},
};

START_TEST(bags_agree)
{
	const struct orr_bag *b = &bags[_i];
	struct tensor *ids = filled(b->n * b->ids, 0, 1);
	struct tensor *w = filled(b->vocabulary * b->features, 1, 2);
	struct tensor *y = empty(b->n * b->features, 0), *dy = filled(b->n * b->features, 0, 3);
	struct tensor *dw = empty(w->n, 0), *apart = empty(w->n, 0);

	begin(ORR_PRECISION_FP32, orr_kernels_cpu.sequence->bag_bytes(b),
	      orr_kernels_cuda.sequence->bag_bytes(b));
	set_ids(ids, b->of ? b->of : b->vocabulary);
	BOTH(sequence->bag_forward(d, b, ON(ids), ON(w), ON(y)));
	check_close(y, 1e-6, "bag");
	BOTH(sequence->bag_weight(d, b, ON(ids), ON(dy), NULL, ON(dw)));
	check_close(dw, 1e-6, "bag backward");
	BOTH(sequence->bag_weight(d, b, ON(ids), ON(dy), ON(apart), ON(dw)));
	check_close(dw, 1e-6, "bag backward, added");
	end();
}
END_TEST

/* On the device. */
static float *gradient_of(const struct orr_bag *b, const struct tensor *ids,
			  const struct tensor *dy)
{
	struct tensor *dw = empty(b->vocabulary * b->features, 0);

	cuda.kernels->sequence->bag_weight(&cuda, b, ids->on_cuda, dy->on_cuda, NULL, dw->on_cuda);
	return fetch(dw);
}

/* Rows that have more places than are added up at once, too. */
START_TEST(parts_of_a_table_have_the_bits_of_the_whole)
{
	const struct orr_bag whole = {900, 1, 7, 5, false, false, 0, 0};
	struct tensor *ids = filled(whole.n, 0, 1), *dy = filled(whole.n * whole.features, 0, 2);
	float *all, *own;

	begin(ORR_PRECISION_FP32, 0, orr_kernels_cuda.sequence->bag_bytes(&whole));
	set_ids(ids, 2 + (int64_t)_i);
	all = gradient_of(&whole, ids, dy);
	for (int64_t first = 0; first < whole.vocabulary; first += 2) {
		struct orr_bag part = whole;

		part.of = whole.vocabulary, part.first = first;
		part.vocabulary = first + 2 > part.of ? part.of - first : 2;
		own = gradient_of(&part, ids, dy);
		ck_assert_msg(!memcmp(own, all + first * part.features,
				      (size_t)(part.vocabulary * part.features) * sizeof(*own)),
			      "rows from %lld on", (long long)first);
		free(own);
	}
	free(all);
	end();
}
END_TEST

#ifdef ORR_TESTS_EMULATED
/* What sorting looks at, n log n, and not the n^2 of each id beside all others. */
START_TEST(a_gradient_looks_at_an_id_a_few_times)
{
	static const int64_t vocabularies[] = {1, 40, 1 << 20};
	const struct orr_bag b = {5000, 1, vocabularies[_i], 1, false, false, 0, 0};
	struct tensor *ids = filled(b.n, 0, 1), *dy = filled(b.n, 0, 2);

	begin(ORR_PRECISION_FP32, 0, orr_kernels_cuda.sequence->bag_bytes(&b));
	set_ids(ids, b.vocabulary);
	emulated_reset_counts();
	free(gradient_of(&b, ids, dy));
	ck_assert_int_gt(emulated_counts().looks, b.n);
	ck_assert_int_lt(emulated_counts().looks, 200 * b.n);
	end();
}
END_TEST
#endif

static const struct {
	struct orr_attention a;
	bool lengths;
} attentions[] = {
	{{1, 1, 1, 1, 1, 1, false, false}, false},
	{{2, 5, 5, 2, 2, 3, true, false}, false},
	{{3, 4, 37, 4, 2, 2, false, false}, true},
	{{2, 70, 40, 2, 1, 64, true, false}, true},
	{{1, 40, 70, 2, 2, 32, true, false}, false},
	{{1, 3, 4, 1, 1, ORR_MOST_HEAD_WIDTH, false, false}, false},
	{{1, 33, 65, 4, 1, 8, false, false}, true},
};

START_TEST(attention_agrees)
{
	enum orr_precision precision = _i % 2 ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32;
	struct orr_attention a = attentions[_i / 2].a;
	int64_t n_q = a.n * a.queries * a.heads * a.width,
		n_k = a.n * a.keys * a.kv_heads * a.width;
	struct tensor *q = filled(n_q, 0, 1), *k = filled(n_k, 1, 2), *v = filled(n_k, 0, 3);
	struct tensor *y = empty(n_q, 1), *sums = empty(a.n * a.heads * a.queries, 0);
	struct tensor *dy = filled(n_q, 0, 4), *lengths = NULL;
	struct tensor *dq = empty(n_q, 0), *dk = empty(n_k, 0), *dv = empty(n_k, 0);

	a.rounded = precision == ORR_PRECISION_BF16;
	if (attentions[_i / 2].lengths) {
		lengths = filled(a.n, 0, 5);
		for (int64_t i = 0; i < a.n; i++)
			lengths->on_cpu[i] = (float)(i == 1 ? 0 : a.keys - 1 - i);
		CHECK_CUDA(cudaMemcpy(lengths->on_cuda, lengths->on_cpu,
				      (size_t)a.n * sizeof(float), cudaMemcpyHostToDevice));
	}
	begin(precision, orr_kernels_cpu.attention->bytes(&a),
	      orr_kernels_cuda.attention->bytes(&a));
	BOTH(attention->forward(d, &a, ON(q), ON(k), ON(v), ON(lengths), ON(y), ON(sums)));
	check_close(y, a.rounded ? 5e-3 : 1e-5, "attention");
	check_close(sums, 1e-5, "its sums");
	/* from the same output */
	CHECK_CUDA(cudaMemcpy(y->on_cuda, y->on_cpu, (size_t)n_q * sizeof(float),
			      cudaMemcpyHostToDevice));
	BOTH(attention->input(d, &a, ON(q), ON(k), ON(v), ON(lengths), ON(y), ON(sums), ON(dy),
			      ON(dq), ON(dk), ON(dv)));
	check_close(dv, a.rounded ? 5e-3 : 1e-5, "dv");
	if (a.keys > 1) { /* of one key they are zero, but for rounding */
		check_close(dq, a.rounded ? 5e-3 : 1e-5, "dq");
		check_close(dk, a.rounded ? 5e-3 : 1e-5, "dk");
	}
	end();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(rows_agree, N_OF(shapes)),
		EACH(pairs_parts_and_draws_agree, N_OF(shapes)),
		EACH(rotary_agrees, N_OF(rotaries)),
		EACH(bags_agree, N_OF(bags)),
		EACH(parts_of_a_table_have_the_bits_of_the_whole, 6),
#ifdef ORR_TESTS_EMULATED
		EACH(a_gradient_looks_at_an_id_a_few_times, 3),
#endif
		EACH(attention_agrees, 2 * N_OF(attentions)),
	};

	return run_on_devices("cuda-sequence", tests, N_OF(tests));
}
