/* DOT -> draft: what a model means of what its text says. */
#include "dot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dot_tree.h"
#include "base/quantity.h"
#include "base/utf8.h"

struct reader {
	struct orr_draft *draft; /* its operators have the numbers of the nodes */
	struct orr_dot dot;
	struct orr_dot_durations durations;
	struct orr_error *err;
};

static int fail_node(const struct reader *r, int line, const char *node, const char *text)
{
	char place[256];

	return orr_fail(r->err, ORR_E_INPUT, "%s: %s",
			orr_location(place, sizeof(place), r->draft->name, line, node), text);
}

static bool plain_name(const char *name)
{
	size_t left = strlen(name), n = 1;

	for (; left && n; name += n, left -= n)
		n = orr_utf8_shown(name, left);
	return n;
}

static int fail_no_op(const struct reader *r, const struct orr_dot_node *node)
{
	const char *unknown = NULL;
	char place[256], hint[ORR_HINT];

	for (int i = 0; i < node->attributes.n && !unknown; i++)
		if (*node->attributes.list[i].text &&
		    !orr_attribute_draws('n', node->attributes.list[i].name))
			unknown = node->attributes.list[i].name;
	return orr_fail(r->err, ORR_E_INPUT,
			"%s: neither an op nor costs%s%.60s%s: give it op=... (show [operators] "
			"lists them), or forward=... and backward=... for a study",
			orr_location(place, sizeof(place), r->draft->name, node->line, node->name),
			unknown ? ", but " : "", unknown ? unknown : "",
			unknown ? orr_attribute_hint(hint, 'n', unknown, NULL) : "");
}

static int fail_op(const struct reader *r, const struct orr_dot_node *node,
		   const struct orr_dot_attribute *op)
{
	struct orr_nearest near = orr_nearest_to(op->text);
	char place[256], hint[ORR_HINT];

	for (int i = 0; i < orr_n_ops; i++)
		orr_nearest_try(&near, orr_ops[i]->name, NULL);
	return orr_fail(r->err, ORR_E_INPUT,
			"%s: op: %.60s%s is no operator: say one that show [operators] lists",
			orr_location(place, sizeof(place), r->draft->name, op->line, node->name),
			op->text, orr_nearest_hint(hint, &near));
}

static int read_op(const struct reader *r, const struct orr_dot_node *node, struct orr_operator *o)
{
	const struct orr_dot_attribute *text = orr_dot_find(&node->attributes, "op");
	const struct orr_op *op;

	if (!text || !*text->text) {
		for (int i = 0; i < node->attributes.n; i++)
			if (*node->attributes.list[i].text &&
			    orr_attribute_is_cost(node->attributes.list[i].name))
				return 0; /* a study operator, which it is already */
		return fail_no_op(r, node);
	}
	if (!(op = orr_op_find(text->text)))
		return fail_op(r, node, text);
	if (!(o->instance = orr_instance_create(op)))
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for %s", r->draft->name,
				node->name);
	o->forward_ns = o->backward_ns = o->weight_ns = o->update_ns = -1;
	o->activation_bytes = o->stash_bytes = o->parameter_bytes = -1;
	return 0;
}

/* What its op must be told. */
static int check_said(const struct reader *r, const struct orr_operator *o)
{
	const struct orr_op *op = o->instance ? o->instance->op : NULL;

	for (const struct orr_attribute *a = op ? op->attributes : NULL; a && a->name; a++) {
		bool said = a->form == ORR_ATTRIBUTE_COLUMNS
				    ? o->columns != NULL
				    : o->instance->values[orr_op_value(op, a)] >= a->least;

		if (a->missing && !said)
			return fail_node(r, o->line, o->name, a->missing);
	}
	return 0;
}

static int read_attributes(struct reader *r, const struct orr_dot_node *node,
			   struct orr_draft_operator *o)
{
	for (int i = 0; i < node->attributes.n; i++) {
		const struct orr_dot_attribute *a = &node->attributes.list[i];
		int code;

		if (strcmp(a->name, "op") == 0 || (!*a->text && !a->stated))
			continue;
		if (strcmp(a->name, "label") == 0) {
			if (*a->text && strcmp(a->text, "\\N") != 0 &&
			    !(o->is.label = strdup(a->text)))
				return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its labels",
						r->draft->name);
			continue;
		}
		if (!*a->text && orr_attribute_draws('n', a->name))
			continue;
		code = orr_attribute_set(o, &r->durations, r->draft->name, a->line, a->name,
					 a->text, r->err);
		if (code)
			return code;
	}
	return check_said(r, &o->is);
}

