#ifndef ORR_NUMERICS_H
#define ORR_NUMERICS_H
/* Precisions and optimizers: enums alone, for kernels and for planning; parameter_cost.h has their
 * memory. */
#include <stdbool.h>

/* Precision of matrix products; sums, parameters, their gradients and the optimizer's state are
 * float32. BF16 rounds the inputs of a product to bfloat16 (to nearest, ties to even) and
 * accumulates in float32, the same on every device; a graph of this precision
 * (orr_graph_set_precision) has its activations, stash and edges in bfloat16, too. TF32 lets a CUDA device read 10 bits of the
 * mantissa; a CPU core computes it as FP32. */
enum orr_precision { ORR_PRECISION_FP32, ORR_PRECISION_TF32, ORR_PRECISION_BF16 };
#define ORR_N_PRECISIONS 3

/* MOMENTUM is SGD with momentum, SGD the same without. NONE computes gradients and leaves the
 * parameters unchanged. */
enum orr_optimizer {
	ORR_OPTIMIZER_ADAMW,
	ORR_OPTIMIZER_ADAM,
	ORR_OPTIMIZER_MOMENTUM,
	ORR_OPTIMIZER_SGD,
	ORR_OPTIMIZER_NONE
};
#define ORR_N_OPTIMIZERS 5

/* Floats of state for each parameter. */
static inline int orr_optimizer_floats(enum orr_optimizer optimizer)
{
	switch (optimizer) {
	case ORR_OPTIMIZER_ADAMW:
	case ORR_OPTIMIZER_ADAM:
		return 2;
	case ORR_OPTIMIZER_MOMENTUM:
		return 1;
	case ORR_OPTIMIZER_SGD:
	case ORR_OPTIMIZER_NONE:
		break;
	}
	return 0;
}

struct orr_numerics {
	enum orr_optimizer optimizer;
	enum orr_precision precision;
	/* Of a stage with k replicas each keeps the optimizer's state of one k-th of the
	 * parameters, which it alone updates: it gets the sum of their gradients, and sends them to
	 * the others afterwards. */
	bool shard_optimizer;
};
#endif
