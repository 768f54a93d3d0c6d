/* What is kept as bfloat16, on a core and on a CUDA device: conversions to the bit; kernels that
 * take activations so, against the core's of the same numbers as floats, whose results are then
 * rounded. Built twice, as tests/test_cuda_kernels.c. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "both_devices.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/elements.h"
#include "../codelets/loops.h"
#include "../codelets/sequence.h"
#include "../codelets/shapes.h"
#include "suite.h"

#define ROUNDED \
	4e-3 /* of the norm: two roundings, where cuBLAS takes a product that cuBLASLt does not */

/* Of `count` bfloat16 where its floats lie, on both. */
static struct tensor *halved(const struct tensor *of, int64_t count, int64_t shift)
{
	struct tensor *t = empty((count + 1) / 2, shift);

	cpu.kernels->elements->narrow(&cpu, count, 2 * t->n, of->on_cpu, false, t->on_cpu);
	cuda.kernels->elements->narrow(&cuda, count, 2 * t->n, of->on_cuda, false, t->on_cuda);
	return t;
}

/* The floats of what a device left, in the place of its own. */
static void check_halves(const struct tensor *halves, struct tensor *floats, int64_t count,
			 const char *what)
{
	orr_round_bf16(count, floats->on_cpu, floats->on_cpu);
	cuda.kernels->elements->widen(&cuda, count, halves->on_cuda, floats->on_cuda);
	check_close(floats, ROUNDED, what);
}

static void check_same(const struct tensor *t, const char *what)
{
	float *seen = fetch(t);

	ck_assert_msg(memcmp(seen, t->on_cpu, (size_t)t->n * sizeof(*seen)) == 0, "%s", what);
	free(seen);
}

START_TEST(conversions_and_sums_have_the_same_bits)
{
	static const int64_t counts[] = {1, 2, 7, 8, 9, 31, 64, 257, 5000, 20003};
	int64_t count = counts[_i], shift = _i % 3;
	struct tensor *x, *y, *a, *b;

	start(ORR_PRECISION_BF16, 1, 1, 1);
	x = filled(count, shift, 1);
	y = filled(count, shift, 2);
	a = halved(x, count, shift);
	b = halved(y, count, 0);
	check_same(a, "rounded");
	cpu.kernels->elements->narrow(&cpu, count, 2 * a->n, y->on_cpu, true, a->on_cpu);
	cuda.kernels->elements->narrow(&cuda, count, 2 * a->n, y->on_cuda, true, a->on_cuda);
	check_same(a, "rounded and added");
	cpu.halves = cuda.halves = true;
	cpu.kernels->elements->sum(&cpu, 2 * a->n, a->on_cpu, b->on_cpu, b->on_cpu);
	cuda.kernels->elements->sum(&cuda, 2 * a->n, a->on_cuda, b->on_cuda, b->on_cuda);
	cpu.halves = cuda.halves = false;
	check_same(b, "summed");
	cpu.kernels->elements->widen(&cpu, count, b->on_cpu, x->on_cpu);
	cuda.kernels->elements->widen(&cuda, count, b->on_cuda, x->on_cuda);
	check_same(x, "widened");
	cpu.kernels->elements->sum_mixed(&cpu, count, y->on_cpu, a->on_cpu, x->on_cpu);
	cuda.kernels->elements->sum_mixed(&cuda, count, y->on_cuda, a->on_cuda, x->on_cuda);
	check_same(x, "summed with floats");
	stop();
}
END_TEST

/* Added to what is there each is rounded for itself: 1 + 2^-8 + 2^-8 stays 1, and 1 + 2^-7 does
 * not. */
START_TEST(sums_round_each_addend)
{
	uint16_t sum[3] = {0x3f80, 0x3f80, 0x3f80};
	const float x[3] = {0x1p-8f, 0x1p-7f, 0x1.01p-7f};

	orr_elements_cpu.narrow(&cpu, 3, 3, x, true, sum);
	ck_assert_int_eq(sum[0], 0x3f80);
	ck_assert_int_eq(sum[1], 0x3f81);
	ck_assert_int_eq(sum[2], 0x3f81);
	orr_elements_cpu.narrow(&cpu, 1, 1, x, true, sum);
	ck_assert_int_eq(sum[0], 0x3f80);
}
END_TEST

