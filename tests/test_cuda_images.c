/* Kernels of images and losses of rows: the CUDA table against the CPU's. Built twice, as
 * test_cuda_kernels.c is. */
#include <check.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "both_devices.h"
#include "../codelets/program.h"
#include "../codelets/shapes.h"
#include "suite.h"

static const struct orr_window windows[] = {
	{1, 1, 1, 1, 1, 0, 0, 1},   {5, 7, 2, 3, 1, 1, 0, 2},   {6, 5, 4, 3, 2, 1, 0, 4},
	{7, 4, 5, 4, 3, 2, 0, 5},   {3, 8, 17, 3, 1, 1, 0, 17}, {9, 9, 1, 5, 4, 0, 0, 1},
	{8, 8, 33, 8, 8, 0, 0, 33}, {5, 5, 2, 2, 3, 0, 0, 2},   {40, 30, 8, 3, 1, 1, 0, 8},
};

#define BOTH_DEVICES(call) \
	do { \
		for (int on_cuda = 0; on_cuda < 2; on_cuda++) { \
			struct orr_device *d = on_cuda ? &cuda : &cpu; \
\
			d->kernels->call; \
		} \
	} while (0)
#define AT(t) (on_cuda ? (t)->on_cuda : (t)->on_cpu)

START_TEST(windows_and_pools_agree)
{
	struct orr_window w = windows[_i / 2];
	int64_t n = 3, image = n * orr_window_image(&w), all, out;
	struct tensor *x = filled(image, 0, 1), *rows, *sum = filled(image, 0, 2), *y, *at, *dy,
		      *dx;

	if (_i % 2 && w.channels > 1) /* some of the channels, others untouched */
		w.first = w.channels / 2, w.count = w.channels - w.first;
	all = n * orr_window_places(&w) * orr_window_seen(&w);
	out = n * orr_window_places(&w) * w.channels;
	rows = empty(all, 0);
	start(ORR_PRECISION_FP32, 1, 1, 1);
	BOTH_DEVICES(images->unfold(d, n, &w, AT(x), AT(rows)));
	check_close(rows, 0, "unfold");
	BOTH_DEVICES(images->fold(d, n, &w, AT(rows), AT(sum)));
	check_close(sum, 0, "fold");
	y = empty(out, 0), at = empty(out, 0), dy = filled(out, 0, 3), dx = empty(image, 0);
	if (w.padding <= w.side / 2) {
		BOTH_DEVICES(images->pool_forward(d, n, &w, AT(x), AT(y), AT(at)));
		check_close(y, 0, "max_pool");
		check_close(at, 0, "where it is");
		BOTH_DEVICES(images->pool_backward(d, n, &w, AT(at), AT(dy), AT(dx)));
		check_close(dx, 0, "max_pool backward");
		BOTH_DEVICES(images->pool_forward(d, n, &w, AT(x), AT(y), NULL));
		check_close(y, 1e-6, "mean_pool");
		BOTH_DEVICES(images->pool_backward(d, n, &w, NULL, AT(dy), AT(dx)));
		check_close(dx, 1e-6, "mean_pool backward");
	}
	y = empty(image, 0);
	BOTH_DEVICES(images->turn(d, n, w.height * w.width, w.channels, AT(x), AT(y)));
	check_close(y, 0, "turn");
	stop();
}
END_TEST

static const struct {
	int64_t n;
	struct orr_norm_groups groups;
} norms[] = {
	{1, {1, 1, 1, 1e-5}},    {3, {5, 6, 2, 1e-5}},   {2, {3, 7, 7, 1e-3}},
	{5, {1, 130, 1, 1e-2}},  {4, {64, 32, 4, 1e-5}}, {2, {150, 36, 3, 1e-5}},
	{30, {300, 5, 1, 1e-5}},
};

