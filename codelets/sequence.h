#ifndef ORR_SEQUENCE_H
#define ORR_SEQUENCE_H
/* What operators of sequences compute, on plain memory and by the rules of kernels.h. A sample is a
 * matrix of rows; n samples lie one after the other. room: of as many bytes as the function before
 * says, for the call. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sizes.h"

void orr_move(const struct orr_box *b, const float *x, float *y);
void orr_multiply(int64_t count, const float *a, const float *b, float *y); /* y = a b */

/* The same row w to each of n. */
void orr_add_row(int64_t n, int64_t width, const float *x, const float *w, float *y);
/* The sum of n rows, in order; apart as of orr_bag_weight. */
void orr_sum_rows(int64_t n, int64_t width, const float *dy, float *apart, float *dw);
/* The mean of each sample's rows. */
void orr_mean_forward(int64_t n, int64_t rows, int64_t width, const float *x, float *y);
void orr_mean_input(int64_t n, int64_t rows, int64_t width, const float *dy, float *dx);

void orr_softmax_forward(int64_t n, int64_t width, const float *x, float *y);
void orr_softmax_input(int64_t n, int64_t width, const float *y, const float *dy, float *dx);
/* To length 1, by n factors that the backward reads; rows shorter than epsilon as if they were as
 * long. */
void orr_normalise_forward(int64_t n, int64_t width, float epsilon, const float *x, float *y,
			   float *factors);
void orr_normalise_input(int64_t n, int64_t width, float epsilon, const float *y,
			 const float *factors, const float *dy, float *dx);

/* w: [vocabulary][features]. A wrong id makes the row NaN, and is nobody's gradient. Where apart is
 * not NULL, room for dw, the gradient is added to dw, with the bits of one that is computed there
 * and then added. */
void orr_bag_forward(const struct orr_bag *b, const float *ids, const float *w, float *y);
void orr_bag_weight(const struct orr_bag *b, const float *ids, const float *dy, float *apart,
		    float *dw);

size_t orr_rotary_bytes(const struct orr_rotary *t);
void orr_rotary(const struct orr_rotary *t, const float *x, void *room, float *y);

/* Of each sample's count rows, the dot products of row i with rows 0 to i - 1, for every i. dx: of
 * `rows` rows of each sample, from the first. */
void orr_interaction_forward(int64_t n, int64_t count, int64_t width, const float *x, float *y);
void orr_interaction_input(int64_t n, int64_t count, int64_t width, int64_t first, int64_t rows,
			   const float *x, const float *dy, float *dx);

void orr_dropout(const struct orr_drop *d, int64_t n, int64_t count, const float *x, float *y);

/* lengths: of each sample's keys, those that count; NULL: all. sums, [n][heads][queries]: the
 * logarithm of the sum of a row's exponentials, which the backward reads. A query without keys
 * gives zeros. */
size_t orr_attention_bytes(const struct orr_attention *a);
void orr_attention_forward(const struct orr_attention *a, const float *q, const float *k,
			   const float *v, const float *lengths, void *room, float *y, float *sums);
/* Any of dq, dk and dv may be NULL. */
void orr_attention_input(const struct orr_attention *a, const float *q, const float *k,
			 const float *v, const float *lengths, const float *y, const float *sums,
			 const float *dy, void *room, float *dq, float *dk, float *dv);
#endif
