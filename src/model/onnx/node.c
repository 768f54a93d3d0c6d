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

/* ---- bodies ---- */

/* A graph of an attribute, and that which it lies in. */
struct body {
	const Onnx__GraphProto *graph;
	const struct body *outer; /* NULL: the model's own is next */
};

/* Is it made in one of them? Names may be those of tensors outside that are made later. */
static bool is_inside(const struct body *b, const char *name)
{
	for (; b; b = b->outer) {
		for (size_t i = 0; i < b->graph->n_input; i++)
			if (b->graph->input[i]->name && !strcmp(b->graph->input[i]->name, name))
				return true;
		for (size_t i = 0; i < b->graph->n_initializer; i++)
			if (b->graph->initializer[i]->name &&
			    !strcmp(b->graph->initializer[i]->name, name))
				return true;
		for (size_t i = 0; i < b->graph->n_node; i++)
			for (size_t k = 0; k < b->graph->node[i]->n_output; k++)
				if (!strcmp(b->graph->node[i]->output[k], name))
					return true;
	}
	return false;
}

static void read_name(struct orr_onnx_node *n, const struct orr_onnx *x, const struct body *b,
		      const char *name)
{
	struct orr_onnx_tensor *t = orr_onnx_find(x, name);

	for (int i = 0; i < n->n_in && t; i++)
		if (n->in[i] == t)
			return;
	if (!t || is_inside(b, name))
		return;
	if (n->n_in == ORR_ONNX_MOST_READ)
		n->more = true;
	else
		n->in[n->n_in++] = t;
}

static void read_body(struct orr_onnx_node *n, const struct orr_onnx *x,
		      const Onnx__GraphProto *graph, const struct body *outer);

/* The graphs of a node, which nest no deeper than the message may (wire.c). */
static void read_graphs(struct orr_onnx_node *n, const struct orr_onnx *x,
			const Onnx__NodeProto *proto, const struct body *outer)
{
	for (size_t i = 0; i < proto->n_attribute; i++) {
		const Onnx__AttributeProto *a = proto->attribute[i];

		if (a->g)
			read_body(n, x, a->g, outer);
		for (size_t k = 0; k < a->n_graphs; k++)
			read_body(n, x, a->graphs[k], outer);
	}
}

static void read_body(struct orr_onnx_node *n, const struct orr_onnx *x,
		      const Onnx__GraphProto *graph, const struct body *outer)
{
	struct body b = {graph, outer};

	for (size_t i = 0; i < graph->n_node; i++) {
		for (size_t k = 0; k < graph->node[i]->n_input; k++)
			read_name(n, x, &b, graph->node[i]->input[k]);
		read_graphs(n, x, graph->node[i], &b);
	}
	for (size_t i = 0; i < graph->n_output; i++)
		read_name(n, x, &b, graph->output[i]->name);
}

void orr_onnx_read_bodies(struct orr_onnx_node *n, const struct orr_onnx *x)
{
	read_graphs(n, x, n->proto, NULL);
}

int orr_onnx_axis(int64_t axis, int n_dims)
{
	if (axis < 0)
		axis += n_dims;
	return axis >= 0 && axis < n_dims ? (int)axis : -1;
}
