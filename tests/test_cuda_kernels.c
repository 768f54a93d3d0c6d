/* Every kernel of the CUDA table against that of the CPU table, on random shapes: ||out - ref|| /
 * ||ref||. Built twice: on a CUDA device (SKIP without one), and on an emulated one that every
 * machine has. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codelets/contrastive.h"
#include "codelets/sequence.h"
#include "both_devices.h"
#include "small_model.h"
#include "../codelets/cuda/geometry.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/sequence.h"
#include "../codelets/loops.h"
#include "../codelets/program.h"
#include "../codelets/shapes.h"
#include "suite.h"

#define COMPLETE(table) check_table(k[i]->table, sizeof(*k[i]->table), #table)

static void check_table(const void *table, size_t size, const char *name)
{
	void (*entries[32])(void);

	ck_assert_uint_le(size, sizeof(entries));
	memcpy(entries, table, size);
	for (size_t e = 0; e < size / sizeof(*entries); e++)
		ck_assert_msg(entries[e] != NULL, "%s: entry %zu", name, e);
}

START_TEST(both_tables_are_complete)
{
	const struct orr_kernels *k[] = {&orr_kernels_cpu, &orr_kernels_cuda};

	for (int i = 0; i < 2; i++) {
		ck_assert(k[i]->workspace_bytes);
		ck_assert(k[i]->allocate && k[i]->release && k[i]->put);
		COMPLETE(elements), COMPLETE(norms), COMPLETE(column_norms), COMPLETE(images);
		COMPLETE(losses), COMPLETE(contrastive), COMPLETE(rows), COMPLETE(sequence);
		COMPLETE(attention), COMPLETE(experts), COMPLETE(optimizer);
		ck_assert(k[i]->linear->forward && k[i]->linear->input && k[i]->linear->weight);
		ck_assert(k[i]->linear->round);
	}
	ck_assert(orr_kernels_cuda.linear->prepare && orr_kernels_cuda.wait);
}
END_TEST

/* ---- element by element ---- */

/* the last one is more than a grid takes at once */
static const int64_t counts[] = {1,
				 2,
				 3,
				 4,
				 5,
				 7,
				 8,
				 31,
				 64,
				 257,
				 1021,
				 4099,
				 INT64_C(4) * ORR_MOST_BLOCKS *ORR_BLOCK + 100003};

START_TEST(elementwise_kernels_agree)
{
	int64_t n = counts[_i];

	for (int shift = 0; shift < 16; shift++) {
		struct tensor *a = filled(n, shift % 4, 1), *b = filled(n, shift / 4, 2), *y[7];

		if (n > 10000 && shift)
			break;
		start(ORR_PRECISION_FP32, 1, 1, 1);
		for (int k = 0; k < 7; k++)
			y[k] = empty(n, shift % 4);
#define BOTH(call, out) \
	do { \
		struct orr_device *d = &cpu; \
		float *A = a->on_cpu, *B = b->on_cpu, *Y = (out)->on_cpu; \
\
		d->kernels->call; \
		d = &cuda, A = a->on_cuda, B = b->on_cuda, Y = (out)->on_cuda; \
		d->kernels->call; \
		(void)A, (void)B; \
	} while (0)
		BOTH(elements->copy(d, n, A, Y), y[0]);
		BOTH(elements->zero(d, n, Y), y[1]);
		BOTH(elements->scale(d, n, 0.3f, A, Y), y[2]);
		BOTH(elements->sum(d, n, A, B, Y), y[3]);
		BOTH(elements->map(d, ORR_ELEMENTWISE_relu, n, A, Y), y[4]);
		BOTH(elements->map(d, ORR_ELEMENTWISE_gelu, n, A, Y), y[5]);
		BOTH(elements->map_back(d, ORR_ELEMENTWISE_relu, n, A, B, Y), y[6]);
		for (int k = 0; k < 7; k++)
			check_close(y[k], k == 5 ? 1e-5 : 0, "an elementwise kernel");
		BOTH(elements->map_back(d, ORR_ELEMENTWISE_gelu, n, A, B, Y), y[6]);
		check_close(y[6], 1e-5, "gelu backward"); /* erfc may be 4 units off */
		BOTH(elements->sum(d, n, Y, B, Y), y[3]); /* in place */
		check_close(y[3], 0, "a sum in place");
		BOTH(elements->sum_relu(d, n, A, B, Y), y[4]);
		check_close(y[4], 0, "a sum with a relu");
		stop();
	}
}
END_TEST

