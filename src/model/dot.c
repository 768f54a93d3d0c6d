/* DOT through libcgraph. The scanner goes first: libcgraph parses only text that the scanner
 * accepts, and the scanner keeps what libcgraph drops: line numbers, and which statement set an
 * attribute. */
#include "dot.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/quantity.h"
#include "scan.h"

struct reader {
	struct orr_draft *draft;
	struct orr_scan scan;
	Agraph_t *graph;
	struct orr_dot_durations durations;
	struct orr_error *err;
};

/* Our record on every node. */
#define RECORD "orrery"
struct record {
	Agrec_t header; /* libcgraph's, must be first */
	int operator;
};

static int operator_of(Agnode_t *node)
{
	return ((struct record *)(void *)aggetrec(node, RECORD, 0))->operator;
}

/* The line of a node's attribute: where it says it, or where the default is said. */
static int attribute_line(const struct reader *r, const char *node, const char *attribute)
{
	int line = orr_scan_line(&r->scan, ORR_MENTION_NODE, node, attribute);

	if (!line)
		line = orr_scan_line(&r->scan, ORR_MENTION_DEFAULT, "node", attribute);
	return line ? line : orr_scan_line(&r->scan, ORR_MENTION_NODE, node, "");
}

static int fail_node(const struct reader *r, int line, const char *node, const char *text)
{
	char place[256];

	return orr_fail(r->err, ORR_E_INPUT, "%s: %s",
			orr_location(place, sizeof(place), r->draft->name, line, node), text);
}

static bool plain_name(const char *name)
{
	for (; *name; name++)
		if (iscntrl((unsigned char)*name))
			return false;
	return true;
}

static int read_op(const struct reader *r, Agnode_t *node, struct orr_operator *o)
{
	const char *text = agget(node, "op"), *name = agnameof(node);
	struct orr_nearest near = orr_nearest_to(text ? text : "");
	int i, line;
	char message[320], hint[ORR_HINT];

	if (!text || !*text) {
		const char *unknown = NULL;
		Agsym_t *symbol = NULL;

		while ((symbol = agnxtattr(r->graph, AGNODE, symbol))) {
			if (!*agxget(node, symbol))
				continue;
			if (orr_attribute_is_cost(symbol->name))
				return 0; /* a study operator, which it is already */
			if (!unknown && !orr_attribute_draws('n', symbol->name))
				unknown = symbol->name;
		}
		(void)snprintf(message, sizeof(message),
			       "neither an op nor costs%s%.60s%s: give it op=... (" ORR_OPS_ALLOWED
			       "), or forward=... and backward=... for a study",
			       unknown ? ", but " : "", unknown ? unknown : "",
			       unknown ? orr_attribute_hint(hint, 'n', unknown, -1) : "");
		return fail_node(r, o->line, name, message);
	}
	for (i = 0; i < ORR_N_OPS; i++) {
		if (i != ORR_OP_COST)
			orr_nearest_try(&near, orr_op_name((enum orr_op)i), NULL);
		if (i == ORR_OP_COST || strcmp(text, orr_op_name((enum orr_op)i)) != 0)
			continue;
		o->op = (enum orr_op)i;
		o->forward_ns = o->backward_ns = o->weight_ns = o->update_ns = -1;
		o->activation_bytes = o->stash_bytes = o->parameter_bytes = -1;
		return 0;
	}
	line = attribute_line(r, name, "op");
	(void)snprintf(message, sizeof(message), "op: %.60s%s is no operator: say " ORR_OPS_ALLOWED,
		       text, orr_nearest_hint(hint, &near));
	return fail_node(r, line, name, message);
}

static int read_attributes(struct reader *r, Agnode_t *node, struct orr_draft_operator *o)
{
	Agsym_t *symbol = NULL;
	int code;

	while ((symbol = agnxtattr(r->graph, AGNODE, symbol))) {
		const char *text = agxget(node, symbol);
		int stated = orr_scan_line(&r->scan, ORR_MENTION_NODE, o->is.name, symbol->name);

		if (strcmp(symbol->name, "op") == 0 || (!*text && !stated))
			continue;
		if (strcmp(symbol->name, "label") == 0) {
			if (!*text || aghtmlstr((char *)(intptr_t)text) || strcmp(text, "\\N") == 0)
				continue;
			o->is.label = strdup(text);
			if (!o->is.label)
				return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its labels",
						r->draft->name);
			continue;
		}
		if (!*text && orr_attribute_draws('n', symbol->name))
			continue;
		code = orr_attribute_set(o, &r->durations, r->draft->name,
					 attribute_line(r, o->is.name, symbol->name), symbol->name,
					 text, r->err);
		if (code)
			return code;
	}
	if (o->is.op == ORR_OP_INPUT && o->is.width == 0)
		return fail_node(r, o->is.line, o->is.name,
				 "columns is missing: say which columns of the data "
				 "it takes, columns=\"0:16\" for the first 16");
	if (o->is.op == ORR_OP_LINEAR && o->is.width == 0)
		return fail_node(
			r, o->is.line, o->is.name,
			"features is missing: say how many columns its "
			"output has, features=128 (width is how wide Graphviz draws the box)");
	return 0;
}

