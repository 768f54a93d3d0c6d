/* A model in ONNX as a draft: an operator for every node that computes or moves what an input of
 * the model changes. A node that has its like here is that, so that a model of them trains; any
 * other is opaque, of which the costs are known. */
#include "rules.h"

#include <stdlib.h>
#include <string.h>

#include "model/text.h"

#define MOST_WORKED_OUT (INT64_C(1) << 28) /* numbers of constants */

/* ---- what is there before the nodes ---- */

static int compare_types(const void *a, const void *b)
{
	return strcmp((*(const Onnx__ValueInfoProto *const *)a)->name,
		      (*(const Onnx__ValueInfoProto *const *)b)->name);
}

static const Onnx__ValueInfoProto *find_type(const struct orr_onnx *x, const char *name)
{
	Onnx__ValueInfoProto key = {.name = (char *)(uintptr_t)name};
	const Onnx__ValueInfoProto *at = &key, **found;

	found = x->n_types ? bsearch(&at, x->types, (size_t)x->n_types, sizeof(at), compare_types)
			   : NULL;
	return found ? *found : NULL;
}

static int take_types(struct orr_onnx *x, struct orr_error *err)
{
	const Onnx__GraphProto *g = x->graph;

	if (!(x->types = calloc(g->n_value_info + g->n_output + 1, sizeof(*x->types))))
		return orr_onnx_no_memory(x, err);
	for (size_t i = 0; i < g->n_value_info + g->n_output; i++) {
		const Onnx__ValueInfoProto *type =
			i < g->n_value_info ? g->value_info[i] : g->output[i - g->n_value_info];

		if (type->name)
			x->types[x->n_types++] = type;
	}
	qsort(x->types, (size_t)x->n_types, sizeof(*x->types), compare_types);
	return 0;
}

static int take_constants(struct orr_onnx *x, struct orr_error *err)
{
	for (size_t i = 0; i < x->graph->n_initializer; i++) {
		const Onnx__TensorProto *from = x->graph->initializer[i];
		struct orr_onnx_tensor *t = orr_onnx_find(x, from->name);

		if (!t)
			continue;
		t->constant = true;
		if (!orr_onnx_take_shape(t, from))
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: constant %.80s: no such shape: a damaged model, or one "
				"of more than %d dimensions",
				x->draft->name, t->name, ORR_ONNX_MOST_DIMS);
		orr_onnx_take_values(t, from);
		t->weight = t->real && t->n_dims ? t : NULL;
		t->part = true;
		t->proto = from;
		orr_onnx_lay(t, 1, orr_onnx_floats(t));
	}
	return 0;
}

/* What the outputs need, from the last node to the first. */
static void mark_live(struct orr_onnx *x)
{
	for (size_t i = 0; i < x->graph->n_output; i++) {
		struct orr_onnx_tensor *t = orr_onnx_find(x, x->graph->output[i]->name);

		if (t) {
			t->live = true;
			t->n_readers++;
		}
	}
	for (size_t i = x->graph->n_node; i-- > 0;) {
		struct orr_onnx_node n;
		bool live = false;

		orr_onnx_node(&n, x, (int)i);
		for (int k = 0; k < n.n_out; k++)
			live = live || (n.out[k] && n.out[k]->live);
		x->done[i] = !live;
		for (int k = 0; k < n.n_in && live; k++)
			if (n.in[k]) {
				n.in[k]->live = true;
				n.in[k]->n_readers++;
			}
	}
}

/* Is there all that the outputs need, and in an order? */
static int check_order(const struct orr_onnx *x, struct orr_error *err)
{
	struct orr_onnx_node n;

	for (size_t i = 0; i < x->graph->n_output; i++)
		if (!orr_onnx_find(x, x->graph->output[i]->name))
			return orr_fail(err, ORR_E_INPUT,
					"%s: output %.80s is made by no node: a damaged model, "
					"export it again",
					x->draft->name, x->graph->output[i]->name);
	for (int i = 0; i < (int)x->graph->n_node; i++) {
		if (x->done[i])
			continue;
		orr_onnx_node(&n, x, i);
		for (int k = 0; k < n.n_in; k++)
			if (n.in[k] && n.in[k]->made_by >= i)
				return orr_fail(
					err, ORR_E_INPUT,
					"%s:%d: node %.60s reads %.60s, which node %d makes: they "
					"are in no order, export the model again",
					x->draft->name, i + 1, orr_onnx_name(n.proto),
					n.in[k]->name, n.in[k]->made_by + 1);
	}
	return 0;
}

