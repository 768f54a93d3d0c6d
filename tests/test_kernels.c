/* The kernels alone: products of any shape and place, what the formulas give at their ends, and
 * every optimizer against its formula in double. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../codelets/contrastive.h"
#include "../codelets/cuda/geometry.h"
#include "../codelets/device.h"
#include "../codelets/loops.h"
#include "../codelets/optimizer.h"
#include "../codelets/program.h"
#include "../codelets/shapes.h"
#include "reference.h"
#include "small_model.h"
#include "suite.h"

static struct orr_device cpu = {.kernels = &orr_kernels_cpu};

static void check_near(double value, double expected, double scale, const char *what, int64_t i)
{
	ck_assert_msg(fabs(value - expected) <= 1e-6 * scale, "%s[%lld] is %.9g, should be %.9g",
		      what, (long long)i, value, expected);
}

static const struct {
	int64_t n, in, out;
} shapes[] = {
	{1, 1, 1},      {1, 7, 1},      {7, 1, 3},   {1, 13, 17},  {5, 3, 2},
	{17, 31, 13},   {2, 64, 10},    {61, 19, 1}, {3, 127, 67}, {64, 64, 64},
	{33, 129, 65},  {3, 1025, 600}, /* its weights are more than one slice */
	{2, 140000, 3},                 /* a row of its weights is more than that */
};

static double as_it_is(double x)
{
	return x;
}

/* The products of shape `which` on d, whose factors are read as `read` has them. */
static void check_linear(struct orr_device *d, int which, double (*read)(double x))
{
	int64_t n = shapes[which].n, in = shapes[which].in, out = shapes[which].out;
	float *x = small_filled(n * in, 1), *w = small_filled(out * in, 2),
	      *bias = small_filled(out, 3);
	float *dy = small_filled(n * out, 4), *y = small_filled(n * out, 0),
	      *dx = small_filled(n * in, 0);
	float *dw = small_filled(out * in, 0), *dbias = small_filled(out, 0);

	d->workspace = malloc(d->kernels->workspace_bytes(d->precision, n, in, out));
	d->kernels->linear->forward(d, n, in, out, x, w, NULL, bias, y);
	d->kernels->linear->input(d, n, in, out, dy, w, NULL, dx);
	d->kernels->linear->weight(d, n, in, out, x, dy, NULL, dw, dbias);
	for (int64_t i = 0; i < n * out; i++) {
		double sum = (double)bias[i % out];

		for (int64_t k = 0; k < in; k++)
			sum += read((double)x[i / out * in + k]) *
			       read((double)w[i % out * in + k]);
		check_near((double)y[i], sum, (double)in, "y", i);
	}
	for (int64_t i = 0; i < n * in; i++) {
		double sum = 0;

		for (int64_t k = 0; k < out; k++)
			sum += read((double)dy[i / in * out + k]) *
			       read((double)w[k * in + i % in]);
		check_near((double)dx[i], sum, (double)out, "dx", i);
	}
	for (int64_t i = 0; i < out * in; i++) {
		double sum = 0;

		for (int64_t r = 0; r < n; r++)
			sum += read((double)dy[r * out + i / in]) *
			       read((double)x[r * in + i % in]);
		check_near((double)dw[i], sum, (double)n, "dw", i);
	}
	for (int64_t i = 0; i < out; i++) { /* no product: dy as it is */
		double sum = 0;

		for (int64_t r = 0; r < n; r++)
			sum += (double)dy[r * out + i];
		check_near((double)dbias[i], sum, (double)n, "dbias", i);
	}
	free(x), free(w), free(bias), free(dy), free(y), free(dx), free(dw), free(dbias);
	free(d->workspace);
}

START_TEST(linear_agrees_with_plain_loops)
{
	struct orr_device d = orr_device_cpu(ORR_PRECISION_FP32);

	check_linear(&d, _i, as_it_is);
}
END_TEST