static void look_for_wild(struct tensor *x, int64_t *pinned, int64_t before, int64_t expected)
{
	int64_t first = *pinned = before;

	CHECK_CUDA(cudaMemcpy(x->on_cuda, x->on_cpu, (size_t)x->n * sizeof(float),
			      cudaMemcpyHostToDevice));
	cpu.kernels->elements->find_wild(&cpu, x->n, x->on_cpu, 5, &first);
	cuda.kernels->elements->find_wild(&cuda, x->n, x->on_cuda, 5, pinned);
	CHECK_CUDA(cudaStreamSynchronize(stream));
	ck_assert_int_eq(first, expected);
	ck_assert_int_eq(*pinned, expected);
}

/* Wherever it lies, the first of two, and only if none was found before it already. */
START_TEST(what_is_not_finite_is_found)
{
	static const float wild[] = {NAN, -INFINITY, -2e19f}, tame = 1e19f; /* 4e38 is too large */
	int64_t n = counts[_i], places[] = {0, n / 2, n - 1}, *pinned;

	start(ORR_PRECISION_FP32, 1, 1, 1);
	CHECK_CUDA(cudaHostAlloc((void **)&pinned, sizeof(*pinned), cudaHostAllocDefault));
	for (int i = 0; i < 3; i++)
		for (int shift = 0; shift < (n > 10000 ? 1 : 4); shift++) {
			struct tensor *x = filled(n, shift, 1);

			x->on_cpu[n / 2] = tame;
			look_for_wild(x, pinned, INT64_MAX, INT64_MAX);
			x->on_cpu[places[i]] = x->on_cpu[n - 1] = wild[i];
			look_for_wild(x, pinned, INT64_MAX, 5 + places[i]);
			look_for_wild(x, pinned, 3, 3);
			free_tensors();
		}
	CHECK_CUDA(cudaFreeHost(pinned));
	stop();
}
END_TEST

START_TEST(a_relu_on_the_device_lets_nan_through)
{
	struct tensor *x = filled(9, 0, 1), *y = empty(9, 0);
	float *seen;

	start(ORR_PRECISION_FP32, 1, 1, 1);
	x->on_cpu[2] = x->on_cpu[8] = NAN;
	CHECK_CUDA(cudaMemcpy(x->on_cuda, x->on_cpu, 9 * sizeof(float), cudaMemcpyHostToDevice));
	cuda.kernels->elements->map(&cuda, ORR_ELEMENTWISE_relu, 9, x->on_cuda, y->on_cuda);
	seen = fetch(y);
	ck_assert(isnan(seen[2]) && isnan(seen[8]) && !isnan(seen[3]));
	free(seen);
	stop();
}
END_TEST

/* ---- matrices ---- */

static const struct {
	int64_t n, in, out;
} shapes[] = {
	{1, 1, 1},     {1, 7, 1},   {7, 1, 3},     {1, 13, 17},  {5, 3, 2},
	{17, 31, 13},  {2, 64, 10}, {61, 19, 1},   {3, 127, 67}, {64, 64, 64},
	{33, 129, 65}, {130, 8, 5}, {260, 12, 36}, {8, 16, 32},  {7, 32, 24},
};

/* To what bfloat16 has: a device may add up what a product reads. */
static void round_tensor(struct tensor *t)
{
	orr_round_bf16(t->n, t->on_cpu, t->on_cpu);
	CHECK_CUDA(cudaMemcpy(t->on_cuda, t->on_cpu, (size_t)t->n * sizeof(float),
			      cudaMemcpyHostToDevice));
}

