#pragma once
/* What operators of sequences compute, and of experts, by the rules of kernels.h. A sample is a
 * matrix of rows; n samples lie one after the other. */
#include <stddef.h>
#include <stdint.h>
#include "sizes.h"

struct orr_device;

/* Each of n rows. */
struct orr_row_kernels {
	void (*softmax_forward)(struct orr_device *d, int64_t n, int64_t width, const float *x,
				float *y);
	void (*softmax_input)(struct orr_device *d, int64_t n, int64_t width, const float *y,
			      const float *dy, float *dx);
	/* To length 1, by n factors that the backward reads; rows shorter than epsilon as if they
	 * were as long. */
	void (*normalise_forward)(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				  const float *x, float *y, float *factors);
	void (*normalise_input)(struct orr_device *d, int64_t n, int64_t width, float epsilon,
				const float *y, const float *factors, const float *dy, float *dx);
};
#define ORR_ROW_KERNELS(X) \
	X(softmax_forward) X(softmax_input) X(normalise_forward) X(normalise_input)

struct orr_sequence_kernels {
	void (*move)(struct orr_device *d, const struct orr_box *b, const float *x, float *y);
	/* the same row w to each of n */
	void (*add_row)(struct orr_device *d, int64_t n, int64_t width, const float *x,
			const float *w, float *y);
	/* the sum of n rows, in order; apart as of bag_weight */
	void (*sum_rows)(struct orr_device *d, int64_t n, int64_t width, const float *dy,
			 float *apart, float *dw);
	/* the mean of each sample's rows */
	void (*mean_forward)(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			     const float *x, float *y);
	void (*mean_input)(struct orr_device *d, int64_t n, int64_t rows, int64_t width,
			   const float *dy, float *dx);
	/* w: [vocabulary][features]. A wrong id makes the row NaN, and gets no gradient. Where
	 * apart is not NULL, room for a row, the gradient is added to dw, with the bits of one that
	 * is computed apart and then added. */
	void (*bag_forward)(struct orr_device *d, const struct orr_bag *b, const float *ids,
			    const float *w, float *y);
	size_t (*bag_bytes)(const struct orr_bag *b); /* of the workspace, for bag_weight */
	void (*bag_weight)(struct orr_device *d, const struct orr_bag *b, const float *ids,
			   const float *dy, float *apart, float *dw);
	size_t (*rotary_bytes)(const struct orr_rotary *t); /* of the workspace */
	void (*rotary)(struct orr_device *d, const struct orr_rotary *t, const float *x, float *y);
	/* Of each sample's count rows, the dot products of row i with rows 0 to i - 1, for every i.
	 * dx: of `rows` rows of each sample, from the first. */
	void (*interaction_forward)(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				    const float *x, float *y);
	void (*interaction_input)(struct orr_device *d, int64_t n, int64_t count, int64_t width,
				  int64_t first, int64_t rows, const float *x, const float *dy,
				  float *dx);
	void (*dropout)(struct orr_device *d, const struct orr_drop *drop, int64_t n, int64_t count,
			const float *x, float *y);
};
#define ORR_SEQUENCE_KERNELS(X) \
	X(move) \
	X(add_row) \
	X(sum_rows) \
	X(mean_forward) \
	X(mean_input) \
	X(bag_forward) \
	X(bag_bytes) \
	X(bag_weight) \
	X(rotary_bytes) X(rotary) X(interaction_forward) X(interaction_input) X(dropout)

/* lengths: of each sample's keys, those that count; NULL: all. sums, [n][heads][queries]: the
 * logarithm of the sum of a row's exponentials, which the backward reads. A query without keys
 * gives zeros. */
struct orr_attention_kernels {
	size_t (*bytes)(const struct orr_attention *a); /* of the workspace */
	void (*forward)(struct orr_device *d, const struct orr_attention *a, const float *q,
			const float *k, const float *v, const float *lengths, float *y,
			float *sums);
	/* any of dq, dk and dv may be NULL */
	void (*input)(struct orr_device *d, const struct orr_attention *a, const float *q,
		      const float *k, const float *v, const float *lengths, const float *y,
		      const float *sums, const float *dy, float *dq, float *dk, float *dv);
};
#define ORR_ATTENTION_KERNELS(X) X(bytes) X(forward) X(input)

/* Rows that go to experts and come back. A row's choices are `top` struct orr_routed, one after the
 * other; an expert's rows are groups * places a sample. */
struct orr_expert_kernels {
	void (*route)(struct orr_device *d, const struct orr_routing *r, const float *scores,
		      float *route);
	void (*route_input)(struct orr_device *d, const struct orr_routing *r, const float *scores,
			    const float *route, const float *slope, float *dx);
	/* To an expert: its rows, zeros where there is none; at: for each row which of them it
	 * became, in its sample, or -1. */
	void (*dispatch)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			 int64_t width, const float *x, const float *route, float *y, float *at);
	void (*dispatch_input)(struct orr_device *d, const struct orr_routing *r, int64_t width,
			       const float *at, const float *dy, float *dx);
	/* From an expert: its rows, times their weights, added to y. The slopes of what it gave,
	 * and of those of route that are its own; either may be NULL. */
	void (*combine)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			int64_t width, const float *route, const float *x, float *y);
	void (*combine_input)(struct orr_device *d, const struct orr_routing *r, int64_t expert,
			      int64_t width, const float *route, const float *x, const float *dy,
			      float *dx, float *slope);
};
#define ORR_EXPERT_KERNELS(X) \
	X(route) X(route_input) X(dispatch) X(dispatch_input) X(combine) X(combine_input)
