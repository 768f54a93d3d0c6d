/* Kernels of classes in parts and of experts of the CUDA table against those of the CPU table. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "both_devices.h"
#include "../codelets/cuda/stream.h"
#include "../codelets/sequence.h"
#include "../codelets/program.h"
#include "../codelets/shapes.h"
#include "suite.h"

/* Does `call` on both devices; it sees d, the device, and ON(t), a tensor there. */
#define ON(t) ((t) ? (d == &cuda ? (t)->on_cuda : (t)->on_cpu) : NULL)
#define SEEN (d == &cuda ? seen : &right)
#define BOTH(call) \
	do { \
		for (struct orr_device *d = &cpu; d; d = d == &cpu ? &cuda : NULL) \
			d->kernels->call; \
	} while (0)

static struct orr_metrics right, *seen;

static void begin(int64_t rows, int64_t width)
{
	start(ORR_PRECISION_FP32, rows, width, width);
	CHECK_CUDA(cudaHostAlloc((void **)&seen, sizeof(*seen), cudaHostAllocDefault));
}

static void end(void)
{
	CHECK_CUDA(cudaFreeHost(seen));
	stop();
}

static void set(const struct tensor *t)
{
	CHECK_CUDA(cudaMemcpy(t->on_cuda, t->on_cpu, (size_t)t->n * sizeof(float),
			      cudaMemcpyHostToDevice));
}

static const struct {
	int64_t n, rows, width, shift;
} parts[] = {{1, 1, 1, 0}, {5, 3, 7, 1}, {3, 4, 64, 0}, {2, 5, 516, 0}, {3, 2, 1031, 2}};

START_TEST(classes_in_parts_agree)
{
	int64_t n = parts[_i].n, width = parts[_i].width, shift = parts[_i].shift;
	int64_t rows = n * parts[_i].rows, wide = ORR_CLASS_PART_COLUMNS;
	struct orr_classes k = {parts[_i].rows, 2 * width, 0, 0.1};
	struct tensor *x = filled(rows * width, shift, 1), *classes = filled(rows, 0, 2);
	struct tensor *kept = empty(rows * width, shift), *at = empty(rows, 0);
	struct tensor *y = empty(rows * wide, 0), *dx = empty(rows * width, shift);
	struct tensor *both = filled(2 * rows * wide, 0, 3), *slope = empty(2 * rows * wide, 0);

	begin(rows, width);
	for (int64_t r = 0; r < rows; r++) /* in either part, ignored, and one that is none */
		classes->on_cpu[r] = r == 4 ? 0.5f : (float)(r * 31 % (2 * width));
	set(classes);
	BOTH(losses->class_part(d, rows, width, width, ON(x), ON(classes), ON(y), ON(kept),
				ON(at)));
	check_close(y, 1e-6, "softmax_part");
	check_close(kept, 1e-6, "its exponentials");
	check_close(at, 0, "its classes");
	BOTH(losses->class_part_input(d, rows, width, ON(kept), ON(at), ON(y), ON(dx)));
	check_close(dx, 1e-6, "softmax_part backward");
	for (int64_t i = 0; i < 2 * rows; i++) {
		both->on_cpu[i * wide + 1] = (float)(i % 2 * width);
		both->on_cpu[i * wide + 3] = 1 + fabsf(both->on_cpu[i * wide + 3]);
	}
	set(both);
	BOTH(losses->class_parts_entropy(d, n, &k, 2, ON(both), ON(classes), ON(slope), SEEN));
	check_metrics(seen, &right);
	check_close(slope, 1e-6, "slopes of softmax_cross_entropy_parts");
	end();
}
END_TEST

static const struct {
	struct orr_routing r;
	int64_t width;
} routings[] = {
	{{1, 1, 1, 1, 1, 1}, 1},    {{3, 8, 4, 1, 1, 2}, 5},   {{3, 8, 4, 2, 2, 2}, 33},
	{{2, 70, 33, 2, 5, 1}, 64}, {{40, 6, 3, 1, 3, 1}, 17}, {{3, 20, 32, 8, 2, 3}, 40},
};

START_TEST(experts_agree)
{
	struct orr_routing r = routings[_i].r;
	int64_t width = routings[_i].width, rows = r.n * r.rows, own = r.n * r.groups * r.places;
	struct tensor *scores = filled(rows * r.experts, 0, 1), *x = filled(rows * width, 1, 2);
	struct tensor *route = empty(rows * r.top * 3, 0), *slope = filled(rows * r.top * 3, 0, 3);
	struct tensor *dx = empty(rows * r.experts, 0), *y = empty(own * width, 0);
	struct tensor *at = empty(rows, 0), *back = empty(rows * width, 0);
	struct tensor *sum = filled(rows * width, 0, 4), *there = empty(own * width, 0);
	struct tensor *shares = empty(r.n * r.experts, 0);

	begin(rows, r.experts > width ? r.experts : width);
	BOTH(experts->route(d, &r, ON(scores), ON(route)));
	check_close(route, 1e-6, "route");
	set(route); /* the same weights */
	BOTH(experts->route_input(d, &r, ON(scores), ON(route), ON(slope), ON(dx)));
	if (r.experts > 1) /* of one they are zero, but for rounding */
		check_close(dx, 1e-5, "route backward");
	for (int64_t e = 0; e < r.experts; e++) {
		BOTH(experts->dispatch(d, &r, e, width, ON(x), ON(route), ON(y), ON(at)));
		check_close(y, 0, "dispatch");
		check_close(at, 0, "its rows");
		BOTH(experts->dispatch_input(d, &r, width, ON(at), ON(y), ON(back)));
		check_close(back, 0, "dispatch backward");
		BOTH(experts->combine(d, &r, e, width, ON(route), ON(y), ON(sum)));
		check_close(sum, 1e-6, "combine");
		BOTH(experts->combine_input(d, &r, e, width, ON(route), ON(y), ON(x), ON(there),
					    ON(slope)));
		check_close(there, 1e-6, "combine backward");
		check_close(slope, 1e-5, "its weights");
	}
	BOTH(losses->balance(d, &r, ON(scores), ON(route), ON(dx), ON(shares), SEEN));
	check_metrics(seen, &right);
	check_close(shares, 1e-6, "shares");
	if (r.experts > 1)
		check_close(dx, 1e-5, "slopes of balance");
	end();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(classes_in_parts_agree, N_OF(parts)),
		EACH(experts_agree, N_OF(routings)),
	};

	return run_on_devices("cuda-experts", tests, N_OF(tests));
}