START_TEST(products_agree_in_every_precision)
{
	enum orr_precision precision = (enum orr_precision)(_i % 3);
	double most = tolerance(precision);

	for (int s = 0; s < N_OF(shapes); s++)
		for (int shift = 0; shift < 3; shift += 2) {
			int64_t n = shapes[s].n, in = shapes[s].in, out = shapes[s].out;
			struct tensor *x = filled(n * in, shift, 1),
				      *w = filled(in * out, shift, 2);
			struct tensor *bias = filled(out, shift, 3),
				      *dy = filled(n * out, shift, 4);
			struct tensor *y = empty(n * out, shift), *dx = empty(n * in, shift);
			struct tensor *dw = empty(in * out, shift), *db = empty(out, 0);
			struct tensor *apart = empty(in * out + out, 0);
			void *rounded = NULL;

			start(precision, n, in, out);
			round_tensor(dy);
			if (precision == ORR_PRECISION_BF16) { /* as a workspace keeps it, or not */
				CHECK_CUDA(cudaMalloc(&rounded,
						      (size_t)(out * orr_rounded_columns(in)) * 2));
				cuda.kernels->linear->round(
					&cuda, &(struct orr_rounding){w->on_cuda, rounded, out, in},
					1);
			} else if (shift) {
				cuda.kernels->linear->prepare(&cuda, n, in, out, true);
			}
			for (int kept = 0; kept < (rounded ? 2 : 1); kept++) {
				cpu.kernels->linear->forward(&cpu, n, in, out, x->on_cpu, w->on_cpu,
							     NULL, bias->on_cpu, y->on_cpu);
				cuda.kernels->linear->forward(&cuda, n, in, out, x->on_cuda,
							      w->on_cuda, kept ? rounded : NULL,
							      bias->on_cuda, y->on_cuda);
				cpu.kernels->linear->input(&cpu, n, in, out, dy->on_cpu, w->on_cpu,
							   NULL, dx->on_cpu);
				cuda.kernels->linear->input(&cuda, n, in, out, dy->on_cuda,
							    w->on_cuda, kept ? rounded : NULL,
							    dx->on_cuda);
				check_close(y, most, "y");
				check_close(dx, most, "dx");
			}
			for (int turn = 0; turn < 3; turn++) { /* written, then added to, twice */
				cpu.kernels->linear->weight(&cpu, n, in, out, x->on_cpu, dy->on_cpu,
							    turn ? apart->on_cpu : NULL, dw->on_cpu,
							    db->on_cpu);
				cuda.kernels->linear->weight(
					&cuda, n, in, out, x->on_cuda, dy->on_cuda,
					turn ? apart->on_cuda : NULL, dw->on_cuda, db->on_cuda);
				check_close(dw, most, "dw");
				check_close(db, 1e-5, "dbias");
			}
			free_tensors();
			CHECK_CUDA(cudaFree(rounded));
			stop();
		}
}
END_TEST

/* What a sum of partial gradients and one in place rest upon. */
START_TEST(a_gradient_added_has_the_bits_of_one_computed_apart)
{
	enum orr_precision precision = (enum orr_precision)(_i % 3);

	for (int s = 0; s < N_OF(shapes); s++) {
		int64_t n = shapes[s].n, in = shapes[s].in, out = shapes[s].out,
			all = in * out + out;
		struct tensor *x = filled(n * in, 0, 1), *dy = filled(n * out, 0, 2);
		struct tensor *a = filled(all, 0, 3), *b = empty(all, 0), *c = filled(all, 0, 3);
		float *one, *two;

		start(precision, n, in, out);
		cuda.kernels->linear->weight(&cuda, n, in, out, x->on_cuda, dy->on_cuda, b->on_cuda,
					     a->on_cuda, a->on_cuda + in * out);
		cuda.kernels->linear->weight(&cuda, n, in, out, x->on_cuda, dy->on_cuda, NULL,
					     b->on_cuda, b->on_cuda + in * out);
		cuda.kernels->elements->sum(&cuda, all, c->on_cuda, b->on_cuda, c->on_cuda);
		one = fetch(a);
		two = fetch(c);
		ck_assert_msg(!memcmp(one, two, (size_t)all * sizeof(*one)), "shape %d", s);
		free(one), free(two);
		stop();
	}
}
END_TEST

START_TEST(columns_go_where_they_belong)
{
	static const struct {
		int64_t n, width, total, first;
	} cases[] = {{1, 1, 1, 0}, {3, 1, 7, 6}, {9, 13, 29, 5}, {40, 8, 20, 4}, {17, 64, 128, 64}};

	for (int k = 0; k < N_OF(cases); k++)
		for (int shift = 0; shift < 2; shift++) {
			int64_t n = cases[k].n, width = cases[k].width, total = cases[k].total;
			struct tensor *x = filled(n * width, shift, 1),
				      *y = filled(n * total, 0, 2);
			struct tensor *back = empty(n * width, 0);
			const struct orr_box put = {n, 1, width, width, 0, total, 0};
			const struct orr_box take = {n, 1, width, total, 0, width, 0};
			int64_t first = cases[k].first;

			start(ORR_PRECISION_FP32, 1, 1, 1);
			cpu.kernels->sequence->move(&cpu, &put, x->on_cpu, y->on_cpu + first);
			cuda.kernels->sequence->move(&cuda, &put, x->on_cuda, y->on_cuda + first);
			check_close(y, 0, "columns put");
			cpu.kernels->sequence->move(&cpu, &take, y->on_cpu + first, back->on_cpu);
			cuda.kernels->sequence->move(&cuda, &take, y->on_cuda + first,
						     back->on_cuda);
			check_close(back, 0, "columns taken");
			stop();
		}
}
END_TEST

/* ---- rows ---- */

