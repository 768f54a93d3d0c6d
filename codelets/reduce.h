#ifndef ORR_REDUCE_H
#define ORR_REDUCE_H
/* (private to codelets.c) The sum over arg->group, on the stream of this StarPU worker; with CUDA
 * (reduce_cuda.c) or without (reduce_none.c). NULL, or why it could not be started. */
#include "arguments.h"

const char *orr_reduce_cuda(const struct orr_codelet_arg *arg, const float *from, float *to);
#endif
