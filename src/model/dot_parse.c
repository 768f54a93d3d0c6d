/* The grammar of Graphviz' DOT, https://graphviz.org/doc/info/lang.html, for directed graphs. */
#include "dot_tree.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/grow.h"
#include "tokens.h"

#define MOST_DEPTH 200 /* subgraphs in subgraphs: each is a call */

/* One side of an arrow: nodes[first] to nodes[first + n - 1] of a chain, or all of a subgraph. */
struct side {
	int subgraph; /* -1: none */
	int first, n;
};

/* "a, b -> { c } -> d" */
struct chain {
	struct side *sides;
	int n_sides, side_room;
	int *nodes;
	int n_nodes, node_room;
};

struct parser {
	struct orr_dot *dot;
	struct orr_tokens tokens;
	const struct orr_token *token; /* the one at hand: of tokens */
	bool model;
	int depth;
	struct orr_error *err;
};

static int no_memory(const struct parser *p)
{
	return orr_fail(p->err, ORR_E_NOMEM, "%s:%d: no memory to read on", p->tokens.file,
			p->tokens.line);
}

static int next_token(struct parser *p)
{
	int code = orr_tokens_next(&p->tokens, p->err);

	if (code || p->token->kind != ORR_TOKEN_ARROW || p->model == (p->token->other == '>'))
		return code;
	return orr_fail(p->err, ORR_E_INPUT,
			p->model ? "%s:%d: an edge has a direction here: write -> for --"
				 : "%s:%d: a link has no direction: write -- for ->",
			p->tokens.file, p->token->line);
}

static int fail_syntax(const struct parser *p)
{
	const struct orr_token *token = p->token;
	const char other[2] = {token->other, '\0'};

	if (token->kind == ORR_TOKEN_END)
		return orr_fail(p->err, ORR_E_INPUT,
				"%s:%d: the file ends inside the graph: close it with }",
				p->tokens.file, p->tokens.line);
	return orr_fail(
		p->err, ORR_E_INPUT,
		"%s:%d: syntax error near '%.60s': see graphs/README.md for what may stand there",
		p->tokens.file, token->line,
		token->kind == ORR_TOKEN_ID      ? token->text
		: token->kind == ORR_TOKEN_HTML  ? "<"
		: token->kind == ORR_TOKEN_ARROW ? p->model ? "->" : "--"
						 : other);
}

static bool is_word(const struct orr_token *token, const char *word)
{
	return token->kind == ORR_TOKEN_ID && !token->quoted && strcasecmp(token->text, word) == 0;
}

static const int *nodes_of(const struct parser *p, const struct chain *chain,
			   const struct side *side, int *n)
{
	const struct orr_dot_subgraph *subgraph;

	*n = side->n;
	if (side->subgraph < 0)
		return chain->nodes + side->first;
	subgraph = &p->dot->subgraphs[side->subgraph];
	orr_dot_sort(subgraph->nodes, subgraph->n_nodes);
	*n = subgraph->n_nodes;
	return subgraph->nodes;
}