static const struct {
	int64_t n, width;
} rows[] = {
	{1, 1},   {1, 7},    {7, 1},    {5, 3},    {17, 31},   {3, 127},
	{61, 19}, {33, 129}, {9, 128},  {64, 64},  {3, 512},   {3, 513},
	{2, 516}, {2, 1025}, {150, 36}, {1, 6500}, {2, 12289}, {1, 13000},
};

/* These besides: several groups of strips, and rows that a thread's registers do not hold. */
static const struct {
	int64_t n, width;
} norms[] = {
	{1, 1},    {7, 1},    {5, 3},    {33, 129}, {64, 64},  {300, 36},  {17, 512},
	{40, 513}, {21, 516}, {4200, 5}, {2, 4096}, {2, 4097}, {300, 640},
};

START_TEST(layernorm_agrees)
{
	int64_t n = rows[_i].n, width = rows[_i].width;

	for (int how = 0; how < 4; how++) {
		int64_t shift = how / 2;
		const struct orr_norm norm = {n, width, how % 2, 1e-5};
		struct tensor *x = filled(n * width, shift, 1), *gain = filled(width, 0, 2);
		struct tensor *bias = filled(width, 0, 3), *dy = filled(n * width, 0, 4);
		struct tensor *y = empty(n * width, 0), *normal = empty(n * (width + 1), 0);
		struct tensor *dx = empty(n * width, shift), *sums = empty(2 * width, 0);
		struct tensor *apart = empty(2 * width, 0);

		start(ORR_PRECISION_FP32, n, width, width);
		cpu.kernels->norms->layernorm_forward(&cpu, &norm, x->on_cpu, gain->on_cpu,
						      bias->on_cpu, y->on_cpu, normal->on_cpu);
		cuda.kernels->norms->layernorm_forward(&cuda, &norm, x->on_cuda, gain->on_cuda,
						       bias->on_cuda, y->on_cuda, normal->on_cuda);
		check_close(y, 1e-5, "layernorm");
		check_close(normal, 1e-5, "its normal rows");
		cpu.kernels->norms->layernorm_backward(&cpu, &norm, normal->on_cpu, gain->on_cpu,
						       dy->on_cpu, NULL, dx->on_cpu, NULL, NULL);
		cuda.kernels->norms->layernorm_backward(&cuda, &norm, normal->on_cuda,
							gain->on_cuda, dy->on_cuda, NULL,
							dx->on_cuda, NULL, NULL);
		check_close(dx, 1e-5 + (width == 1), "its gradient"); /* of width 1: rounding */
		for (int turn = 0; turn < 3; turn++) {
			cpu.kernels->norms->layernorm_backward(&cpu, &norm, normal->on_cpu, NULL,
							       dy->on_cpu,
							       turn ? apart->on_cpu : NULL, NULL,
							       sums->on_cpu, sums->on_cpu + width);
			cuda.kernels->norms->layernorm_backward(
				&cuda, &norm, normal->on_cuda, NULL, dy->on_cuda,
				turn ? apart->on_cuda : NULL, NULL, sums->on_cuda,
				sums->on_cuda + width);
			check_close(sums, 1e-5, "gradients of gain and bias");
		}
		stop();
	}
}
END_TEST

/* In one pass or in two, written or added: which it is, a schedule decides. */
static void norm_in_one_pass(const struct orr_norm *norm, int64_t shift)
{
	int64_t all = norm->n * norm->width, width = norm->width;
	struct tensor *normal = filled(all + norm->n, shift, 1), *gain = filled(width, 0, 2);
	struct tensor *dy = filled(all, 0, 3), *dx[2] = {empty(all, 0), empty(all, 0)};
	struct tensor *sums[2] = {filled(2 * width, 1, 4), filled(2 * width, 0, 4)};
	struct tensor *apart = empty(2 * width, 0);

	start(ORR_PRECISION_FP32, norm->n, width, width);
	for (int turn = 0; turn < 3; turn++) {
		float *room = turn == 1 ? NULL : apart->on_cuda, *one, *two;

		cuda.kernels->norms->layernorm_backward(&cuda, norm, normal->on_cuda, gain->on_cuda,
							dy->on_cuda, room, dx[0]->on_cuda,
							sums[0]->on_cuda, sums[0]->on_cuda + width);
		cuda.kernels->norms->layernorm_backward(&cuda, norm, normal->on_cuda, gain->on_cuda,
							dy->on_cuda, NULL, dx[1]->on_cuda, NULL,
							NULL);
		cuda.kernels->norms->layernorm_backward(&cuda, norm, normal->on_cuda, NULL,
							dy->on_cuda, room, NULL, sums[1]->on_cuda,
							sums[1]->on_cuda + width);
		one = fetch(dx[0]), two = fetch(dx[1]);
		ck_assert_msg(!memcmp(one, two, (size_t)all * sizeof(*one)), "dx of %lld x %lld",
			      (long long)norm->n, (long long)width);
		free(one), free(two);
		one = fetch(sums[0]), two = fetch(sums[1]);
		ck_assert_msg(!memcmp(one, two, (size_t)(2 * width) * sizeof(*one)),
			      "sums of %lld x %lld, turn %d", (long long)norm->n, (long long)width,
			      turn);
		free(one), free(two);
	}
	stop();
}