/* A tensor lies elsewhere in its buffer under another cut; its bits must not follow. */
START_TEST(a_product_has_the_same_bits_at_any_address)
{
	int64_t n = shapes[_i].n, in = shapes[_i].in, out = shapes[_i].out;
	float *x = small_filled(n * in, 5), *w = small_filled(out * in, 6),
	      *bias = small_filled(out, 7);
	float *y = small_filled(n * out, 0), *dw = small_filled(out * in, 0);

	cpu.workspace = small_filled(n * out, 0);
	orr_linear_cpu.forward(&cpu, n, in, out, x, w, NULL, bias, y);
	orr_linear_cpu.weight(&cpu, n, in, out, x, y, NULL, dw, NULL);
	for (int64_t shift = 1; shift < 16; shift += 3) {
		float *at[4] = {small_filled(n * in + shift, 0), small_filled(out * in + shift, 0),
				small_filled(n * out + shift, 0),
				small_filled(out * in + shift, 0)};

		memcpy(at[0] + shift, x, (size_t)(n * in) * sizeof(*x));
		memcpy(at[1] + shift, w, (size_t)(out * in) * sizeof(*w));
		orr_linear_cpu.forward(&cpu, n, in, out, at[0] + shift, at[1] + shift, NULL, bias,
				       at[2] + shift);
		ck_assert_mem_eq(at[2] + shift, y, (size_t)(n * out) * sizeof(*y));
		orr_linear_cpu.weight(&cpu, n, in, out, at[0] + shift, at[2] + shift, NULL,
				      at[3] + shift, NULL);
		ck_assert_mem_eq(at[3] + shift, dw, (size_t)(out * in) * sizeof(*dw));
		free(at[0]), free(at[1]), free(at[2]), free(at[3]);
	}
	free(x), free(w), free(bias), free(y), free(dw);
	free(cpu.workspace);
}
END_TEST

START_TEST(gelu_is_the_exact_form_from_end_to_end)
{
	int n = 0;

	for (double x = -9; x <= 9; x += 0.03125, n++) {
		float in = (float)x, y = NAN, dx = NAN, one = 1;
		double below = 0.5 * erfc(-x / sqrt(2)),
		       density = exp(-x * x / 2) / sqrt(2 * acos(-1));

		orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_gelu, 1, &in, &y);
		orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_gelu, 1, &in, &one, &dx);
		check_near((double)y, x * below, 10 * fabs(x * below), "gelu", n);
		check_near((double)dx, below + x * density, 1, "its slope", n);
	}
	ck_assert_int_eq(n, 577);
}
END_TEST

START_TEST(relu_lets_nan_through_and_is_flat_at_zero)
{
	float x[4] = {-1, 0, 2, NAN}, y[4], dy[4] = {5, 6, 7, 8}, dx[4];

	orr_elements_cpu.map(&cpu, ORR_ELEMENTWISE_relu, 4, x, y);
	orr_elements_cpu.map_back(&cpu, ORR_ELEMENTWISE_relu, 4, y, dy, dx);
	ck_assert(y[0] <= 0 && y[1] <= 0 && y[2] >= 2 && isnan(y[3]));
	ck_assert(y[0] >= 0 && y[1] >= 0 && y[2] <= 2);
	ck_assert(fabsf(dx[0]) <= 0 && fabsf(dx[1]) <= 0 && fabsf(dx[2] - 7) <= 0);
}
END_TEST

START_TEST(layernorm_of_equal_columns_is_the_bias)
{
	const struct orr_norm norm = {1, 3, true, 1e-5};
	float x[3] = {1e6f, 1e6f, 1e6f}, gain[3] = {2, 3, 4}, bias[3] = {5, 6, 7}, normal[4];
	float y[3], dy[3] = {1, -2, 4}, dx[3];

	orr_norms_cpu.layernorm_forward(&cpu, &norm, x, gain, bias, y, normal);
	ck_assert_mem_eq(y, bias, sizeof(bias));
	orr_norms_cpu.layernorm_backward(&cpu, &norm, normal, gain, dy, NULL, dx, NULL,
					 NULL); /* g - mean(g), over sqrt(1e-5) */
	for (int i = 0; i < 3; i++)
		check_near((double)dx[i], ((double)(dy[i] * gain[i]) - 4) / sqrt(1e-5), 4e3, "dx",
			   i);
}
END_TEST

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

