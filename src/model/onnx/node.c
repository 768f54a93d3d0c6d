/* What a node says: its attributes. */
#include "onnx.h"

#include <string.h>

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