START_TEST(norms_of_images_agree)
{
	const struct orr_norm_groups *g = &norms[_i].groups;
	int64_t n = norms[_i].n, rows = n * g->rows, width = g->width, cells = rows * width;
	struct tensor *x = filled(cells, 0, 1), *gain = filled(width, 0, 2);
	struct tensor *bias = filled(width, 0, 3), *dy = filled(cells, 0, 4), *y = empty(cells, 0);
	struct tensor *dx = empty(cells, 0), *moments = empty(2 * n * width, 0);
	struct tensor *slopes = empty(2 * n * width, 0), *sums = empty(2 * n * width, 0);
	const struct orr_norm_groups batch = {rows, width, width, g->epsilon};
	double flat = rows == 1 || cells == 1 ? 1 : 0; /* of one cell: rounding is all there is */

	start(ORR_PRECISION_FP32, rows, width, width);
	work_in(orr_column_norms_cuda.bytes(n, g));
	BOTH_DEVICES(column_norms->moments(d, n, g, AT(x), AT(moments)));
	check_close(moments, 1e-6, "a sample's moments");
	BOTH_DEVICES(column_norms->normalise(d, n, g, AT(x), AT(gain), AT(bias), AT(moments),
					     -INFINITY, AT(y)));
	check_close(y, 1e-5, "groupnorm");
	BOTH_DEVICES(column_norms->slopes(d, n, g, AT(x), AT(moments), NULL, AT(dy), AT(slopes)));
	check_close(slopes, 1e-5, "a sample's slopes of gains and biases");
	BOTH_DEVICES(column_norms->join(d, n, g, AT(gain), AT(slopes), AT(sums)));
	check_close(sums, 1e-5, "sums of its groups");
	BOTH_DEVICES(column_norms->input(d, n, g, AT(x), AT(moments), AT(gain), AT(dy), AT(sums),
					 AT(dx)));
	check_close(dx, 1e-5 + flat, "groupnorm backward");
	moments = empty(2 * width, 0), slopes = empty(2 * width, 0);
	work_in(orr_column_norms_cuda.bytes(1, &batch));
	BOTH_DEVICES(column_norms->moments(d, 1, &batch, AT(x), AT(moments)));
	check_close(moments, 1e-6, "a batch's moments");
	BOTH_DEVICES(column_norms->normalise(d, 1, &batch, AT(x), AT(gain), AT(bias), AT(moments),
					     -INFINITY, AT(y)));
	check_close(y, 1e-5, "batchnorm");
	BOTH_DEVICES(column_norms->normalise(d, 1, &batch, AT(x), AT(gain), AT(bias), AT(moments),
					     0, AT(y)));
	check_close(y, 1e-5, "batchnorm with a relu");
	BOTH_DEVICES(
		column_norms->slopes(d, 1, &batch, AT(x), AT(moments), NULL, AT(dy), AT(slopes)));
	check_close(slopes, 1e-5, "slopes of its gains and biases");
	BOTH_DEVICES(
		column_norms->slopes(d, 1, &batch, AT(x), AT(moments), AT(x), AT(dy), AT(slopes)));
	check_close(slopes, 1e-5, "slopes with a relu");
	check_close(dy, 0, "what the relu lets through");
	BOTH_DEVICES(column_norms->input(d, 1, &batch, AT(x), AT(moments), AT(gain), AT(dy),
					 AT(slopes), AT(dx)));
	check_close(dx, 1e-5 + flat, "batchnorm backward");
	stop();
}
END_TEST

static const struct {
	int64_t n;
	struct orr_classes classes;
} entropies[] = {
	{3, {4, 5, NAN, 0}},   {2, {3, 700, NAN, 0.1}}, {3, {40, 5, 0, 0}},
	{2, {5, 6, -1, 0.25}}, {1, {300, 600, 9, 0.5}},
};

