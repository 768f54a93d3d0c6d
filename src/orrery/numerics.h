#ifndef ORR_NUMERICS_H
#define ORR_NUMERICS_H
/* What kernels compute with, and what is kept in memory for them (src/memory.h): enums alone, for
 * kernels and for whoever plans. */

/* Of the matrix products; everything else is float32, and so are parameters, gradients and stash.
 * BF16 rounds what a product reads to bfloat16 (to nearest, ties to even) and adds up in float32,
 * alike on every device. TF32 lets a CUDA device read 10 bits of the mantissa; a CPU core computes
 * it as FP32. */
enum orr_precision { ORR_PRECISION_FP32, ORR_PRECISION_TF32, ORR_PRECISION_BF16 };
#define ORR_N_PRECISIONS 3

/* MOMENTUM is SGD with momentum, SGD the same without. NONE leaves the parameters as they are:
 * gradients are computed and kept, and nothing is done with them. */
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
};
#endif
