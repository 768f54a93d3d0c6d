/* The kernels on a CPU core as a table. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "contrastive.h"
#include "elements.h"
#include "experts.h"
#include "kernels.h"
#include "matmul.h"
#include "program.h"

struct orr_device orr_device_cpu(enum orr_precision precision)
{
	return (struct orr_device){.kernels = &orr_kernels_cpu, .precision = precision};
}

/* Floats of a product's inputs in bfloat16, rounded up to where the next may lie. */
static int64_t halves(int64_t count)
{
	return (count + 31) / 32 * 16;
}

/* Does the processor read bfloat16? If not, its products in BF16 read rounded floats. */
static bool is_native(enum orr_precision precision)
{
	return precision == ORR_PRECISION_BF16 && orr_matmul_has_bf16();
}

/* In BF16, rounded copies of what a product reads, and where it is not native floats of what it
 * writes; and what orr_linear_forward asks for. There is room for two rows of floats. */
static size_t workspace_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	bool native = is_native(precision), rounds = precision == ORR_PRECISION_BF16;
	int64_t x = native ? halves(n * in) : n * in, dy = native ? halves(n * out) : n * out;
	int64_t w = native ? halves(out * orr_rounded_columns(in)) : in * out;
	int64_t wide = rounds && !native;
	int64_t forward = (rounds ? x + w : 0) + n * out + wide * n * out;
	int64_t input = (rounds ? dy + w : 0) + wide * n * in, weight = rounds ? x + dy : 0;
	int64_t most = forward > input ? forward : input;

	return (size_t)(most > weight ? most : weight) * sizeof(float);
}

/* Activations that are bfloat16. */
static const uint16_t *halves_of(const float *x)
{
	return (const uint16_t *)x;
}

/* x, an activation, as a product reads it: itself, or its rounded copy at *at, which moves on. */
static const float *rounded(const struct orr_device *d, int64_t count, const float *x, float **at)
{
	float *to = *at;

	if (d->precision != ORR_PRECISION_BF16)
		return x;
	if (d->halves)
		orr_from_bf16(count, halves_of(x), to);
	else
		orr_round_bf16(count, x, to);
	*at += count;
	return to;
}

/* The same in bfloat16. */
static const uint16_t *halved(const struct orr_device *d, int64_t count, const float *x, float **at)
{
	uint16_t *to = (uint16_t *)*at;

	if (d->halves)
		return halves_of(x);
	orr_to_bf16(count, x, to);
	*at += halves(count);
	return to;
}

static void round_piece(const struct orr_rounding *piece)
{
	int64_t in = piece->columns, columns = orr_rounded_columns(in);
	const float *from = piece->from;
	uint16_t *row = piece->to;

	for (int64_t r = 0; r < piece->rows; r++, from += in, row += columns) {
		orr_to_bf16(in, from, row);
		memset(row + in, 0, (size_t)(columns - in) * sizeof(*row));
	}
}

static void round_pieces(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces)
{
	(void)d;
	for (int i = 0; i < n_pieces; i++)
		round_piece(&pieces[i]);
}

/* Weights: kept is w rounded, or NULL. */
static const float *weights(const struct orr_device *d, int64_t in, int64_t out, const float *w,
			    const void *kept, float **at)
{
	int64_t columns = orr_rounded_columns(in);
	const uint16_t *row = kept;
	float *to = *at;

	if (d->precision != ORR_PRECISION_BF16)
		return w;
	if (!kept)
		orr_round_bf16(in * out, w, to);
	for (int64_t o = 0; o < out && kept; o++, to += in, row += columns)
		orr_from_bf16(in, row, to);
	to = *at;
	*at += in * out;
	return to;
}

static const uint16_t *halved_weights(int64_t in, int64_t out, const float *w, const void *kept,
				      float **at)
{
	void *to = *at;

	if (kept)
		return kept;
	round_piece(&(struct orr_rounding){w, to, out, in});
	*at += halves(out * orr_rounded_columns(in));
	return to;
}

static void copy(struct orr_device *d, int64_t count, const float *x, float *y)
{
	memcpy(y, x, (size_t)count * (d->halves ? sizeof(uint16_t) : sizeof(*y)));
}

static void zero(struct orr_device *d, int64_t count, float *y)
{
	(void)d;
	memset(y, 0, (size_t)count * sizeof(*y));
}

static void scale(struct orr_device *d, int64_t count, float factor, const float *x, float *y)
{
	(void)d;
	orr_scale(count, factor, x, y);
}

static void sum(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	if (d->halves)
		orr_sum_bf16(count, halves_of(a), halves_of(b), (uint16_t *)y);
	else
		orr_sum(count, a, b, y);
}

