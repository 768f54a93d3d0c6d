#ifndef ORR_ONNX_INFER_H
#define ORR_ONNX_INFER_H
/* Shapes of outputs from those of inputs, an operator or a family of them each; see struct
 * orr_onnx_op. The caller looks whether the dimensions are such that could be. */
#include "onnx.h"

#define ORR_ONNX_MOST_COUNT (INT64_C(1) << 40) /* of strides, paddings and the like */

/* Input i, with its shape; NULL: it is left out, or not known. */
static inline const struct orr_onnx_tensor *orr_onnx_in(const struct orr_onnx_node *n, int i)
{
	return i < n->n_in && n->in[i] && n->in[i]->known ? n->in[i] : NULL;
}
/* No model can have such a node, whatever the file says of its outputs. */
static inline bool orr_onnx_refuse(struct orr_onnx_node *n, const char *why)
{
	n->wrong = why;
	return false;
}
/* Give output i a shape. */
void orr_onnx_give(struct orr_onnx_node *n, int i, int n_dims, const int64_t *dims, bool real);
/* Whole numbers of an attribute, or of input i where the attribute became one; -1: neither, or not
 * known. */
int orr_onnx_list(const struct orr_onnx_node *n, const char *name, int i, const int64_t **list);
/* Axes of a tensor of n_dims as marks, of ORR_ONNX_MOST_DIMS; false: some axis is none. */
bool orr_onnx_mark_axes(bool *marks, const int64_t *axes, int n, int n_dims);
static inline bool orr_onnx_counts(int64_t value)
{
	return value > -ORR_ONNX_MOST_COUNT && value < ORR_ONNX_MOST_COUNT;
}

/* infer_math.c: operators that compute */
bool orr_onnx_infer_same(struct orr_onnx_node *n);
bool orr_onnx_infer_wise(struct orr_onnx_node *n);  /* broadcast against each other */
bool orr_onnx_infer_truth(struct orr_onnx_node *n); /* likewise; no real numbers */
bool orr_onnx_infer_matmul(struct orr_onnx_node *n);
bool orr_onnx_infer_gemm(struct orr_onnx_node *n);
bool orr_onnx_infer_conv(struct orr_onnx_node *n); /* and pools */
bool orr_onnx_infer_conv_back(struct orr_onnx_node *n);
bool orr_onnx_infer_global(struct orr_onnx_node *n);
bool orr_onnx_infer_reduce(struct orr_onnx_node *n);
bool orr_onnx_infer_loss(struct orr_onnx_node *n);
bool orr_onnx_infer_recurrent(struct orr_onnx_node *n);

/* infer_move.c: operators that move, and those that make constants */
bool orr_onnx_infer_reshape(struct orr_onnx_node *n);
bool orr_onnx_infer_flatten(struct orr_onnx_node *n);
bool orr_onnx_infer_transpose(struct orr_onnx_node *n);
bool orr_onnx_infer_squeeze(struct orr_onnx_node *n);
bool orr_onnx_infer_unsqueeze(struct orr_onnx_node *n);
bool orr_onnx_infer_concat(struct orr_onnx_node *n);
bool orr_onnx_infer_split(struct orr_onnx_node *n);
bool orr_onnx_infer_slice(struct orr_onnx_node *n);
bool orr_onnx_infer_gather(struct orr_onnx_node *n);
bool orr_onnx_infer_second(struct orr_onnx_node *n); /* as its second input */
bool orr_onnx_infer_expand(struct orr_onnx_node *n);
bool orr_onnx_infer_tile(struct orr_onnx_node *n);
bool orr_onnx_infer_pad(struct orr_onnx_node *n);
bool orr_onnx_infer_resize(struct orr_onnx_node *n);
bool orr_onnx_infer_blocks(struct orr_onnx_node *n); /* depth to space and back */
bool orr_onnx_infer_top(struct orr_onnx_node *n);

/* infer_constant.c: operators whose values matter */
bool orr_onnx_infer_constant(struct orr_onnx_node *n);
bool orr_onnx_infer_filled(struct orr_onnx_node *n);
bool orr_onnx_infer_range(struct orr_onnx_node *n);
bool orr_onnx_infer_shape_of(struct orr_onnx_node *n);
bool orr_onnx_infer_size_of(struct orr_onnx_node *n);
/* The values of the first output where those of all inputs are known; nothing where they are not.
 */
void orr_onnx_fold(struct orr_onnx_node *n);
#endif
