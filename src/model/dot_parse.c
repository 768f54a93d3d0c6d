/* The grammar of Graphviz' DOT, https://graphviz.org/doc/info/lang.html, for directed graphs. */
#include "dot_tree.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tokens.h"

#define MOST_DEPTH 200 /* subgraphs in subgraphs: each is a call */

/* One side of an arrow: n of the parser's nodes, or all of a subgraph. */
struct side {
	int subgraph; /* -1: none */
	int first, n;
};

struct parser {
	struct orr_dot *dot;
	struct orr_tokens tokens;
	const struct orr_token *token; /* the one at hand: of tokens */
	bool model;
	int depth;
	/* of the chains that are read, "a, b -> { c } -> d", one inside the other */
	struct side *sides;
	int n_sides, side_room;
	int *nodes;
	int n_nodes, node_room;
	int code;              /* of the first refusal: nothing is read after it, */
	struct orr_error *err; /* nor written here */
};

static void stop(struct parser *p, int code)
{
	p->tokens.token = (struct orr_token){.kind = ORR_TOKEN_END};
	p->code = p->code ? p->code : code;
	p->err = NULL;
}

static void next_token(struct parser *p)
{
	int code = p->code;

	if (!code)
		code = p->dot->all.failed
			       ? orr_fail(p->err, ORR_E_NOMEM, "%s:%d: no memory to read on",
					  p->tokens.file, p->tokens.line)
			       : orr_tokens_next(&p->tokens, p->err);
	if (code)
		stop(p, code);
	else if (p->token->kind == ORR_TOKEN_ARROW && p->model != (p->token->other == '>'))
		stop(p, orr_fail(p->err, ORR_E_INPUT,
				 p->model ? "%s:%d: an edge has a direction here: write -> for --"
					  : "%s:%d: a link has no direction: write -- for ->",
				 p->tokens.file, p->token->line));
}

static void fail_syntax(struct parser *p)
{
	const struct orr_token *token = p->token;
	const char other[2] = {token->other, '\0'};

	if (token->kind == ORR_TOKEN_END)
		stop(p, orr_fail(p->err, ORR_E_INPUT,
				 "%s:%d: the file ends inside the graph: close it with }",
				 p->tokens.file, p->tokens.line));
	else
		stop(p, orr_fail(p->err, ORR_E_INPUT,
				 "%s:%d: syntax error near '%.60s': see graphs/README.md for what "
				 "may stand there",
				 p->tokens.file, token->line,
				 token->kind == ORR_TOKEN_ID      ? token->text
				 : token->kind == ORR_TOKEN_HTML  ? "<"
				 : token->kind == ORR_TOKEN_ARROW ? p->model ? "->" : "--"
								  : other));
}

static bool is_word(const struct orr_token *token, const char *word)
{
	return token->kind == ORR_TOKEN_ID && !token->quoted && strcasecmp(token->text, word) == 0;
}

