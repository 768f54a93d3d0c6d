/* A node: its tensors and attributes. */
#include "onnx.h"

#include <string.h>

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

	*n = (struct orr_onnx_node){
		.proto = proto, .number = number, .op = orr_onnx_op_find(proto)};
	find_all(n->in, &n->n_in, x, proto->input, proto->n_input);
	find_all(n->out, &n->n_out, x, proto->output, proto->n_output);
}

const Onnx__AttributeProto *orr_onnx_attribute(const struct orr_onnx_node *n, const char *name)
{
	for (size_t i = 0; i < n->proto->n_attribute; i++)
		if (n->proto->attribute[i]->name && !strcmp(n->proto->attribute[i]->name, name))
			return n->proto->attribute[i];
	return NULL;
}

int64_t orr_onnx_int(const struct orr_onnx_node *n, const char *name, int64_t otherwise)
{
	const Onnx__AttributeProto *a = orr_onnx_attribute(n, name);

	return a && a->has_i ? a->i : otherwise;
}

double orr_onnx_real(const struct orr_onnx_node *n, const char *name, double otherwise)
{
	const Onnx__AttributeProto *a = orr_onnx_attribute(n, name);

	return a && a->has_f ? (double)a->f : otherwise;
}

bool orr_onnx_is_text(const struct orr_onnx_node *n, const char *name, const char *text)
{
	const Onnx__AttributeProto *a = orr_onnx_attribute(n, name);

	return a && a->has_s && a->s.len == strlen(text) && memcmp(a->s.data, text, a->s.len) == 0;
}

int orr_onnx_ints(const struct orr_onnx_node *n, const char *name, const int64_t **ints)
{
	const Onnx__AttributeProto *a = orr_onnx_attribute(n, name);

	*ints = a ? a->ints : NULL;
	return a && a->n_ints <= ORR_ONNX_MOST_VALUES ? (int)a->n_ints : 0;
}

int orr_onnx_axis(int64_t axis, int n_dims)
{
	if (axis < 0)
		axis += n_dims;
	return axis >= 0 && axis < n_dims ? (int)axis : -1;
}
