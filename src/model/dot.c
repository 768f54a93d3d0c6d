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
};

static bool plain_name(const char *name)
{
	size_t left = strlen(name), n = 1;

	for (; left && n; name += n, left -= n)
		n = orr_utf8_shown(name, left);
	return n;
}

static void fail_no_op(struct orr_draft *draft, const struct orr_dot_node *node)
{
	const char *unknown = NULL;

	for (int i = 0; i < node->attributes.n && !unknown; i++)
		if (*node->attributes.list[i].text &&
		    !orr_attribute_draws('n', node->attributes.list[i].name))
			unknown = node->attributes.list[i].name;
	orr_draft_fail(draft, ORR_E_INPUT,
		       "%s: neither an op nor costs%s%.60s%s: give it op=... (show [operators] "
		       "lists them), or forward=... and backward=... for a study",
		       orr_location(draft->name, node->line, node->name), unknown ? ", but " : "",
		       unknown ? unknown : "",
		       unknown ? orr_attribute_hint('n', unknown, NULL) : "");
}

static void fail_op(struct orr_draft *draft, const struct orr_dot_node *node,
		    const struct orr_dot_attribute *op)
{
	struct orr_nearest near = orr_nearest_to(op->text);

	for (int i = 0; i < orr_n_ops; i++)
		orr_nearest_try(&near, orr_ops[i]->name, NULL);
	orr_draft_fail(draft, ORR_E_INPUT,
		       "%s: op: %.60s%s is no operator: say one that show [operators] lists",
		       orr_location(draft->name, op->line, node->name), op->text,
		       orr_nearest_hint(&near));
}

static void read_op(struct orr_draft *draft, const struct orr_dot_node *node,
		    struct orr_operator *o)
{
	const struct orr_dot_attribute *text = orr_dot_find(&node->attributes, "op");
	const struct orr_op *op;

	if (!text || !*text->text) {
		for (int i = 0; i < node->attributes.n; i++)
			if (*node->attributes.list[i].text &&
			    orr_attribute_is_cost(node->attributes.list[i].name))
				return; /* a study operator, which it is already */
		fail_no_op(draft, node);
		return;
	}
	if (!(op = orr_op_find(text->text)))
		fail_op(draft, node, text);
	else if (!(o->instance = orr_instance_create(op)))
		orr_draft_no_memory(draft);
	o->forward_ns = o->backward_ns = o->weight_ns = o->update_ns = -1;
	o->activation_bytes = o->stash_bytes = o->parameter_bytes = -1;
}

/* What its op must be told. */
static void check_said(struct orr_draft *draft, const struct orr_operator *o)
{
	const struct orr_op *op = o->instance ? o->instance->op : NULL;

	for (const struct orr_attribute *a = op ? op->attributes : NULL; a && a->name; a++) {
		bool said = a->form == ORR_ATTRIBUTE_COLUMNS
				    ? o->columns != NULL
				    : o->instance->values[orr_op_value(op, a)] >= a->least;

		if (a->missing && !said)
			orr_draft_fail(draft, ORR_E_INPUT, "%s: %s",
				       orr_location(draft->name, o->line, o->name), a->missing);
	}
}

static void read_attributes(struct reader *r, const struct orr_dot_node *node,
			    struct orr_draft_operator *o)
{
	struct orr_draft *draft = r->draft;

	for (int i = 0; i < node->attributes.n && !draft->code; i++) {
		const struct orr_dot_attribute *a = &node->attributes.list[i];

		if (strcmp(a->name, "op") == 0 || (!*a->text && !a->stated))
			continue;
		if (strcmp(a->name, "label") == 0) {
			if (*a->text && strcmp(a->text, "\\N") != 0 &&
			    !(o->is.label = strdup(a->text)))
				orr_draft_no_memory(draft);
			continue;
		}
		if (*a->text || !orr_attribute_draws('n', a->name))
			orr_draft_keep(draft,
				       orr_attribute_set(o, &r->durations, draft->name, a->line,
							 a->name, a->text, draft->err));
	}
	check_said(draft, &o->is);
}

