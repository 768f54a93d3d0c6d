#ifndef ORR_PRECISION_H
#define ORR_PRECISION_H

/* Of the matrix products; everything else is float32, and so are parameters, gradients and stash.
 * BF16 rounds what a product reads to bfloat16 (to nearest, ties to even) and adds up in float32,
 * alike on every device. TF32 lets a CUDA device read 10 bits of the mantissa; a CPU core computes
 * it as FP32. */
enum orr_precision { ORR_PRECISION_FP32, ORR_PRECISION_TF32, ORR_PRECISION_BF16 };
#endif
