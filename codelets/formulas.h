#pragma once
/* The operators that go element by element, each with its formulas in a file of its own, one text
 * for C and for CUDA: orr_NAME_of(x) and orr_NAME_slope(kept, dy), which is dy times the derivative
 * there. Name; what is kept, the input or the output; operations an element, forward and backward,
 * an exp, tanh or root as one. */
#include "operators/gelu.h"
#include "operators/gelu_tanh.h"
#include "operators/relu.h"
#include "operators/sigmoid.h"
#include "operators/silu.h"
#include "operators/tanh.h"

#define ORR_ELEMENTWISE(X) \
	X(relu, OUTPUT, 1, 1) \
	X(gelu, INPUTS, 8, 16) \
	X(gelu_tanh, INPUTS, 9, 18) \
	X(silu, INPUTS, 4, 8) \
	X(sigmoid, OUTPUT, 3, 3) \
	X(tanh, OUTPUT, 1, 3)

enum orr_elementwise {
#define ORR_NAME(name, kept, forward, backward) ORR_ELEMENTWISE_##name,
	ORR_ELEMENTWISE(ORR_NAME)
#undef ORR_NAME
};