START_TEST(elementwise_kernels_take_them)
{
	static const int64_t counts[] = {8, 64, 264, 20000};
	int64_t count = counts[_i % N_OF(counts)], shift = _i < N_OF(counts) ? 0 : 1;

	start(ORR_PRECISION_BF16, 1, 1, 1);
	for (int f = ORR_ELEMENTWISE_relu; f <= ORR_ELEMENTWISE_tanh; f++) {
		struct tensor *x = filled(count, 0, 3), *dy = filled(count, 0, 4);
		struct tensor *hx = halved(x, count, shift), *hdy = halved(dy, count, shift);
		struct tensor *hy = empty(count / 2, shift), *y = empty(count, 0);

		orr_round_bf16(count, x->on_cpu, x->on_cpu);
		orr_round_bf16(count, dy->on_cpu, dy->on_cpu);
		cuda.halves = true;
		cuda.kernels->elements->map(&cuda, (enum orr_elementwise)f, count, hx->on_cuda,
					    hy->on_cuda);
		cuda.halves = false;
		orr_elements_cpu.map(&cpu, (enum orr_elementwise)f, count, x->on_cpu, y->on_cpu);
		check_halves(hy, y, count, "map");
		cuda.halves = true;
		cuda.kernels->elements->map_back(&cuda, (enum orr_elementwise)f, count, hx->on_cuda,
						 hdy->on_cuda, hy->on_cuda);
		cuda.halves = false;
		orr_elements_cpu.map_back(&cpu, (enum orr_elementwise)f, count, x->on_cpu,
					  dy->on_cpu, y->on_cpu);
		check_halves(hy, y, count, "map back");
		cuda.halves = true;
		cuda.kernels->elements->copy(&cuda, count, hx->on_cuda, hy->on_cuda);
		cuda.kernels->elements->sum(&cuda, count, hy->on_cuda, hdy->on_cuda, hy->on_cuda);
		cuda.halves = false;
		orr_sum(count, x->on_cpu, dy->on_cpu, y->on_cpu);
		check_halves(hy, y, count, "sum");
		cuda.halves = true;
		cuda.kernels->elements->sum_relu(&cuda, count, hx->on_cuda, hdy->on_cuda,
						 hy->on_cuda);
		cuda.halves = false;
		orr_elements_cpu.sum_relu(&cpu, count, x->on_cpu, dy->on_cpu, y->on_cpu);
		check_halves(hy, y, count, "sum with a relu");
		free_tensors();
	}
	stop();
}
END_TEST

static const struct {
	int64_t n, in, out;
} shapes[] = {{1, 8, 8}, {5, 16, 24}, {64, 64, 8}, {33, 136, 72}, {130, 8, 2048}, {7, 520, 16}};

START_TEST(products_take_them)
{
	int64_t n = shapes[_i].n, in = shapes[_i].in, out = shapes[_i].out;
	struct tensor *x, *dy, *w, *bias, *y, *dx, *dw, *db, *hx, *hdy, *hy, *hdx, *apart;
	int64_t rounded = out * orr_rounded_columns(in);
	uint16_t *kept;

	start(ORR_PRECISION_BF16, n, in, out);
	x = filled(n * in, 0, 1), dy = filled(n * out, 0, 2), w = filled(in * out, 0, 3);
	bias = filled(out, 0, 4);
	y = empty(n * out, 0), dx = empty(n * in, 0), dw = empty(in * out, 0), db = empty(out, 0);
	hx = halved(x, n * in, 0), hdy = halved(dy, n * out, 0);
	hy = empty(n * out / 2, 0), hdx = empty(n * in / 2, 0), apart = empty(in * out + out, 0);
	orr_round_bf16(n * in, x->on_cpu, x->on_cpu);
	orr_round_bf16(n * out, dy->on_cpu, dy->on_cpu);
	orr_round_bf16(out, bias->on_cpu, bias->on_cpu); /* as cuBLASLt takes it there */
	CHECK_CUDA(cudaMalloc((void **)&kept, (size_t)(rounded + out) * sizeof(*kept)));
	cuda.kernels->linear->round(
		&cuda,
		(struct orr_rounding[]){{w->on_cuda, kept, out, in},
					{bias->on_cuda, kept + rounded, 1, out}},
		2);
	for (int i = 0; i < 2; i++) { /* kept or not */
		cuda.halves = true;
		cuda.kernels->linear->forward(&cuda, n, in, out, hx->on_cuda, w->on_cuda,
					      i ? kept : NULL, bias->on_cuda, hy->on_cuda);
		cuda.kernels->linear->input(&cuda, n, in, out, hdy->on_cuda, w->on_cuda,
					    i ? kept : NULL, hdx->on_cuda);
		cuda.halves = false;
		cpu.kernels->linear->forward(&cpu, n, in, out, x->on_cpu, w->on_cpu, NULL,
					     bias->on_cpu, y->on_cpu);
		cpu.kernels->linear->input(&cpu, n, in, out, dy->on_cpu, w->on_cpu, NULL,
					   dx->on_cpu);
		check_halves(hy, y, n * out, "y");
		check_halves(hdx, dx, n * in, "dx");
	}
	for (int turn = 0; turn < 2; turn++) { /* written, then added to */
		cuda.halves = true;
		cuda.kernels->linear->weight(&cuda, n, in, out, hx->on_cuda, hdy->on_cuda,
					     turn ? apart->on_cuda : NULL, dw->on_cuda,
					     db->on_cuda);
		cuda.halves = false;
		cpu.kernels->linear->weight(&cpu, n, in, out, x->on_cpu, dy->on_cpu,
					    turn ? apart->on_cpu : NULL, dw->on_cpu, db->on_cpu);
		check_close(dw, 1e-4, "dw");
		check_close(db, 1e-5, "dbias");
	}
	CHECK_CUDA(cudaFree(kept));
	stop();
}
END_TEST