static void widen(struct orr_device *d, int64_t count, const void *x, float *y)
{
	(void)d;
	orr_from_bf16(count, x, y);
}

static void narrow(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		   void *y)
{
	uint16_t *to = y;

	(void)d;
	if (add)
		orr_add_bf16(count, x, to);
	else
		orr_to_bf16(count, x, to);
	memset(to + count, 0, (size_t)(end - count) * sizeof(*to));
}

static void sum_halves(struct orr_device *d, int64_t count, const void *a, const void *b, void *y)
{
	(void)d;
	orr_sum_bf16(count, a, b, y);
}

static void columns_put(struct orr_device *d, int64_t n, int64_t width, const float *x,
			int64_t total, int64_t first, float *y)
{
	(void)d;
	orr_columns_put(n, width, x, total, first, y);
}

static void columns_take(struct orr_device *d, int64_t n, int64_t total, int64_t first,
			 const float *y, int64_t width, float *x)
{
	(void)d;
	orr_columns_take(n, total, first, y, width, x);
}

static void check(struct orr_device *d, bool computed)
{
	if (!computed)
		d->failure = "oneDNN has no memory for a product in bfloat16";
}

/* Where a product in floats writes y: there, or beside it what keep() then rounds. */
static float *wide(const struct orr_device *d, float *y, float *at)
{
	return d->halves ? at : y;
}

static void keep(const struct orr_device *d, int64_t count, const float *wide, float *y)
{
	if (d->halves)
		orr_to_bf16(count, wide, (uint16_t *)y);
}

static void linear_forward(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
			   const float *w, const void *kept, const float *bias, float *y)
{
	float *at = d->workspace;

	if (is_native(d->precision)) {
		const uint16_t *half = halved(d, n * in, x, &at);
		const uint16_t *read = halved_weights(in, out, w, kept, &at);

		check(d, orr_linear_forward_bf16(n, in, out, half, read, bias, d->halves, y, at));
		return;
	}
	x = rounded(d, n * in, x, &at);
	w = weights(d, in, out, w, kept, &at);
	orr_linear_forward(n, in, out, x, w, bias, wide(d, y, at + n * out), at);
	keep(d, n * out, at + n * out, y);
}

static void linear_input(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *dy,
			 const float *w, const void *kept, float *dx)
{
	float *at = d->workspace;

	if (is_native(d->precision)) {
		const uint16_t *half = halved(d, n * out, dy, &at);

		check(d,
		      orr_linear_input_bf16(n, in, out, half, halved_weights(in, out, w, kept, &at),
					    d->halves, dx));
		return;
	}
	dy = rounded(d, n * out, dy, &at);
	w = weights(d, in, out, w, kept, &at);
	orr_linear_input(n, in, out, dy, w, wide(d, dx, at));
	keep(d, n * in, at, dx);
}

/* dbias is no product: it adds up dy as it is. */
static void linear_weight(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
			  const float *dy, float *apart, float *dw, float *dbias)
{
	float *at = d->workspace;

	if (dbias && d->halves)
		orr_linear_bias_bf16(n, out, halves_of(dy), apart, dbias);
	else if (dbias)
		orr_linear_bias(n, out, dy, apart, dbias);
	if (is_native(d->precision)) {
		const uint16_t *half = halved(d, n * in, x, &at);

		check(d, orr_linear_weight_bf16(n, in, out, half, halved(d, n * out, dy, &at),
						apart, dw));
		return;
	}
	x = rounded(d, n * in, x, &at);
	orr_linear_weight(n, in, out, x, rounded(d, n * out, dy, &at), apart, dw);
}

static void map(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		float *y)
{
	if (d->halves)
		orr_map_bf16(f, count, halves_of(x), (uint16_t *)y);
	else
		orr_map(f, count, x, y);
}

static void map_back(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *kept,
		     const float *dy, float *dx)
{
	if (d->halves)
		orr_map_back_bf16(f, count, halves_of(kept), halves_of(dy), (uint16_t *)dx);
	else
		orr_map_back(f, count, kept, dy, dx);
}

/* Of a norm whose activations may be bfloat16, with room for two rows of their floats. */
static struct orr_norm norm_of(const struct orr_device *d, const struct orr_norm *norm)
{
	struct orr_norm own = *norm;

	own.wide = d->halves ? d->workspace : NULL;
	return own;
}

static void layernorm_forward(struct orr_device *d, const struct orr_norm *norm, const float *x,
			      const float *gain, const float *bias, float *y, float *normal)
{
	struct orr_norm own = norm_of(d, norm);

	orr_layernorm_forward(&own, x, gain, bias, y, normal);
}