static int read_nodes(struct reader *r)
{
	Agnode_t *node;
	int code;

	aginit(r->graph, AGNODE, RECORD, (int)sizeof(struct record), 0);
	for (node = agfstnode(r->graph); node; node = agnxtnode(r->graph, node)) {
		struct record *record = (struct record *)(void *)aggetrec(node, RECORD, 0);
		const char *name = agnameof(node);
		int line = orr_scan_line(&r->scan, ORR_MENTION_NODE, name, "");
		struct orr_draft_operator *o;

		if (!record)
			return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its operators",
					r->draft->name);
		if (!*name || !plain_name(name))
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: a node's name is empty or holds a line break "
					"or a control character",
					r->draft->name, line);
		if ((code = orr_draft_add_operator(r->draft, name, r->err)))
			return code;
		record->operator= r->draft->n_operators - 1;
		o = &r->draft->operators[record->operator];
		o->is.line = line;
		if ((code = read_op(r, node, &o->is)) || (code = read_attributes(r, node, o)))
			return code;
	}
	r->draft->units = r->durations.plain || (r->durations.plain_zero && !r->durations.unit);
	return 0;
}

struct sequenced {
	unsigned seq;
	int from, to;
};

static int compare_sequenced(const void *a, const void *b)
{
	const struct sequenced *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

/* libcgraph gives the edges of a node by the numbers of their other ends; the order of inputs is
 * that of the file. */
static int read_edges(struct reader *r)
{
	int n = 0, i, code = 0;
	struct sequenced *edges = calloc((size_t)agnedges(r->graph) + 1, sizeof(*edges));
	Agnode_t *node;
	Agedge_t *edge;

	if (!edges)
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its edges", r->draft->name);
	for (node = agfstnode(r->graph); node; node = agnxtnode(r->graph, node))
		for (edge = agfstout(r->graph, node); edge; edge = agnxtout(r->graph, edge))
			edges[n++] = (struct sequenced){AGSEQ(edge), operator_of(agtail(edge)),
							operator_of(aghead(edge))};
	qsort(edges, (size_t)n, sizeof(*edges), compare_sequenced);
	for (i = 0; i < n && !code; i++)
		code = orr_draft_add_edge(r->draft, edges[i].from, edges[i].to, r->err);
	free(edges);
	return code;
}

/* The first line of a graph or subgraph attribute, whosever it is. */
static int graph_attribute_line(const struct reader *r, const char *attribute)
{
	int i, line = 0;

	for (i = 0; i < r->scan.n_mentions; i++) {
		const struct orr_mention *m = &r->scan.mentions[i];

		if ((m->kind == ORR_MENTION_SUBGRAPH ||
		     (m->kind == ORR_MENTION_DEFAULT && strcmp(m->name, "graph") == 0)) &&
		    strcmp(m->other, attribute) == 0 && (!line || m->line < line))
			line = m->line;
	}
	return line;
}

static int check_drawing(const struct reader *r)
{
	const char *file = r->draft->name;
	Agsym_t *symbol = NULL;
	char hint[ORR_HINT];
	int line;

	while ((symbol = agnxtattr(r->graph, AGEDGE, symbol)))
		if (!orr_attribute_draws('e', symbol->name))
			return orr_fail(
				r->err, ORR_E_INPUT,
				"%s:%d: %.60s%s is no attribute of an edge: use only what "
				"Graphviz draws with (sizes are the operators': activation)",
				file,
				orr_scan_line(&r->scan, ORR_MENTION_DEFAULT, "edge", symbol->name),
				symbol->name, orr_attribute_hint(hint, 'e', symbol->name, -1));
	while ((symbol = agnxtattr(r->graph, AGRAPH, symbol)))
		if (!orr_attribute_draws('g', symbol->name) &&
		    strcmp(symbol->name, "repeat") != 0 && strcmp(symbol->name, "frozen") != 0 &&
		    strcmp(symbol->name, "data") != 0 && strcmp(symbol->name, "overhead") != 0 &&
		    strcmp(symbol->name, "samples") != 0)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: %.60s%s is no attribute of a graph or a subgraph: "
					"use data, overhead and samples, on the graph, repeat and "
					"frozen, on a subgraph, or what "
					"Graphviz draws "
					"with",
					file, graph_attribute_line(r, symbol->name), symbol->name,
					orr_attribute_hint(hint, 'g', symbol->name, -1));
	line = orr_scan_line(&r->scan, ORR_MENTION_DEFAULT, "graph", "repeat");
	if (line)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s:%d: repeat: the whole graph cannot be repeated: put "
				"what repeats in a subgraph",
				file, line);
	line = orr_scan_line(&r->scan, ORR_MENTION_SUBGRAPH, "", "repeat");
	if (line)
		return orr_fail(r->err, ORR_E_INPUT,
				"%s:%d: repeat: a subgraph that repeats needs a name: say "
				"subgraph NAME {",
				file, line);
	return 0;
}

