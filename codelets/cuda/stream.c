#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "../experts.h"
#include "geometry.h"
#include "private.h"

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static size_t workspace_bytes(enum orr_precision precision, int64_t n, int64_t in, int64_t out)
{
	size_t bytes = orr_cuda_product_bytes(precision, n, in, out);

	bytes = larger(bytes, orr_cuda_sums_bytes(n, in > out ? in : out));
	bytes = larger(bytes, orr_cuda_batchnorm_bytes(n, in));
	return ORR_BLAS_BYTES + larger(bytes, orr_cuda_rows_bytes(n));
}

static size_t rotary_bytes(const struct orr_rotary *t)
{
	(void)t;
	return 0;
}

static size_t attention_bytes(const struct orr_attention *a)
{
	return ORR_BLAS_BYTES + orr_cuda_attention_bytes(a);
}

static const struct orr_sequence_kernels sequence = {
	.rotary_bytes = rotary_bytes,
	.attention_bytes = attention_bytes,
	.move = orr_cuda_move,
	.multiply = orr_cuda_multiply,
	.add_row = orr_cuda_add_row,
	.sum_rows = orr_cuda_sum_rows,
	.mean_forward = orr_cuda_mean_forward,
	.mean_input = orr_cuda_mean_input,
	.softmax_forward = orr_cuda_softmax_forward,
	.softmax_input = orr_cuda_softmax_input,
	.normalise_forward = orr_cuda_normalise_forward,
	.normalise_input = orr_cuda_normalise_input,
	.bag_forward = orr_cuda_bag_forward,
	.bag_weight = orr_cuda_bag_weight,
	.rotary = orr_cuda_rotary,
	.interaction_forward = orr_cuda_interaction_forward,
	.interaction_input = orr_cuda_interaction_input,
	.dropout = orr_cuda_dropout,
	.attention_forward = orr_cuda_attention_forward,
	.attention_input = orr_cuda_attention_input,
};

const struct orr_expert_kernels orr_expert_kernels_cuda = {
	.route = orr_cuda_route,
	.route_input = orr_cuda_route_input,
	.dispatch = orr_cuda_dispatch,
	.dispatch_input = orr_cuda_dispatch_input,
	.combine = orr_cuda_combine,
	.combine_input = orr_cuda_combine_input,
	.balance = orr_cuda_balance,
};

const struct orr_kernels orr_kernels_cuda = {
	.name = "cuda",
	.halves = true,
	.unfolded = 1 << 24,
	.workspace_bytes = workspace_bytes,
	.prepare = orr_cuda_prepare,
	.begin = orr_cuda_begin,
	.replay = orr_cuda_replay,
	.copy = orr_cuda_copy,
	.zero = orr_cuda_zero,
	.scale = orr_cuda_scale,
	.sum = orr_cuda_sum,
	.widen = orr_cuda_widen,
	.narrow = orr_cuda_narrow,
	.sum_halves = orr_cuda_sum_halves,
	.columns_put = orr_cuda_columns_put,
	.columns_take = orr_cuda_columns_take,
	.round = orr_cuda_round,
	.linear_forward = orr_cuda_linear_forward,
	.linear_input = orr_cuda_linear_input,
	.linear_weight = orr_cuda_linear_weight,
	.map = orr_cuda_map,
	.map_back = orr_cuda_map_back,
	.layernorm_forward = orr_cuda_layernorm_forward,
	.layernorm_input = orr_cuda_layernorm_input,
	.layernorm_weight = orr_cuda_layernorm_weight,
	.layernorm_backward = orr_cuda_layernorm_backward,
	.unfold = orr_cuda_unfold,
	.fold = orr_cuda_fold,
	.turn = orr_cuda_turn,
	.max_pool_forward = orr_cuda_max_pool_forward,
	.max_pool_backward = orr_cuda_max_pool_backward,
	.mean_pool_forward = orr_cuda_mean_pool_forward,
	.mean_pool_backward = orr_cuda_mean_pool_backward,
	.groupnorm_forward = orr_cuda_groupnorm_forward,
	.groupnorm_input = orr_cuda_groupnorm_input,
	.batchnorm_forward = orr_cuda_batchnorm_forward,
	.batchnorm_evaluate = orr_cuda_batchnorm_evaluate,
	.batchnorm_input = orr_cuda_batchnorm_input,
	.softmax_cross_entropy = orr_cuda_softmax_cross_entropy,
	.mse = orr_cuda_mse,
	.contrastive_normalise = orr_cuda_contrastive_normalise,
	.contrastive_slopes = orr_cuda_contrastive_slopes,
	.contrastive_count = orr_cuda_contrastive_count,
	.bce = orr_cuda_bce,
	.class_part = orr_cuda_class_part,
	.class_part_input = orr_cuda_class_part_input,
	.class_parts_entropy = orr_cuda_class_parts_entropy,
	.sequence = &sequence,
	.experts = &orr_expert_kernels_cuda,
	.find_wild = orr_cuda_find_wild,
	.step = orr_cuda_step,
	.squares = orr_cuda_squares,
};

int orr_cuda_stream_init(struct orr_device *device, enum orr_precision precision, void *stream,
			 char *why, size_t size)
{
	struct orr_cuda *cuda = calloc(1, sizeof(*cuda));
	cublasStatus_t code;

	*device = (struct orr_device){
		.kernels = &orr_kernels_cuda, .precision = precision, .cuda = cuda};
	if (!cuda) {
		snprintf(why, size, "no memory");
		return -1;
	}
	cuda->stream = stream;
	if (cudaMalloc((void **)&cuda->partial, ORR_SLICES * sizeof(*cuda->partial)) ||
	    cudaMalloc((void **)&cuda->tickets, ORR_TICKETS * sizeof(*cuda->tickets)) ||
	    cudaMemsetAsync(cuda->tickets, 0, ORR_TICKETS * sizeof(*cuda->tickets), stream)) {
		snprintf(why, size, "no memory on the device");
		orr_cuda_stream_fini(device);
		return -1;
	}
	if (!(cuda->graphs = orr_cuda_graphs_create())) {
		snprintf(why, size, "no memory, or no second stream");
		orr_cuda_stream_fini(device);
		return -1;
	}
	if ((code = cublasLtCreate(&cuda->lt)) || (code = cublasCreate(&cuda->blas))) {
		snprintf(why, size, "cuBLAS does not start: %s", cublasGetStatusString(code));
		orr_cuda_stream_fini(device);
		return -1;
	}
	return 0;
}

void orr_cuda_stream_fini(struct orr_device *device)
{
	struct orr_cuda *cuda = device->cuda;

	if (!cuda)
		return;
	if (cuda->blas)
		cublasDestroy(cuda->blas);
	if (cuda->lt)
		cublasLtDestroy(cuda->lt);
	orr_cuda_graphs_destroy(cuda->graphs);
	cudaFree(cuda->partial);
	cudaFree(cuda->tickets);
	free(cuda);
	device->cuda = NULL;
}