START_TEST(cross_entropy_stays_finite_at_any_score)
{
	float scores[6] = {1000, 0, -1000, -1000, 0, 1000}, classes[2] = {0, 0}, slope[6];
	int64_t correct = -1;
	double loss = cross_entropy(2, 3, scores, classes, slope, &correct);
	double expected[6] = {0, 0, 0, -1, 0, 1};

	check_near(loss, 2000, 1, "loss", 0);
	ck_assert_int_eq(correct, 1);
	for (int i = 0; i < 6; i++)
		check_near((double)slope[i], expected[i], 1, "slope", i);
}
END_TEST

/* ---- the contrastive loss ---- */

#define PAIRS 37
#define TILE 16

/* As the textbook has it: the mean of two cross-entropies, summed over the samples. */
static double contrast(const float *scores, double t, int64_t at, double change)
{
	double loss = 0;

	for (int i = 0; i < 2 * PAIRS; i++) {
		double sum = 0, own = 0;

		for (int k = 0; k < PAIRS; k++) {
			int place = i < PAIRS ? i * PAIRS + k : k * PAIRS + i % PAIRS;
			double score =
				exp(t) * ((double)scores[place] + (place == at ? change : 0));

			sum += exp(score);
			own = k == i % PAIRS ? score : own;
		}
		loss += 0.5 * (log(sum) - own);
	}
	return loss;
}

/* scores: over them their slopes; of scores the other way round, `again`. */
static void run_contrastive(float *scores, float t, bool again, struct orr_contrast *seen)
{
	float most[2][PAIRS], room[PAIRS];
	double sum[2][PAIRS];
	struct orr_largest rows = {most[0], sum[0]}, columns = {most[1], sum[1]};

	for (int64_t r = 0; r < PAIRS; r += TILE)
		orr_contrastive_cpu.normalise(&cpu, PAIRS - r < TILE ? PAIRS - r : TILE, PAIRS, r,
					      &t, scores + r * PAIRS, &rows, &columns, room);
	for (int64_t r = 0; r < PAIRS; r += TILE)
		orr_contrastive_cpu.slopes(&cpu, PAIRS - r < TILE ? PAIRS - r : TILE, PAIRS, r, &t,
					   scores + r * PAIRS, &rows, &columns, room, seen + r,
					   again);
}

START_TEST(contrastive_slopes_are_finite_differences_of_the_textbook)
{
	static const float temperatures[] = {-0.5f, 0, 1.25f};
	float t = temperatures[_i], *scores = small_filled(PAIRS * PAIRS, 3), *slopes, *turned;
	struct orr_contrast seen[PAIRS];
	double loss = 0, slope = 0, step = 1e-4;

	slopes = small_filled(PAIRS * PAIRS, 3);
	turned = small_filled(PAIRS * PAIRS, 0);
	scores[5 * PAIRS + 5] = slopes[5 * PAIRS + 5] = 9; /* it wins */
	for (int i = 0; i < PAIRS * PAIRS; i++)
		turned[i] = scores[i % PAIRS * PAIRS + i / PAIRS];
	run_contrastive(slopes, t, false, seen);
	ck_assert(seen[5].hit > 0);
	run_contrastive(turned, t, true, seen);
	for (int i = 0; i < PAIRS; i++) {
		loss += seen[i].loss;
		slope += seen[i].slope;
	}
	check_near(loss, contrast(scores, (double)t, -1, 0), PAIRS, "loss", 0);
	check_near(slope,
		   (contrast(scores, (double)t + step, -1, 0) -
		    contrast(scores, (double)t - step, -1, 0)) /
			   (2 * step),
		   10 * PAIRS, "slope by t", 0);
	for (int64_t i = 0; i < PAIRS * PAIRS; i++) {
		double right = (contrast(scores, (double)t, i, step) -
				contrast(scores, (double)t, i, -step)) /
			       (2 * step);

		check_near((double)slopes[i], right, 10, "slope", i);
		check_near((double)turned[i % PAIRS * PAIRS + i / PAIRS], right, 10, "turned", i);
	}
	free(scores), free(slopes), free(turned);
}
END_TEST

/* However large the scores: where each is far above the others, nothing is lost, and nothing
 * learnt. */
