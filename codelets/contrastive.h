#pragma once
/* The contrastive loss on plain memory: two matrices of one row a sample, of which row i of the one
 * belongs to row i of the other, and the score of any two rows is their product times exp(t). Of a
 * minibatch of N samples the loss is the mean of two cross-entropies: of each row of the N x N
 * scores, whose class is its own column, and of each column. Scores come by tiles, rows of them by
 * all N columns, as products of the two matrices: without exp(t). */
#include <stdbool.h>
#include <stdint.h>

struct orr_device;
struct orr_metrics; /* kernels.h */

/* The largest of a row's scores, or of a column's, and the sum of exp(score - largest). */
struct orr_largest {
	float *most; /* [N] */
	double *sum; /* [N] */
};

/* What a sample adds: to the loss, to the number of samples whose largest score in their row is
 * their own, to the derivative by t. */
struct orr_contrast {
	double loss, hit, slope;
};

/* t, a parameter, is where the device reads. */
struct orr_contrastive_kernels {
	/* A tile from row `first` on: rows->... of its rows, and columns->... of what has been seen
	 * so far, which begins anew at row 0. room: N floats. */
	void (*normalise)(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
			  const float *t, const float *scores, const struct orr_largest *rows,
			  const struct orr_largest *columns, float *room);
	/* The tile's scores become the derivatives by the products that they were, summed over the
	 * samples and not their mean; both are complete. seen: of the tile's rows, over what was
	 * there; with `again`, of scores the other way round, their loss is added. */
	void (*slopes)(struct orr_device *d, int64_t n_rows, int64_t n_columns, int64_t first,
		       const float *t, float *scores, const struct orr_largest *rows,
		       const struct orr_largest *columns, float *room, struct orr_contrast *seen,
		       bool again);
	/* What n samples have seen, added up: into metrics, and the derivative by t to slope. */
	void (*count)(struct orr_device *d, int64_t n, const struct orr_contrast *seen,
		      float *slope, struct orr_metrics *metrics);
};
#define ORR_CONTRASTIVE_KERNELS(X) X(normalise) X(slopes) X(count)
