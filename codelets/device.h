#ifndef ORR_DEVICE_H
#define ORR_DEVICE_H
/* What a program computes on: a CPU core, or a stream of a CUDA device. A table of kernels tells
 * them apart, and nothing else does: program.c and codelets.c are the same for both. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formulas.h"
#include "optimizer.h"
#include "orrery/numerics.h"
#include "sequence_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct orr_classes; /* shapes.h */
struct orr_groups;
struct orr_contrast;
struct orr_expert_kernels; /* experts.h */
struct orr_kernels;
struct orr_largest;
struct orr_metrics;
struct orr_window;

/* Which samples are computed next, for what depends on them: random numbers, statistics. */
struct orr_microbatch {
	uint64_t seed;   /* of the run */
	int64_t sample;  /* the number of the first sample, counted from the first step on */
	int64_t first;   /* its number in the minibatch */
	bool evaluation; /* nothing is drawn, and statistics are the running ones */
	/* what operators read of a whole minibatch, by orr_program_gather, and its samples; NULL:
	 * it is a minibatch of its own */
	float *gathered;
	int64_t n_minibatch;
};

/* What tells a task from others: as long as all of these are the same, so is what it starts. */
#define ORR_KEY_WORDS 64
struct orr_key {
	int n; /* above ORR_KEY_WORDS: more than are kept */
	uint64_t words[ORR_KEY_WORDS];
};

static inline void orr_key_add(struct orr_key *key, uint64_t word)
{
	if (key->n < ORR_KEY_WORDS)
		key->words[key->n] = word;
	key->n++;
}

/* One at a time may use it. On a CUDA device all pointers that kernels are given, metrics apart,
 * are to its memory, kernels return before they have run, and run in the order of the calls. */
struct orr_device {
	const struct orr_kernels *kernels;
	enum orr_precision precision;
	/* orr_program_workspace_bytes of the largest program, aligned to 256; borrowed */
	void *workspace;
	/* (optional) the rounded copy, by orr_program_round, of the parameters used next; borrowed
	 */
	const void *rounded;
	struct orr_microbatch microbatch;
	/* what is computed next has bfloat16 where comments below say activations; else floats */
	bool halves;
	const char
		*failure; /* why the first kernel that could not be started was not; NULL: none */
	bool lost; /* kernels failed as they ran: no call of CUDA works in this process any more */
	struct orr_cuda *cuda; /* (private to codelets/cuda) */
};

/* A CPU core; a CUDA device is made by cuda/stream.h. */
struct orr_device orr_device_cpu(enum orr_precision precision);

/* A matrix to bfloat16, in rows of orr_rounded_columns(columns), zero behind the columns. */
#define ORR_MOST_ROUNDINGS 32 /* at once */
struct orr_rounding {
	const float *from;
	void *to;
	int64_t rows, columns;
};

/* Shapes and results are those of kernels.h. */
struct orr_kernels {
	const char *name;
	/* It takes activations in bfloat16: x, y, dy and dx of linear, attention, map, layernorm,
	 * copy and sum, whose rows are then multiples of 8. */
	bool halves;
	int64_t unfolded; /* floats of images that a convolution unfolds at a time */
	/* Memory for any of these on n samples and the widths in and out (equal but for linear). */
	size_t (*workspace_bytes)(enum orr_precision precision, int64_t n, int64_t in, int64_t out);
	/* (optional) Prepare products of these sizes, before the first of them. */
	void (*prepare)(struct orr_device *d, int64_t n, int64_t in, int64_t out, bool bias);

	/* (optional) Before a task's kernels: what others' calls to CUDA left is forgotten, and the
	 * failure of kernels that ran since is noted. */
	void (*begin)(struct orr_device *d);
	/* (optional) Do what start(d, task) does, which starts kernels and nothing else, and may be
	 * called twice: at once, where a task with this key was done before. */
	void (*replay)(struct orr_device *d, const struct orr_key *key,
		       void (*start)(struct orr_device *d, void *task), void *task);

