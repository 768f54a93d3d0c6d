#ifndef ORR_KERNELS_H
#define ORR_KERNELS_H
/* What the operators compute, one function a pass, on plain memory: no graph, no StarPU, no
 * allocation, one thread. A matrix is row-major with a row per sample; n is its number of rows.
 * Results come last and are written, never added to, unless the comment says so. Sums over samples
 * go in sample order. */
#include <stdbool.h>
#include <stdint.h>
#include "formulas.h"
#include "sizes.h"

struct orr_classes; /* shapes.h */
struct orr_groups;
struct orr_metrics; /* program.h */
struct orr_window;

/* y = x w^T + bias; w is [out][in], row after row; bias NULL: none; across: room for as much as y.
 */
void orr_linear_forward(int64_t n, int64_t in, int64_t out, const float *x, const float *w,
			const float *bias, float *y, float *across);
void orr_linear_input(int64_t n, int64_t in, int64_t out, const float *dy, const float *w,
		      float *dx);
/* apart: room for as much as the result, which is added then, with the bits of one that is written
 * and added afterwards; NULL: it is written */
void orr_linear_weight(int64_t n, int64_t in, int64_t out, const float *x, const float *dy,
		       float *apart, float *dw);
void orr_linear_bias(int64_t n, int64_t out, const float *dy, float *apart, float *dbias);

/* The same of bfloat16, where orr_matmul_has_bf16; w has rows of orr_rounded_columns(in); half: y
 * and dx are bfloat16, rounded once. False: there is no memory for it. */
bool orr_linear_forward_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			     const uint16_t *w, const float *bias, bool half, void *y,
			     float *across);
bool orr_linear_input_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *dy,
			   const uint16_t *w, bool half, void *dx);
bool orr_linear_weight_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			    const uint16_t *dy, float *apart, float *dw);
void orr_linear_bias_bf16(int64_t n, int64_t out, const uint16_t *dy, float *apart, float *dbias);

/* Element by element; count: how many. */
void orr_map(enum orr_elementwise f, int64_t count, const float *x, float *y);
void orr_map_back(enum orr_elementwise f, int64_t count, const float *kept, const float *dy,
		  float *dx);
/* The same of bfloat16, each result rounded once. */
void orr_map_bf16(enum orr_elementwise f, int64_t count, const uint16_t *x, uint16_t *y);
void orr_map_back_bf16(enum orr_elementwise f, int64_t count, const uint16_t *kept,
		       const uint16_t *dy, uint16_t *dx);
void orr_scale(int64_t count, float factor, const float *x, float *y); /* y = factor x */
void orr_add(int64_t count, const float *x, float *sum);               /* sum += x */
void orr_sum(int64_t count, const float *a, const float *b, float *y); /* y = a + b */
void orr_round_bf16(int64_t count, const float *x, float *y);          /* to bf16 */
void orr_to_bf16(int64_t count, const float *x, uint16_t *y);          /* the same bits, in half */
void orr_from_bf16(int64_t count, const uint16_t *x, float *y);
void orr_add_bf16(int64_t count, const float *x, uint16_t *sum); /* sum += x, rounded both */
void orr_add_from_bf16(int64_t count, const uint16_t *x, float *sum);
void orr_sum_bf16(int64_t count, const uint16_t *a, const uint16_t *b, uint16_t *y);

/* The first that is not finite, or whose square is not; or -1. */
int64_t orr_first_wild(int64_t count, const float *x);

/* Columns [first, first+width) of a matrix of `total` columns: put x there, or take them out. */
void orr_columns_put(int64_t n, int64_t width, const float *x, int64_t total, int64_t first,
		     float *y);
void orr_columns_take(int64_t n, int64_t total, int64_t first, const float *y, int64_t width,
		      float *x);

/* Each row times gain and, where it is centred, plus bias. normal, which the backward reads, holds
 * the n rows before gain and bias and then the n factors 1/sqrt(variance + epsilon). */
void orr_layernorm_forward(const struct orr_norm *norm, const float *x, const float *gain,
			   const float *bias, float *y, float *normal);
void orr_layernorm_input(const struct orr_norm *norm, const float *normal, const float *gain,
			 const float *dy, float *dx);
void orr_layernorm_weight(const struct orr_norm *norm, const float *normal, const float *dy,
			  float *dgain, float *dbias);

/* ---- images; n: samples ---- */