START_TEST(a_norm_has_the_same_bits_in_one_pass_and_in_two)
{
	for (int how = 0; how < 4; how++) {
		const struct orr_norm norm = {norms[_i].n, norms[_i].width, how % 2, 1e-5};

		norm_in_one_pass(&norm, how / 2);
	}
}
END_TEST

/* A row far from 0 is as exact as its floats are. */
START_TEST(a_norm_bears_a_large_mean)
{
	static const int64_t widths[] = {36, 500, 1028};

	for (int k = 0; k < N_OF(widths); k++) {
		int64_t width = widths[k];
		const struct orr_norm norm = {2, width, true, 1e-5};
		struct tensor *x = filled(2 * width, 0, 1), *gain = filled(width, 0, 2);
		struct tensor *bias = filled(width, 0, 3), *y = empty(2 * width, 0);
		struct tensor *normal = empty(2 * (width + 1), 0);

		start(ORR_PRECISION_FP32, 2, width, width);
		for (int64_t i = 0; i < 2 * width; i++)
			x->on_cpu[i] += 5000;
		CHECK_CUDA(cudaMemcpy(x->on_cuda, x->on_cpu, (size_t)x->n * sizeof(float),
				      cudaMemcpyHostToDevice));
		cpu.kernels->norms->layernorm_forward(&cpu, &norm, x->on_cpu, gain->on_cpu,
						      bias->on_cpu, y->on_cpu, normal->on_cpu);
		cuda.kernels->norms->layernorm_forward(&cuda, &norm, x->on_cuda, gain->on_cuda,
						       bias->on_cuda, y->on_cuda, normal->on_cuda);
		check_close(y, 1e-6, "layernorm far from 0");
		stop();
	}
}
END_TEST

/* bad: 1: a class that is none; 2: a score that is NaN; 3: the first score is NaN */
static void losses_of(int64_t n, int64_t width, int bad, int64_t shift)
{
	struct tensor *scores = filled(n * width, shift, 1), *classes = filled(n, 0, 2);
	struct tensor *target = filled(n * width, shift, 3), *slope = empty(n * width, shift);
	struct tensor *other = empty(n * width, shift);
	struct orr_classes k = {1, width, NAN, 0};
	struct orr_metrics right = {7, 7, 7}, *seen;

	start(ORR_PRECISION_FP32, n, width, width);
	CHECK_CUDA(cudaHostAlloc((void **)&seen, sizeof(*seen), cudaHostAllocDefault));
	*seen = right;
	for (int64_t r = 0; r < n; r++)
		classes->on_cpu[r] = (float)((int64_t)(fabsf(classes->on_cpu[r]) * 1e6f) % width);
	for (int64_t r = 0; r + 1 < n; r += 3) { /* equal scores: the first one counts */
		for (int64_t i = 0; i < width; i++)
			scores->on_cpu[r * width + i] = i % 5 == 2 || i % 7 == 3 ? 1.5f : 0.25f;
	}
	if (bad == 1)
		classes->on_cpu[n / 2] = (float)width;
	if (bad > 1)
		scores->on_cpu[n / 2 * width + (bad == 2 ? width - 1 : 0)] = NAN;
	CHECK_CUDA(cudaMemcpy(classes->on_cuda, classes->on_cpu, (size_t)n * sizeof(float),
			      cudaMemcpyHostToDevice));
	CHECK_CUDA(cudaMemcpy(scores->on_cuda, scores->on_cpu, (size_t)(n * width) * sizeof(float),
			      cudaMemcpyHostToDevice));
	cpu.kernels->losses->softmax_cross_entropy(&cpu, n, &k, scores->on_cpu, classes->on_cpu,
						   slope->on_cpu, &right);
	cuda.kernels->losses->softmax_cross_entropy(&cuda, n, &k, scores->on_cuda, classes->on_cuda,
						    slope->on_cuda, seen);
	check_metrics(seen, &right);
	check_close(slope, width == 1 ? 0 : 1e-5, "slope of softmax_cross_entropy");
	cpu.kernels->losses->mse(&cpu, n, width, scores->on_cpu, target->on_cpu, other->on_cpu,
				 &right);
	cuda.kernels->losses->mse(&cuda, n, width, scores->on_cuda, target->on_cuda, other->on_cuda,
				  seen);
	check_metrics(seen, &right);
	check_close(other, 1e-6, "slope of mse");
	cuda.kernels->losses->mse(&cuda, n, width, scores->on_cuda, target->on_cuda, other->on_cuda,
				  NULL); /* nobody asks */
	check_metrics(seen, &right);
	CHECK_CUDA(cudaFreeHost(seen));
	stop();
}