	void (*copy)(struct orr_device *d, int64_t count, const float *x, float *y);
	void (*zero)(struct orr_device *d, int64_t count, float *y);
	void (*scale)(struct orr_device *d, int64_t count, float factor, const float *x, float *y);
	/* y = a + b; y may be a or b */
	void (*sum)(struct orr_device *d, int64_t count, const float *a, const float *b, float *y);
	/* bfloat16: its floats; x rounded to it, added to what is there where `add` says so, and
	 * zeros behind it up to `end` values; y = a + b, each sum rounded */
	void (*widen)(struct orr_device *d, int64_t count, const void *x, float *y);
	void (*narrow)(struct orr_device *d, int64_t count, int64_t end, const float *x, bool add,
		       void *y);
	void (*sum_halves)(struct orr_device *d, int64_t count, const void *a, const void *b,
			   void *y);
	void (*columns_put)(struct orr_device *d, int64_t n, int64_t width, const float *x,
			    int64_t total, int64_t first, float *y);
	void (*columns_take)(struct orr_device *d, int64_t n, int64_t total, int64_t first,
			     const float *y, int64_t width, float *x);

	/* Matrices for products in BF16. */
	void (*round)(struct orr_device *d, const struct orr_rounding *pieces, int n_pieces);
	/* rounded: the result of round for w, or NULL: the kernel rounds w itself; bias and dbias
	 * NULL: there is none */
	void (*linear_forward)(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			       const float *x, const float *w, const void *rounded,
			       const float *bias, float *y);
	void (*linear_input)(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			     const float *dy, const float *w, const void *rounded, float *dx);
	/* apart: NULL, then dw and dbias are written over; else the gradient is added to them, with
	 * the bits of one computed there, room for all of it, and added afterwards */
	void (*linear_weight)(struct orr_device *d, int64_t n, int64_t in, int64_t out,
			      const float *x, const float *dy, float *apart, float *dw,
			      float *dbias);

	/* element by element, by one of formulas.h's; kept: its x, or its y */
	void (*map)(struct orr_device *d, enum orr_elementwise f, int64_t count, const float *x,
		    float *y);
	void (*map_back)(struct orr_device *d, enum orr_elementwise f, int64_t count,
			 const float *kept, const float *dy, float *dx);

	void (*layernorm_forward)(struct orr_device *d, const struct orr_norm *norm, const float *x,
				  const float *gain, const float *bias, float *y, float *normal);
	void (*layernorm_input)(struct orr_device *d, const struct orr_norm *norm,
				const float *normal, const float *gain, const float *dy, float *dx);
	void (*layernorm_weight)(struct orr_device *d, const struct orr_norm *norm,
				 const float *normal, const float *dy, float *apart, float *dgain,
				 float *dbias);
	/* both at once, with the bits of each */
	void (*layernorm_backward)(struct orr_device *d, const struct orr_norm *norm,
				   const float *normal, const float *gain, const float *dy,
				   float *apart, float *dx, float *dgain, float *dbias);

	void (*unfold)(struct orr_device *d, int64_t n, const struct orr_window *w, const float *x,
		       float *rows);
	void (*fold)(struct orr_device *d, int64_t n, const struct orr_window *w, const float *rows,
		     float *x);
	void (*turn)(struct orr_device *d, int64_t n, int64_t rows, int64_t columns, const float *x,
		     float *y);
	void (*max_pool_forward)(struct orr_device *d, int64_t n, const struct orr_window *w,
				 const float *x, float *y, float *at);
	void (*max_pool_backward)(struct orr_device *d, int64_t n, const struct orr_window *w,
				  const float *at, const float *dy, float *dx);
	void (*mean_pool_forward)(struct orr_device *d, int64_t n, const struct orr_window *w,
				  const float *x, float *y);
	void (*mean_pool_backward)(struct orr_device *d, int64_t n, const struct orr_window *w,
				   const float *dy, float *dx);
	void (*groupnorm_forward)(struct orr_device *d, int64_t n, const struct orr_groups *g,
				  const float *x, const float *gain, const float *bias, float *y,
				  float *normal);
	void (*groupnorm_input)(struct orr_device *d, int64_t n, const struct orr_groups *g,
				const float *normal, const float *gain, const float *dy, float *dx);
	void (*batchnorm_forward)(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				  const float *x, const float *gain, const float *bias, float *y,
				  float *normal, float *moments);
	void (*batchnorm_evaluate)(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				   const float *x, const float *gain, const float *bias,
				   const float *moments, float *y);
	void (*batchnorm_input)(struct orr_device *d, int64_t n, int64_t width, double epsilon,
				const float *normal, const float *moments, const float *gain,
				const float *dy, float *dx);

