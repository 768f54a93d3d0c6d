#pragma once
/* One step of an optimizer on a block of parameters. Weight decay is L2 in SGD, with momentum or
 * without, and in Adam (added to the gradient) and decoupled in AdamW (p -= learning_rate *
 * weight_decay * p). Adam's moments are corrected for their start at zero. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "elements.h"
#include "orrery/orrery.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Floats of a block from the first up to before the end. */
struct orr_extent {
	int64_t first, end;
};

/* Parameters that do not decay, or, with a momentum above 0, running means: in place of a gradient
 * they have a mean, and p += momentum * (mean - p) by any optimizer. */
struct orr_exempt {
	int64_t first, end;
	double momentum;
};

struct orr_rule {
	enum orr_optimizer
		optimizer; /* its state (orr_optimizer_floats) is all zero before the first step */
	double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
	int n_averaged;                  /* divisor of the sum of the gradients; 0 means 1 */
	double scale;                    /* factor of the gradient, after clipping; 0 means 1 */
	const struct orr_exempt *spared; /* [n_spared] in order; borrowed */
	int n_spared;
	/* the parameters that change, and that the state is of; NULL: all; borrowed */
	const struct orr_extent *part;
};

/* Those of n. */
static inline struct orr_extent orr_rule_part(const struct orr_rule *rule, int64_t n)
{
	struct orr_extent all = {0, n};

	return rule->part ? *rule->part : all;
}

/* From i up to the end, or to where an exemption begins or ends before that. *spared: that which i
 * is in, or NULL. */
static inline int64_t orr_rule_border(const struct orr_rule *rule, int64_t i, int64_t end,
				      const struct orr_exempt **spared)
{
	const struct orr_exempt *next = rule->spared, *last = next + rule->n_spared;

	*spared = NULL;
	while (next < last && next->end <= i)
		next++;
	if (next == last)
		return end;
	if (next->first > i)
		return next->first < end ? next->first : end;
	*spared = next;
	return next->end < end ? next->end : end;
}

/* Chunk c of n floats in n_chunks: where it begins; chunk n_chunks begins at n. */
static inline int64_t orr_rule_chunk(int64_t n, int n_chunks, int c)
{
	return n / n_chunks * c + (c < n % n_chunks ? c : n % n_chunks);
}

struct orr_device;
struct orr_optimizer_kernels {
	/* U; number counts steps from 1. The gradient is the sum of n_blocks blocks, in the order
	 * of a ring: cut into chunks of that number, chunk c is the sum that starts with block c+1
	 * and goes round to block c. summed: the sums are there, blocks[c] is chunk c alone; NULL
	 * where it has nothing of the rule's part. Of a part of the parameters the state is as if
	 * there were no others. */
	void (*step)(struct orr_device *d, const struct orr_rule *rule, int64_t number, int64_t n,
		     float *parameters, float *state, const float *const *blocks, int n_blocks,
		     bool summed);
	/* sums[t], where the device can write, becomes the sum of the squares of tensor t of that
	 * gradient, in double. On a core, of 16 sums, each over every 16th element in order, from
	 * the tensor's first one on, so that neither the place of a tensor in its block nor the
	 * number of chunks shows in the bits; a device has an order of its own. The tensors come in
	 * the order of their places. */
	void (*squares)(struct orr_device *d, int64_t n, const float *const *blocks, int n_blocks,
			bool summed, const struct orr_extent *tensors, int n_tensors, double *sums);
};
#define ORR_OPTIMIZER_KERNELS(X) X(step) X(squares)

/* What all elements of a step share. */
struct orr_sgd orr_rule_sgd(const struct orr_rule *rule);
struct orr_adam orr_rule_adam(const struct orr_rule *rule, int64_t step);
/* A running mean as a step of SGD, which is not clipped. */
struct orr_sgd orr_rule_average(const struct orr_rule *rule, double momentum);

#ifdef __cplusplus
}
#endif