/* ---- nodes ---- */

static int check_inputs(const struct orr_onnx *x, const struct orr_onnx_node *n,
			struct orr_error *err)
{
	const Onnx__NodeProto *p = n->proto;

	if (n->more)
		return orr_fail(
			err, ORR_E_INPUT, "%s:%d: node %.80s reads or writes more than %d tensors",
			x->draft->name, n->number + 1, orr_onnx_name(p), ORR_ONNX_MOST_READ);
	for (int i = 0; i < n->n_in; i++) {
		const struct orr_onnx_tensor *t = n->in[i];
		const char *name = i < (int)p->n_input ? p->input[i] : t->name;

		if (!*name ||
		    (t && (t->constant || (t->made_by < n->number && (t->is >= 0 || t->known)))))
			continue;
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: node %.60s reads %.60s, which nothing before it makes: a "
				"damaged model, export it again",
				x->draft->name, n->number + 1, orr_onnx_name(p), name);
	}
	return 0;
}

static bool is_sound(struct orr_onnx_tensor *t)
{
	double floats = 1;

	for (int i = 0; i < t->n_dims && t->known; i++) {
		t->known = t->dims[i] >= 0;
		floats *= (double)(t->dims[i] > 0 ? t->dims[i] : 1);
	}
	t->known = t->known && floats <= (double)ORR_ONNX_MOST_FLOATS;
	return t->known;
}

/* The shapes of what it writes, by its rule, or else as the file says. */
static int find_shapes(struct orr_onnx *x, struct orr_onnx_node *n, struct orr_error *err)
{
	bool ruled = n->op && n->op->infer(n);

	if (n->wrong)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: node %.60s: no such %.40s: %s: a damaged model, export it "
				"again",
				x->draft->name, n->number + 1, orr_onnx_name(n->proto),
				orr_onnx_kind(n->proto), n->wrong);
	for (int i = 0; i < n->n_out; i++) {
		struct orr_onnx_tensor *t = n->out[i];
		const Onnx__ValueInfoProto *type;

		if (!t || !t->live || (ruled && is_sound(t)))
			continue;
		if ((type = find_type(x, t->name)) && orr_onnx_take_type(x, t, type))
			continue;
		return orr_fail(
			err, ORR_E_INPUT,
			"%s:%d: node %.60s: %s%.40s%s, and the file has no shape for %.60s: "
			"run onnx.shape_inference on it, or export it with its shapes",
			x->draft->name, n->number + 1, orr_onnx_name(n->proto),
			n->op ? "the shapes of this " : "operator ", orr_onnx_kind(n->proto),
			n->op ? " cannot be told" : " is not known here", t->name);
	}
	if (ruled)
		orr_onnx_fold(n);
	return 0;
}

/* The first rows of a table, in their order. */
static bool is_first(const struct orr_onnx_node *n, const struct orr_onnx_tensor *from)
{
	const struct orr_onnx_tensor *ids = orr_onnx_in(n, 1);
	int64_t count = ids && ids->values ? orr_onnx_floats(ids) : 0;

	if (strcmp(n->op->name, "Gather") != 0 || orr_onnx_int(n, "axis", 0) || !from->n_dims ||
	    count < 1 || count > from->dims[0])
		return false;
	for (int64_t i = 0; i < count; i++)
		if (ids->values[i] != i)
			return false;
	return true;
}

/* What is made of a weight: a part of it, perhaps turned, or other numbers. */
static void derive(struct orr_onnx_node *n, int k, struct orr_onnx_tensor *weight)
{
	const struct orr_onnx_tensor *from = n->n_in ? n->in[0] : NULL;
	struct orr_onnx_tensor *t = n->out[k];

	t->weight = weight;
	if (!n->op || !from || from->weight != weight || !from->part || !from->known)
		return;
	if (is_first(n, from) && orr_onnx_is_plain_part(from)) {
		orr_onnx_lay(t, 1, orr_onnx_floats(weight));
		t->at = from->at;
		t->part = true;
		t->apart = from->apart;
		return;
	}
	t->part = orr_onnx_view(t, from, n, k);
	t->apart = from->apart || !strcmp(n->op->name, "Slice") || !strcmp(n->op->name, "Split");
}

