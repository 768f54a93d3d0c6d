/* ONNX's operators, as far as they are known: shapes, operations, and what the backward reads. Of
 * the elementwise kinds every arithmetic operation and every exp, tanh or root counts as one, as
 * elsewhere (shapes.c). */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#define WISE(NAME, KEEPS) \
	{ \
		NAME, orr_onnx_infer_wise, ORR_ONNX_OUTPUT, 1, 1, KEEPS \
	}
#define TRUTH(NAME) \
	{ \
		NAME, orr_onnx_infer_truth, ORR_ONNX_OUTPUT, 1, 0, ORR_ONNX_NOTHING \
	}
#define SAME(NAME, FORWARD, BACKWARD, KEEPS) \
	{ \
		NAME, orr_onnx_infer_same, ORR_ONNX_OUTPUT, FORWARD, BACKWARD, KEEPS \
	}
#define SUM(NAME, KEEPS) \
	{ \
		NAME, orr_onnx_infer_reduce, ORR_ONNX_INPUT, 1, 1, KEEPS \
	}
#define MOVE(NAME, INFER) \
	{ \
		NAME, INFER, ORR_ONNX_OUTPUT, 0, 0, ORR_ONNX_NOTHING \
	}
#define PRODUCT(NAME, INFER, MEASURE) \
	{ \
		NAME, INFER, MEASURE, 2, 2, ORR_ONNX_INPUTS \
	}
#define POOL(NAME, MEASURE, INFER, KEEPS) \
	{ \
		NAME, INFER, MEASURE, 1, 1, KEEPS \
	}