START_TEST(contrastive_stays_finite_at_any_score)
{
	float scores[PAIRS * PAIRS];
	struct orr_contrast seen[PAIRS];

	for (int i = 0; i < PAIRS * PAIRS; i++)
		scores[i] = i % (PAIRS + 1) ? -3e4f : 3e4f;
	run_contrastive(scores, 2, false, seen);
	for (int i = 0; i < PAIRS * PAIRS; i++)
		check_near((double)scores[i], 0, 1, "slope", i);
	for (int i = 0; i < PAIRS; i++) {
		check_near(seen[i].loss, 0, 1, "loss", i);
		ck_assert(seen[i].hit > 0);
	}
}
END_TEST

START_TEST(of_equal_scores_the_first_one_is_the_answer)
{
	float scores[8] = {1, 3, 3, 2, 3, 3, 1, 1}, classes[2] = {1, 1}, slope[8];
	int64_t correct = -1;

	(void)cross_entropy(2, 4, scores, classes, slope, &correct);
	ck_assert_int_eq(correct, 1); /* row 0 says 1, row 1 says 0 */
}
END_TEST

START_TEST(a_class_that_is_none_makes_the_loss_nan)
{
	static const float wrong[] = {-1, 3, 0.5f, 1e20f, -1e20f, NAN, INFINITY};
	float scores[3] = {1, 2, 3}, slope[3] = {0};
	int64_t correct = -1;

	ck_assert(isnan(cross_entropy(1, 3, scores, &wrong[_i], slope, &correct)));
	ck_assert_int_eq(correct, 0);
	for (int i = 0; i < 3; i++)
		ck_assert(isnan(slope[i]));
}
END_TEST

START_TEST(mse_is_the_mean_over_the_width_of_each_sample)
{
	float x[4] = {1, 2, 3, 4}, target[4] = {0, 4, 3, 1}, slope[4];
	double expected[4] = {1, -2, 0, 3};
	struct orr_metrics metrics;

	orr_losses_cpu.mse(&cpu, 2, 2, x, target, slope, &metrics);
	check_near(metrics.loss, (1 + 4) / 2.0 + (0 + 9) / 2.0, 1, "loss", 0);
	for (int i = 0; i < 4; i++)
		check_near((double)slope[i], expected[i], 1, "slope", i);
}
END_TEST

static const struct orr_rule rules[] = {
	{ORR_OPTIMIZER_MOMENTUM, 0.05, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_MOMENTUM, 0.05, 0.9, 0, 0, 0, 0.01, 1, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_ADAM, 0.01, 0, 0.9, 0.999, 1e-8, 0, 0, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_ADAM, 0.01, 0, 0.8, 0.99, 1e-3, 0.1, 3, 0.25, NULL, 0, NULL},
	{ORR_OPTIMIZER_MOMENTUM, 0.05, 0.9, 0, 0, 0, 0.01, 3, 0, NULL, 0, NULL},
	{ORR_OPTIMIZER_ADAMW, 0.01, 0, 0.9, 0.999, 1e-8, 0.1, 0, 0.7, NULL, 0, NULL},
	{ORR_OPTIMIZER_SGD, 0.05, 0, 0, 0, 0, 0.01, 3, 0.5, NULL, 0, NULL},
	{ORR_OPTIMIZER_NONE, 0.05, 0.9, 0.9, 0.999, 1e-8, 0.01, 3, 0, NULL, 0, NULL},
};

START_TEST(optimizers_follow_their_formulas)
{
	const struct orr_rule *r = &rules[_i];
	struct reference_rule exact = {(enum reference_kind)r->optimizer,
				       r->learning_rate,
				       r->momentum,
				       r->beta1,
				       r->beta2,
				       r->epsilon,
				       r->weight_decay};
	float p[7], state[14] = {0};
	double q[7], exact_state[14] = {0};
	uint64_t seed = 11;

	for (int i = 0; i < 7; i++)
		q[i] = (double)(p[i] = (float)small_random(&seed));
	for (int step = 1; step <= 50; step++) {
		float a[7], b[7], c[7];
		const float *gradients[3] = {a, b, c};
		double g[7];

		for (int i = 0; i < 7; i++) {
			a[i] = (float)small_random(&seed);
			b[i] = (float)small_random(&seed);
			c[i] = (float)small_random(&seed);
			g[i] = ((double)a[i] + (double)b[i] + (double)c[i]) /
			       (r->n_averaged > 1 ? r->n_averaged : 1) *
			       (r->scale > 0 ? r->scale : 1);
		}
		orr_optimizer_cpu.step(&cpu, r, step, 7, p, state, gradients, 3, false);
		reference_update(&exact, step, 7, q, exact_state, g);
	}
	for (int i = 0; i < 7; i++)
		check_near((double)p[i], q[i], 3, "parameter", i);
}
END_TEST