/* What no input changes needs no operator; nor does a shape of numbers that are known. */
static bool is_constant(struct orr_onnx_node *n)
{
	struct orr_onnx_tensor *weight = NULL;
	int n_weights = 0;
	bool constant = true;

	for (int i = 0; i < n->n_in; i++) {
		constant = constant && (!n->in[i] || n->in[i]->constant);
		if (n->in[i] && n->in[i]->weight) {
			weight = n->in[i]->weight;
			n_weights++;
		}
	}
	constant = constant || (n->n_out && n->out[0] && n->out[0]->values);
	for (int i = 0; i < n->n_out && constant; i++)
		if (n->out[i]) {
			n->out[i]->constant = true;
			if (n_weights == 1 && n->out[i]->known && n->out[i]->real)
				derive(n, i, weight);
		}
	return constant;
}

/* Parameters that it is the first to read; a number by itself is none. */
static double count_weights(const struct orr_onnx_node *n)
{
	double floats = 0;

	for (int i = 0; i < n->n_in; i++) {
		struct orr_onnx_tensor *weight = n->in[i] ? n->in[i]->weight : NULL;

		if (weight && !weight->counted && orr_onnx_floats(weight) > 1)
			floats += (double)orr_onnx_floats(weight);
		if (weight)
			weight->counted = true;
	}
	return floats;
}

static void set_shape(const struct orr_onnx *x, struct orr_operator *o, struct orr_onnx_tensor *t)
{
	int64_t floats = t->known ? orr_onnx_floats(t) : 1;
	int64_t columns = t->known && t->n_dims > 1 ? t->dims[t->n_dims - 1] : 1;
	int64_t rows = columns > 0 ? floats / x->samples / columns : 0;

	if (rows < 1 || rows * columns * x->samples != floats) { /* not a sample's */
		rows = 1;
		columns = floats / x->samples < 1 ? 1 : floats / x->samples;
	}
	orr_onnx_lay(t, rows, columns);
	orr_onnx_set(o, "rows", (double)rows);
	orr_onnx_set(o, "columns", (double)columns);
}

/* An operator of the costs of a node; output k > 0 is a part of the first that costs nothing. */
static int add_opaque(struct orr_onnx *x, struct orr_onnx_node *n, int k, const char *why,
		      struct orr_error *err)
{
	bool part = k > 0 && n->out[0] && n->out[0]->live;
	bool apart = n->op && !strcmp(n->op->name, "Split");
	struct orr_onnx_cost cost = orr_onnx_cost(n);
	double samples = (double)x->samples;
	struct orr_operator *o =
		orr_onnx_add(x, "opaque", k ? n->proto->output[k] : orr_onnx_name(n->proto),
			     why ? why : orr_onnx_kind(n->proto), n->number + 1, err);

	if (!o)
		return ORR_E_NOMEM;
	n->out[k]->is = x->draft->n_operators - 1;
	set_shape(x, o, n->out[k]);
	orr_onnx_set(o, "counted", n->op ? 1 : 0);
	if (part && !apart)
		return orr_draft_add_edge(x->draft, n->out[0]->is, n->out[k]->is, -1, err);
	orr_onnx_set(o, "flop", cost.forward / samples);
	orr_onnx_set(o, "backward_flop", cost.backward / samples);
	orr_onnx_set(o, "weight_flop", cost.weight / samples);
	orr_onnx_set(o, "weights", count_weights(n));
	orr_onnx_set(o, "kept", cost.kept / samples);
	return orr_onnx_add_edges(x, n, err);
}

static void lay(struct orr_onnx_tensor *t, const struct orr_onnx_like *like)
{
	if (like->as)
		orr_onnx_lay_as(t, like->as, like->rows, like->columns);
	else if (like->channels)
		orr_onnx_lay_channels(t, like->rows, like->columns);
	else
		orr_onnx_lay(t, like->rows, like->columns);
}

static int add_like(struct orr_onnx *x, struct orr_onnx_node *n, const struct orr_onnx_like *like,
		    struct orr_error *err)
{
	struct orr_operator *o = orr_onnx_add(x, like->op, orr_onnx_name(n->proto),
					      orr_onnx_kind(n->proto), n->number + 1, err);
	int is = x->draft->n_operators - 1, code;