START_TEST(losses_and_what_they_count_agree)
{
	losses_of(rows[_i].n, rows[_i].width, 0, 0);
	losses_of(rows[_i].n, rows[_i].width, 1, 1);
	losses_of(rows[_i].n, rows[_i].width, 2, 0);
	losses_of(rows[_i].n, rows[_i].width, 3, 0);
}
END_TEST

/* Doubles take two floats. */
static struct orr_largest largest_of(const struct tensor *most, const struct tensor *sum,
				     bool on_cuda)
{
	return (struct orr_largest){on_cuda ? most->on_cuda : most->on_cpu,
				    (double *)(on_cuda ? sum->on_cuda : sum->on_cpu)};
}

/* Of n samples the scores by tiles, then the slopes of `own` of them from `first` on. */
static void contrast_of(int64_t n, int64_t tile, int64_t first, int64_t own, int64_t shift)
{
	struct tensor *scores = filled(n * n, shift, 1), *t = filled(1, 0, 2), *room = empty(n, 0);
	struct tensor *most[2] = {empty(n, 0), empty(n, 1)},
		      *sum[2] = {empty(2 * n, 0), empty(2 * n, 0)};
	struct tensor *seen = empty(6 * own, 0), *slope = empty(1, 0),
		      *slopes = empty(own * n, shift);
	struct orr_metrics right, *metrics;

	start(ORR_PRECISION_FP32, 1, 1, 1);
	CHECK_CUDA(cudaHostAlloc((void **)&metrics, sizeof(*metrics), cudaHostAllocDefault));
	for (int k = 0; k < 2; k++) {
		struct orr_device *d = k ? &cuda : &cpu;
		struct orr_largest of_rows = largest_of(most[0], sum[0], k),
				   columns = largest_of(most[1], sum[1], k);
		float *at = k ? scores->on_cuda : scores->on_cpu,
		      *to = k ? slopes->on_cuda : slopes->on_cpu;
		const float *by = k ? t->on_cuda : t->on_cpu;
		float *space = k ? room->on_cuda : room->on_cpu,
		      *sums = k ? slope->on_cuda : slope->on_cpu;
		struct orr_contrast *all =
			(struct orr_contrast *)(k ? seen->on_cuda : seen->on_cpu);

		for (int64_t r = 0; r < n; r += tile)
			d->kernels->contrastive->normalise(d, n - r < tile ? n - r : tile, n, r, by,
							   at + r * n, &of_rows, &columns, space);
		d->kernels->elements->copy(d, own * n, at + first * n, to);
		d->kernels->contrastive->slopes(d, own, n, first, by, to, &of_rows, &columns, space,
						all, false);
		d->kernels->elements->copy(d, own * n, at + first * n, to);
		d->kernels->contrastive->slopes(d, own, n, first, by, to, &of_rows, &columns, space,
						all, true);
		d->kernels->contrastive->count(d, own, all, sums, k ? metrics : &right);
	}
	check_metrics(metrics, &right);
	check_close(slopes, 1e-5, "slopes of contrastive");
	check_close(slope, 1e-5, "its slope by the temperature");
	CHECK_CUDA(cudaFreeHost(metrics));
	stop();
}

START_TEST(contrasts_agree)
{
	contrast_of(1, 1, 0, 1, 0);
	contrast_of(5, 2, 1, 3, 1);
	contrast_of(64, 16, 48, 16, 0);
	contrast_of(301, 128, 7, 30, 3);
}
END_TEST

/* ---- updates ---- */