START_TEST(norms_take_them)
{
	int64_t n = shapes[_i / 4].n, width = shapes[_i / 4].in;
	bool floats = _i & 2; /* x and dx */
	struct orr_norm norm = {.n = n, .width = width, .centred = _i % 2, .epsilon = 1e-5};
	struct tensor *x, *dy, *gain, *bias, *y, *dx, *dgain, *dbias, *normal, *hx, *hdy, *hy, *hdx;

	start(ORR_PRECISION_BF16, n, width, width);
	x = filled(n * width, 0, 1), dy = filled(n * width, 0, 2), gain = filled(width, 0, 3);
	bias = filled(width, 0, 4), y = empty(n * width, 0), dx = empty(n * width, 0);
	dgain = empty(width, 0), dbias = empty(width, 0), normal = empty(n * width + n, 0);
	hx = halved(x, n * width, 0), hdy = halved(dy, n * width, 0), hy = empty(n * width / 2, 0);
	hdx = floats ? dx : empty(n * width / 2, 0);
	if (!floats)
		orr_round_bf16(n * width, x->on_cpu, x->on_cpu);
	orr_round_bf16(n * width, dy->on_cpu, dy->on_cpu);
	cuda.halves = true;
	cuda.floats = floats;
	cuda.kernels->norms->layernorm_forward(&cuda, &norm, (floats ? x : hx)->on_cuda,
					       gain->on_cuda, bias->on_cuda, hy->on_cuda,
					       normal->on_cuda);
	cuda.halves = false;
	orr_norms_cpu.layernorm_forward(&cpu, &norm, x->on_cpu, gain->on_cpu, bias->on_cpu,
					y->on_cpu, normal->on_cpu);
	check_halves(hy, y, n * width, "y");
	for (int whole = 0; whole < 2; whole++) {
		cuda.halves = true;
		if (whole)
			cuda.kernels->norms->layernorm_backward(
				&cuda, &norm, normal->on_cuda, gain->on_cuda, hdy->on_cuda, NULL,
				hdx->on_cuda, dgain->on_cuda, dbias->on_cuda);
		else
			cuda.kernels->norms->layernorm_backward(&cuda, &norm, normal->on_cuda,
								gain->on_cuda, hdy->on_cuda, NULL,
								hdx->on_cuda, NULL, NULL);
		if (!whole)
			cuda.kernels->norms->layernorm_backward(&cuda, &norm, normal->on_cuda, NULL,
								hdy->on_cuda, NULL, NULL,
								dgain->on_cuda, dbias->on_cuda);
		cuda.halves = false;
		orr_norms_cpu.layernorm_backward(&cpu, &norm, normal->on_cpu, gain->on_cpu,
						 dy->on_cpu, NULL, dx->on_cpu, NULL, NULL);
		orr_norms_cpu.layernorm_backward(&cpu, &norm, normal->on_cpu, NULL, dy->on_cpu,
						 NULL, NULL, dgain->on_cpu, dbias->on_cpu);
		if (floats)
			check_close(dx, 1e-5, "dx in floats");
		else
			check_halves(hdx, dx, n * width, "dx");
		check_close(dgain, 1e-5, "dgain");
		if (norm.centred)
			check_close(dbias, 1e-5, "dbias");
	}
	cuda.floats = false;
	stop();
}
END_TEST