static void layernorm_input(struct orr_device *d, const struct orr_norm *norm, const float *normal,
			    const float *gain, const float *dy, float *dx)
{
	struct orr_norm own = norm_of(d, norm);

	orr_layernorm_input(&own, normal, gain, dy, dx);
}

static void layernorm_weight(struct orr_device *d, const struct orr_norm *norm, const float *normal,
			     const float *dy, float *apart, float *dgain, float *dbias)
{
	float *to = apart ? apart : dgain, *to_bias = apart ? apart + norm->width : dbias;
	struct orr_norm own = norm_of(d, norm);

	orr_layernorm_weight(&own, normal, dy, to, to_bias);
	if (apart) {
		orr_add(norm->width, to, dgain);
		if (norm->centred)
			orr_add(norm->width, to_bias, dbias);
	}
}

static void layernorm_backward(struct orr_device *d, const struct orr_norm *norm,
			       const float *normal, const float *gain, const float *dy,
			       float *apart, float *dx, float *dgain, float *dbias)
{
	layernorm_input(d, norm, normal, gain, dy, dx);
	layernorm_weight(d, norm, normal, dy, apart, dgain, dbias);
}

static void unfold(struct orr_device *d, int64_t n, const struct orr_window *w, const float *x,
		   float *rows)
{
	(void)d;
	orr_unfold(n, w, x, rows);
}

static void fold(struct orr_device *d, int64_t n, const struct orr_window *w, const float *rows,
		 float *x)
{
	(void)d;
	orr_fold(n, w, rows, x);
}

static void turn(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		 float *y)
{
	(void)d;
	orr_turn(n, rows, columns, x, y);
}

static void max_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
			     const float *x, float *y, float *at)
{
	(void)d;
	orr_max_pool_forward(n, w, x, y, at);
}

static void max_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
			      const float *at, const float *dy, float *dx)
{
	(void)d;
	orr_max_pool_backward(n, w, at, dy, dx);
}

static void mean_pool_forward(struct orr_device *d, int64_t n, const struct orr_window *w,
			      const float *x, float *y)
{
	(void)d;
	orr_mean_pool_forward(n, w, x, y);
}

static void mean_pool_backward(struct orr_device *d, int64_t n, const struct orr_window *w,
			       const float *dy, float *dx)
{
	(void)d;
	orr_mean_pool_backward(n, w, dy, dx);
}

static void groupnorm_forward(struct orr_device *d, int64_t n, const struct orr_groups *g,
			      const float *x, const float *gain, const float *bias, float *y,
			      float *normal)
{
	(void)d;
	orr_groupnorm_forward(n, g, x, gain, bias, y, normal);
}

static void groupnorm_input(struct orr_device *d, int64_t n, const struct orr_groups *g,
			    const float *normal, const float *gain, const float *dy, float *dx)
{
	(void)d;
	orr_groupnorm_input(n, g, normal, gain, dy, dx);
}

static void batchnorm_forward(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			      const float *x, const float *gain, const float *bias, float *y,
			      float *normal, float *moments)
{
	(void)d;
	orr_batchnorm_forward(n, width, epsilon, x, gain, bias, y, normal, moments);
}

static void batchnorm_evaluate(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			       const float *x, const float *gain, const float *bias,
			       const float *moments, float *y)
{
	(void)d;
	orr_batchnorm_evaluate(n, width, epsilon, x, gain, bias, moments, y);
}

static void batchnorm_input(struct orr_device *d, int64_t n, int64_t width, double epsilon,
			    const float *normal, const float *moments, const float *gain,
			    const float *dy, float *dx)
{
	(void)d;
	orr_batchnorm_input(n, width, epsilon, normal, moments, gain, dy, dx);
}

static void softmax_cross_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				  const float *scores, const float *classes, float *slope,
				  struct orr_metrics *metrics)
{
	(void)d;
	orr_softmax_cross_entropy(n, k, scores, classes, slope, metrics);
}

static void class_part(struct orr_device *d, int64_t n, int64_t first, int64_t width,
		       const float *scores, const float *classes, float *y, float *exponentials,
		       float *at)
{
	(void)d;
	orr_class_part(n, first, width, scores, classes, y, exponentials, at);
}

static void class_part_input(struct orr_device *d, int64_t n, int64_t width,
			     const float *exponentials, const float *at, const float *dy, float *dx)
{
	(void)d;
	orr_class_part_input(n, width, exponentials, at, dy, dx);
}

static void class_parts_entropy(struct orr_device *d, int64_t n, const struct orr_classes *k,
				int64_t n_parts, const float *seen, const float *classes,
				float *slope, struct orr_metrics *metrics)
{
	(void)d;
	orr_class_parts_entropy(n, k, n_parts, seen, classes, slope, metrics);
}