/* A few in the first and in the last of those that are tested. */
static const struct orr_exempt spared[] = {{1, 2, 0}, {5, 9, 0.25}, {13, 300, 0}, {400, 700, 0.1}};
static const struct orr_rule rules[] = {
	{ORR_OPTIMIZER_MOMENTUM, 0.05, 0.9, 0, 0, 0, 0.01, 0, 0, spared, 4, NULL},
	{ORR_OPTIMIZER_ADAM, 0.01, 0, 0.9, 0.999, 1e-8, 0.1, 3, 0.25, spared, 4, NULL},
	{ORR_OPTIMIZER_ADAMW, 0.01, 0, 0.9, 0.999, 1e-8, 0.1, 0, 0, spared, 4, NULL},
	{ORR_OPTIMIZER_SGD, 0.05, 0, 0, 0, 0, 0.01, 3, 0.5, spared, 4, NULL},
	{ORR_OPTIMIZER_NONE, 0.05, 0.9, 0.9, 0.999, 1e-8, 0.01, 3, 0, spared, 4, NULL},
};

START_TEST(updates_agree_for_every_number_of_replicas)
{
	static const int64_t sizes[] = {1, 3, 16, 37, 1000, 2003};

	for (int k = 0; k < N_OF(sizes); k++)
		for (int r = 1; r <= 5; r++) {
			int64_t n = sizes[k];
			struct tensor *p = filled(n, 0, 1), *g[5], *state = empty(2 * n, 0);
			const float *on_cpu[5], *on_cuda[5];

			start(ORR_PRECISION_FP32, 1, 1, 1);
			memset(state->on_cpu, 0, (size_t)(2 * n) * sizeof(float));
			cuda.kernels->elements->zero(&cuda, 2 * n, state->on_cuda);
			for (int b = 0; b < r; b++) {
				g[b] = filled(n, b % 2, (uint64_t)b + 2);
				on_cpu[b] = g[b]->on_cpu;
				on_cuda[b] = g[b]->on_cuda;
			}
			for (int step = 1; step <= 4; step++) { /* the last ones of chunks */
				bool summed = step > 2;

				cpu.kernels->optimizer->step(&cpu, &rules[_i], step, n, p->on_cpu,
							     state->on_cpu, on_cpu, r, summed);
				cuda.kernels->optimizer->step(&cuda, &rules[_i], step, n,
							      p->on_cuda, state->on_cuda, on_cuda,
							      r, summed);
			}
			check_close(p, 1e-6, "parameters");
			check_close(state, 1e-6, "state");
			stop();
		}
}
END_TEST

/* A part of the parameters, with the state of that part alone, from blocks or the chunk that it is.
 */
START_TEST(updates_of_a_part_agree)
{
	for (int k = 0; k < 8; k++) {
		int r = 4, c = k % 4;
		int64_t n = 1234, begin = orr_rule_chunk(n, r, c);
		const struct orr_extent part = {begin, orr_rule_chunk(n, r, c + 1)};
		struct orr_rule rule = rules[_i];
		const float *on_cpu[4] = {NULL}, *on_cuda[4] = {NULL};
		struct tensor *p, *state;

		start(ORR_PRECISION_FP32, 1, 1, 1);
		p = filled(n, 0, 1);
		state = filled(2 * (part.end - begin), 0, 1);
		cpu.kernels->elements->zero(&cpu, state->n, state->on_cpu);
		cuda.kernels->elements->zero(&cuda, state->n, state->on_cuda);
		for (int b = 0; b < r; b++) {
			struct tensor *g = filled(n, b % 2, (uint64_t)b + 2);

			if (k < 4 || b == c) {
				on_cpu[b] = g->on_cpu;
				on_cuda[b] = g->on_cuda;
			}
		}
		rule.part = &part;
		for (int step = 1; step <= 3; step++) {
			cpu.kernels->optimizer->step(&cpu, &rule, step, n, p->on_cpu, state->on_cpu,
						     on_cpu, r, k >= 4);
			cuda.kernels->optimizer->step(&cuda, &rule, step, n, p->on_cuda,
						      state->on_cuda, on_cuda, r, k >= 4);
		}
		check_close(p, 1e-6, "parameters");
		check_close(state, 1e-6, "state");
		stop();
	}
}
END_TEST