/* The name that messages, reports and files give an encoder. */
static const char *encoder_name(const char *subgraph)
{
	static const char prefix[] = "cluster_";
	size_t length = strlen(prefix);

	return strncmp(subgraph, prefix, length) == 0 && subgraph[length] ? subgraph + length
									  : subgraph;
}

/* libcgraph names a subgraph without a name itself. */
static bool is_named(Agraph_t *subgraph)
{
	return agnameof(subgraph) && *agnameof(subgraph) && *agnameof(subgraph) != '%';
}

/* A subgraph that is there to place nodes in a drawing is no encoder. */
static bool is_encoder(const struct reader *r, Agraph_t *subgraph)
{
	const char *name = agnameof(subgraph);

	return is_named(subgraph) && agnnodes(subgraph) > 0 &&
	       (strncmp(name, "cluster", 7) == 0 ||
		!orr_scan_line(&r->scan, ORR_MENTION_SUBGRAPH, name, "rank"));
}

static bool in_encoder(const struct orr_draft *draft, int block)
{
	for (; block >= 0; block = draft->blocks[block].parent)
		if (draft->blocks[block].encoder >= 0)
			return true;
	return false;
}

/* Put the subgraph's nodes, so far in the block around it, in this block. */
static int claim_nodes(struct reader *r, Agraph_t *subgraph, int block)
{
	struct orr_draft *draft = r->draft;
	Agnode_t *node;
	char text[320];

	for (node = agfstnode(subgraph); node; node = agnxtnode(subgraph, node)) {
		struct orr_draft_operator *o = &draft->operators[operator_of(node)];

		if (o->block == draft->blocks[block].parent) {
			o->block = block;
			continue;
		}
		(void)snprintf(text, sizeof(text),
			       "is in two subgraphs, %.60s and %.60s: leave it in one (an "
			       "edge inside a subgraph puts both its ends there: write it outside)",
			       draft->blocks[o->block].name, draft->blocks[block].name);
		return fail_node(r, o->is.line, o->is.name, text);
	}
	return 0;
}

static int read_frozen(const struct reader *r, Agraph_t *subgraph, const char *name, bool *frozen)
{
	int line = orr_scan_line(&r->scan, ORR_MENTION_SUBGRAPH, name, "frozen");
	char place[256];

	if (!line)
		return 0;
	(void)snprintf(place, sizeof(place), "%.150s:%d: subgraph %.60s: frozen", r->draft->name,
		       line, name);
	return orr_attribute_truth(frozen, agget(subgraph, "frozen"), place, r->err);
}

/* Make a block of the subgraph, if it means more than a drawing. */
static int read_block(struct reader *r, Agraph_t *subgraph, int parent, int *block)
{
	struct orr_draft *draft = r->draft;
	const char *name = is_named(subgraph) ? agnameof(subgraph) : "";
	bool encoder = !in_encoder(draft, parent) && is_encoder(r, subgraph);
	int line = orr_scan_line(&r->scan, ORR_MENTION_SUBGRAPH, name, "repeat"), i, code;
	int64_t repeat = 1;
	bool frozen = false;
	char place[256];

	*block = parent;
	if ((code = read_frozen(r, subgraph, name, &frozen)))
		return code;
	if (line && *name) {
		(void)snprintf(place, sizeof(place), "%.150s:%d: subgraph %.60s: repeat",
			       draft->name, line, name);
		code = orr_count_parse(&repeat, agget(subgraph, "repeat"), 1, ORR_MOST_OPERATORS,
				       place, r->err);
		if (code)
			return code;
	}
	if (!encoder && repeat == 1 && !frozen)
		return 0;
	if (!plain_name(name))
		return orr_fail(r->err, ORR_E_INPUT,
				"%s: a subgraph's name holds a line break or a control "
				"character",
				draft->name);
	if ((code = orr_draft_add_block(draft, name, parent, r->err)))
		return code;
	*block = draft->n_blocks - 1;
	draft->blocks[*block].repeat = repeat;
	draft->blocks[*block].frozen = frozen;
	draft->blocks[*block].line = orr_scan_line(&r->scan, ORR_MENTION_SUBGRAPH, name, "");
	if (encoder) {
		for (i = 0; i < draft->n_encoders; i++)
			if (strcmp(draft->encoders[i], encoder_name(name)) == 0)
				return orr_fail(
					r->err, ORR_E_INPUT,
					"%s:%d: subgraph %.60s: another one is encoder %.60s "
					"already (cluster_ does not count): rename one",
					draft->name, draft->blocks[*block].line, name,
					draft->encoders[i]);
		if ((code = orr_draft_add_encoder(draft, encoder_name(name), r->err)))
			return code;
		draft->blocks[*block].encoder = draft->n_encoders - 1;
	}
	return claim_nodes(r, subgraph, *block);
}

