#pragma once
/* Every operator, in the order of messages and lists; those that go element by element are in
 * ../formulas.h. */
#include "../call.h"
#include "../formulas.h"

/* a descriptor's functions are all given the same, and need not look at all of it */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ORR_OPERATORS(X) \
	X(input) \
	X(linear) \
	X(layernorm) \
	X(rmsnorm) \
	X(add) \
	X(concat) \
	X(multiply) \
	X(scale) \
	X(slice) \
	X(first) \
	X(last) \
	X(mean) \
	X(softmax) \
	X(normalise) \
	X(embedding) \
	X(bag) \
	X(positions) \
	X(rotary) \
	X(attention) \
	X(interaction) \
	X(dropout) \
	X(conv2d) \
	X(max_pool) \
	X(mean_pool) \
	X(patches) \
	X(groupnorm) \
	X(batchnorm) \
	X(route) \
	X(dispatch) \
	X(combine) \
	X(softmax_part) \
	X(softmax_cross_entropy) \
	X(softmax_cross_entropy_parts) \
	X(mse) \
	X(bce) \
	X(contrastive) \
	X(balance) \
	X(opaque)

#define ORR_DECLARE(name) extern const struct orr_op orr_op_##name;
#define ORR_DECLARE_ELEMENTWISE(name, kept, forward, backward) ORR_DECLARE(name)
ORR_OPERATORS(ORR_DECLARE)
ORR_ELEMENTWISE(ORR_DECLARE_ELEMENTWISE)
#undef ORR_DECLARE
#undef ORR_DECLARE_ELEMENTWISE

/* Both passes of one that does this to its input and to gradients: f(call, x, y). */
#define ORR_BOTH_WAYS(f) \
	static void forward(const struct orr_call *c) \
	{ \
		f(c, orr_call_input(c, 0), orr_call_output(c)); \
	} \
	static void backward(const struct orr_call *c) \
	{ \
		f(c, orr_call_gradient(c), orr_call_input_gradient(c, 0)); \
	}

/* (linear.c) Weights [out][in] and perhaps a bias, rounded: how many bfloat16, and a round(), which
 * does nothing where is->rounded is 0. */
int64_t orr_linear_rounded(int64_t in, int64_t out, bool bias);
int orr_linear_round(const struct orr_instance *is, const float *parameters, uint16_t *to,
		     struct orr_rounding *pieces);
