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

/* The same of bfloat16, where orr_matmul_has_bf16; w has rows of orr_rounded_columns(in). False:
 * there is no memory for it. */
bool orr_linear_forward_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			     const uint16_t *w, const float *bias, float *y);
bool orr_linear_input_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *dy,
			   const uint16_t *w, float *dx);
bool orr_linear_weight_bf16(int64_t n, int64_t in, int64_t out, const uint16_t *x,
			    const uint16_t *dy, float *apart, float *dw);

/* Element by element; count: how many. */
void orr_map(enum orr_elementwise f, int64_t count, const float *x, float *y);
void orr_map_back(enum orr_elementwise f, int64_t count, const float *kept, const float *dy,
		  float *dx);
void orr_scale(int64_t count, float factor, const float *x, float *y); /* y = factor x */
void orr_add(int64_t count, const float *x, float *sum);               /* sum += x */
void orr_sum(int64_t count, const float *a, const float *b, float *y); /* y = a + b */
void orr_round_bf16(int64_t count, const float *x, float *y);          /* to bf16 */
void orr_to_bf16(int64_t count, const float *x, uint16_t *y);          /* the same bits, in half */

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

/* Losses return their sum over the samples; slope is its derivative by the first input. */
/* classes holds whole numbers in [0, width); any other makes loss and slope NaN. *correct: samples
 * whose largest score, the first of equal ones, is their class. */
double orr_softmax_cross_entropy(int64_t n, int64_t width, const float *scores,
				 const float *classes, float *slope, int64_t *correct);
/* Of a sample: the mean over its width of the squared differences. */
double orr_mse(int64_t n, int64_t width, const float *prediction, const float *target,
	       float *slope);
#endif
