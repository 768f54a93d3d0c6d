/* Every kernel that is compiled for several widths of vectors gives the bits of the plain text:
 * this file is compiled twice, with the kernels as they are and with their sources without
 * ORR_VECTOR, and prints a digest of each. Compared by test_vector.sh. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/contrastive.h"
#include "codelets/sequence.h"
#include "codelets/device.h"
#include "codelets/loops.h"
#include "codelets/program.h"
#include "codelets/shapes.h"

static struct orr_device cpu;

#define N 3
#define WIDTH 1037 /* no multiple of any vector */
#define COUNT (N * WIDTH)

static float a[COUNT], b[COUNT], gain[WIDTH], bias[WIDTH], y[COUNT], z[COUNT + N];

static void fill(float *x, int n, uint32_t seed)
{
	for (int i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = ((float)(seed >> 8) / 16777216.0f - 0.5f) * (i % 7 == 0 ? 40.0f : 4.0f);
	}
}

static void print(const char *name, const float *x, int n)
{
	uint64_t hash = 14695981039346656037u;

	for (int i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, &x[i], sizeof(bits));
		hash = (hash ^ (isnan(x[i]) ? 0x7fc00000u : bits)) * 1099511628211u;
	}
	printf("%s %016llx\n", name, (unsigned long long)hash);
}

static void elementwise(void)
{
	int64_t wild = INT64_MAX;

	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_relu, COUNT, a, y), print("relu", y, COUNT);
	orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_relu, COUNT, y, b, z),
		print("relu backward", z, COUNT);
	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_gelu, COUNT, a, y), print("gelu", y, COUNT);
	orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_gelu, COUNT, a, b, y),
		print("gelu backward", y, COUNT);
	orr_scale(COUNT, 0.3f, a, y), print("scale", y, COUNT);
	orr_add(COUNT, b, y), print("add", y, COUNT);
	orr_sum(COUNT, a, b, y), print("sum", y, COUNT);
	orr_elements_cpu.sum_relu(&cpu, COUNT, a, b, y), print("sum, relu", y, COUNT);
	orr_round_bf16(COUNT, a, y), print("round", y, COUNT);
	orr_to_bf16(COUNT, a, (uint16_t *)y), print("bfloat16", y, COUNT / 2);
	orr_elements_cpu.sum_mixed(&cpu, COUNT, b, y, z), print("sum with bfloat16", z, COUNT);
	a[COUNT - 5] = NAN;
	orr_elements_cpu.find_wild(&cpu, COUNT, a, 0, &wild);
	printf("first wild %lld\n", (long long)wild);
	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_gelu, COUNT, a, y),
		print("gelu of NaN", y, COUNT);
	fill(a, COUNT, 1);
}

/* Of one row a sample, all of which count. */
static double cross_entropy(int64_t n, int64_t width, const float *scores, const float *classes,
			    float *slope, int64_t *correct)
{
	struct orr_classes k = {1, width, NAN, 0};
	struct orr_metrics metrics;

	orr_losses_cpu.softmax_cross_entropy(&cpu, n, &k, scores, classes, slope, &metrics);
	*correct = (int64_t)metrics.correct;
	return metrics.loss;
}

static void rows(void)
{
	struct orr_norm norm = {N, WIDTH, true, 1e-5};
	float classes[N] = {0, 5, WIDTH - 1};
	struct orr_metrics metrics;
	int64_t correct;
	double loss;

	orr_norms_cpu.layernorm_forward(&cpu, &norm, a, gain, bias, y, z);
	print("layernorm", y, COUNT), print("layernorm's rows", z, COUNT + N);
	orr_norms_cpu.layernorm_backward(&cpu, &norm, z, gain, b, NULL, y, NULL, NULL),
		print("layernorm input", y, COUNT);
	orr_norms_cpu.layernorm_backward(&cpu, &norm, z, NULL, b, NULL, NULL, y, y + WIDTH);
	print("layernorm weight", y, 2 * WIDTH);
	norm.centred = false;
	orr_norms_cpu.layernorm_forward(&cpu, &norm, a, gain, NULL, y, z);
	print("rmsnorm", y, COUNT), print("rmsnorm's rows", z, COUNT + N);
	loss = cross_entropy(N, WIDTH, a, classes, y, &correct);
	print("cross entropy", y, COUNT);
	printf("its loss %a, %lld correct\n", loss, (long long)correct);
	orr_losses_cpu.mse(&cpu, N, WIDTH, a, b, y, &metrics);
	print("mse", y, COUNT);
	printf("its loss %a\n", metrics.loss);
}