static int compare_numbers(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void sort_nodes(struct orr_dot_subgraph *subgraph)
{
	if (subgraph->n_nodes)
		qsort(subgraph->nodes, (size_t)subgraph->n_nodes, sizeof(int), compare_numbers);
}

static const int *nodes_of(const struct parser *p, const struct side *side, int *n)
{
	struct orr_dot_subgraph *subgraph;

	*n = side->n;
	if (side->subgraph < 0)
		return p->nodes + side->first;
	subgraph = &p->dot->subgraphs[side->subgraph];
	sort_nodes(subgraph);
	*n = subgraph->n_nodes;
	return subgraph->nodes;
}

/* Of the sides from `first` on. */
static void add_edges(struct parser *p, int first, int attributes)
{
	for (int i = first; i + 1 < p->n_sides && !p->code; i++) {
		int n_from, n_to;
		const int *from = nodes_of(p, &p->sides[i], &n_from);
		const int *to = nodes_of(p, &p->sides[i + 1], &n_to);

		for (int64_t k = 0; k < (int64_t)n_from * n_to && !p->dot->all.failed; k++)
			orr_dot_edge(p->dot, from[k / n_to], to[k % n_to], attributes);
	}
}

/* ---- the grammar ---- */

static bool is_keyword(const struct orr_token *token)
{
	static const char *const words[] = {"strict",   "graph", "digraph",
					    "subgraph", "node",  "edge"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (is_word(token, words[i]))
			return true;
	return false;
}

/* A name or a value, "one" + "two" put together; the token after it is at hand then. */
static const char *read_text(struct parser *p)
{
	bool named = p->token->kind == ORR_TOKEN_ID && !is_keyword(p->token),
	     quoted = p->token->quoted;
	char *text = named ? strdup(p->token->text) : NULL;
	const char *copy;

	if (!named) {
		fail_syntax(p);
		return "";
	}
	for (next_token(p); text && orr_token_is(p->token, '+'); next_token(p)) {
		char *first = text;

		if (quoted)
			next_token(p);
		if (p->token->kind != ORR_TOKEN_ID || !p->token->quoted) {
			fail_syntax(p);
			break;
		}
		if (asprintf(&text, "%s%s", first, p->token->text) < 0)
			text = NULL;
		free(first);
	}
	copy = orr_dot_text(p->dot, text);
	free(text);
	return copy;
}

/* = and a value, at hand at the =. */
static const char *read_value(struct parser *p, const char *name)
{
	next_token(p);
	if (p->token->kind == ORR_TOKEN_ID)
		return read_text(p);
	if (p->token->kind == ORR_TOKEN_HTML)
		next_token(p);
	else
		stop(p, orr_fail(p->err, ORR_E_INPUT, "%s:%d: %.60s= wants a value next",
				 p->tokens.file, p->token->line, name));
	return "";
}

/* Whose attributes are read: one list, or the parser's nodes from number `first` on. */
struct owner {
	struct orr_dot_attributes *list; /* NULL: of the nodes */
	int first;
	bool stated; /* and no defaults */
};

/* What follows a name, = and a value, at hand at the =. line: of the name. */
static void assign(struct parser *p, const struct owner *owner, const char *name, int line)
{
	const char *text = read_value(p, name);

	if (owner->list)
		orr_dot_set(p->dot, owner->list, name, text, line, owner->stated);
	for (int i = owner->first; i < p->n_nodes && !owner->list; i++)
		orr_dot_set(p->dot, &p->dot->nodes[p->nodes[i]].attributes, name, text, line, true);
}

/* [name = value, ...] and more of them, if any. */
static void read_attributes(struct parser *p, const struct owner *owner)
{
	for (; orr_token_is(p->token, '['); next_token(p)) {
		next_token(p);
		while (!p->code && !orr_token_is(p->token, ']')) {
			int line = p->token->line;
			const char *name = read_text(p);

			if (orr_token_is(p->token, '='))
				assign(p, owner, name, line);
			else
				fail_syntax(p);
			if (orr_token_is(p->token, ',') || orr_token_is(p->token, ';'))
				next_token(p);
		}
	}
}

/* A node, and its port, which is passed. */
static void read_node(struct parser *p, int s, const char *name, int line)
{
	int node = orr_dot_node(p->dot, name, line, s);

	if (node >= 0 &&
	    orr_dot_grow(p->dot, &p->nodes, p->n_nodes, &p->node_room, sizeof(*p->nodes)))
		p->nodes[p->n_nodes++] = node;
	for (int i = 0; i < 2 && orr_token_is(p->token, ':'); i++) {
		next_token(p);
		(void)read_text(p);
	}
}

static void read_statements(struct parser *p, int s);

/* "subgraph" [name], or nothing, and { ... } */
static int read_subgraph(struct parser *p, int parent)
{
	const char *name = "";
	int line = p->token->line, s = 0;

	if (is_word(p->token, "subgraph")) {
		next_token(p);
		if (!orr_token_is(p->token, '{')) {
			line = p->token->line;
			name = read_text(p);
		}
	}
	if (!orr_token_is(p->token, '{'))
		fail_syntax(p);
	if (++p->depth >= MOST_DEPTH)
		stop(p, orr_fail(p->err, ORR_E_INPUT, "%s:%d: subgraphs nest deeper than %d",
				 p->tokens.file, p->token->line, MOST_DEPTH));
	if (!p->code) {
		s = orr_dot_subgraph(p->dot, name, line, parent);
		next_token(p);
		read_statements(p, s);
		next_token(p);
	}
	p->depth--;
	return s;
}

/* One side of an arrow. name: that is read already, or NULL. */
static void read_side(struct parser *p, int s, const char *name, int line)
{
	struct side side = {-1, p->n_nodes, 0};

	if (!name && (orr_token_is(p->token, '{') || is_word(p->token, "subgraph")))
		side.subgraph = read_subgraph(p, s);
	else
		for (bool more = true; more; name = NULL) {
			if (!name) {
				line = p->token->line;
				name = read_text(p);
			}
			read_node(p, s, name, line);
			if ((more = orr_token_is(p->token, ',')))
				next_token(p);
		}
	side.n = p->n_nodes - side.first;
	if (orr_dot_grow(p->dot, &p->sides, p->n_sides, &p->side_room, sizeof(*p->sides)))
		p->sides[p->n_sides++] = side;
}

/* Nodes, or edges, or a subgraph, and their attributes. */
static void read_chain(struct parser *p, int s, const char *name, int line)
{
	int first = p->n_nodes, side = p->n_sides;

	read_side(p, s, name, line);
	while (p->token->kind == ORR_TOKEN_ARROW) {
		next_token(p);
		read_side(p, s, NULL, 0);
	}
	if (p->n_sides == side + 1 && p->sides[side].subgraph < 0) {
		for (int i = first; i < p->n_nodes; i++) /* they have a statement of their own */
			p->dot->nodes[p->nodes[i]].stated = true;
		read_attributes(p, &(struct owner){.first = first});
	} else {
		int list = orr_dot_edge_list(p->dot, s, orr_token_is(p->token, '['));

		read_attributes(p,
				&(struct owner){.list = &p->dot->of_edges[list], .stated = true});
		add_edges(p, side, list);
	}
	p->n_nodes = first;
	p->n_sides = side;
}

/* What begins with a name: the graph's own attribute, or a chain. */
static void read_named(struct parser *p, int s)
{
	struct owner own = {.list = &p->dot->subgraphs[s].attributes};
	int line = p->token->line;
	const char *name = read_text(p);

	if (orr_token_is(p->token, '='))
		assign(p, &own, name, line);
	else
		read_chain(p, s, name, line);
}

/* "graph", "node" or "edge", and [...] */
static void read_defaults(struct parser *p, int s)
{
	struct orr_dot_subgraph *subgraph = &p->dot->subgraphs[s];
	struct owner owner = {.list = is_word(p->token, "graph")  ? &subgraph->attributes
				      : is_word(p->token, "node") ? &subgraph->node_defaults
								  : &subgraph->edge_defaults};

	next_token(p);
	p->dot->defaults = 0;
	if (!orr_token_is(p->token, '['))
		fail_syntax(p);
	read_attributes(p, &owner);
}

/* All up to the }. */
static void read_statements(struct parser *p, int s)
{
	while (!p->code && !orr_token_is(p->token, '}')) {
		if (is_word(p->token, "graph") || is_word(p->token, "node") ||
		    is_word(p->token, "edge"))
			read_defaults(p, s);
		else if (orr_token_is(p->token, '{') || is_word(p->token, "subgraph"))
			read_chain(p, s, NULL, 0);
		else
			read_named(p, s);
		if (orr_token_is(p->token, ';'))
			next_token(p);
	}
}

/* [strict] digraph [NAME] {, or graph: why not, or NULL. */
static const char *read_head(struct parser *p)
{
	bool graph;

	next_token(p);
	if (!p->code && p->token->kind == ORR_TOKEN_END) {
		stop(p, orr_fail(p->err, ORR_E_INPUT,
				 p->model ? "%s: an empty file: a model is digraph { ... }"
					  : "%s: an empty file: a machine is graph { ... }",
				 p->tokens.file));
		return NULL;
	}
	if ((p->dot->strict = is_word(p->token, "strict")))
		next_token(p);
	graph = is_word(p->token, "graph");
	if (!p->model && !graph)
		return "no machine: a machine file begins with graph {, and its links are --";
	if (p->model && graph)
		return "an undirected graph: write digraph for graph, and -> for --";
	if (p->model && !is_word(p->token, "digraph"))
		return "no model: a DOT file begins with digraph {, and a PipeDream profile with "
		       "an operator";
	next_token(p);
	if (p->token->kind == ORR_TOKEN_ID)
		(void)read_text(p);
	return orr_token_is(p->token, '{') ? NULL
	       : p->model                  ? "digraph wants { next"
					   : "graph wants { next";
}

int orr_dot_parse(struct orr_dot *dot, const char *file, const char *text, bool model,
		  struct orr_error *err)
{
	struct parser p = {.dot = dot, .model = model, .err = err};
	const char *why;

	*dot = (struct orr_dot){0};
	p.tokens = (struct orr_tokens){.file = file, .start = text, .at = text, .line = 1};
	p.tokens.buffer = orr_arrays_add(&dot->all, strlen(text) + 1, 1);
	p.token = &p.tokens.token;
	(void)orr_dot_subgraph(dot, "", 1, 0); /* the whole graph, */
	(void)orr_dot_list(dot);               /* and the empty list */
	if ((why = read_head(&p)))
		stop(&p, orr_fail(p.err, ORR_E_INPUT, "%s:%d: %s", file, p.token->line, why));
	next_token(&p);
	read_statements(&p, 0);
	next_token(&p);
	if (p.token->kind != ORR_TOKEN_END)
		stop(&p, orr_fail(p.err, ORR_E_INPUT,
				  "%s:%d: something follows the graph: a file holds one", file,
				  p.token->line));
	for (int s = 1; s < dot->n_subgraphs; s++)
		sort_nodes(&dot->subgraphs[s]);
	return p.code;
}