/* (1 + 2^-24) + 2^-24 is 1, 1 + (2^-24 + 2^-24) is not: three blocks, the one of which is large,
 * and three chunks of one float each. Chunk c starts with block c+1. */
START_TEST(gradient_blocks_are_added_in_the_order_of_a_ring)
{
	static const struct orr_rule plain = {.optimizer = ORR_OPTIMIZER_MOMENTUM,
					      .learning_rate = 1};
	static const float one[3] = {1, 1, 1}, tiny[3] = {0x1p-24f, 0x1p-24f, 0x1p-24f};
	const float *blocks[3] = {tiny, tiny, tiny}, *chunks[3];
	float p[3] = {0, 0, 0}, v[3] = {0, 0, 0}, sum;

	blocks[_i] = one;
	orr_optimizer_cpu.step(&cpu, &plain, 1, 3, p, v, blocks, 3, false);
	for (int c = 0; c < 3; c++)
		ck_assert_msg((p[c] < -1.0f) == (c == _i), "block %d is large, chunk %d: %a", _i, c,
			      (double)p[c]);
	/* the same from sums that are there */
	for (int c = 0; c < 3; c++) {
		v[c] = -p[c]; /* the gradient, as momentum kept it */
		p[c] = 0;
		chunks[c] = &v[c];
	}
	orr_optimizer_cpu.step(&cpu, &plain, 1, 3, p, (float[3]){0, 0, 0}, chunks, 3, true);
	for (int c = 0; c < 3; c++)
		ck_assert_msg(p[c] >= -v[c] && p[c] <= -v[c], "chunk %d", c);
	sum = -1 - 0x1p-23f;
	orr_add(1, one, &sum);
	ck_assert(sum < 0 && sum > -1e-6f);
}
END_TEST

/* Parts, each with its own state, are to the bit what a step of all makes, from blocks and from the
 * chunk of each part alone; what is spared lies across their border. */
START_TEST(parts_make_a_step_of_all)
{
	enum { N = 50, R = 3 };
	static const struct orr_exempt spared[] = {{10, 20, 0}, {30, 40, 0.5}};
	struct orr_rule rule = rules[_i];
	float p[3][N], state[2 * N] = {0}, part_state[2][R][2 * N] = {{{0}}}, g[R][N], sum[R][N];
	const float *gradients[R] = {g[0], g[1], g[2]};
	uint64_t seed = 5;

	rule.spared = spared, rule.n_spared = 2;
	for (int i = 0; i < N; i++)
		p[0][i] = p[1][i] = p[2][i] = (float)small_random(&seed);
	for (int step = 1; step <= 4; step++) {
		for (int i = 0; i < R * N; i++)
			g[i / N][i % N] = (float)small_random(&seed);
		rule.part = NULL;
		orr_optimizer_cpu.step(&cpu, &rule, step, N, p[0], state, gradients, R, false);
		for (int c = 0; c < R; c++) {
			struct orr_extent part = {orr_rule_chunk(N, R, c),
						  orr_rule_chunk(N, R, c + 1)};
			const float *chunks[R] = {NULL};

			for (int64_t i = part.first; i < part.end; i++)
				sum[c][i - part.first] =
					g[(c + 1) % R][i] + g[(c + 2) % R][i] + g[c][i];
			chunks[c] = sum[c];
			rule.part = &part;
			orr_optimizer_cpu.step(&cpu, &rule, step, N, p[1], part_state[0][c],
					       gradients, R, false);
			orr_optimizer_cpu.step(&cpu, &rule, step, N, p[2], part_state[1][c], chunks,
					       R, true);
		}
		ck_assert_mem_eq(p[1], p[0], sizeof(p[0]));
		ck_assert_mem_eq(p[2], p[0], sizeof(p[0]));
	}
}
END_TEST

