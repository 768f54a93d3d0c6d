/* Operators of the draft. */
#include "rules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/utf8.h"

int orr_onnx_no_memory(const struct orr_onnx *x, struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its nodes", x->draft->name);
}

/* A text without the characters that files and terminals trip over. */
static char *clean(const char *text, const char *bad)
{
	char *copy = orr_utf8_copy(text);

	for (char *c = copy; c && *c; c++)
		if (iscntrl((unsigned char)*c) || strchr(bad, *c))
			*c = '_';
	return copy;
}

void orr_onnx_set(struct orr_operator *o, const char *name, double value)
{
	for (const struct orr_attribute *a = o->instance->op->attributes; a && a->name; a++)
		if (!strcmp(a->name, name))
			o->instance->values[orr_op_value(o->instance->op, a)] =
				value > a->most && a->most > 0 ? a->most : value;
}

/* A new operator of the draft, the last one; NULL with err filled. */
struct orr_operator *orr_onnx_add(struct orr_onnx *x, const char *op, const char *name,
				  const char *label, int line, struct orr_error *err)
{
	char *own = clean(name && *name ? name : "node", " \"\\");
	struct orr_operator *o;
	int code = own ? orr_draft_add_operator(x->draft, own, err) : orr_onnx_no_memory(x, err);

	free(own);
	if (code)
		return NULL;
	o = &x->draft->operators[x->draft->n_operators - 1].is;
	o->line = line;
	o->label = label ? clean(label, "\\") : NULL;
	o->instance = orr_instance_create(orr_op_find(op));
	if (!o->instance || (label && !o->label)) {
		(void)orr_onnx_no_memory(x, err);
		return NULL;
	}
	o->forward_ns = o->backward_ns = o->weight_ns = o->update_ns = -1;
	o->activation_bytes = o->stash_bytes = o->parameter_bytes = -1;
	return o;
}

const char *orr_onnx_kind(const Onnx__NodeProto *node)
{
	return node->op_type && *node->op_type ? node->op_type : "?";
}

const char *orr_onnx_name(const Onnx__NodeProto *node)
{
	return node->name && *node->name ? node->name : node->n_output ? node->output[0] : "?";
}

static void set_range(struct orr_operator *o, const char *name, int64_t first, int64_t count)
{
	double *range = orr_instance_value(o->instance, name);

	range[0] = (double)first;
	range[1] = (double)(first + count);
}

int orr_onnx_cut(struct orr_onnx *x, struct orr_onnx_tensor *t, const struct orr_onnx_box *box,
		 struct orr_error *err)
{
	struct orr_onnx_tensor from = *t;
	struct orr_operator *o = orr_onnx_add(x, "slice", t->name, NULL, t->made_by + 1, err);

	if (!o)
		return ORR_E_NOMEM;
	set_range(o, "rows", box->row, box->rows);
	set_range(o, "columns", box->column, box->columns);
	t->is = x->draft->n_operators - 1;
	orr_onnx_lay_as(t, &from, box->rows, box->columns);
	return orr_draft_add_edge(x->draft, from.is, t->is, -1, err);
}

int orr_onnx_add_sources(struct orr_onnx *x, const struct orr_onnx_like *like,
			 struct orr_error *err)
{
	for (int i = 0; i < like->n_weights; i++) {
		const struct orr_onnx_tensor *t = like->weights[i].tensor;
		int n_dims = like->weights[i].n_dims, first = t->n_dims - n_dims;
		struct orr_onnx_source *more, *s;

		if (!(x->n_sources & (x->n_sources - 1))) { /* the room is a power of 2 */
			size_t room = x->n_sources ? 2 * (size_t)x->n_sources : 1;

			if (!(more = realloc(x->sources, room * sizeof(*more))))
				return orr_onnx_no_memory(x, err);
			x->sources = more;
		}
		s = &x->sources[x->n_sources++];
		*s = (struct orr_onnx_source){.is = x->draft->n_operators - 1,
					      .parameter = like->weights[i].name,
					      .proto = t->weight->proto,
					      .n_dims = n_dims,
					      .at = t->at};
		for (int k = 0; k < n_dims; k++) {
			int from = !i && like->turned ? n_dims - 1 - k : k;

			s->dims[k] = t->dims[first + from];
			s->strides[k] = t->strides[first + from];
		}
	}
	return 0;
}

/* From the operators of what a node reads, each once, to the last operator. */
int orr_onnx_add_edges(struct orr_onnx *x, const struct orr_onnx_node *n, struct orr_error *err)
{
	int to = x->draft->n_operators - 1, code = 0;

	for (int i = 0; i < n->n_in && !code; i++) {
		bool again = false;

		for (int k = 0; k < i; k++)
			again = again || (n->in[k] && n->in[i] && n->in[k]->is == n->in[i]->is);
		if (n->in[i] && n->in[i]->is >= 0 && !again)
			code = orr_draft_add_edge(x->draft, n->in[i]->is, to, -1, err);
	}
	return code;
}

static int compare_operators(const void *a, const void *b)
{
	const struct orr_operator *const *x = a, *const *y = b;
	int order = strcmp((*x)->name, (*y)->name);

	return order ? order : *x < *y ? -1 : *x > *y;
}

/* Names of nodes need not be unique, or differ from those of tensors: the later ones get a number.
 */
int orr_onnx_name_apart(struct orr_onnx *x, struct orr_error *err)
{
	int n = x->draft->n_operators, code = 0;
	struct orr_operator **sorted = calloc((size_t)n + 1, sizeof(*sorted));
	bool again = true;

	for (int round = 0; sorted && again && !code; round++) {
		const char *last = "";

		again = false;
		for (int i = 0; i < n; i++)
			sorted[i] = &x->draft->operators[i].is;
		qsort(sorted, (size_t)n, sizeof(*sorted), compare_operators);
		for (int i = 0; i < n && !code; i++) {
			char *name = NULL;

			if (strcmp(sorted[i]->name, last) != 0) {
				last = sorted[i]->name;
				continue;
			}
			again = true;
			if (asprintf(&name, "%s.%d", last,
				     (int)((struct orr_draft_operator *)(void *)sorted[i] -
					   x->draft->operators) +
					     round * n) < 0) {
				code = orr_onnx_no_memory(x, err);
				break;
			}
			free(sorted[i]->name);
			sorted[i]->name = name;
		}
	}
	if (!sorted)
		code = orr_onnx_no_memory(x, err);
	free(sorted);
	return code;
}