/* Around means that are large beside what is left of the rows, too. */
START_TEST(norms_of_batches_take_them)
{
	int64_t n = shapes[_i / 2].out, width = shapes[_i / 2].in, cells = n * width;
	const struct orr_norm_groups batch = {n, width, width, 1e-3};
	const struct orr_column_norm_kernels *on_cuda;
	struct tensor *x, *dy, *gain, *bias, *moments, *slopes, *y, *dx, *hx, *hdy, *hy, *hdx;

	start(ORR_PRECISION_BF16, n, width, width);
	on_cuda = cuda.kernels->column_norms;
	work_in(on_cuda->bytes(1, &batch));
	x = filled(cells, 0, 1), dy = filled(cells, 0, 2), gain = filled(width, 0, 3);
	bias = filled(width, 0, 4), moments = empty(2 * width, 0), slopes = empty(2 * width, 0);
	y = empty(cells, 0), dx = empty(cells, 0);
	for (int64_t i = 0; i < cells && _i % 2; i++)
		x->on_cpu[i] += 40;
	CHECK_CUDA(cudaMemcpy(x->on_cuda, x->on_cpu, (size_t)cells * sizeof(float),
			      cudaMemcpyHostToDevice));
	hx = halved(x, cells, 0), hdy = halved(dy, cells, 0);
	hy = empty(cells / 2, 0), hdx = empty(cells / 2, 0);
	orr_round_bf16(cells, x->on_cpu, x->on_cpu), orr_round_bf16(cells, dy->on_cpu, dy->on_cpu);
	cuda.halves = true;
	on_cuda->moments(&cuda, 1, &batch, hx->on_cuda, moments->on_cuda);
	on_cuda->normalise(&cuda, 1, &batch, hx->on_cuda, gain->on_cuda, bias->on_cuda,
			   moments->on_cuda, 0, hy->on_cuda);
	on_cuda->slopes(&cuda, 1, &batch, hx->on_cuda, moments->on_cuda, hx->on_cuda, hdy->on_cuda,
			slopes->on_cuda);
	on_cuda->input(&cuda, 1, &batch, hx->on_cuda, moments->on_cuda, gain->on_cuda, hdy->on_cuda,
		       slopes->on_cuda, hdx->on_cuda);
	cuda.halves = false;
	orr_column_norms_cpu.moments(&cpu, 1, &batch, x->on_cpu, moments->on_cpu);
	orr_column_norms_cpu.normalise(&cpu, 1, &batch, x->on_cpu, gain->on_cpu, bias->on_cpu,
				       moments->on_cpu, 0, y->on_cpu);
	orr_column_norms_cpu.slopes(&cpu, 1, &batch, x->on_cpu, moments->on_cpu, x->on_cpu,
				    dy->on_cpu, slopes->on_cpu);
	orr_column_norms_cpu.input(&cpu, 1, &batch, x->on_cpu, moments->on_cpu, gain->on_cpu,
				   dy->on_cpu, slopes->on_cpu, dx->on_cpu);
	check_close(moments, 1e-6, "moments");
	check_halves(hy, y, cells, "y");
	check_close(slopes, 1e-5, "slopes");
	check_halves(hdx, dx, cells, "dx");
	stop();
}
END_TEST

/* On tensor cores where a head is of tiles of 16, and else not. */
static const struct {
	struct orr_attention a;
	bool lengths;
	int64_t shift;
} attentions[] = {
	{{1, 1, 1, 1, 1, 16, false, true}, false, 0},
	{{1, 64, 32, 1, 1, 16, false, true}, false, 0},
	{{2, 70, 40, 4, 2, 64, true, true}, true, 0},
	{{3, 37, 100, 2, 1, 32, false, true}, true, 0},
	{{1, 40, 70, 2, 2, 80, true, true}, false, 1},
	{{2, 65, 33, 2, 2, 128, true, true}, false, 0},
	{{1, 20, 20, 2, 1, 48, false, true}, false, 3},
	{{1, 33, 65, 4, 1, 8, false, true}, true, 0},
	{{1, 9, 7, 1, 1, 144, true, true}, false, 0},
};

