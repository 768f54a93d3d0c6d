#pragma once
/* What the operators compute, one function a pass: no graph, no StarPU, no allocation. A device has
 * a table for each subject; those of a CPU core compute in one thread, those of a CUDA device start
 * kernels on its stream. A matrix is row-major with a row per sample; n is its number of rows.
 * Results come last and are written, never added to, unless the comment says so. Sums over samples
 * go in sample order. */
#include <stdbool.h>
#include <stdint.h>
#include "formulas.h"
#include "sizes.h"

struct orr_classes; /* shapes.h */
struct orr_device;  /* device.h */
struct orr_norm_groups;
struct orr_rounding; /* device.h */
struct orr_window;

/* A table's list has the names of its kernels, which a device's functions for them have, too. */
#define ORR_KERNEL(NAME) .NAME = (NAME),

/* Element by element; count: how many. */
struct orr_element_kernels {
	void (*copy)(struct orr_device *d, int64_t count, const float *x, float *y);
	void (*zero)(struct orr_device *d, int64_t count, float *y);
	/* of activations */
	void (*scale)(struct orr_device *d, int64_t count, float factor, const float *x, float *y);
	/* y = a + b, of activations; y may be a or b */
	void (*sum)(struct orr_device *d, int64_t count, const float *a, const float *b, float *y);
	void (*multiply)(struct orr_device *d, int64_t count, const float *a, const float *b,
			 float *y);
	/* bfloat16: its floats; x rounded to it, added to what is there where `add` says so, and
	 * zeros behind it up to `end` values; y = a + b of floats and bfloat16 */
	void (*widen)(struct orr_device *d, int64_t count, const void *x, float *y);
	void (*narrow)(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		       void *y);
	void (*sum_mixed)(struct orr_device *d, int64_t count, const float *a, const void *b,
			  float *y);
	/* y = relu(a + b); of activations */
	void (*sum_relu)(struct orr_device *d, int64_t count, const float *a, const float *b,
			 float *y);
	/* by one of formulas.h's; kept: its x, or its y */
	void (*map)(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		    float *y);
	void (*map_back)(struct orr_device *d, enum orr_elementwise f, int64_t count,
			 const float *kept, const float *dy, float *dx);
	/* *first, where the device can write, becomes the least `at + i` of an x[i] whose square
	 * is not finite, if that is less than what it is */
	void (*find_wild)(struct orr_device *d, int64_t count, const float *x, int64_t at,
			  int64_t *first);
};
#define ORR_ELEMENT_KERNELS(X) \
	X(copy) \
	X(zero) \
	X(scale) \
	X(sum) \
	X(multiply) \
	X(widen) X(narrow) X(sum_mixed) X(sum_relu) X(map) X(map_back) X(find_wild)

/* y = x w^T + bias; w is [out][in], row after row. */
struct orr_linear_kernels {
	/* (optional) Prepare products of these sizes, before the first of them. */
	void (*prepare)(struct orr_device *d, int64_t n, int64_t in, int64_t out, bool bias);
	/* matrices for products in BF16 */
	void (*round)(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces);
	/* rounded: the result of round for w, or NULL: the kernel rounds w itself; bias and dbias
	 * NULL: there is none */
	void (*forward)(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
			const float *w, const void *rounded, const float *bias, float *y);
	void (*input)(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *dy,
		      const float *w, const void *rounded, float *dx);
	/* apart: NULL, then dw and dbias are written over; else the gradient is added to them, with
	 * the bits of one computed there, room for a slice of rows and for dbias, and
	 * added afterwards */
	void (*weight)(struct orr_device *d, int64_t n, int64_t in, int64_t out, const float *x,
		       const float *dy, float *apart, float *dw, float *dbias);
};
/* Rows of dw that a core computes at a time, so that they stay in the cache until they are added:
 * half a MiB; twice that where a product takes half the time, since each lays out x anew. */
static inline int64_t orr_slice_rows(bool bf16, int64_t in, int64_t out)
{
	int64_t fit = (bf16 ? 1 << 18 : 1 << 17) / in, rows = fit ? (fit + 63) / 64 * 64 : 64;

	return rows < out ? rows : out;
}

struct orr_norm_kernels {
	/* Each row times gain and, where it is centred, plus bias. normal, which the backward
	 * reads, holds the n rows before gain and bias and then the n factors 1/sqrt(variance +
	 * epsilon). apart: as of linear weights; dx or dgain NULL: not wanted. Each has the same
	 * bits alone as with the other. */
	void (*layernorm_forward)(struct orr_device *d, const struct orr_norm *norm, const float *x,
				  const float *gain, const float *bias, float *y, float *normal);
	void (*layernorm_backward)(struct orr_device *d, const struct orr_norm *norm,
				   const float *normal, const float *gain, const float *dy,
				   float *apart, float *dx, float *dgain, float *dbias);
};
#define ORR_NORM_KERNELS(X) X(layernorm_forward) X(layernorm_backward)

/* Groups of columns (shapes.h) of n samples, or of a batch, to mean 0 and variance 1 (plus
 * epsilon),
 * then times gain, plus bias, which are a column's each. Rows are activations. moments, slopes and
 * sums are [n][2][width]. */