static void read_nodes(struct reader *r)
{
	struct orr_draft *draft = r->draft;

	for (int i = 0; i < r->dot.n_nodes && !draft->code; i++) {
		const struct orr_dot_node *node = &r->dot.nodes[i];
		struct orr_draft_operator *o;

		if (!*node->name || !plain_name(node->name))
			orr_draft_fail(draft, ORR_E_INPUT,
				       "%s:%d: a node's name is empty or holds a line break or a "
				       "control character",
				       draft->name, node->line);
		if (!(o = orr_draft_add_operator(draft, node->name)))
			return;
		o->is.line = node->line;
		read_op(draft, node, &o->is);
		read_attributes(r, node, o);
	}
	draft->units =
		r->durations.plain_line || (r->durations.plain_zero && !r->durations.unit_line);
}

/* What the edge's attributes say, as reads[*n], or -1: nothing but for drawings. */
static int read_edge(struct reader *r, const struct orr_dot_edge *edge, int *n)
{
	const struct orr_dot_attributes *of = &r->dot.of_edges[edge->attributes];
	struct orr_read says = {-1, -1, false};
	struct orr_draft *draft = r->draft;

	for (int i = 0; i < of->n && !draft->code; i++) {
		const struct orr_dot_attribute *a = &of->list[i];
		const char *what = orr_text("%.100s:%d: edge %.60s -> %.60s: %.20s", draft->name,
					    a->line, r->dot.nodes[edge->from].name,
					    r->dot.nodes[edge->to].name, a->name);

		if ((!*a->text && !a->stated) || orr_attribute_draws('e', a->name))
			continue;
		if (!orr_draft_keep(draft, orr_attribute_set_edge(&says, a->name, a->text, what,
								  draft->err)) &&
		    says.detached && says.gradient_bytes >= 0)
			orr_draft_fail(
				draft, ORR_E_INPUT,
				"%s: gradient=false says that it has none: take one of them away",
				what);
	}
	if (says.bytes < 0 && says.gradient_bytes < 0 && !says.detached)
		return -1;
	draft->reads[*n] = says;
	return (*n)++;
}

static void read_edges(struct reader *r)
{
	struct orr_draft *draft = r->draft;
	size_t n_lists = (size_t)r->dot.n_of_edges + 1;
	int *read = calloc(n_lists, sizeof(*read)), n = 0; /* of a list, plus 2; 0: not yet */

	draft->reads = calloc(n_lists, sizeof(*draft->reads));
	if (!read || !draft->reads)
		orr_draft_no_memory(draft);
	for (int e = 0; e < r->dot.n_edges && !draft->code; e++) {
		const struct orr_dot_edge *edge = &r->dot.edges[e];
		int *found = &read[edge->attributes];

		if (!*found)
			*found = read_edge(r, edge, &n) + 2;
		orr_draft_add_edge(draft, edge->from, edge->to, *found - 2);
	}
	free(read);
}

/* kind: of orr_attribute_is_known(). */
static void check_known(struct orr_draft *draft, const struct orr_dot_attributes *of, char kind,
			const char *owner, const char *allowed)
{
	for (int i = 0; i < of->n; i++) {
		const struct orr_dot_attribute *a = &of->list[i];

		if (!orr_attribute_is_known(kind, a->name))
			orr_draft_fail(draft, ORR_E_INPUT,
				       "%s:%d: %.60s%s is no attribute of %s: use %s, or what "
				       "Graphviz draws with",
				       draft->name, a->line, a->name,
				       orr_attribute_hint(kind, a->name, NULL), owner, allowed);
	}
}

static void check_subgraph(const struct reader *r, const struct orr_dot_subgraph *subgraph)
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
	struct orr_draft *draft = r->draft;

	check_known(draft, &subgraph->attributes, 'g', "a graph or a subgraph",
		    "data, overhead, samples and profiled, on the graph, repeat, frozen, split and "
		    "length_exponent, on a subgraph");
	for (size_t i = 0; i < sizeof(inner) / sizeof(*inner) && subgraph == r->dot.subgraphs; i++)
		if ((says = orr_dot_find(&subgraph->attributes, inner[i].name)))
			orr_draft_fail(draft, ORR_E_INPUT, "%s:%d: %s: %s", draft->name, says->line,
				       inner[i].name, inner[i].why);
	if (repeat && !*subgraph->name)
		orr_draft_fail(
			draft, ORR_E_INPUT,
			"%s:%d: repeat: a subgraph that repeats needs a name: say subgraph NAME {",
			draft->name, repeat->line);
}