static int read_nodes(struct reader *r)
{
	int code;

	for (int i = 0; i < r->dot.n_nodes; i++) {
		const struct orr_dot_node *node = &r->dot.nodes[i];
		struct orr_draft_operator *o;

		if (!*node->name || !plain_name(node->name))
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: a node's name is empty or holds a line break or a "
					"control character",
					r->draft->name, node->line);
		if ((code = orr_draft_add_operator(r->draft, node->name, r->err)))
			return code;
		o = &r->draft->operators[i];
		o->is.line = node->line;
		if ((code = read_op(r, node, &o->is)) || (code = read_attributes(r, node, o)))
			return code;
	}
	r->draft->units = r->durations.plain || (r->durations.plain_zero && !r->durations.unit);
	return 0;
}

/* What the edge's attributes say, as reads[*n], or -1: nothing but for drawings. */
static int read_edge(struct reader *r, const struct orr_dot_edge *edge, int *n, int *read)
{
	const struct orr_dot_attributes *of = &r->dot.of_edges[edge->attributes];
	struct orr_read says = {-1, -1, false};
	char what[320];

	for (int i = 0; i < of->n; i++) {
		const struct orr_dot_attribute *a = &of->list[i];
		int code;

		if ((!*a->text && !a->stated) || orr_attribute_draws('e', a->name))
			continue;
		(void)snprintf(what, sizeof(what), "%.100s:%d: edge %.60s -> %.60s: %.20s",
			       r->draft->name, a->line, r->dot.nodes[edge->from].name,
			       r->dot.nodes[edge->to].name, a->name);
		if ((code = orr_attribute_set_edge(&says, a->name, a->text, what, r->err)))
			return code;
		if (says.detached && says.gradient_bytes >= 0)
			return orr_fail(
				r->err, ORR_E_INPUT,
				"%s: gradient=false says that it has none: take one of them away",
				what);
	}
	*read = says.bytes < 0 && says.gradient_bytes < 0 && !says.detached ? -1 : *n;
	if (*read >= 0)
		r->draft->reads[(*n)++] = says;
	return 0;
}

static int read_edges(struct reader *r)
{
	size_t n_lists = (size_t)r->dot.n_of_edges + 1;
	int *read = calloc(n_lists, sizeof(*read)), n = 0,
	    code = 0; /* of a list, plus 2; 0: not yet */

	r->draft->reads = calloc(n_lists, sizeof(*r->draft->reads));
	if (!read || !r->draft->reads)
		code = orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its edges", r->draft->name);
	for (int e = 0; e < r->dot.n_edges && !code; e++) {
		const struct orr_dot_edge *edge = &r->dot.edges[e];
		int found = read[edge->attributes] - 2;

		if (found < -1 && !(code = read_edge(r, edge, &n, &found)))
			read[edge->attributes] = found + 2;
		if (!code)
			code = orr_draft_add_edge(r->draft, edge->from, edge->to, found, r->err);
	}
	free(read);
	return code;
}

/* kind: of orr_attribute_is_known(). */
static int check_known(const struct reader *r, const struct orr_dot_attributes *of, char kind,
		       const char *owner, const char *allowed)
{
	char hint[ORR_HINT];

	for (int i = 0; i < of->n; i++) {
		const struct orr_dot_attribute *a = &of->list[i];

		if (!orr_attribute_is_known(kind, a->name))
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: %.60s%s is no attribute of %s: use %s, or what "
					"Graphviz draws with",
					r->draft->name, a->line, a->name,
					orr_attribute_hint(hint, kind, a->name, NULL), owner,
					allowed);
	}
	return 0;
}

static int check_subgraph(const struct reader *r, const struct orr_dot_subgraph *subgraph)
{
	static const struct {
		const char *name, *why;
	} inner[] = {
		{"repeat", "the whole graph cannot be repeated: put what repeats in a subgraph"},
		{"frozen",
		 "the whole graph cannot be frozen: put what is not trained in a subgraph"},
		{"split",
		 "put what is split in a subgraph, or say so of its nodes, node [split=2]"},
	};
	const struct orr_dot_attribute *repeat = orr_dot_find(&subgraph->attributes, "repeat"),
				       *says;
	const char *file = r->draft->name;
	int code = check_known(r, &subgraph->attributes, 'g', "a graph or a subgraph",
			       "data, overhead, samples and profiled, on the graph, repeat, "
			       "frozen, split and length_exponent, on a subgraph");

	if (code)
		return code;
	for (size_t i = 0; i < sizeof(inner) / sizeof(*inner) && subgraph == r->dot.subgraphs; i++)
		if ((says = orr_dot_find(&subgraph->attributes, inner[i].name)))
			return orr_fail(r->err, ORR_E_INPUT, "%s:%d: %s: %s", file, says->line,
					inner[i].name, inner[i].why);
	if (repeat && !*subgraph->name)
		return orr_fail(
			r->err, ORR_E_INPUT,
			"%s:%d: repeat: a subgraph that repeats needs a name: say subgraph NAME {",
			file, repeat->line);
	return 0;
}