START_TEST(attention_takes_them)
{
	const struct orr_attention a = attentions[_i].a;
	int64_t n_q = a.n * a.queries * a.heads * a.width,
		n_k = a.n * a.keys * a.kv_heads * a.width, shift = attentions[_i].shift;
	struct tensor *q = filled(n_q, 0, 1), *k = filled(n_k, 0, 2), *v = filled(n_k, 0, 3);
	struct tensor *dy = filled(n_q, 0, 4), *lengths = filled(a.n, 0, 5), *y = empty(n_q, 0);
	struct tensor *sums = empty(a.n * a.heads * a.queries, 0), *dq = empty(n_q, 0);
	struct tensor *dk = empty(n_k, 0), *dv = empty(n_k, 0), *hq, *hk, *hv, *hdy, *hy, *hdq,
		      *hdk, *hdv;
	struct tensor *inputs[] = {q, k, v, dy};
	size_t bytes = orr_kernels_cuda.attention->bytes(&a);
	const float *of = attentions[_i].lengths ? lengths->on_cuda : NULL;

	start(ORR_PRECISION_BF16, 1, 1, 1);
	for (int i = 0; i < 4; i++)
		orr_round_bf16(inputs[i]->n, inputs[i]->on_cpu, inputs[i]->on_cpu);
	for (int64_t i = 0; i < a.n; i++)
		lengths->on_cpu[i] = (float)(i == 1 ? 0 : a.keys - 1 - i);
	CHECK_CUDA(cudaMemcpy(lengths->on_cuda, lengths->on_cpu, (size_t)a.n * sizeof(float),
			      cudaMemcpyHostToDevice));
	hq = halved(q, n_q, shift), hk = halved(k, n_k, shift), hv = halved(v, n_k, shift);
	hdy = halved(dy, n_q, shift), hy = empty(n_q / 2, shift), hdq = empty(n_q / 2, shift);
	hdk = empty(n_k / 2, shift), hdv = empty(n_k / 2, shift);
	cpu.workspace = realloc(cpu.workspace, orr_kernels_cpu.attention->bytes(&a));
	work_in(bytes);
	cuda.halves = true;
	cuda.kernels->attention->forward(&cuda, &a, hq->on_cuda, hk->on_cuda, hv->on_cuda, of,
					 hy->on_cuda, sums->on_cuda);
	cuda.halves = false;
	cpu.kernels->attention->forward(&cpu, &a, q->on_cpu, k->on_cpu, v->on_cpu,
					of ? lengths->on_cpu : NULL, y->on_cpu, sums->on_cpu);
	check_close(sums, 1e-5, "sums");
	check_halves(hy, y, n_q, "y");
	/* from the same output, which check_halves rounded */
	cuda.kernels->elements->narrow(&cuda, n_q, n_q, y->on_cuda, false, hy->on_cuda);
	cuda.halves = true;
	cuda.kernels->attention->input(&cuda, &a, hq->on_cuda, hk->on_cuda, hv->on_cuda, of,
				       hy->on_cuda, sums->on_cuda, hdy->on_cuda, hdq->on_cuda,
				       hdk->on_cuda, hdv->on_cuda);
	cuda.halves = false;
	cpu.kernels->attention->input(&cpu, &a, q->on_cpu, k->on_cpu, v->on_cpu,
				      of ? lengths->on_cpu : NULL, y->on_cpu, sums->on_cpu,
				      dy->on_cpu, dq->on_cpu, dk->on_cpu, dv->on_cpu);
	check_halves(hdv, dv, n_k, "dv");
	if (a.keys > 1) { /* of one key they are zero, but for rounding */
		check_halves(hdq, dq, n_q, "dq");
		check_halves(hdk, dk, n_k, "dk");
	}
	stop();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(conversions_and_sums_have_the_same_bits, 10),
		ONCE(sums_round_each_addend),
		EACH(elementwise_kernels_take_them, 8),
		EACH(products_take_them, N_OF(shapes)),
		EACH(norms_take_them, 4 * N_OF(shapes)),
		EACH(norms_of_batches_take_them, 2 * N_OF(shapes)),
		EACH(attention_takes_them, N_OF(attentions)),
	};

	return run_on_devices("cuda-halves", tests, N_OF(tests));
}