static void check_attributes(const struct reader *r)
{
	static const char allowed[] = "bytes, gradient_bytes and gradient";

	for (int i = 0; i < r->dot.n_of_edges; i++)
		check_known(r->draft, &r->dot.of_edges[i], 'e', "an edge", allowed);
	for (int s = 0; s < r->dot.n_subgraphs; s++) {
		check_known(r->draft, &r->dot.subgraphs[s].edge_defaults, 'e', "an edge", allowed);
		check_subgraph(r, &r->dot.subgraphs[s]);
	}
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
		if (draft->blocks[block].encoder)
			return true;
	return false;
}

/* Put the subgraph's nodes, so far in the block around it, in this block. */
static void claim_nodes(struct orr_draft *draft, const struct orr_dot_subgraph *subgraph, int block)
{
	for (int i = 0; i < subgraph->n_nodes && !draft->code; i++) {
		struct orr_draft_operator *o = &draft->operators[subgraph->nodes[i]];

		if (o->block == draft->blocks[block].parent)
			o->block = block;
		else
			orr_draft_fail(draft, ORR_E_INPUT,
				       "%s: is in two subgraphs, %.60s and %.60s: leave it in one "
				       "(an edge inside a subgraph puts both its ends there: write "
				       "it outside)",
				       orr_location(draft->name, o->is.line, o->is.name),
				       draft->blocks[o->block].name, draft->blocks[block].name);
	}
}

/* What the subgraph says of this, with its place, "file.dot:3: subgraph encoder: repeat"; NULL:
 * nothing. */
static const char *find_text(const struct reader *r, const struct orr_dot_subgraph *subgraph,
			     const char *name, const char **place)
{
	const struct orr_dot_attribute *a = orr_dot_find(&subgraph->attributes, name);

	if (a)
		*place = orr_text("%.150s:%d: subgraph %.60s: %s", r->draft->name, a->line,
				  subgraph->name, name);
	return a ? a->text : NULL;
}

static int read_block_attributes(struct reader *r, const struct orr_dot_subgraph *subgraph,
				 struct orr_draft_block *b, struct orr_error *err)
{
	const char *text, *place;
	int code;

	if ((text = find_text(r, subgraph, "split", &place)) &&
	    (code = orr_attribute_split(&b->split, &b->split_copied, text, place, err)))
		return code;
	if ((text = find_text(r, subgraph, "frozen", &place)) &&
	    (code = orr_attribute_truth(&b->frozen, text, place, err)))
		return code;
	if ((text = find_text(r, subgraph, "repeat", &place)) &&
	    (code = orr_count_parse(&b->repeat, text, 1, ORR_MOST_OPERATORS, place, err)))
		return code;
	text = find_text(r, subgraph, "length_exponent", &place);
	return text ? orr_real_parse(&b->length_exponent, text, 0, ORR_MOST_EXPONENT, place, err)
		    : 0;
}

/* Its name. */
static const char *name_encoder(struct orr_draft *draft, const struct orr_dot_subgraph *subgraph)
{
	const char *plain = orr_dot_plain_name(subgraph->name);

	for (int i = 0; i < draft->n_blocks; i++)
		if (draft->blocks[i].encoder && strcmp(draft->blocks[i].encoder, plain) == 0)
			orr_draft_fail(draft, ORR_E_INPUT,
				       "%s:%d: subgraph %.60s: another one is encoder %.60s "
				       "already (cluster_ does not count): rename one",
				       draft->name, subgraph->line, subgraph->name, plain);
	return plain;
}

/* Make a block of the subgraph, if it means more than a drawing: its number, or that of the one
 * around it. */