static int check_edges(const struct reader *r, const struct orr_dot_attributes *of)
{
	return check_known(r, of, 'e', "an edge", "bytes, gradient_bytes and gradient");
}

static int check_attributes(const struct reader *r)
{
	int code = 0;

	for (int i = 0; i < r->dot.n_of_edges && !code; i++)
		code = check_edges(r, &r->dot.of_edges[i]);
	for (int s = 0; s < r->dot.n_subgraphs && !code; s++)
		if (!(code = check_edges(r, &r->dot.subgraphs[s].edge_defaults)))
			code = check_subgraph(r, &r->dot.subgraphs[s]);
	return code;
}

/* A subgraph that is there to place nodes in a drawing is no encoder. */
static bool is_encoder(const struct orr_dot_subgraph *subgraph)
{
	return *subgraph->name && subgraph->n_nodes > 0 &&
	       (strncmp(subgraph->name, "cluster", 7) == 0 ||
		!orr_dot_find(&subgraph->attributes, "rank"));
}

static bool in_encoder(const struct orr_draft *draft, int block)
{
	for (; block >= 0; block = draft->blocks[block].parent)
		if (draft->blocks[block].encoder >= 0)
			return true;
	return false;
}

/* Put the subgraph's nodes, so far in the block around it, in this block. */
static int claim_nodes(struct reader *r, const struct orr_dot_subgraph *subgraph, int block)
{
	struct orr_draft *draft = r->draft;
	char text[320];

	for (int i = 0; i < subgraph->n_nodes; i++) {
		struct orr_draft_operator *o = &draft->operators[subgraph->nodes[i]];

		if (o->block == draft->blocks[block].parent) {
			o->block = block;
			continue;
		}
		(void)snprintf(text, sizeof(text),
			       "is in two subgraphs, %.60s and %.60s: leave it in one (an edge "
			       "inside a subgraph puts both its ends there: write it outside)",
			       draft->blocks[o->block].name, draft->blocks[block].name);
		return fail_node(r, o->is.line, o->is.name, text);
	}
	return 0;
}

/* What the subgraph says of this, with its place, "file.dot:3: subgraph encoder: repeat"; NULL:
 * nothing. */
static const char *find_text(const struct reader *r, const struct orr_dot_subgraph *subgraph,
			     const char *name, char place[256])
{
	const struct orr_dot_attribute *a = orr_dot_find(&subgraph->attributes, name);

	if (a)
		(void)snprintf(place, 256, "%.150s:%d: subgraph %.60s: %s", r->draft->name, a->line,
			       subgraph->name, name);
	return a ? a->text : NULL;
}

static int read_block_attributes(struct reader *r, const struct orr_dot_subgraph *subgraph,
				 struct orr_draft_block *b)
{
	char place[256];
	const char *text;
	int code;

	if ((text = find_text(r, subgraph, "split", place)) &&
	    (code = orr_attribute_split(&b->split, &b->split_copied, text, place, r->err)))
		return code;
	if ((text = find_text(r, subgraph, "frozen", place)) &&
	    (code = orr_attribute_truth(&b->frozen, text, place, r->err)))
		return code;
	if ((text = find_text(r, subgraph, "repeat", place)) &&
	    (code = orr_count_parse(&b->repeat, text, 1, ORR_MOST_OPERATORS, place, r->err)))
		return code;
	text = find_text(r, subgraph, "length_exponent", place);
	return text ? orr_attribute_exponent(&b->length_exponent, text, place, r->err) : 0;
}

static int read_encoder(struct reader *r, const char *name, struct orr_draft_block *b)
{
	struct orr_draft *draft = r->draft;
	const char *plain = orr_dot_plain_name(name);

	for (int i = 0; i < draft->n_encoders; i++)
		if (strcmp(draft->encoders[i], plain) == 0)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: subgraph %.60s: another one is encoder %.60s "
					"already (cluster_ does not count): rename one",
					draft->name, b->line, name, draft->encoders[i]);
	b->encoder = draft->n_encoders;
	return orr_draft_add_encoder(draft, plain, r->err);
}