static void mse(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	double loss = orr_mse(n, width, prediction, target, slope);

	(void)d;
	if (metrics)
		*metrics = (struct orr_metrics){.loss = loss};
}

static void contrastive_normalise(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				  int64_t first, const float *t, const float *scores,
				  const struct orr_largest *rows, const struct orr_largest *columns,
				  float *room)
{
	(void)d;
	orr_contrastive_normalise(n_rows, n_columns, first, *t, scores, rows, columns, room);
}

static void contrastive_slopes(struct orr_device *d, int64_t n_rows, int64_t n_columns,
			       int64_t first, const float *t, float *scores,
			       const struct orr_largest *rows, const struct orr_largest *columns,
			       float *room, struct orr_contrast *seen, bool again)
{
	(void)d;
	orr_contrastive_slopes(n_rows, n_columns, first, *t, scores, rows, columns, room, seen,
			       again);
}

static void contrastive_count(struct orr_device *d, int64_t n, const struct orr_contrast *seen,
			      float *slope, struct orr_metrics *metrics)
{
	struct orr_metrics all = {.classified = n};
	double along = 0;

	(void)d;
	for (int64_t r = 0; r < n; r++) {
		all.loss += seen[r].loss;
		all.correct += seen[r].hit > 0;
		along += seen[r].slope;
	}
	*slope = (float)along;
	if (metrics)
		*metrics = all;
}

static void bce(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		const float *target, float *slope, struct orr_metrics *metrics)
{
	(void)d;
	orr_bce(n, width, scores, target, slope, metrics);
}

static void step(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		 float *parameters, float *state, const float *const *blocks, int n_blocks,
		 bool summed)
{
	(void)d;
	if (summed)
		orr_rule_step_chunks(rule, number, n, parameters, state, blocks, n_blocks);
	else
		orr_rule_step(rule, number, n, parameters, state, blocks, n_blocks);
}

static void find_wild(struct orr_device *d, int64_t count, const float *x, int64_t at,
		      int64_t *first)
{
	int64_t i = orr_first_wild(count, x);

	(void)d;
	if (i >= 0 && at + i < *first)
		*first = at + i;
}

static void squares(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
		    bool summed, const struct orr_extent *tensors, int n_tensors, double *sums)
{
	(void)d;
	orr_gradient_squares(n, blocks, n_blocks, summed, tensors, n_tensors, sums);
}

static void *allocate(size_t bytes)
{
	return aligned_alloc(256, (bytes / 256 + 1) * 256);
}

const struct orr_kernels orr_kernels_cpu = {
	.name = "cpu",
	.halves = true,
	.unfolded = 1 << 18, /* they stay in a cache */
	.workspace_bytes = workspace_bytes,
	.copy = copy,
	.zero = zero,
	.scale = scale,
	.sum = sum,
	.widen = widen,
	.narrow = narrow,
	.sum_halves = sum_halves,
	.columns_put = columns_put,
	.columns_take = columns_take,
	.round = round_pieces,
	.linear_forward = linear_forward,
	.linear_input = linear_input,
	.linear_weight = linear_weight,
	.map = map,
	.map_back = map_back,
	.layernorm_forward = layernorm_forward,
	.layernorm_input = layernorm_input,
	.layernorm_weight = layernorm_weight,
	.layernorm_backward = layernorm_backward,
	.unfold = unfold,
	.fold = fold,
	.turn = turn,
	.max_pool_forward = max_pool_forward,
	.max_pool_backward = max_pool_backward,
	.mean_pool_forward = mean_pool_forward,
	.mean_pool_backward = mean_pool_backward,
	.groupnorm_forward = groupnorm_forward,
	.groupnorm_input = groupnorm_input,
	.batchnorm_forward = batchnorm_forward,
	.batchnorm_evaluate = batchnorm_evaluate,
	.batchnorm_input = batchnorm_input,
	.softmax_cross_entropy = softmax_cross_entropy,
	.mse = mse,
	.contrastive_normalise = contrastive_normalise,
	.contrastive_slopes = contrastive_slopes,
	.contrastive_count = contrastive_count,
	.class_part = class_part,
	.class_part_input = class_part_input,
	.class_parts_entropy = class_parts_entropy,
	.bce = bce,
	.sequence = &orr_sequence_kernels_cpu,
	.experts = &orr_expert_kernels_cpu,
	.find_wild = find_wild,
	.step = step,
	.squares = squares,
	.allocate = allocate,
	.release = free,
	.put = copy,
};