struct orr_column_norm_kernels {
	size_t (*bytes)(int64_t n, const struct orr_norm_groups *g); /* of the workspace */
	/* of each column's group the mean, and the variance: the mean of the squared differences */
	void (*moments)(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			const float *x, float *moments);
	/* What is below least becomes 0. */
	void (*normalise)(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
			  const float *x, const float *gain, const float *bias,
			  const float *moments, float least, float *y);
	/* A sample's gradients of the gains, and of the biases. y: the output of a relu, which
	 * takes what it does not let through from dy; NULL: there is none. */
	void (*slopes)(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		       const float *x, const float *moments, const float *y, float *dy,
		       float *slopes);
	/* of the slopes, each times its gain, over a column's group; of one that is alone in its
	 * group its slopes. That is what input reads. */
	void (*join)(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		     const float *gain, const float *slopes, float *sums);
	void (*input)(struct orr_device *d, int64_t n, const struct orr_norm_groups *g,
		      const float *x, const float *moments, const float *gain, const float *dy,
		      const float *sums, float *dx);
};
#define ORR_COLUMN_NORM_KERNELS(X) X(bytes) X(moments) X(normalise) X(slopes) X(join) X(input)

/* Of n samples. */
struct orr_image_kernels {
	/* What the window sees at each of its places, a row of the matrix each: pixel by pixel,
	 * zeros outside of the image. And back: each pixel is the sum of what rows say of it, from
	 * the first row to the last. Channels that the window does not see stay as they are. */
	void (*unfold)(struct orr_device *d, int64_t n, const struct orr_window *w, const float *x,
		       float *rows);
	void (*fold)(struct orr_device *d, int64_t n, const struct orr_window *w, const float *rows,
		     float *x);
	/* y = x transposed, n matrices of rows x columns one after the other */
	void (*turn)(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		     float *y);
	/* Of all channels the largest, and at, for the backward: which pixel of the window that
	 * is, NaN being larger than all and the first of equal ones; outside of the image there is
	 * none. at NULL: the mean over side * side pixels everywhere, those outside being 0. */
	void (*pool_forward)(struct orr_device *d, int64_t n, const struct orr_window *w,
			     const float *x, float *y, float *at);
	void (*pool_backward)(struct orr_device *d, int64_t n, const struct orr_window *w,
			      const float *at, const float *dy, float *dx);
};
#define ORR_IMAGE_KERNELS(X) X(unfold) X(fold) X(turn) X(pool_forward) X(pool_backward)

/* What a loss saw of a block; whole numbers but for the loss, so that ranks add doubles. */
struct orr_metrics {
	double loss;       /* summed over the samples (not the mean) */
	double correct;    /* samples classified correctly */
	double classified; /* samples that a classifying loss saw; 0 where none is */
	/* of a loss that `drops`: choices of experts that found a place, and all of them */
};

ORR_ELEMENT void orr_metrics_add(struct orr_metrics *sum, const struct orr_metrics *seen)
{
	sum->loss += seen->loss;
	sum->correct += seen->correct;
	sum->classified += seen->classified;
}

/* Of n samples. metrics, where the device can write: their sum over the samples, and what was
 * counted (NULL: not wanted). slope: the derivative by the first input. */
struct orr_loss_kernels {
	/* Of a sample: the mean over its rows that are not ignored, 0 if there is none. classes
	 * holds whole numbers in [0, width); any other makes loss and slope NaN. Counted are rows
	 * that are not ignored; correct: those whose largest score, the first of equal ones, is
	 * their class. Scores and slope are activations, and may lie in one place; a core has
	 * room for a row of floats in its workspace. */
	void (*softmax_cross_entropy)(struct orr_device *d, int64_t n, const struct orr_classes *k,
				      const float *scores, const float *classes, float *slope,
				      struct orr_metrics *metrics);
	/* Of a sample: the mean over its width of the squared differences. */
	void (*mse)(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		    const float *target, float *slope, struct orr_metrics *metrics);
	/* Of a sample: the mean over its width of -log of the probability 1 / (1 + exp(-score)) of
	 * targets 1, and of the rest to 1 of targets 0. Counted are scores; correct: those on the
	 * side of their target, 0 and below being the side of targets up to 0.5. */
	void (*bce)(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		    const float *target, float *slope, struct orr_metrics *metrics);
	/* Of n rows with a part of the classes' scores, `width` of them from class `first` on: what
	 * the loss of all needs of each, y: [n] struct orr_class_part; exponentials: those of the
	 * scores, and at: where among them the row's class is, or -1, which the backward reads. dy:
	 * slopes of y, of which those of the largest scores and their places are left out, as they
	 * count as constants. */
	void (*class_part)(struct orr_device *d, int64_t n, int64_t first, int64_t width,
			   const float *scores, const float *classes, float *y, float *exponentials,
			   float *at);
	void (*class_part_input)(struct orr_device *d, int64_t n, int64_t width,
				 const float *exponentials, const float *at, const float *dy,
				 float *dx);
	/* softmax_cross_entropy() of rows of which each of n_parts parts has seen its own, [n *
	 * rows][n_parts] struct orr_class_part as is slope; k->width: classes in all. */
	void (*class_parts_entropy)(struct orr_device *d, int64_t n, const struct orr_classes *k,
				    int64_t n_parts, const float *seen, const float *classes,
				    float *slope, struct orr_metrics *metrics);
	/* Of a sample: experts times the sum over them of the share of rows whose first choice it
	 * is, times its mean probability [Fedus22]. slope: by the scores, the shares being
	 * constants; shares, room for n * experts. metrics (NULL: not wanted): their sum over the
	 * samples; counted are choices, correct those that have a place. */
	void (*balance)(struct orr_device *d, const struct orr_routing *r, const float *scores,
			const float *route, float *slope, float *shares,
			struct orr_metrics *metrics);
};
#define ORR_LOSS_KERNELS(X) \
	X(softmax_cross_entropy) \
	X(mse) X(bce) X(class_part) X(class_part_input) X(class_parts_entropy) X(balance)