/* Make a block of the subgraph, if it means more than a drawing. */
static int read_block(struct reader *r, const struct orr_dot_subgraph *subgraph, int parent,
		      int *block)
{
	struct orr_draft *draft = r->draft;
	struct orr_draft_block b = {.line = subgraph->line,
				    .parent = parent,
				    .encoder = -1,
				    .repeat = 1,
				    .length_exponent = -1};
	bool encoder = !in_encoder(draft, parent) && is_encoder(subgraph);
	int code;

	*block = parent;
	if ((code = read_block_attributes(r, subgraph, &b)))
		return code;
	if (!encoder && b.repeat == 1 && !b.frozen && b.length_exponent < 0 && !b.split)
		return 0;
	if (!plain_name(subgraph->name))
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: a subgraph's name holds a line break or a control character",
				draft->name);
	if ((code = orr_draft_add_block(draft, subgraph->name, parent, r->err)))
		return code;
	*block = draft->n_blocks - 1;
	if (encoder && (code = read_encoder(r, subgraph->name, &b)))
		return code;
	b.name = draft->blocks[*block].name;
	draft->blocks[*block] = b;
	return claim_nodes(r, subgraph, *block);
}

/* In the order of the file, so that what is around a subgraph comes before it. */
static int read_subgraphs(struct reader *r)
{
	int *blocks = calloc((size_t)r->dot.n_subgraphs, sizeof(*blocks)), code = 0;

	if (!blocks)
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its subgraphs",
				r->draft->name);
	blocks[0] = -1;
	for (int s = 1; s < r->dot.n_subgraphs && !code; s++)
		code = read_block(r, &r->dot.subgraphs[s], blocks[r->dot.subgraphs[s].parent],
				  &blocks[s]);
	free(blocks);
	return code;
}

/* data="file.csv" is relative to the graph's file. */
static int read_data(struct orr_draft *draft, const char *text, struct orr_error *err)
{
	const char *file = draft->name, *slash = *text == '/' ? NULL : strrchr(file, '/');

	if (asprintf(&draft->data, "%.*s%s", slash ? (int)(slash - file) + 1 : 0, file, text) >= 0)
		return 0;
	draft->data = NULL;
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its data's path", file);
}

/* What the whole graph alone can say: an attribute of it; place: "file.dot:3: samples". */
static int read_whole(struct reader *r, const struct orr_dot_attribute *a, const char *place)
{
	struct orr_draft *draft = r->draft;
	char what[200];

	if (strcmp(a->name, "data") == 0)
		return read_data(draft, a->text, r->err);
	if (strcmp(a->name, "samples") == 0)
		return orr_count_parse(&draft->samples, a->text, 1, 1 << 30, place, r->err);
	if (strcmp(a->name, "profiled") == 0)
		return orr_profiled_parse(&draft->profiled, a->text, place, r->err);
	(void)snprintf(what, sizeof(what), "%.150s: overhead", draft->name);
	return orr_attribute_duration(&draft->overhead_ns, &r->durations, what, a->line, a->text,
				      r->err);
}

static int read_graph(struct reader *r)
{
	static const char *const whole[] = {"data", "overhead", "samples", "profiled"};
	const struct orr_dot_subgraph *graphs = r->dot.subgraphs;
	const struct orr_dot_attribute *a;
	char place[200];
	int code = 0;

	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole) && !code; i++) {
		for (int s = 1; s < r->dot.n_subgraphs; s++)
			if ((a = orr_dot_find(&graphs[s].attributes, whole[i])))
				return orr_fail(r->err, ORR_E_INPUT,
						"%s:%d: %s: a model has one %s: say so outside the "
						"subgraphs",
						r->draft->name, a->line, whole[i],
						i ? whole[i] : "file of data");
		a = orr_dot_find(&graphs[0].attributes, whole[i]);
		if (!a || !*a->text)
			continue;
		(void)snprintf(place, sizeof(place), "%.150s:%d: %s", r->draft->name, a->line,
			       whole[i]);
		code = read_whole(r, a, place);
	}
	if (code || !(a = orr_dot_find(&graphs[0].attributes, "length_exponent")))
		return code;
	(void)snprintf(place, sizeof(place), "%.150s:%d: %s", r->draft->name, a->line, a->name);
	return orr_attribute_exponent(&r->draft->length_exponent, a->text, place, r->err);
}

int orr_dot_read(struct orr_draft *draft, const char *text, struct orr_error *err)
{
	struct reader r = {.draft = draft, .err = err};
	int code;

	if ((code = orr_dot_parse(&r.dot, draft->name, text, true, err)) ||
	    (code = check_attributes(&r)) || (code = read_graph(&r)) || (code = read_nodes(&r)) ||
	    (code = read_edges(&r)) || (code = read_subgraphs(&r)))
		goto out;
	if (draft->n_operators == 0)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no operators: a model is digraph { a [op=input, ...]; ... }",
				draft->name);
out:
	orr_dot_fini(&r.dot);
	return code;
}
