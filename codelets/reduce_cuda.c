#include "reduce.h"

#include <starpu.h>

#include "cuda/collective.h"

const char *orr_reduce_cuda(const struct orr_codelet_arg *arg, float *gradient)
{
	return (arg->sharded ? orr_nccl_sum_part : orr_nccl_sum)(
		arg->group, arg->member, gradient, arg->n_floats, starpu_cuda_get_local_stream());
}

const char *orr_gather_cuda(const struct orr_codelet_arg *arg, float *parameters)
{
	return orr_nccl_gather(arg->group, arg->member, parameters, arg->n_floats,
			       starpu_cuda_get_local_stream());
}