/* ---- bfloat16 ---- */

/* As without decay where it is spared, as with it elsewhere; extents do not meet those of parts and
 * chunks. */
START_TEST(what_is_spared_does_not_decay)
{
	enum { N = 3000 };
	static const struct orr_exempt spared[] = {
		{0, 5, 0}, {5, 7, 0}, {900, 1999, 0}, {2999, N, 0}};
	static float a[N], b[N], with[3][N], state[3][2 * N];
	struct orr_rule rule = {
		(enum orr_optimizer)_i, 0.01, 0.9, 0.9, 0.99, 1e-8, 0.3, 0, 0, NULL, 0, NULL};
	const float *gradients[3] = {a, b, a};
	uint64_t seed = 3;

	for (int replicas = 1; replicas <= 3; replicas++) {
		int n_spared = 0;

		memset(state, 0, sizeof(state));
		for (int i = 0; i < N; i++) {
			a[i] = (float)small_random(&seed);
			b[i] = (float)small_random(&seed);
			with[0][i] = with[1][i] = with[2][i] = (float)small_random(&seed);
		}
		for (int k = 0; k < 3; k++) { /* all decay, none does, some do */
			rule.weight_decay = k == 1 ? 0 : 0.3;
			rule.spared = k == 2 ? spared : NULL;
			rule.n_spared = k == 2 ? 4 : 0;
			for (int step = 1; step <= 3; step++)
				orr_optimizer_cpu.step(&cpu, &rule, step, N, with[k], state[k],
						       gradients, replicas, false);
		}
		for (int i = 0; i < N; i++) {
			bool is_spared = i < 7 || (i >= 900 && i < 1999) || i == 2999;

			n_spared += is_spared;
			ck_assert_msg(!memcmp(&with[2][i], &with[is_spared][i], sizeof(float)),
				      "parameter %d of %d replicas", i, replicas);
			ck_assert(memcmp(&with[0][i], &with[1][i], sizeof(float)) != 0 ||
				  rule.optimizer == ORR_OPTIMIZER_NONE);
		}
		ck_assert_int_eq(n_spared, 1107);
	}
}
END_TEST

/* By any optimizer, with decay and a gradient that is clipped; the others do not notice. */
START_TEST(running_means_take_their_part_of_the_mean)
{
	enum { N = 50 };
	static const struct orr_exempt running[] = {{3, 10, 0.25}, {10, 20, 0.5}};
	struct orr_rule rule = {
		(enum orr_optimizer)_i, 0.01, 0.9, 0.9, 0.99, 1e-8, 0.3, 3, 0.125, NULL, 0, NULL};
	float p[2][N], state[2][2 * N] = {{0}}, g[3][N];
	const float *gradients[3] = {g[0], g[1], g[2]};
	double right[N];
	uint64_t seed = 5;

	for (int i = 0; i < N; i++)
		right[i] = (double)(p[0][i] = p[1][i] = (float)small_random(&seed));
	for (int step = 1; step <= 4; step++) {
		for (int i = 0; i < N; i++) {
			double momentum = i < 10 ? 0.25 : 0.5, mean = 0;

			for (int b = 0; b < 3; b++) {
				g[b][i] = (float)small_random(&seed);
				mean += (double)g[b][i] / 3;
			}
			right[i] = (1 - momentum) * right[i] + momentum * mean;
		}
		rule.spared = NULL, rule.n_spared = 0;
		orr_optimizer_cpu.step(&cpu, &rule, step, N, p[0], state[0], gradients, 3, false);
		rule.spared = running, rule.n_spared = 2;
		orr_optimizer_cpu.step(&cpu, &rule, step, N, p[1], state[1], gradients, 3, false);
	}
	for (int i = 0; i < N; i++)
		if (i >= 3 && i < 20)
			check_near((double)p[1][i], right[i], 1, "running mean", i);
		else
			ck_assert_mem_eq(&p[1][i], &p[0][i], sizeof(float));
}
END_TEST