/* Sorted. */
static const struct orr_onnx_op operators[] = {
	SAME("Abs", 1, 1, ORR_ONNX_INPUTS),
	WISE("Add", ORR_ONNX_NOTHING),
	TRUTH("And"),
	{"ArgMax", orr_onnx_infer_reduce, ORR_ONNX_INPUT, 1, 0, ORR_ONNX_NOTHING},
	{"ArgMin", orr_onnx_infer_reduce, ORR_ONNX_INPUT, 1, 0, ORR_ONNX_NOTHING},
	POOL("AveragePool", ORR_ONNX_WINDOW, orr_onnx_infer_conv, ORR_ONNX_NOTHING),
	SAME("BatchNormalization", 8, 9, ORR_ONNX_INPUTS),
	MOVE("Cast", orr_onnx_infer_same),
	SAME("Ceil", 1, 0, ORR_ONNX_NOTHING),
	SAME("Celu", 4, 4, ORR_ONNX_INPUTS),
	SAME("Clip", 2, 1, ORR_ONNX_INPUTS),
	MOVE("Concat", orr_onnx_infer_concat),
	MOVE("Constant", orr_onnx_infer_constant),
	MOVE("ConstantOfShape", orr_onnx_infer_filled),
	PRODUCT("Conv", orr_onnx_infer_conv, ORR_ONNX_CONV),
	PRODUCT("ConvTranspose", orr_onnx_infer_conv_back, ORR_ONNX_CONV_BACK),
	SAME("Cos", 1, 2, ORR_ONNX_INPUTS),
	SAME("CumSum", 1, 1, ORR_ONNX_NOTHING),
	MOVE("DepthToSpace", orr_onnx_infer_blocks),
	WISE("Div", ORR_ONNX_INPUTS),
	SAME("Dropout", 2, 2, ORR_ONNX_ITSELF),
	SAME("Elu", 3, 3, ORR_ONNX_ITSELF),
	TRUTH("Equal"),
	SAME("Erf", 8, 4, ORR_ONNX_INPUTS),
	SAME("Exp", 1, 1, ORR_ONNX_ITSELF),
	MOVE("Expand", orr_onnx_infer_expand),
	MOVE("Flatten", orr_onnx_infer_flatten),
	SAME("Floor", 1, 0, ORR_ONNX_NOTHING),
	PRODUCT("GRU", orr_onnx_infer_recurrent, ORR_ONNX_RECURRENT),
	MOVE("Gather", orr_onnx_infer_gather),
	MOVE("GatherElements", orr_onnx_infer_second),
	SAME("Gelu", 8, 12, ORR_ONNX_INPUTS),
	PRODUCT("Gemm", orr_onnx_infer_gemm, ORR_ONNX_GEMM),
	POOL("GlobalAveragePool", ORR_ONNX_INPUT, orr_onnx_infer_global, ORR_ONNX_NOTHING),
	POOL("GlobalMaxPool", ORR_ONNX_INPUT, orr_onnx_infer_global, ORR_ONNX_INPUTS),
	TRUTH("Greater"),
	TRUTH("GreaterOrEqual"),
	SAME("GroupNormalization", 8, 9, ORR_ONNX_INPUTS),
	SAME("HardSigmoid", 3, 1, ORR_ONNX_INPUTS),
	SAME("HardSwish", 4, 4, ORR_ONNX_INPUTS),
	MOVE("Identity", orr_onnx_infer_same),
	SAME("InstanceNormalization", 8, 9, ORR_ONNX_INPUTS),
	SAME("IsInf", 1, 0, ORR_ONNX_NOTHING),
	SAME("IsNaN", 1, 0, ORR_ONNX_NOTHING),
	PRODUCT("LSTM", orr_onnx_infer_recurrent, ORR_ONNX_RECURRENT),
	SAME("LayerNormalization", 8, 9, ORR_ONNX_INPUTS),
	SAME("LeakyRelu", 2, 2, ORR_ONNX_INPUTS),
	TRUTH("Less"),
	TRUTH("LessOrEqual"),
	SAME("Log", 1, 1, ORR_ONNX_INPUTS),
	SAME("LogSoftmax", 5, 4, ORR_ONNX_ITSELF),
	SAME("LpNormalization", 3, 5, ORR_ONNX_INPUTS),
	PRODUCT("MatMul", orr_onnx_infer_matmul, ORR_ONNX_MATMUL),
	WISE("Max", ORR_ONNX_INPUTS),
	POOL("MaxPool", ORR_ONNX_WINDOW, orr_onnx_infer_conv, ORR_ONNX_ITSELF),
	WISE("Mean", ORR_ONNX_NOTHING),
	WISE("Min", ORR_ONNX_INPUTS),
	SAME("Mish", 6, 8, ORR_ONNX_INPUTS),
	WISE("Mod", ORR_ONNX_NOTHING),
	WISE("Mul", ORR_ONNX_INPUTS),
	SAME("Neg", 1, 1, ORR_ONNX_NOTHING),
	{"NegativeLogLikelihoodLoss", orr_onnx_infer_loss, ORR_ONNX_INPUT, 1, 1, ORR_ONNX_NOTHING},
	SAME("Not", 1, 0, ORR_ONNX_NOTHING),
	TRUTH("Or"),
	WISE("PRelu", ORR_ONNX_INPUTS),
	MOVE("Pad", orr_onnx_infer_pad),
	WISE("Pow", ORR_ONNX_INPUTS),
	PRODUCT("RNN", orr_onnx_infer_recurrent, ORR_ONNX_RECURRENT),
	MOVE("Range", orr_onnx_infer_range),
	SAME("Reciprocal", 1, 2, ORR_ONNX_ITSELF),
	SUM("ReduceL1", ORR_ONNX_INPUTS),
	SUM("ReduceL2", ORR_ONNX_INPUTS),
	SUM("ReduceMax", ORR_ONNX_INPUTS),
	SUM("ReduceMean", ORR_ONNX_NOTHING),
	SUM("ReduceMin", ORR_ONNX_INPUTS),
	SUM("ReduceProd", ORR_ONNX_INPUTS),
	SUM("ReduceSum", ORR_ONNX_NOTHING),
	SUM("ReduceSumSquare", ORR_ONNX_INPUTS),
	SAME("Relu", 1, 1, ORR_ONNX_ITSELF),
	MOVE("Reshape", orr_onnx_infer_reshape),
	MOVE("Resize", orr_onnx_infer_resize),
	SAME("Round", 1, 0, ORR_ONNX_NOTHING),
	MOVE("ScatterElements", orr_onnx_infer_same),
	MOVE("ScatterND", orr_onnx_infer_same),
	SAME("Selu", 3, 3, ORR_ONNX_ITSELF),
	MOVE("Shape", orr_onnx_infer_shape_of),
	SAME("Sigmoid", 4, 3, ORR_ONNX_ITSELF),
	SAME("Sign", 1, 0, ORR_ONNX_NOTHING),
	SAME("Sin", 1, 2, ORR_ONNX_INPUTS),
	MOVE("Size", orr_onnx_infer_size_of),
	MOVE("Slice", orr_onnx_infer_slice),
	SAME("Softmax", 5, 4, ORR_ONNX_ITSELF),
	{"SoftmaxCrossEntropyLoss", orr_onnx_infer_loss, ORR_ONNX_INPUT, 6, 3, ORR_ONNX_INPUTS},
	SAME("Softplus", 3, 3, ORR_ONNX_INPUTS),
	SAME("Softsign", 3, 3, ORR_ONNX_INPUTS),
	MOVE("SpaceToDepth", orr_onnx_infer_blocks),
	MOVE("Split", orr_onnx_infer_split),
	SAME("Sqrt", 1, 2, ORR_ONNX_ITSELF),
	MOVE("Squeeze", orr_onnx_infer_squeeze),
	WISE("Sub", ORR_ONNX_NOTHING),
	WISE("Sum", ORR_ONNX_NOTHING),
	SAME("Tanh", 1, 3, ORR_ONNX_ITSELF),
	SAME("ThresholdedRelu", 1, 1, ORR_ONNX_ITSELF),
	MOVE("Tile", orr_onnx_infer_tile),
	{"TopK", orr_onnx_infer_top, ORR_ONNX_INPUT, 1, 0, ORR_ONNX_NOTHING},
	MOVE("Transpose", orr_onnx_infer_transpose),
	MOVE("Trilu", orr_onnx_infer_same),
	MOVE("Unsqueeze", orr_onnx_infer_unsqueeze),
	WISE("Where", ORR_ONNX_INPUTS),
	TRUTH("Xor"),
};