START_TEST(squares_of_a_gradient_agree)
{
	static const int64_t sizes[] = {30, 301, 70001};
	double *pinned, sums[3];

	CHECK_CUDA(cudaHostAlloc((void **)&pinned, sizeof(sums), cudaHostAllocDefault));
	for (int k = 0; k < N_OF(sizes) * 8; k++) {
		int64_t n = sizes[k / 8], third = n / 3;
		const struct orr_extent tensors[] = {{1, third}, {third, third + 2}, {n / 2, n}};
		const float *on_cpu[4], *on_cuda[4];
		int r = k % 4 + 1;

		start(ORR_PRECISION_FP32, 1, 1, 1);
		for (int b = 0; b < r; b++) {
			struct tensor *g = filled(n, 0, (uint64_t)b + 2);

			on_cpu[b] = g->on_cpu;
			on_cuda[b] = g->on_cuda;
		}
		cpu.kernels->optimizer->squares(&cpu, n, on_cpu, r, k % 8 > 3, tensors, 3, sums);
		cuda.kernels->optimizer->squares(&cuda, n, on_cuda, r, k % 8 > 3, tensors, 3,
						 pinned);
		CHECK_CUDA(cudaStreamSynchronize(stream));
		for (int t = 0; t < 3; t++)
			ck_assert_msg(sums[t] > 0 && fabs(pinned[t] - sums[t]) <= 1e-12 * sums[t],
				      "tensor %d of %lld, %d blocks: %.17g instead of %.17g", t,
				      (long long)n, r, pinned[t], sums[t]);
		stop();
	}
	CHECK_CUDA(cudaFreeHost(pinned));
}
END_TEST

/* (1 + 2^-24) + 2^-24 is 1: the order of a sum shows in its bits. */
START_TEST(replicas_are_added_in_the_order_of_a_ring)
{
	static const struct orr_rule plain = {.optimizer = ORR_OPTIMIZER_MOMENTUM,
					      .learning_rate = 1};
	struct tensor *p = filled(3, 0, 1), *v = empty(3, 0), *g[3];
	const float *on_cuda[3];
	float *seen;

	start(ORR_PRECISION_FP32, 1, 1, 1);
	cuda.kernels->elements->zero(&cuda, 3, p->on_cuda);
	cuda.kernels->elements->zero(&cuda, 3, v->on_cuda);
	for (int b = 0; b < 3; b++) {
		g[b] = empty(3, 0);
		for (int i = 0; i < 3; i++)
			g[b]->on_cpu[i] = b == _i ? 1 : 0x1p-24f;
		CHECK_CUDA(cudaMemcpy(g[b]->on_cuda, g[b]->on_cpu, 3 * sizeof(float),
				      cudaMemcpyHostToDevice));
		on_cuda[b] = g[b]->on_cuda;
	}
	cuda.kernels->optimizer->step(&cuda, &plain, 1, 3, p->on_cuda, v->on_cuda, on_cuda, 3,
				      false);
	seen = fetch(p);
	for (int c = 0; c < 3; c++)
		ck_assert_msg((seen[c] < -1.0f) == (c == _i), "block %d is large, chunk %d: %a", _i,
			      c, (double)seen[c]);
	free(seen);
	stop();
}
END_TEST

START_TEST(too_many_replicas_are_a_failure_and_not_a_crash)
{
	struct tensor *p = filled(300, 0, 1);
	const float *blocks[300];

	start(ORR_PRECISION_FP32, 1, 1, 1);
	for (int b = 0; b < 300; b++)
		blocks[b] = p->on_cuda;
	cuda.kernels->optimizer->step(&cuda, &rules[0], 1, 300, p->on_cuda, p->on_cuda, blocks, 300,
				      false);
	ck_assert_ptr_nonnull(cuda.failure);
	ck_assert_ptr_nonnull(strstr(cuda.failure, "CUDA, update of more than 256 replicas: "));
	cuda.failure = NULL;
	stop();
}
END_TEST

int main(void)
{
	/* compute-sanitizer would take minutes for the last one */
	int n_counts = N_OF(counts) - (getenv("ORR_SANITIZER") ? 1 : 0);
	const struct suite_test tests[] = {
		ONCE(both_tables_are_complete),
		EACH(elementwise_kernels_agree, n_counts),
		EACH(what_is_not_finite_is_found, n_counts),
		ONCE(a_relu_on_the_device_lets_nan_through),
		EACH(products_agree_in_every_precision, 3),
		EACH(a_gradient_added_has_the_bits_of_one_computed_apart, 3),
		ONCE(columns_go_where_they_belong),
		EACH(layernorm_agrees, N_OF(rows)),
		EACH(a_norm_has_the_same_bits_in_one_pass_and_in_two, N_OF(norms)),
		ONCE(a_norm_bears_a_large_mean),
		ONCE(contrasts_agree),
		EACH(losses_and_what_they_count_agree, N_OF(rows)),
		EACH(updates_agree_for_every_number_of_replicas, 5),
		EACH(replicas_are_added_in_the_order_of_a_ring, 3),
		EACH(updates_of_a_part_agree, N_OF(rules)),
		ONCE(squares_of_a_gradient_agree),
		ONCE(too_many_replicas_are_a_failure_and_not_a_crash),
	};

	return run_on_devices("cuda-kernels", tests, N_OF(tests));
}
