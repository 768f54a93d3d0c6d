#include "orrery/graph.h"

#include <stdlib.h>

#include "operator.h"

static const char *const op_names[ORR_N_OPS] = {
	[ORR_OP_COST] = "cost",
	[ORR_OP_INPUT] = "input",
	[ORR_OP_LINEAR] = "linear",
	[ORR_OP_RELU] = "relu",
	[ORR_OP_GELU] = "gelu",
	[ORR_OP_LAYERNORM] = "layernorm",
	[ORR_OP_ADD] = "add",
	[ORR_OP_CONCAT] = "concat",
	[ORR_OP_SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy",
	[ORR_OP_MSE] = "mse",
};

const char *orr_op_name(enum orr_op op)
{
	return op_names[op];
}

void orr_operator_fini(struct orr_operator *o)
{
	free(o->name);
	free(o->label);
	free(o->columns);
	free(o->inputs);
	*o = (struct orr_operator){0};
}

void orr_graph_destroy(struct orr_graph *g)
{
	int i;

	if (!g)
		return;
	for (i = 0; i < g->n_operators; i++)
		orr_operator_fini(&g->operators[i]);
	for (i = 0; i < g->n_encoders; i++)
		free(g->encoders[i]);
	free(g->name);
	free(g->folder);
	free(g->data);
	free(g->operators);
	free(g->encoders);
	free(g);
}