static void contrasts(void)
{
	static float most[WIDTH], row[N];
	static double sum[WIDTH], row_sum[N];
	struct orr_largest rows = {row, row_sum}, columns = {most, sum};
	struct orr_contrast seen[N];
	const float t = 0.3f;

	memcpy(y, a, sizeof(y));
	orr_contrastive_cpu.normalise(&cpu, N, WIDTH, 0, &t, y, &rows, &columns, z);
	for (int i = 0; i < WIDTH; i++)
		z[i] = (float)sum[i];
	print("largest of columns", most, WIDTH), print("their sums", z, WIDTH);
	orr_contrastive_cpu.slopes(&cpu, N, WIDTH, 0, &t, y, &rows, &columns, z, seen, false);
	print("contrastive", y, COUNT);
	printf("its loss %a, slope %a\n", seen[0].loss, seen[1].slope);
}

static void sequences(void)
{
	struct orr_bag bag = {N, 5, N * 5, 200, true, true, 0, 0};
	struct orr_rotary rotary = {1, N, 1, WIDTH - 1, 10000, false};
	struct orr_drop drop = {.seed = 1, .sample = 2, .operator_number = 3, .rate = 0.3};
	static double room[4 * WIDTH];
	static float x[COUNT];

	cpu.workspace = room;
	orr_rows_cpu.softmax_forward(&cpu, N, WIDTH, a, y), print("softmax", y, COUNT);
	orr_rows_cpu.softmax_input(&cpu, N, WIDTH, y, b, z), print("softmax input", z, COUNT);
	orr_rows_cpu.normalise_forward(&cpu, N, WIDTH, 1e-12f, a, y, z),
		print("normalise", y, COUNT);
	orr_rows_cpu.normalise_input(&cpu, N, WIDTH, 1e-12f, y, z, b, x),
		print("normalise input", x, COUNT);
	memcpy(y, a, sizeof(y)), memcpy(z, b, COUNT * sizeof(*z));
	orr_row_slopes(COUNT, 30, 0.7f, 0.3f, y, z), print("slopes of scores", z, COUNT);
	orr_elements_cpu.multiply(&cpu, COUNT, a, b, y), print("multiply", y, COUNT);
	orr_sequence_cpu.mean_forward(&cpu, 1, N, WIDTH, a, y), print("mean", y, WIDTH);
	for (int i = 0; i < N * 5; i++)
		z[i] = (float)(i % 4 - 1);
	orr_sequence_cpu.bag_forward(&cpu, &bag, z, a, y), print("bag", y, N * 200);
	orr_sequence_cpu.bag_weight(&cpu, &bag, z, b, NULL, y), print("bag weight", y, N * 5 * 200);
	orr_sequence_cpu.rotary(&cpu, &rotary, a, y), print("rotary", y, N * (WIDTH - 1));
	orr_sequence_cpu.interaction_forward(&cpu, 1, N, WIDTH, a, y), print("interaction", y, 3);
	orr_sequence_cpu.interaction_input(&cpu, 1, N, WIDTH, 1, 2, a, b, y),
		print("interaction input", y, WIDTH);
	orr_sequence_cpu.dropout(&cpu, &drop, N, WIDTH, a, y), print("dropout", y, COUNT);
}

