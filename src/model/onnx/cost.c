/* What a node costs, over all samples of the batch: operations, and floats that its backward reads.
 * Products are counted for every operand that has a gradient: an activation's is the input
 * gradient, a parameter's the weight gradient. */
#include "onnx.h"

static double floats(const struct orr_onnx_tensor *t)
{
	return t && t->known ? (double)orr_onnx_floats(t) : 0;
}

static bool is_known(const struct orr_onnx_node *n, int i)
{
	return i < n->n_in && n->in[i] && n->in[i]->known;
}

static bool is_active(const struct orr_onnx_tensor *t)
{
	return t && !t->constant && t->real;
}

/* How many times the operator's figure. */
static double measure(const struct orr_onnx_node *n)
{
	const struct orr_onnx_tensor *a = n->in[0], *b = is_known(n, 1) ? n->in[1] : NULL;
	double out = n->n_out ? floats(n->out[0]) : 0, seen = 1;
	const int64_t *sides;

	switch (n->op->measure) {
	case ORR_ONNX_OUTPUT:
		return out;
	case ORR_ONNX_INPUT:
		return floats(a);
	case ORR_ONNX_WINDOW:
		for (int i = orr_onnx_ints(n, "kernel_shape", &sides); i-- > 0;)
			seen *= (double)sides[i];
		return out * seen;
	case ORR_ONNX_MATMUL:
		return out * (double)a->dims[a->n_dims - 1];
	case ORR_ONNX_GEMM:
		return out * (double)a->dims[!orr_onnx_int(n, "transA", 0)];
	case ORR_ONNX_CONV:
		return b && b->dims[0] ? out * floats(b) / (double)b->dims[0] : 0;
	case ORR_ONNX_CONV_BACK:
		return b && b->dims[0] ? floats(a) * floats(b) / (double)b->dims[0] : 0;
	case ORR_ONNX_RECURRENT: /* both products, for each token */
		return (double)(a->dims[0] * a->dims[1]) *
		       (floats(b) + (is_known(n, 2) ? floats(n->in[2]) : 0));
	}
	return 0;
}

static double kept(const struct orr_onnx_node *n)
{
	double sum = 0;

	if (n->op->keeps == ORR_ONNX_ITSELF)
		return n->n_out ? floats(n->out[0]) : 0;
	for (int i = 0; i < n->n_in && n->op->keeps == ORR_ONNX_INPUTS; i++)
		sum += is_active(n->in[i]) ? floats(n->in[i]) : 0;
	return sum;
}

struct orr_onnx_cost orr_onnx_cost(const struct orr_onnx_node *n)
{
	bool product = n->op && n->op->measure >= ORR_ONNX_MATMUL;
	struct orr_onnx_cost cost = {0};
	double times;

	if (!n->op || !is_known(n, 0))
		return cost;
	times = measure(n);
	cost.forward = n->op->forward * times;
	if (!n->n_out || !n->out[0] || !n->out[0]->real)
		return cost; /* whole numbers have no gradient */
	for (int i = 0; i < n->n_in; i++) {
		const struct orr_onnx_tensor *t = n->in[i];

		if (is_active(t))
			cost.backward += !product || i < 2 ? n->op->backward * times : 0;
		/* a bias of a product is a sum over its outputs, and small */
		if (t && t->weight && !(product && t->n_dims < 2))
			cost.weight += product && n->op->measure != ORR_ONNX_RECURRENT
					       ? n->op->backward * times
					       : 0;
		if (t && t->weight && !product)
			cost.weight += floats(n->out[0]);
	}
	if (n->op->measure == ORR_ONNX_RECURRENT)
		cost.weight = cost.backward = n->op->backward * times;
	cost.kept = kept(n);
	return cost;
}