	/* metrics, where the device can write: NULL, nobody asks */
	void (*softmax_cross_entropy)(struct orr_device *d, int64_t n, const struct orr_classes *k,
				      const float *scores, const float *classes, float *slope,
				      struct orr_metrics *metrics);
	void (*mse)(struct orr_device *d, int64_t n, int64_t width, const float *prediction,
		    const float *target, float *slope, struct orr_metrics *metrics);
	void (*bce)(struct orr_device *d, int64_t n, int64_t width, const float *scores,
		    const float *target, float *slope, struct orr_metrics *metrics);

	/* a loss of classes whose scores lie in parts */
	void (*class_part)(struct orr_device *d, int64_t n, int64_t first, int64_t width,
			   const float *scores, const float *classes, float *y, float *exponentials,
			   float *at);
	void (*class_part_input)(struct orr_device *d, int64_t n, int64_t width,
				 const float *exponentials, const float *at, const float *dy,
				 float *dx);
	void (*class_parts_entropy)(struct orr_device *d, int64_t n, const struct orr_classes *k,
				    int64_t n_parts, const float *seen, const float *classes,
				    float *slope, struct orr_metrics *metrics);

	/* contrastive.h: by tiles of the minibatch's scores; t is a parameter. Then what n samples
	 * have seen, added up: into metrics, and the derivative by t to slope */
	void (*contrastive_normalise)(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				      int64_t first, const float *t, const float *scores,
				      const struct orr_largest *rows,
				      const struct orr_largest *columns, float *room);
	void (*contrastive_slopes)(struct orr_device *d, int64_t n_rows, int64_t n_columns,
				   int64_t first, const float *t, float *scores,
				   const struct orr_largest *rows,
				   const struct orr_largest *columns, float *room,
				   struct orr_contrast *seen, bool again);
	void (*contrastive_count)(struct orr_device *d, int64_t n, const struct orr_contrast *seen,
				  float *slope, struct orr_metrics *metrics);

	const struct orr_sequence_kernels *sequence;
	const struct orr_expert_kernels *experts;

	/* *first, where the device can write, becomes the least `at + i` of an x[i] whose square
	 * is not finite, if that is less than what it is */
	void (*find_wild)(struct orr_device *d, int64_t count, const float *x, int64_t at,
			  int64_t *first);
	/* summed: blocks are chunks of the sum (orr_rule_step_chunks), else orr_rule_step */
	void (*step)(struct orr_device *d, const struct orr_rule *rule, int64_t step, int64_t n,
		     float *parameters, float *state, const float *const *blocks, int n_blocks,
		     bool summed);
	/* sums, where the device can write; of the gradient that step() takes: see
	 * orr_gradient_squares, whose order of additions a device need not keep, but one of its
	 * own */
	void (*squares)(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
			bool summed, const struct orr_extent *tensors, int n_tensors, double *sums);

	/* For what runs apart from StarPU. Memory that the kernels reach, aligned to 256; NULL:
	 * there is none. put: floats from main memory to it. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *at); /* NULL is fine */
	void (*put)(struct orr_device *d, int64_t count, const float *from, float *to);
	/* (optional) Until all that was started has run, and any failure of it is known; NULL: that
	 * is so when a kernel returns. */
	void (*wait)(struct orr_device *d);
};
extern const struct orr_kernels orr_kernels_cpu;

/* The row length of a rounded matrix, in bfloat16, padding included: each row starts where the
 * fastest products want it, at a multiple of 16 bytes. */
ORR_ELEMENT int64_t orr_rounded_columns(int64_t columns)
{
	return (columns + 7) / 8 * 8;
}

#ifdef __cplusplus
}
#endif
#endif
