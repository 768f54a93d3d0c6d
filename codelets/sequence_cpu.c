/* The kernels of sequences on a CPU core as a table. */
#include "sequence_kernels.h"

#include "device.h"
#include "sequence.h"

static void move(struct orr_device *d, const struct orr_box *b, const float *x, float *y)
{
	(void)d;
	orr_move(b, x, y);
}

static void multiply(struct orr_device *d, int64_t count, const float *a, const float *b, float *y)
{
	(void)d;
	orr_multiply(count, a, b, y);
}

static void add_row(struct orr_device *d, int64_t n, int64_t width, const float *x, const float *w,
		    float *y)
{
	(void)d;
	orr_add_row(n, width, x, w, y);
}

static void sum_rows(struct orr_device *d, int64_t n, int64_t width, const float *dy, float *apart,
		     float *dw)
{
	(void)d;
	orr_sum_rows(n, width, dy, apart, dw);
}

static void mean_forward(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			 const float *x, float *y)
{
	(void)d;
	orr_mean_forward(n, rows, width, x, y);
}

static void mean_input(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
		       const float *dy, float *dx)
{
	(void)d;
	orr_mean_input(n, rows, width, dy, dx);
}

static void softmax_forward(struct orr_device *d, int64_t n, int64_t width, const float *x,
			    float *y)
{
	(void)d;
	orr_softmax_forward(n, width, x, y);
}

static void softmax_input(struct orr_device *d, int64_t n, int64_t width, const float *y,
			  const float *dy, float *dx)
{
	(void)d;
	orr_softmax_input(n, width, y, dy, dx);
}

static void normalise_forward(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			      const float *x, float *y, float *factors)
{
	(void)d;
	orr_normalise_forward(n, width, epsilon, x, y, factors);
}

static void normalise_input(struct orr_device *d, int64_t n, int64_t width, float epsilon,
			    const float *y, const float *factors, const float *dy, float *dx)
{
	(void)d;
	orr_normalise_input(n, width, epsilon, y, factors, dy, dx);
}

static void bag_forward(struct orr_device *d, const struct orr_bag *b, const float *ids,
			const float *w, float *y)
{
	(void)d;
	orr_bag_forward(b, ids, w, y);
}

static void bag_weight(struct orr_device *d, const struct orr_bag *b, const float *ids,
		       const float *dy, float *apart, float *dw)
{
	(void)d;
	orr_bag_weight(b, ids, dy, apart, dw);
}

static void rotary(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y)
{
	orr_rotary(t, x, d->workspace, y);
}

static void interaction_forward(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				const float *x, float *y)
{
	(void)d;
	orr_interaction_forward(n, count, width, x, y);
}

static void interaction_input(struct orr_device *d, int64_t n, int64_t count, int64_t width,
			      int64_t first, int64_t rows, const float *x, const float *dy,
			      float *dx)
{
	(void)d;
	orr_interaction_input(n, count, width, first, rows, x, dy, dx);
}

static void dropout(struct orr_device *d, const struct orr_drop *drop, int64_t n, int64_t count,
		    const float *x, float *y)
{
	(void)d;
	orr_dropout(drop, n, count, x, y);
}

static void attention_forward(struct orr_device *d, const struct orr_attention *a, const float *q,
			      const float *k, const float *v, const float *lengths, float *y,
			      float *sums)
{
	struct orr_attention own = *a;

	own.halves = d->halves;
	orr_attention_forward(&own, q, k, v, lengths, d->workspace, y, sums);
}

static void attention_input(struct orr_device *d, const struct orr_attention *a, const float *q,
			    const float *k, const float *v, const float *lengths, const float *y,
			    const float *sums, const float *dy, float *dq, float *dk, float *dv)
{
	struct orr_attention own = *a;

	own.halves = d->halves;
	orr_attention_input(&own, q, k, v, lengths, y, sums, dy, d->workspace, dq, dk, dv);
}

const struct orr_sequence_kernels orr_sequence_kernels_cpu = {
	.rotary_bytes = orr_rotary_bytes,
	.attention_bytes = orr_attention_bytes,
	.move = move,
	.multiply = multiply,
	.add_row = add_row,
	.sum_rows = sum_rows,
	.mean_forward = mean_forward,
	.mean_input = mean_input,
	.softmax_forward = softmax_forward,
	.softmax_input = softmax_input,
	.normalise_forward = normalise_forward,
	.normalise_input = normalise_input,
	.bag_forward = bag_forward,
	.bag_weight = bag_weight,
	.rotary = rotary,
	.interaction_forward = interaction_forward,
	.interaction_input = interaction_input,
	.dropout = dropout,
	.attention_forward = attention_forward,
	.attention_input = attention_input,
};