/* However a block is cut into chunks, and wherever a tensor lies in it. */
START_TEST(squares_are_added_up_in_one_order)
{
	enum { N = 5000 };
	static const struct orr_extent tensors[] = {{3, 20}, {20, 21}, {40, 3333}, {3333, N}};
	static float x[N + 3], zeros[N];
	double expected[4], sums[4], exact;
	uint64_t seed = 5;

	for (int i = 0; i < N; i++)
		x[i] = (float)small_random(&seed);
	orr_optimizer_cpu.squares(&cpu, N, (const float *[]){x}, 1, false, tensors, 4, expected);
	for (int t = 0; t < 4; t++) {
		exact = 0;
		for (int64_t i = tensors[t].first; i < tensors[t].end; i++)
			exact += (double)x[i] * (double)x[i];
		ck_assert(exact > 0 && fabs(expected[t] - exact) <= 1e-13 * exact);
	}
	for (int n = 2; n <= 7; n++) {
		const float *blocks[7], *chunks[7];

		for (int c = 0; c < n; c++) {
			blocks[c] = c == n / 2 ? x : zeros;
			chunks[c] = x + orr_rule_chunk(N, n, c);
		}
		orr_optimizer_cpu.squares(&cpu, N, chunks, n, true, tensors, 4, sums);
		ck_assert_mem_eq(sums, expected, sizeof(sums));
		orr_optimizer_cpu.squares(&cpu, N, blocks, n, false, tensors, 4, sums);
		ck_assert_mem_eq(sums, expected, sizeof(sums));
	}
	for (int shift = 1; shift <= 3; shift++) { /* the same tensor elsewhere */
		memmove(x + shift, x + shift - 1, N * sizeof(*x));
		orr_optimizer_cpu.squares(
			&cpu, N, (const float *[]){x}, 1, false,
			&(struct orr_extent){tensors[2].first + shift, tensors[2].end + shift}, 1,
			sums);
		ck_assert_mem_eq(sums, &expected[2], sizeof(*sums));
	}
}
END_TEST

/* From the definition: 8 significant bits, to nearest, ties to even; below 2^-126 steps of 2^-133.
 */
/* A slice at a time, and yet as if all of it had been computed apart. */
START_TEST(a_weight_gradient_is_added_with_the_bits_of_one_written)
{
	int64_t n = shapes[_i].n, in = shapes[_i].in, out = shapes[_i].out, count = out * in;
	float *x = small_filled(n * in, 1), *dy = small_filled(n * out, 2),
	      *dw = small_filled(count, 0);
	float *sum = small_filled(count, 3), *before = small_filled(count, 3),
	      *apart = small_filled(count + out, 0);
	float *dbias = small_filled(out, 0), *bias_sum = small_filled(out, 4),
	      *bias_before = small_filled(out, 4);

	for (int precision = 0; precision < ORR_N_PRECISIONS; precision++) {
		struct orr_device d = orr_device_cpu((enum orr_precision)precision);

		d.workspace = malloc(d.kernels->workspace_bytes(d.precision, n, in, out) + 1);
		memcpy(sum, before, (size_t)count * sizeof(*sum));
		memcpy(bias_sum, bias_before, (size_t)out * sizeof(*sum));
		d.kernels->linear->weight(&d, n, in, out, x, dy, NULL, dw, dbias);
		d.kernels->linear->weight(&d, n, in, out, x, dy, apart, sum, bias_sum);
		for (int64_t i = 0; i < count; i++)
			ck_assert(sum[i] == before[i] + dw[i]);
		for (int64_t i = 0; i < out; i++)
			ck_assert(bias_sum[i] == bias_before[i] + dbias[i]);
		free(d.workspace);
	}
	free(x), free(dy), free(dw), free(sum), free(before), free(apart);
	free(dbias), free(bias_sum), free(bias_before);
}
END_TEST

static double round_to_bf16(double x)
{
	double step;
	int e;

	if (isnan(x) || isinf(x))
		return x;
	frexp(x, &e);
	step = ldexp(1, (e > -125 ? e : -125) - 8);
	x = nearbyint(x / step) * step;
	return fabs(x) >= 0x1p128 ? copysign(INFINITY, x) : x;
}