/* What the window sees at each of its places, a row of the matrix each: pixel by pixel, zeros
 * outside of the image. And back: each pixel is the sum of what rows say of it, from the first row
 * to the last. Channels that the window does not see stay as they are. */
void orr_unfold(int64_t n, const struct orr_window *w, const float *x, float *rows);
void orr_fold(int64_t n, const struct orr_window *w, const float *rows, float *x);
/* y = x transposed, n matrices of rows x columns one after the other */
void orr_turn(int64_t n, int64_t rows, int64_t columns, const float *x, float *y);

/* Of all channels. at: for the backward, which pixel of the window is the largest, NaN being larger
 * than all and the first of equal ones; outside of the image there is none. */
void orr_max_pool_forward(int64_t n, const struct orr_window *w, const float *x, float *y,
			  float *at);
void orr_max_pool_backward(int64_t n, const struct orr_window *w, const float *at, const float *dy,
			   float *dx);
/* Over side * side pixels everywhere, those outside of the image being 0. */
void orr_mean_pool_forward(int64_t n, const struct orr_window *w, const float *x, float *y);
void orr_mean_pool_backward(int64_t n, const struct orr_window *w, const float *dy, float *dx);

/* Each group of columns of each sample to mean 0 and variance 1 (plus epsilon), then times gain,
 * plus bias, which are a column's each. normal: the rows before gain and bias, then n * groups
 * factors. Gradients of gain and bias: orr_layernorm_weight on n * rows rows. */
void orr_groupnorm_forward(int64_t n, const struct orr_groups *g, const float *x, const float *gain,
			   const float *bias, float *y, float *normal);
void orr_groupnorm_input(int64_t n, const struct orr_groups *g, const float *normal,
			 const float *gain, const float *dy, float *dx);

/* Each column over all of n rows; moments: the columns' means and then their variances, divided by
 * n. evaluate: by moments that are given. Gradients of gain and bias: orr_layernorm_weight. */
void orr_batchnorm_forward(int64_t n, int64_t width, double epsilon, const float *x,
			   const float *gain, const float *bias, float *y, float *normal,
			   float *moments);
void orr_batchnorm_evaluate(int64_t n, int64_t width, double epsilon, const float *x,
			    const float *gain, const float *bias, const float *moments, float *y);
void orr_batchnorm_input(int64_t n, int64_t width, double epsilon, const float *normal,
			 const float *moments, const float *gain, const float *dy, float *dx);

/* ---- losses; n: samples ---- */

/* metrics: their sum over the samples, and what was counted (NULL: nobody asks). slope: the
 * derivative by the first input. */
/* Of a sample: the mean over its rows that are not ignored, 0 if there is none. classes holds whole
 * numbers in [0, width); any other makes loss and slope NaN. Counted are rows that are not ignored;
 * correct: those whose largest score, the first of equal ones, is their class. */
void orr_softmax_cross_entropy(int64_t n, const struct orr_classes *k, const float *scores,
			       const float *classes, float *slope, struct orr_metrics *metrics);
/* Of n rows with a part of the classes' scores, `width` of them from class `first` on: what the
 * loss of all needs of each, y: [n] struct orr_class_part; exponentials: those of the scores, and
 * at: where among them the row's class is, or -1, which the backward reads. dy: slopes of y, of
 * which those of the largest scores and their places are left out, as they count as constants. */
void orr_class_part(int64_t n, int64_t first, int64_t width, const float *scores,
		    const float *classes, float *y, float *exponentials, float *at);
void orr_class_part_input(int64_t n, int64_t width, const float *exponentials, const float *at,
			  const float *dy, float *dx);
/* orr_softmax_cross_entropy() of rows of which each of n_parts parts has seen its own, [n * rows]
 * [n_parts] struct orr_class_part as is slope; k->width: classes in all. */
void orr_class_parts_entropy(int64_t n, const struct orr_classes *k, int64_t n_parts,
			     const float *seen, const float *classes, float *slope,
			     struct orr_metrics *metrics);
/* Of a sample: the mean over its width of the squared differences. Returns the sum. */
double orr_mse(int64_t n, int64_t width, const float *prediction, const float *target,
	       float *slope);
/* Of a sample: the mean over its width of -log of the probability 1 / (1 + exp(-score)) of targets
 * 1, and of the rest to 1 of targets 0. Counted are scores; correct: those on the side of their
 * target, 0 and below being the side of targets up to 0.5. */
void orr_bce(int64_t n, int64_t width, const float *scores, const float *target, float *slope,
	     struct orr_metrics *metrics);
#endif