static int read_block(struct reader *r, const struct orr_dot_subgraph *subgraph, int parent)
{
	struct orr_draft *draft = r->draft;
	struct orr_draft_block b = {
		.line = subgraph->line, .parent = parent, .repeat = 1, .length_exponent = -1};
	bool encoder = !in_encoder(draft, parent) && is_encoder(subgraph);
	struct orr_draft_block *block;

	orr_draft_keep(draft, read_block_attributes(r, subgraph, &b, draft->err));
	if (!encoder && b.repeat == 1 && !b.frozen && b.length_exponent < 0 && !b.split)
		return parent;
	if (!plain_name(subgraph->name))
		orr_draft_fail(draft, ORR_E_INPUT,
			       "%s: a subgraph's name holds a line break or a control character",
			       draft->name);
	if (!(block = orr_draft_add_block(draft, subgraph->name, parent,
					  encoder ? name_encoder(draft, subgraph) : NULL)))
		return parent;
	b.name = block->name;
	b.encoder = block->encoder;
	*block = b;
	claim_nodes(draft, subgraph, draft->n_blocks - 1);
	return draft->n_blocks - 1;
}

/* In the order of the file, so that what is around a subgraph comes before it. */
static void read_subgraphs(struct reader *r)
{
	int *blocks = calloc((size_t)r->dot.n_subgraphs, sizeof(*blocks));

	if (blocks)
		blocks[0] = -1;
	else
		orr_draft_no_memory(r->draft);
	for (int s = 1; s < r->dot.n_subgraphs && !r->draft->code; s++)
		blocks[s] = read_block(r, &r->dot.subgraphs[s], blocks[r->dot.subgraphs[s].parent]);
	free(blocks);
}

/* data="file.csv" is relative to the graph's file. */
static int read_data(struct orr_draft *draft, const char *text)
{
	const char *file = draft->name, *slash = *text == '/' ? NULL : strrchr(file, '/');

	if (asprintf(&draft->data, "%.*s%s", slash ? (int)(slash - file) + 1 : 0, file, text) >= 0)
		return 0;
	draft->data = NULL;
	return orr_draft_no_memory(draft);
}

/* What the whole graph alone can say: an attribute of it. */
static int read_whole(struct reader *r, const struct orr_dot_attribute *a)
{
	struct orr_draft *draft = r->draft;
	const char *place = orr_text("%.150s:%d: %s", draft->name, a->line, a->name);

	if (strcmp(a->name, "data") == 0)
		return read_data(draft, a->text);
	if (strcmp(a->name, "samples") == 0)
		return orr_count_parse(&draft->samples, a->text, 1, 1 << 30, place, draft->err);
	if (strcmp(a->name, "profiled") == 0)
		return orr_profiled_parse(&draft->profiled, a->text, place, draft->err);
	if (strcmp(a->name, "length_exponent") == 0)
		return orr_real_parse(&draft->length_exponent, a->text, 0, ORR_MOST_EXPONENT, place,
				      draft->err);
	return orr_attribute_duration(&draft->overhead_ns, &r->durations,
				      orr_text("%.150s: overhead", draft->name), a->line, a->text,
				      draft->err);
}

static void read_graph(struct reader *r)
{
	/* the last one subgraphs have, too */
	static const char *const whole[] = {"data", "overhead", "samples", "profiled",
					    "length_exponent"};
	const struct orr_dot_subgraph *graphs = r->dot.subgraphs;
	struct orr_draft *draft = r->draft;
	const struct orr_dot_attribute *a;

	for (int i = 0; i < 5 && !draft->code; i++) {
		for (int s = 1; s < r->dot.n_subgraphs && i < 4; s++)
			if ((a = orr_dot_find(&graphs[s].attributes, whole[i])))
				orr_draft_fail(draft, ORR_E_INPUT,
					       "%s:%d: %s: a model has one %s: say so outside the "
					       "subgraphs",
					       draft->name, a->line, whole[i],
					       i ? whole[i] : "file of data");
		a = orr_dot_find(&graphs[0].attributes, whole[i]);
		if (a && (*a->text || i == 4) && !draft->code)
			orr_draft_keep(draft, read_whole(r, a));
	}
}

void orr_dot_read(struct orr_draft *draft, const char *text)
{
	struct reader r = {.draft = draft};

	if (!orr_draft_keep(draft, orr_dot_parse(&r.dot, draft->name, text, true, draft->err))) {
		check_attributes(&r);
		read_graph(&r);
		read_nodes(&r);
		read_edges(&r);
		read_subgraphs(&r);
	}
	if (draft->n_operators == 0)
		orr_draft_fail(draft, ORR_E_INPUT,
			       "%s: no operators: a model is digraph { a [op=input, ...]; ... }",
			       draft->name);
	orr_dot_fini(&r.dot);
}