static int compare(const void *name, const void *op)
{
	return strcmp(name, ((const struct orr_onnx_op *)op)->name);
}

static const struct orr_onnx_op *find_operator(const Onnx__NodeProto *node)
{
	const char *domain = node->domain ? node->domain : "";

	if (!node->op_type || (*domain && strcmp(domain, "ai.onnx") != 0))
		return NULL;
	return bsearch(node->op_type, operators, sizeof(operators) / sizeof(*operators),
		       sizeof(*operators), compare);
}

static void find_all(struct orr_onnx_tensor **out, int *n, const struct orr_onnx *x,
		     char *const *names, size_t n_names)
{
	*n = n_names < ORR_ONNX_MOST_READ ? (int)n_names : ORR_ONNX_MOST_READ;
	for (int i = 0; i < *n; i++)
		out[i] = orr_onnx_find(x, names[i]);
}

void orr_onnx_node(struct orr_onnx_node *n, const struct orr_onnx *x, int number)
{
	const Onnx__NodeProto *proto = x->graph->node[number];

	*n = (struct orr_onnx_node){.proto = proto, .number = number, .op = find_operator(proto)};
	find_all(n->in, &n->n_in, x, proto->input, proto->n_input);
	find_all(n->out, &n->n_out, x, proto->output, proto->n_output);
	n->more = proto->n_input > ORR_ONNX_MOST_READ || proto->n_output > ORR_ONNX_MOST_READ;
	orr_onnx_read_bodies(n, x);
}

bool orr_onnx_made_by(struct orr_onnx_pattern *p, const struct orr_onnx *x,
		      const struct orr_onnx_tensor *t, const char *kind, struct orr_onnx_node *node)
{
	if (!t || t->constant || t->made_by < 0 || x->claimed[t->made_by] || x->done[t->made_by] ||
	    p->n_inner == ORR_ONNX_MOST_INNER)
		return false;
	orr_onnx_node(node, x, t->made_by);
	if (!node->op || strcmp(node->op->name, kind) != 0 || t->n_readers != 1 ||
	    node->out[0] != t || node->n_in < 1 || !node->in[0])
		return false;
	p->inner[p->n_inner++] = t->made_by;
	return true;
}
