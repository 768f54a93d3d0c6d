#ifndef ORR_REDUCE_H
#define ORR_REDUCE_H
/* (private to codelets.c) Collectives of arg->group, on the stream of this StarPU worker; with CUDA
 * (reduce_cuda.c) or without (reduce_none.c). NULL, or why one could not be started. */
#include "arguments.h"

/* The sum, in place: of all, or where it is sharded of its part. */
const char *orr_reduce_cuda(const struct orr_codelet_arg *arg, float *gradient);
/* The parts of all members, each of which has its own in its place. */
const char *orr_gather_cuda(const struct orr_codelet_arg *arg, float *parameters);
#endif