/* a: 13 channels of 17 x 14 pixels */
static void images(void)
{
	const struct orr_window w = {17, 14, 13, 3, 2, 1, 0, 13}, few = {17, 14, 13, 3, 2, 1, 2, 9};
	const struct orr_norm_groups groups = {2, WIDTH, 17, 1e-5}, batch = {N, WIDTH, WIDTH, 1e-5};
	const struct orr_classes k = {3, WIDTH, 1, 0.1};
	int64_t n = orr_window_places(&w) * 13;
	static float rows[COUNT * 9], at[COUNT], moments[2 * WIDTH];
	const float classes[3] = {4, 1, 9};
	struct orr_metrics metrics;

	orr_images_cpu.unfold(&cpu, 1, &w, a, rows),
		print("unfold", rows, (int)orr_window_places(&w) * 117);
	memset(y, 0, sizeof(y));
	orr_images_cpu.fold(&cpu, 1, &few, rows, y), print("fold", y, 17 * 14 * 13);
	orr_images_cpu.fold(&cpu, 1, &w, rows, y), print("fold all", y, 17 * 14 * 13);
	orr_images_cpu.pool_forward(&cpu, 1, &w, a, y, at), print("max pool", y, (int)n),
		print("at", at, (int)n);
	orr_images_cpu.pool_backward(&cpu, 1, &w, at, b, y),
		print("max pool backward", y, 17 * 14 * 13);
	orr_images_cpu.pool_forward(&cpu, 1, &w, a, y, NULL), print("mean pool", y, (int)n);
	orr_images_cpu.pool_backward(&cpu, 1, &w, NULL, b, y),
		print("mean pool backward", y, 17 * 14 * 13);
	orr_column_norms_cpu.moments(&cpu, 1, &groups, a, moments);
	orr_column_norms_cpu.normalise(&cpu, 1, &groups, a, gain, bias, moments, -INFINITY, y),
		print("groupnorm", y, 2 * WIDTH);
	orr_column_norms_cpu.join(&cpu, 1, &groups, gain, b, z);
	orr_column_norms_cpu.input(&cpu, 1, &groups, a, moments, gain, b, z, y),
		print("groupnorm input", y, 2 * WIDTH);
	orr_column_norms_cpu.moments(&cpu, 1, &batch, a, moments);
	orr_column_norms_cpu.normalise(&cpu, 1, &batch, a, gain, bias, moments, 0, y);
	print("batchnorm", y, COUNT), print("its moments", moments, 2 * WIDTH);
	memcpy(at, b, sizeof(at));
	orr_column_norms_cpu.slopes(&cpu, 1, &batch, a, moments, y, at, z),
		print("its slopes", z, 2 * WIDTH), print("what a relu lets through", at, COUNT);
	orr_column_norms_cpu.input(&cpu, 1, &batch, a, moments, gain, b, z, y),
		print("its input's", y, COUNT);
	orr_losses_cpu.softmax_cross_entropy(&cpu, 1, &k, a, classes, y, &metrics),
		print("rows", y, COUNT);
	orr_losses_cpu.bce(&cpu, N, WIDTH, a, b, z, &metrics), print("bce", z, COUNT);
	printf("their losses %a\n", metrics.loss);
}

static void optimizers(void)
{
	const float *const gradients[] = {a, b, z};
	struct orr_rule rule = {.learning_rate = 0.01,
				.momentum = 0.9,
				.beta1 = 0.9,
				.beta2 = 0.99,
				.epsilon = 1e-8,
				.weight_decay = 0.1,
				.n_averaged = 3};

	for (int optimizer = 0; optimizer < ORR_OPTIMIZER_NONE; optimizer++)
		for (int n = 1; n <= 3; n++) {
			float parameters[COUNT], state[2 * COUNT] = {0};
			char name[32];

			rule.optimizer = (enum orr_optimizer)optimizer;
			memcpy(parameters, b, sizeof(parameters));
			for (int step = 1; step <= 3; step++)
				orr_optimizer_cpu.step(&cpu, &rule, step, COUNT, parameters, state,
						       gradients, n, false);
			(void)snprintf(name, sizeof(name), "optimizer %d of %d", optimizer, n);
			print(name, parameters, COUNT), print(name, state, 2 * COUNT);
		}
}

int main(void)
{
	fill(a, COUNT, 1), fill(b, COUNT, 2), fill(gain, WIDTH, 3), fill(bias, WIDTH, 4);
	elementwise();
	rows();
	contrasts();
	sequences();
	images();
	optimizers();
	return 0;
}