static int compare_subgraphs(const void *a, const void *b)
{
	Agraph_t *const *x = a, *const *y = b;

	return (AGSEQ(*x) > AGSEQ(*y)) - (AGSEQ(*x) < AGSEQ(*y));
}

/* The subgraphs of graph, in the order of the file, and theirs. The scanner bounds the depth. */
static int read_subgraphs(struct reader *r, Agraph_t *graph, int parent)
{
	Agraph_t **subgraphs, *subgraph;
	int n = 0, i, block, code = 0;

	subgraphs = calloc((size_t)agnsubg(graph) + 1, sizeof(*subgraphs));
	if (!subgraphs)
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its subgraphs",
				r->draft->name);
	for (subgraph = agfstsubg(graph); subgraph; subgraph = agnxtsubg(subgraph))
		subgraphs[n++] = subgraph;
	qsort(subgraphs, (size_t)n, sizeof(Agraph_t *), compare_subgraphs);
	for (i = 0; i < n && !code; i++)
		if (!(code = read_block(r, subgraphs[i], parent, &block)))
			code = read_subgraphs(r, subgraphs[i], block);
	free(subgraphs);
	return code;
}

/* What the whole graph alone can say; NULL: it does not. */
static int read_whole(struct reader *r, const char *name, const char **text)
{
	int i;

	for (i = 0; i < r->scan.n_mentions; i++)
		if (r->scan.mentions[i].kind == ORR_MENTION_SUBGRAPH &&
		    strcmp(r->scan.mentions[i].other, name) == 0)
			return orr_fail(r->err, ORR_E_INPUT,
					"%s:%d: %s: a model has one %s: say so "
					"outside the subgraphs",
					r->draft->name, r->scan.mentions[i].line, name,
					strcmp(name, "data") ? name : "file of data");
	*text = agget(r->graph, (char *)(intptr_t)name);
	*text = *text && **text ? *text : NULL;
	return 0;
}

/* data="file.csv" is relative to the graph's file. */
static int read_data(struct reader *r)
{
	const char *file = r->draft->name, *slash = strrchr(file, '/'), *text;
	int code = read_whole(r, "data", &text);

	if (code || !text)
		return code;
	if (asprintf(&r->draft->data, "%.*s%s", slash && *text != '/' ? (int)(slash - file) + 1 : 0,
		     file, text) < 0) {
		r->draft->data = NULL;
		return orr_fail(r->err, ORR_E_NOMEM, "%s: no memory for its data's path", file);
	}
	return 0;
}

static int read_overhead(struct reader *r)
{
	const char *text;
	char what[200];
	int code = read_whole(r, "overhead", &text);

	if (code || !text)
		return code;
	(void)snprintf(what, sizeof(what), "%.150s: overhead", r->draft->name);
	return orr_attribute_duration(&r->draft->overhead_ns, &r->durations, what,
				      graph_attribute_line(r, "overhead"), text, r->err);
}

static int read_samples(struct reader *r)
{
	const char *text;
	char what[200];
	int code = read_whole(r, "samples", &text);

	if (code || !text)
		return code;
	(void)snprintf(what, sizeof(what), "%.150s:%d: samples", r->draft->name,
		       graph_attribute_line(r, "samples"));
	return orr_count_parse(&r->draft->samples, text, 1, 1 << 30, what, r->err);
}

int orr_dot_read(struct orr_draft *draft, const char *text, struct orr_error *err)
{
	struct reader r = {.draft = draft, .err = err};
	int code;

	if ((code = orr_scan_init(&r.scan, draft->name, text, err)) ||
	    (code = orr_dot_parse(&r.graph, draft->name, text, err)) ||
	    (code = check_drawing(&r)) || (code = read_data(&r)) || (code = read_overhead(&r)) ||
	    (code = read_samples(&r)) || (code = read_nodes(&r)) || (code = read_edges(&r)) ||
	    (code = read_subgraphs(&r, r.graph, -1)))
		goto out;
	if (draft->n_operators == 0)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no operators: a model is digraph { a [op=input, ...]; ... }",
				draft->name);
out:
	if (r.graph)
		(void)agclose(r.graph);
	orr_scan_fini(&r.scan);
	return code;
}