static int add_edges(struct parser *p, const struct chain *chain, int attributes)
{
	int code = 0;

	for (int i = 0; i + 1 < chain->n_sides; i++) {
		int n_from, n_to;
		const int *from = nodes_of(p, chain, &chain->sides[i], &n_from);
		const int *to = nodes_of(p, chain, &chain->sides[i + 1], &n_to);

		for (int64_t k = 0; k < (int64_t)n_from * n_to && !code; k++)
			code = orr_dot_edge(p->dot, from[k / n_to], to[k % n_to], attributes,
					    p->err);
	}
	return code;
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

/* A name or a value, "one" + "two" put together; the token after it is at hand then. *text is the
 * caller's. */
static int read_text(struct parser *p, char **text)
{
	int code;

	if (p->token->kind != ORR_TOKEN_ID || is_keyword(p->token))
		return fail_syntax(p);
	if (!(*text = strdup(p->token->text)))
		return no_memory(p);
	for (bool quoted = p->token->quoted;; quoted = true) {
		char *sum;

		if ((code = next_token(p)) || !orr_token_is(p->token, '+'))
			return code;
		if (!quoted)
			return fail_syntax(p);
		if ((code = next_token(p)))
			return code;
		if (p->token->kind != ORR_TOKEN_ID || !p->token->quoted)
			return fail_syntax(p);
		if (asprintf(&sum, "%s%s", *text, p->token->text) < 0)
			return no_memory(p);
		free(*text);
		*text = sum;
	}
}

/* = and a value, at hand at the =. */
static int read_value(struct parser *p, const char *name, char **text)
{
	int code = next_token(p);

	if (code)
		return code;
	if (p->token->kind == ORR_TOKEN_HTML) {
		if (!(*text = strdup("")))
			return no_memory(p);
		return next_token(p);
	}
	if (p->token->kind != ORR_TOKEN_ID)
		return orr_fail(p->err, ORR_E_INPUT, "%s:%d: %.60s= wants a value next",
				p->tokens.file, p->token->line, name);
	return read_text(p, text);
}

/* Whose attributes are read: nodes of a chain, or one list. */
struct owner {
	const struct chain *chain; /* where there is no list */
	struct orr_dot_attributes *list;
	bool stated; /* and no defaults */
};

static int set_owned(const struct parser *p, const struct owner *owner, const char *name,
		     const char *text, int line)
{
	int code = 0;

	if (owner->list)
		return orr_dot_set(owner->list, name, text, line, owner->stated, p->err);
	for (int i = 0; i < owner->chain->n_nodes && !code; i++)
		code = orr_dot_set(&p->dot->nodes[owner->chain->nodes[i]].attributes, name, text,
				   line, true, p->err);
	return code;
}

/* What follows a name, = and a value, at hand at the =. line: of the name. */
static int assign(struct parser *p, const struct owner *owner, const char *name, int line)
{
	char *text = NULL;
	int code = read_value(p, name, &text);

	if (!code)
		code = set_owned(p, owner, name, text, line);
	free(text);
	return code;
}

/* name = value, at hand at the name. */
static int read_assignment(struct parser *p, const struct owner *owner)
{
	char *name = NULL;
	int line = p->token->line, code = read_text(p, &name);

	if (!code)
		code = orr_token_is(p->token, '=') ? assign(p, owner, name, line) : fail_syntax(p);
	free(name);
	return code;
}

/* [name = value, ...] and more of them, if any. */
static int read_attributes(struct parser *p, const struct owner *owner)
{
	int code = 0;

	while (!code && orr_token_is(p->token, '[')) {
		code = next_token(p);
		while (!code && !orr_token_is(p->token, ']'))
			if (!(code = read_assignment(p, owner)) &&
			    (orr_token_is(p->token, ',') || orr_token_is(p->token, ';')))
				code = next_token(p);
		if (!code)
			code = next_token(p);
	}
	return code;
}

/* A node, and its port, which is passed. */
static int read_node(struct parser *p, int s, struct chain *chain, char *name, int line)
{
	int node, code = orr_dot_node(p->dot, name, line, s, &node, p->err);

	if (!code &&
	    !orr_grow(&chain->nodes, chain->n_nodes, &chain->node_room, sizeof(*chain->nodes)))
		code = no_memory(p);
	if (!code)
		chain->nodes[chain->n_nodes++] = node;
	for (int i = 0; i < 2 && !code && orr_token_is(p->token, ':'); i++) {
		char *port = NULL;

		if (!(code = next_token(p)))
			code = read_text(p, &port);
		free(port);
	}
	return code;
}

static int read_statements(struct parser *p, int s);

/* "subgraph" [name], or nothing, and { ... } */
static int read_subgraph(struct parser *p, int parent, int *s)
{
	char *name = NULL;
	int line = p->token->line, code = 0;

	if (is_word(p->token, "subgraph") && !(code = next_token(p)) &&
	    !orr_token_is(p->token, '{')) {
		line = p->token->line;
		code = read_text(p, &name);
	}
	if (!code && !orr_token_is(p->token, '{'))
		code = fail_syntax(p);
	if (!code && ++p->depth >= MOST_DEPTH)
		code = orr_fail(p->err, ORR_E_INPUT, "%s:%d: subgraphs nest deeper than %d",
				p->tokens.file, p->token->line, MOST_DEPTH);
	if (!code &&
	    !(code = orr_dot_subgraph(p->dot, name ? name : "", line, parent, s, p->err)) &&
	    !(code = next_token(p)) && !(code = read_statements(p, *s)))
		code = next_token(p);
	p->depth--;
	free(name);
	return code;
}

/* One side of an arrow. first: the name that is read already, or NULL. */
static int read_side(struct parser *p, int s, struct chain *chain, char *first, int line)
{
	struct side side = {-1, chain->n_nodes, 0};
	int code = 0;

	if (!first && (orr_token_is(p->token, '{') || is_word(p->token, "subgraph")))
		code = read_subgraph(p, s, &side.subgraph);
	else
		for (bool more = true; more && !code;) {
			char *name = first ? strdup(first) : NULL;

			if (!name) {
				line = p->token->line;
				code = first ? no_memory(p) : read_text(p, &name);
			}
			if (!code)
				code = read_node(p, s, chain, name, line);
			free(name);
			first = NULL;
			side.n++;
			more = !code && orr_token_is(p->token, ',');
			if (more)
				code = next_token(p);
		}
	if (!code &&
	    !orr_grow(&chain->sides, chain->n_sides, &chain->side_room, sizeof(*chain->sides)))
		code = no_memory(p);
	if (!code)
		chain->sides[chain->n_sides++] = side;
	return code;
}

/* Nodes that have a statement of their own, and their attributes. */
static int read_nodes(struct parser *p, const struct chain *chain)
{
	for (int i = 0; i < chain->n_nodes; i++)
		p->dot->nodes[chain->nodes[i]].stated = true;
	return read_attributes(p, &(struct owner){.chain = chain});
}

/* Those of a chain's edges, which are added then. */
static int read_edge_attributes(struct parser *p, int s, const struct chain *chain)
{
	int list = 0,
	    code = orr_dot_edge_list(p->dot, s, orr_token_is(p->token, '['), &list, p->err);

	if (!code)
		code = read_attributes(
			p, &(struct owner){.list = &p->dot->of_edges[list], .stated = true});
	return code ? code : add_edges(p, chain, list);
}

/* Nodes, or edges, or a subgraph, and their attributes. */
static int read_chain(struct parser *p, int s, char *first, int line)
{
	struct chain chain = {0};
	int code = read_side(p, s, &chain, first, line);

	while (!code && p->token->kind == ORR_TOKEN_ARROW)
		if (!(code = next_token(p)))
			code = read_side(p, s, &chain, NULL, 0);
	if (!code && chain.n_sides == 1 && chain.sides[0].subgraph < 0)
		code = read_nodes(p, &chain);
	else if (!code)
		code = read_edge_attributes(p, s, &chain);
	free(chain.sides);
	free(chain.nodes);
	return code;
}

/* What begins with a name: the graph's own attribute, or a chain. */
static int read_named(struct parser *p, int s)
{
	struct owner own = {.list = &p->dot->subgraphs[s].attributes};
	char *name = NULL;
	int line = p->token->line, code = read_text(p, &name);

	if (!code)
		code = orr_token_is(p->token, '=') ? assign(p, &own, name, line)
						   : read_chain(p, s, name, line);
	free(name);
	return code;
}

/* "graph", "node" or "edge", and [...] */
static int read_defaults(struct parser *p, int s)
{
	struct orr_dot_subgraph *subgraph = &p->dot->subgraphs[s];
	struct owner owner = {.list = is_word(p->token, "graph")  ? &subgraph->attributes
				      : is_word(p->token, "node") ? &subgraph->node_defaults
								  : &subgraph->edge_defaults};
	int code = next_token(p);

	p->dot->defaults = 0;
	if (!code && !orr_token_is(p->token, '['))
		code = fail_syntax(p);
	return code ? code : read_attributes(p, &owner);
}

/* All up to the }. */
static int read_statements(struct parser *p, int s)
{
	int code = 0;

	while (!code && !orr_token_is(p->token, '}')) {
		if (is_word(p->token, "graph") || is_word(p->token, "node") ||
		    is_word(p->token, "edge"))
			code = read_defaults(p, s);
		else if (orr_token_is(p->token, '{') || is_word(p->token, "subgraph"))
			code = read_chain(p, s, NULL, 0);
		else
			code = read_named(p, s);
		if (!code && orr_token_is(p->token, ';'))
			code = next_token(p);
	}
	return code;
}

/* [strict] digraph [NAME] {, or graph */
static int read_head(struct parser *p)
{
	char *name = NULL;
	int s, code = next_token(p);

	if (!code && p->token->kind == ORR_TOKEN_END)
		return orr_fail(p->err, ORR_E_INPUT,
				p->model ? "%s: an empty file: a model is digraph { ... }"
					 : "%s: an empty file: a machine is graph { ... }",
				p->tokens.file);
	if (!code && (p->dot->strict = is_word(p->token, "strict")))
		code = next_token(p);
	if (!code && !p->model && !is_word(p->token, "graph"))
		return orr_fail(p->err, ORR_E_INPUT,
				"%s:%d: no machine: a machine file begins with graph {, and its "
				"links are --",
				p->tokens.file, p->token->line);
	if (!code && p->model && is_word(p->token, "graph"))
		return orr_fail(
			p->err, ORR_E_INPUT,
			"%s:%d: an undirected graph: write digraph for graph, and -> for --",
			p->tokens.file, p->token->line);
	if (!code && p->model && !is_word(p->token, "digraph"))
		return orr_fail(p->err, ORR_E_INPUT,
				"%s:%d: no model: a DOT file begins with digraph {, and a "
				"PipeDream profile with an operator",
				p->tokens.file, p->token->line);
	if (!code && !(code = next_token(p)) && p->token->kind == ORR_TOKEN_ID)
		code = read_text(p, &name);
	free(name);
	if (!code && !orr_token_is(p->token, '{'))
		return orr_fail(p->err, ORR_E_INPUT, "%s:%d: %s wants { next", p->tokens.file,
				p->token->line, p->model ? "digraph" : "graph");
	if (!code && !(code = orr_dot_subgraph(p->dot, "", p->token->line, 0, &s, p->err)))
		code = next_token(p);
	return code;
}

int orr_dot_parse(struct orr_dot *dot, const char *file, const char *text, bool model,
		  struct orr_error *err)
{
	struct parser p = {.dot = dot, .model = model, .err = err};
	int code;

	*dot = (struct orr_dot){0};
	p.tokens = (struct orr_tokens){.file = file, .start = text, .at = text, .line = 1};
	p.token = &p.tokens.token;
	if (!(code = read_head(&p)) && !(code = read_statements(&p, 0)) &&
	    !(code = next_token(&p)) && p.token->kind != ORR_TOKEN_END)
		code = orr_fail(err, ORR_E_INPUT,
				"%s:%d: something follows the graph: a file holds one", file,
				p.token->line);
	for (int s = 1; s < dot->n_subgraphs; s++)
		orr_dot_sort(dot->subgraphs[s].nodes, dot->subgraphs[s].n_nodes);
	orr_tokens_fini(&p.tokens);
	return code;
}
