#include "orrery/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
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
	free(o->share);
	free(o->gang);
	free(o->with);
	free(o->columns);
	free(o->inputs);
	free(o->reads);
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
	free(g->lengths);
	free(g);
}

void orr_graph_fingerprint(const struct orr_graph *g, char text[24])
{
	uint64_t hash = orr_hash(ORR_HASH, &g->overhead_ns, sizeof(g->overhead_ns));

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const int64_t numbers[] = {
			(int64_t)o->op, o->width,          o->n_parameters, o->forward_ns,
			o->backward_ns, o->weight_ns,      o->update_ns,    o->activation_bytes,
			o->stash_bytes, o->parameter_bytes};

		hash = orr_hash(hash, o->name, strlen(o->name) + 1);
		hash = orr_hash(hash, numbers, sizeof(numbers));
		hash = orr_hash(hash, o->inputs, (size_t)o->n_inputs * sizeof(*o->inputs));
		for (int k = 0; o->reads && k < o->n_inputs; k++) {
			const int64_t read[] = {o->reads[k].bytes, o->reads[k].gradient_bytes,
						o->reads[k].detached};

			hash = orr_hash(hash, read, sizeof(read));
		}
		if (o->frozen) /* as before there was such a thing where nothing is */
			hash = orr_hash(hash, &o->frozen, sizeof(o->frozen));
		if (o->gather)
			hash = orr_hash(hash, "gather", sizeof("gather"));
		if (o->n_gang)
			hash = orr_hash(hash, &o->n_gang, sizeof(o->n_gang));
		if (o->gang)
			hash = orr_hash(hash, o->gang, (size_t)o->n_gang * sizeof(*o->gang));
		if (o->with)
			hash = orr_hash(hash, o->with, strlen(o->with) + 1);
		if (o->tied >= 0)
			hash = orr_hash(hash, &o->tied, sizeof(o->tied));
		if (orr_op_is_loss(o->op) && o->scale != 1)
			hash = orr_hash(hash, &o->scale, sizeof(o->scale));
		if (o->length_exponent != 1) /* likewise */
			hash = orr_hash(hash, &o->length_exponent, sizeof(o->length_exponent));
		if (!o->columns)
			continue;
		hash = orr_hash(hash, o->columns, (size_t)o->width * sizeof(*o->columns));
		hash = orr_hash(hash, &o->scale, sizeof(o->scale));
	}
	orr_hash_print(text, hash);
}
