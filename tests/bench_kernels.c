/* How fast kernels are that are compiled for several widths of vectors: built twice, as
 * test_vector.c is, and compared by bench_kernels.sh. Prints a line a kernel: elements per
 * nanosecond of this thread's processor time, the best of many runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codelets/device.h"
#include "codelets/loops.h"
#include "codelets/shapes.h"

static struct orr_device cpu;

/* Rows that stay in the second cache; and arrays that no cache holds. */
enum { N = 16, WIDTH = 2048, COUNT = N * WIDTH, LARGE = 1 << 24, RUNS = 40 };

static float *a, *b, *y, *z, *gain, *bias, *classes;
static uint16_t *half;

static float *filled(int n)
{
	float *x = malloc((size_t)n * sizeof(*x));
	uint32_t seed = (uint32_t)n;

	if (!x)
		exit(1);
	for (int i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(seed >> 8) / 4194304.0f - 2.0f;
	}
	return x;
}

static void relu(void)
{
	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_relu, COUNT, a, y);
}
static void relu_back(void)
{
	orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_relu, COUNT, a, b, y);
}
static void gelu(void)
{
	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_gelu, COUNT, a, y);
}
static void gelu_back(void)
{
	orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_gelu, COUNT, a, b, y);
}
static void add(void)
{
	orr_add(COUNT, a, z);
}
static void round_half(void)
{
	orr_to_bf16(COUNT, a, half);
}
static void wild(void)
{
	int64_t first = INT64_MAX;

	orr_elements_cpu.find_wild(&cpu, COUNT, a, 0, &first);
}
static const struct orr_norm rows = {.n = N, .width = WIDTH, .centred = true, .epsilon = 1e-5};

static void norm(void)
{
	orr_norms_cpu.layernorm_forward(&cpu, &rows, a, gain, bias, y, z);
}
static void norm_input(void)
{
	orr_norms_cpu.layernorm_backward(&cpu, &rows, z, gain, b, NULL, y, NULL, NULL);
}
static void norm_weight(void)
{
	orr_norms_cpu.layernorm_backward(&cpu, &rows, z, NULL, b, NULL, NULL, y, y + WIDTH);
}
static void cross_entropy(void)
{
	const struct orr_classes k = {1, WIDTH, NAN, 0};

	orr_losses_cpu.softmax_cross_entropy(&cpu, N, &k, a, classes, y, NULL);
}
static void step(enum orr_optimizer optimizer)
{
	static float *parameters, *state;
	static const float *gradient;
	const struct orr_rule rule = {.optimizer = optimizer,
				      .learning_rate = 1e-3,
				      .momentum = 0.9,
				      .beta1 = 0.9,
				      .beta2 = 0.99,
				      .epsilon = 1e-8,
				      .n_averaged = 1};

	if (!parameters) {
		parameters = filled(LARGE);
		gradient = filled(LARGE);
		state = calloc((size_t)LARGE * 2, sizeof(*state));
	}
	orr_optimizer_cpu.step(&cpu, &rule, 1, LARGE, parameters, state, &gradient, 1, false);
}
static void adam(void)
{
	step(ORR_OPTIMIZER_ADAMW);
}
static void momentum(void)
{
	step(ORR_OPTIMIZER_MOMENTUM);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
		int count, runs;
	} kernels[] = {
		{"relu", relu, COUNT, RUNS},
		{"relu-back", relu_back, COUNT, RUNS},
		{"gelu", gelu, COUNT, RUNS},
		{"gelu-back", gelu_back, COUNT, RUNS},
		{"add", add, COUNT, RUNS},
		{"to-bf16", round_half, COUNT, RUNS},
		{"first-wild", wild, COUNT, RUNS},
		{"layernorm", norm, COUNT, RUNS},
		{"layernorm-input", norm_input, COUNT, RUNS},
		{"layernorm-weight", norm_weight, COUNT, RUNS},
		{"cross-entropy", cross_entropy, COUNT, RUNS},
		{"adamw-from-memory", adam, LARGE, 5},
		{"momentum-from-memory", momentum, LARGE, 5},
	};

	a = filled(COUNT), b = filled(COUNT), y = filled(COUNT), z = filled(COUNT + N);
	gain = filled(WIDTH), bias = filled(WIDTH), classes = filled(N);
	half = malloc(COUNT * sizeof(*half));
	for (int i = 0; i < N; i++)
		classes[i] = (float)i;
	for (size_t k = 0; k < sizeof(kernels) / sizeof(kernels[0]); k++) {
		double best = 1e18;

		kernels[k].run();
		for (int i = 0; i < kernels[k].runs; i++) {
			double start = now_ns(), took;

			kernels[k].run();
			took = now_ns() - start;
			best = took < best ? took : best;
		}
		printf("%s %.4f\n", kernels[k].name, kernels[k].count / best);
	}
	return 0;
}
