/* Which algorithm computes a product, on the emulated device, where algorithm 0 is cuBLASLt's first
 * choice, 1 is faster, and 2 the fastest, with other bits. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "both_devices.h"
#include "emulated.h"
#include "suite.h"

extern int emulation_algorithm; /* the last one that ran */

enum { N = 12, IN = 8, OUT = 20 }; /* their sum is no multiple of 3: cuBLASLt takes it */

struct results {
	struct tensor *y, *dx, *dw;
};

/* The passes of a linear; every product is algorithm `number`'s. */
static struct results passes(int64_t n, int number)
{
	struct tensor *x = filled(n * IN, 0, 1), *w = filled(IN * OUT, 0, 2),
		      *bias = filled(OUT, 0, 3);
	struct tensor *dy = filled(n * OUT, 0, 4);
	struct results r = {empty(n * OUT, 0), empty(n * IN, 0), filled(IN * OUT + OUT, 0, 5)};

	cuda.kernels->linear->forward(&cuda, n, IN, OUT, x->on_cuda, w->on_cuda, NULL,
				      bias->on_cuda, r.y->on_cuda);
	ck_assert_int_eq(emulation_algorithm, number);
	cuda.kernels->linear->input(&cuda, n, IN, OUT, dy->on_cuda, w->on_cuda, NULL,
				    r.dx->on_cuda);
	ck_assert_int_eq(emulation_algorithm, number);
	for (int turn = 0; turn < 2;
	     turn++) { /* over what is there, or added: apart only says so */
		cuda.kernels->linear->weight(&cuda, n, IN, OUT, x->on_cuda, dy->on_cuda,
					     turn ? r.dx->on_cuda : NULL, r.dw->on_cuda,
					     r.dw->on_cuda + IN * OUT);
		ck_assert_int_eq(emulation_algorithm, number);
	}
	return r;
}

static void check_same(const struct tensor *a, const struct tensor *b)
{
	float *one = fetch(a), *two = fetch(b);

	ck_assert_mem_eq(one, two, (size_t)a->n * sizeof(*one));
	free(one), free(two);
}

START_TEST(the_fastest_algorithm_with_the_bits_of_the_first_is_taken)
{
	struct results first, chosen;

	start((enum orr_precision)_i, N, IN, OUT);
	first = passes(N, 0);
	stop_device();
	fini_devices(); /* a new one has chosen nothing yet */
	start((enum orr_precision)_i, N, IN, OUT);
	cuda.kernels->linear->prepare(&cuda, N, IN, OUT, true);
	chosen = passes(N, 1);
	check_same(first.y, chosen.y);
	check_same(first.dx, chosen.dx);
	check_same(first.dw, chosen.dw);
	stop();
}
END_TEST

START_TEST(what_was_not_measured_is_computed_by_the_first)
{
	start((enum orr_precision)_i, N, IN, OUT);
	cuda.kernels->linear->prepare(&cuda, N, IN, OUT, true);
	(void)passes(N - 3, 0);
	stop();
}
END_TEST

START_TEST(without_memory_to_measure_in_the_first_computes)
{
	struct tensor *x = filled(N * IN, 0, 1), *w = filled(IN * OUT, 0, 2);
	struct tensor *bias = filled(OUT, 0, 3), *y = empty(N * OUT, 0), *dx = empty(N * IN, 0);

	fini_devices();
	start((enum orr_precision)_i, N, IN, OUT);
	emulated_fail_malloc(1); /* the forward's */
	cuda.kernels->linear->prepare(&cuda, N, IN, OUT, true);
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
	cuda.kernels->linear->forward(&cuda, N, IN, OUT, x->on_cuda, w->on_cuda, NULL,
				      bias->on_cuda, y->on_cuda);
	ck_assert_int_eq(emulation_algorithm, 0);
	cuda.kernels->linear->input(&cuda, N, IN, OUT, y->on_cuda, w->on_cuda, NULL, dx->on_cuda);
	ck_assert_int_eq(emulation_algorithm, 1);
	stop();
}
END_TEST

int main(void)
{
	const struct suite_test tests[] = {
		EACH(the_fastest_algorithm_with_the_bits_of_the_first_is_taken, 3),
		EACH(what_was_not_measured_is_computed_by_the_first, 3),
		EACH(without_memory_to_measure_in_the_first_computes, 3),
	};

	return run_on_devices("cuda-choice", tests, N_OF(tests));
}