	if (!o)
		return ORR_E_NOMEM;
	for (int i = 0; i < like->n_values; i++)
		orr_onnx_set(o, like->values[i].name, like->values[i].value);
	(void)count_weights(n);
	lay(n->out[0], like);
	n->out[0]->is = is;
	if (like->also >= 0) {
		struct orr_onnx_node also;

		orr_onnx_node(&also, x, like->also);
		(void)count_weights(&also);
		x->done[like->also] = true;
		lay(also.out[0], like);
		also.out[0]->is = is;
	}
	if ((code = orr_onnx_add_sources(x, like, err)))
		return code;
	return orr_onnx_add_edges(x, n, err);
}

/* An operator, several or none, of which all before it are there. */
static int add_node(struct orr_onnx *x, struct orr_onnx_node *n, struct orr_error *err)
{
	struct orr_onnx_like like;
	struct orr_onnx_box box;
	bool view = n->op && n->n_in && n->in[0] && n->in[0]->is >= 0 && n->n_out > 0;
	int code = 0;

	for (int k = 0; k < n->n_out && view; k++)
		view = !n->out[k] || !n->out[k]->live ||
		       (n->out[k]->known && orr_onnx_view(n->out[k], n->in[0], n, k));
	if (view)
		return 0;
	for (int i = 0; i < n->n_in && !code; i++)
		if (n->in[i] && n->in[i]->is >= 0 && n->in[i]->real && n->in[i]->known &&
		    !orr_onnx_is_whole(x, n->in[i]) && orr_onnx_is_box(x, n->in[i], &box))
			code = orr_onnx_cut(x, n->in[i], &box, err);
	if (code)
		return code;
	if (orr_onnx_like(&like, x, n))
		return add_like(x, n, &like, err);
	for (int k = 0; k < n->n_out && !code; k++)
		if (n->out[k] && n->out[k]->live)
			code = add_opaque(x, n, k, like.why, err);
	return code;
}