START_TEST(bf16_is_rounded_to_nearest_even_for_every_upper_half)
{
	static const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

	for (uint32_t half = 0; half < 65536; half++)
		for (int k = 0; k < 6; k++) {
			uint32_t bits = half << 16 | lower[k], seen, right;
			float x, y, exact;

			memcpy(&x, &bits, sizeof(x));
			y = orr_bf16_float(orr_bf16_of(x));
			exact = (float)round_to_bf16((double)x);
			memcpy(&seen, &y, sizeof(y));
			memcpy(&right, &exact, sizeof(exact));
			ck_assert_msg(isnan(x) ? isnan(y) : seen == right,
				      "%08x gives %08x, should be %08x", bits, seen, right);
		}
}
END_TEST

START_TEST(bf16_products_are_those_of_rounded_factors)
{
	struct orr_device d = orr_device_cpu(ORR_PRECISION_BF16);

	check_linear(&d, _i, round_to_bf16);
}
END_TEST

/* ---- how CUDA kernels cut their work ---- */

START_TEST(strips_have_every_row_once_and_are_few)
{
	for (int64_t n = 1; n < INT64_C(20000000000); n += n / 3 + 1) {
		int64_t strips = orr_strips(n), rows = orr_strip_rows(n);

		ck_assert(strips >= 1 && strips <= ORR_MOST_STRIPS);
		ck_assert(strips * rows >= n && (strips - 1) * rows < n);
	}
	/* 4096 rows have more than 4097 */
	for (int64_t n = 1, most = 0; n < 70000; n++) {
		most = orr_strips(n) > most ? orr_strips(n) : most;
		ck_assert_int_eq(orr_most_strips(n), most);
	}
	ck_assert_int_eq(orr_rounded_columns(1), 8);
	ck_assert_int_eq(orr_rounded_columns(8), 8);
	ck_assert_int_eq(orr_rounded_columns(9), 16);
}
END_TEST

START_TEST(chunks_cover_a_block_evenly)
{
	for (int64_t n = 0; n < 20; n++)
		for (int r = 1; r < 8; r++) {
			ck_assert_int_eq(orr_rule_chunk(n, r, 0), 0);
			ck_assert_int_eq(orr_rule_chunk(n, r, r), n);
			for (int c = 0; c < r; c++) {
				int64_t floats =
					orr_rule_chunk(n, r, c + 1) - orr_rule_chunk(n, r, c);

				ck_assert(floats == n / r || floats == n / r + 1);
			}
		}
}
END_TEST

static const struct suite_test tests[] = {
	EACH(linear_agrees_with_plain_loops, N_OF(shapes)),
	EACH(a_product_has_the_same_bits_at_any_address, N_OF(shapes)),
	ONCE(gelu_is_the_exact_form_from_end_to_end),
	ONCE(relu_lets_nan_through_and_is_flat_at_zero),
	ONCE(layernorm_of_equal_columns_is_the_bias),
	ONCE(cross_entropy_stays_finite_at_any_score),
	EACH(contrastive_slopes_are_finite_differences_of_the_textbook, 3),
	ONCE(contrastive_stays_finite_at_any_score),
	ONCE(of_equal_scores_the_first_one_is_the_answer),
	EACH(a_class_that_is_none_makes_the_loss_nan, 7),
	ONCE(mse_is_the_mean_over_the_width_of_each_sample),
	EACH(optimizers_follow_their_formulas, N_OF(rules)),
	EACH(gradient_blocks_are_added_in_the_order_of_a_ring, 3),
	EACH(parts_make_a_step_of_all, N_OF(rules)),
	ONCE(squares_are_added_up_in_one_order),
	EACH(what_is_spared_does_not_decay, ORR_N_OPTIMIZERS),
	EACH(running_means_take_their_part_of_the_mean, ORR_N_OPTIMIZERS),
	ONCE(bf16_is_rounded_to_nearest_even_for_every_upper_half),
	EACH(a_weight_gradient_is_added_with_the_bits_of_one_written, N_OF(shapes)),
	EACH(bf16_products_are_those_of_rounded_factors, N_OF(shapes)),
	ONCE(strips_have_every_row_once_and_are_few),
	ONCE(chunks_cover_a_block_evenly),
};
SUITE("kernels")