/* The same in bfloat16: on a core with the bits of floats that are rounded afterwards. */
static void check_halves(int64_t n, const struct orr_classes *k, const struct tensor *x,
			 const struct tensor *classes, const struct tensor *y,
			 const struct tensor *wide, struct orr_metrics *seen)
{
	int64_t cells = n * k->rows * k->width;
	struct tensor *half = empty((cells + 1) / 2, 0);
	struct orr_metrics right;

	BOTH_DEVICES(elements->narrow(d, cells, 2 * half->n, AT(x), false, AT(half)));
	BOTH_DEVICES(elements->widen(d, cells, AT(half), AT(y)));
	orr_losses_cpu.softmax_cross_entropy(&cpu, n, k, y->on_cpu, classes->on_cpu, wide->on_cpu,
					     &right);
	for (int64_t i = 0; i < cells; i++)
		wide->on_cpu[i] = orr_bf16_float(
			orr_bf16_of(0.3f * orr_bf16_float(orr_bf16_of(wide->on_cpu[i]))));
	cpu.halves = cuda.halves = true;
	BOTH_DEVICES(losses->softmax_cross_entropy(d, n, k, AT(half), AT(classes), AT(half),
						   on_cuda ? seen : &right));
	BOTH_DEVICES(elements->scale(d, cells, 0.3f, AT(half), AT(half)));
	cpu.halves = cuda.halves = false;
	check_metrics(seen, &right);
	BOTH_DEVICES(elements->widen(d, cells, AT(half), AT(y)));
	ck_assert_mem_eq(y->on_cpu, wide->on_cpu, (size_t)cells * sizeof(float));
	check_close(y, 1e-3, "slope of softmax_cross_entropy in bfloat16");
}

START_TEST(losses_of_rows_agree)
{
	const struct orr_classes *k = &entropies[_i].classes;
	int64_t n = entropies[_i].n, rows = n * k->rows, cells = rows * k->width;
	struct tensor *x = filled(cells, 0, 1), *classes = filled(rows, 0, 2);
	struct tensor *target = filled(cells, 0, 3), *slope = empty(cells, 0);
	struct tensor *other = empty(cells, 0);
	struct orr_metrics right, *seen;

	start(ORR_PRECISION_FP32, rows, k->width, k->width);
	free(cpu.workspace);
	cpu.workspace = malloc((size_t)k->width * sizeof(float));
	CHECK_CUDA(cudaHostAlloc((void **)&seen, sizeof(*seen), cudaHostAllocDefault));
	for (int64_t r = 0; r < rows; r++) {
		classes->on_cpu[r] = floorf((classes->on_cpu[r] + 1) / 2 * (float)k->width);
		if (!isnan(k->ignored) && (r % 3 == 1 || r < k->rows))
			classes->on_cpu[r] = k->ignored; /* and all of the first sample's */
	}
	CHECK_CUDA(cudaMemcpy(classes->on_cuda, classes->on_cpu, (size_t)rows * sizeof(float),
			      cudaMemcpyHostToDevice));
	BOTH_DEVICES(losses->softmax_cross_entropy(d, n, k, AT(x), AT(classes), AT(slope),
						   on_cuda ? seen : &right));
	check_metrics(seen, &right);
	check_close(slope, 1e-5, "slope of softmax_cross_entropy");
	BOTH_DEVICES(elements->copy(d, cells, AT(x), AT(other)));
	BOTH_DEVICES(losses->softmax_cross_entropy(d, n, k, AT(other), AT(classes), AT(other),
						   on_cuda ? seen : &right));
	check_metrics(seen, &right);
	ck_assert_mem_eq(other->on_cpu, slope->on_cpu, (size_t)cells * sizeof(float));
	check_close(other, 1e-5, "slope where the scores were");
	check_halves(n, k, x, classes, other, slope, seen);
	BOTH_DEVICES(losses->bce(d, n, k->rows * k->width, AT(x), AT(target), AT(slope),
				 on_cuda ? seen : &right));
	check_metrics(seen, &right);
	check_close(slope, 1e-5, "slope of bce");
	CHECK_CUDA(cudaFreeHost(seen));
	stop();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(windows_and_pools_agree, 2 * N_OF(windows)),
		EACH(norms_of_images_agree, N_OF(norms)),
		EACH(losses_of_rows_agree, N_OF(entropies)),
	};

	return run_on_devices("cuda-images", tests, N_OF(tests));
}