static int compare_numbers(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* The last node of a pattern: one operator for all of them, or else each of them. */
static int add_pattern(struct orr_onnx *x, struct orr_onnx_pattern *p, struct orr_error *err)
{
	struct orr_onnx_node n;
	bool added = false;
	int code;

	orr_onnx_node(&n, x, p->last);
	if ((code = orr_onnx_add_pattern(x, &n, p, &added, err)) || added)
		return code;
	qsort(p->inner, (size_t)p->n_inner, sizeof(*p->inner), compare_numbers);
	for (int i = 0; i < p->n_inner && !code; i++) {
		x->claimed[p->inner[i]] = false;
		orr_onnx_node(&n, x, p->inner[i]);
		code = x->done[p->inner[i]] ? 0 : add_node(x, &n, err);
	}
	orr_onnx_node(&n, x, p->last);
	return code || x->done[p->last] ? code : add_node(x, &n, err);
}

/* In the order of the file, but for parts of patterns, which are added with their last one. */
static int add_nodes(struct orr_onnx *x, struct orr_error *err)
{
	int left = x->n_patterns, code = 0;

	for (int i = 0; i < (int)x->graph->n_node && !code; i++) {
		bool last = left && x->patterns[left - 1].last == i;
		struct orr_onnx_node n;

		left -= last;
		if (x->done[i] || x->claimed[i])
			continue;
		orr_onnx_node(&n, x, i);
		code = last ? add_pattern(x, &x->patterns[left], err) : add_node(x, &n, err);
	}
	return code;
}

/* From the last node of the file, so that what is found is whole. */
static int find_patterns(struct orr_onnx *x, struct orr_error *err)
{
	struct orr_onnx_pattern p, *more;
	struct orr_onnx_node n;

	for (int i = (int)x->graph->n_node - 1; i >= 0; i--) {
		if (x->done[i] || x->claimed[i])
			continue;
		orr_onnx_node(&n, x, i);
		if (!orr_onnx_find_pattern(&p, x, &n))
			continue;
		if (!(x->n_patterns & (x->n_patterns - 1))) { /* the room is a power of 2 */
			size_t room = x->n_patterns ? 2 * (size_t)x->n_patterns : 1;

			if (!(more = realloc(x->patterns, room * sizeof(*more))))
				return orr_onnx_no_memory(x, err);
			x->patterns = more;
		}
		x->patterns[x->n_patterns++] = p;
		for (int k = 0; k < p.n_inner; k++)
			x->claimed[p.inner[k]] = true;
	}
	return 0;
}

/* Shapes, and what is constant. */
static int look_at(struct orr_onnx *x, int number, struct orr_error *err)
{
	struct orr_onnx_node n;
	int code;

	orr_onnx_node(&n, x, number);
	if ((code = check_inputs(x, &n, err)) || (code = find_shapes(x, &n, err)))
		return code;
	x->done[number] = is_constant(&n);
	return 0;
}

/* ---- the whole ---- */

/* An output of what computes needs a loss that the file does not have. */
static int end_output(struct orr_onnx *x, const struct orr_onnx_tensor *t, bool *read,
		      struct orr_error *err)
{
	const struct orr_op *op = x->draft->operators[t->is].is.instance->op;

	if (read[t->is] || op->loss || op->opaque)
		return 0;
	read[t->is] = true;
	if (!orr_onnx_add(x, "opaque", t->name, "an output: it needs a loss", 0, err))
		return ORR_E_NOMEM;
	return orr_draft_add_edge(x->draft, t->is, x->draft->n_operators - 1, -1, err);
}

static int end_outputs(struct orr_onnx *x, struct orr_error *err)
{
	bool *read = calloc((size_t)x->draft->n_operators + 1, sizeof(*read));
	int code = read ? 0 : orr_onnx_no_memory(x, err);

	for (int i = 0; i < x->draft->n_edges && !code; i++)
		read[x->draft->edges[i].from] = true;
	for (size_t i = 0; i < x->graph->n_output && !code; i++) {
		const struct orr_onnx_tensor *t = orr_onnx_find(x, x->graph->output[i]->name);

		if (t->is >= 0)
			code = end_output(x, t, read, err);
	}
	free(read);
	return code;
}

static int read_graph(struct orr_onnx *x, struct orr_error *err)
{
	int code;

	x->done = calloc(x->graph->n_node + 1, sizeof(*x->done));
	x->claimed = calloc(x->graph->n_node + 1, sizeof(*x->claimed));
	if (!x->done || !x->claimed)
		return orr_onnx_no_memory(x, err);
	if ((code = orr_onnx_tensors_init(x, err)) || (code = take_types(x, err)) ||
	    (code = take_constants(x, err)))
		return code;
	mark_live(x);
	if (!(code = check_order(x, err)))
		code = orr_onnx_add_inputs(x, err);
	for (int i = 0; i < (int)x->graph->n_node && !code; i++)
		if (!x->done[i])
			code = look_at(x, i, err);
	if (code || (code = find_patterns(x, err)) || (code = add_nodes(x, err)))
		return code;
	if ((code = end_outputs(x, err)))
		return code;
	return orr_onnx_name_apart(x, err);
}

int orr_onnx_read_model(struct orr_draft *draft, const Onnx__ModelProto *model,
			struct orr_onnx_source **sources, int *n_sources, struct orr_error *err)
{
	struct orr_onnx x = {.draft = draft, .graph = model->graph, .budget = MOST_WORKED_OUT};
	int code;

	for (size_t i = 0; i < model->n_opset_import; i++)
		if (!model->opset_import[i]->domain || !*model->opset_import[i]->domain)
			x.version = model->opset_import[i]->version;
	code = read_graph(&x, err);
	orr_onnx_tensors_fini(&x);
	free(x.types);
	free(x.done);
	free(x.claimed);
	free(x.patterns);
	if (sources && !code) {
		*sources = x.sources;
		*n_sources = x.n_sources;
	} else {
		free(x.sources);
	}
	return code;
}

int orr_onnx_read(struct orr_draft *draft, const void *bytes, size_t n, struct orr_error *err)
{
	Onnx__ModelProto *model = NULL;
	int code = orr_onnx_unpack(&model, draft->name, bytes, n, err);

	if (!code)
		code = orr_onnx_read_model(draft, model, NULL, NULL, err);
	orr_onnx_free(model);
	return orr_text_fail(code, err); /* names may hold anything */
}
