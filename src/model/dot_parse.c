/* The grammar of Graphviz' DOT, https://graphviz.org/doc/info/lang.html, for directed graphs. */
#include "dot_tree.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/quantity.h"
#include "base/sort.h"

#define MOST_DEPTH 200 /* subgraphs in subgraphs: each is a call */

/* One side of an arrow: n of the parser's nodes, or all of a subgraph. */
struct side {
	int subgraph; /* -1: none */
	int first, n;
};

enum token_kind {
	TOKEN_END,
	TOKEN_ID,    /* a name, a number or a string; text is its value, unquoted */
	TOKEN_HTML,  /* <...>, not looked into */
	TOKEN_ARROW, /* -> or --: other is its second character */
	TOKEN_OTHER  /* one of { } [ ] ; , : = + */
};

struct token {
	enum token_kind kind;
	char other;       /* of OTHER */
	bool quoted;      /* of ID: then it is no keyword */
	const char *text; /* of ID: good until the next token */
	int line;
};

struct parser {
	struct orr_dot *dot;
	const char *file, *start, *at; /* borrowed: the text, and what of it comes next */
	int line;
	struct token token; /* the one at hand */
	char *buffer;       /* room for as much as the text */
	bool model;
	int depth;
	/* of the chains that are read, "a, b -> { c } -> d", one inside the other */
	struct side *sides;
	int n_sides, side_room;
	int *nodes;
	int n_nodes, node_room;
	int n_lists;           /* of attributes; what one { } says of its own is one */
	int code;              /* of the first refusal: nothing is read after it, */
	struct orr_error *err; /* nor written here */
};

static void stop(struct parser *p, int code)
{
	p->token = (struct token){.kind = TOKEN_END};
	p->code = p->code ? p->code : code;
	p->err = NULL;
}

static void refuse(struct parser *p, int line, const char *why)
{
	stop(p, orr_fail(p->err, ORR_E_INPUT, "%s:%d: %s", p->file, line, why));
}

/* ---- tokens ---- */

/* Skip blanks (the same as Graphviz'), comments and lines that begin with #. */
static void skip(struct parser *p)
{
	for (;;) {
		if (*p->at == '\n') {
			p->line++;
			p->at++;
		} else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') {
			p->at++;
		} else if ((p->at[0] == '/' && p->at[1] == '/') ||
			   (*p->at == '#' && (p->at == p->start || p->at[-1] == '\n'))) {
			p->at += strcspn(p->at, "\n");
		} else if (p->at[0] == '/' && p->at[1] == '*') {
			const char *end = strstr(p->at + 2, "*/");

			if (!end) {
				refuse(p, p->line, "a comment without an end: close it with */");
				return;
			}
			for (; p->at < end + 2; p->at++)
				p->line += *p->at == '\n';
		} else {
			return;
		}
	}
}

static void set_text(struct parser *p, const char *text, size_t length)
{
	memcpy(p->buffer, text, length);
	p->buffer[length] = '\0';
	p->token.kind = TOKEN_ID;
	p->token.text = p->buffer;
}

/* "..." as Graphviz reads it: \" is a quote, a backslash before a line's end joins the lines. */
static void read_string(struct parser *p)
{
	const char *end = p->at + 1;
	char *to = p->buffer;

	while (*end && *end != '"')
		end += end[0] == '\\' && end[1] ? 2 : 1;
	if (!*end) {
		refuse(p, p->line, "a string without an end: close it with \"");
		return;
	}
	set_text(p, p->at, (size_t)(end - p->at));
	p->token.quoted = true;
	for (p->at++; p->at < end; p->at++) {
		p->line += *p->at == '\n';
		if (p->at[0] == '\\' && p->at[1] == '\\')
			*to++ = *p->at++;
		else if (p->at[0] == '\\' && p->at[1] == '"')
			p->at++;
		else if (p->at[0] == '\\' && p->at[1] == '\n')
			continue;
		*to++ = *p->at;
	}
	*to = '\0';
	p->at++;
}

static void read_html(struct parser *p)
{
	int nested = 0, line = p->line;

	p->token.kind = TOKEN_HTML;
	do {
		nested += (*p->at == '<') - (*p->at == '>');
		p->line += *p->at == '\n';
		p->at++;
	} while (nested > 0 && *p->at);
	if (nested > 0)
		refuse(p, line, "an HTML label without an end: close it with >");
}

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The end of a number; NULL: it has no digit. */
static const char *number_end(const char *at)
{
	size_t n_before, n_behind = 0;

	at += *at == '-';
	n_before = strspn(at, "0123456789");
	at += n_before;
	if (*at == '.')
		n_behind = strspn(at + 1, "0123456789");
	return n_before + n_behind ? at + (*at == '.') + n_behind : NULL;
}

/* A name or a number without quotes. Graphviz reads 12x as two words, which is never meant. */
static void read_word(struct parser *p)
{
	bool number = *p->at == '-' || *p->at == '.' || isdigit((unsigned char)*p->at);
	const char *end = number ? number_end(p->at) : p->at;

	while (!number && in_name(*end))
		end++;
	if (!end) {
		refuse(p, p->line,
		       orr_text("%.1s stands alone: put names that hold it in quotes", p->at));
	} else if (number && (in_name(*end) || *end == '.')) {
		end += strcspn(end, " \t\r\n;,[]{}=\"");
		refuse(p, p->line,
		       orr_text("%.*s is neither a name nor a number: put it in quotes",
				end - p->at < 60 ? (int)(end - p->at) : 60, p->at));
	} else {
		set_text(p, p->at, (size_t)(end - p->at));
		p->at = end;
	}
}

/* Refuses invalid ones, and those that Graphviz would read differently. */
static void read_token(struct parser *p)
{
	p->token = (struct token){.kind = TOKEN_OTHER, .other = *p->at, .line = p->line};
	if (!*p->at) {
		p->token.kind = TOKEN_END;
	} else if (*p->at == '"') {
		read_string(p);
	} else if (*p->at == '<') {
		read_html(p);
	} else if (p->at[0] == '-' && (p->at[1] == '>' || p->at[1] == '-')) {
		p->token.kind = TOKEN_ARROW;
		p->token.other = p->at[1];
		p->at += 2;
		if (p->model != (p->token.other == '>'))
			refuse(p, p->line,
			       p->model ? "an edge has a direction here: write -> for --"
					: "a link has no direction: write -- for ->");
	} else if (in_name(*p->at) || *p->at == '-' || *p->at == '.') {
		read_word(p);
	} else if (strchr("{}[];,:=+", *p->at)) {
		p->at++;
	} else {
		refuse(p, p->line,
		       orr_text(isprint((unsigned char)*p->at)
					? "%c has no place here: put names that hold it in quotes"
					: "no text (a byte %#x)",
				(unsigned char)*p->at));
	}
}

static void next_token(struct parser *p)
{
	if (!p->code && p->dot->all.failed)
		stop(p, orr_no_memory(p->err, p->file));
	if (!p->code)
		skip(p);
	if (!p->code)
		read_token(p);
}

static bool is_at(const struct parser *p, char other)
{
	return p->token.kind == TOKEN_OTHER && p->token.other == other;
}

static bool is_word(const struct parser *p, const char *word)
{
	return p->token.kind == TOKEN_ID && !p->token.quoted && !strcasecmp(p->token.text, word);
}

static void fail_syntax(struct parser *p)
{
	const struct token *token = &p->token;
	const char other[2] = {token->other, '\0'};

	if (token->kind == TOKEN_END)
		refuse(p, p->line, "the file ends inside the graph: close it with }");
	else
		refuse(p, token->line,
		       orr_text(
			       "syntax error near '%.60s': see graphs/README.md for what may stand "
			       "there",
			       token->kind == TOKEN_ID      ? token->text
			       : token->kind == TOKEN_HTML  ? "<"
			       : token->kind == TOKEN_ARROW ? p->model ? "->" : "--"
							    : other));
}

/* ---- nodes and edges ---- */

static void sort_nodes(struct orr_dot_subgraph *subgraph)
{
	if (subgraph->n_nodes)
		qsort(subgraph->nodes, (size_t)subgraph->n_nodes, sizeof(int), orr_compare_ints);
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

static bool is_keyword(const struct parser *p)
{
	static const char *const words[] = {"strict",   "graph", "digraph",
					    "subgraph", "node",  "edge"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (is_word(p, words[i]))
			return true;
	return false;
}

/* A name or a value, "one" + "two" put together; the token after it is at hand then. */
static const char *read_text(struct parser *p)
{
	bool named = p->token.kind == TOKEN_ID && !is_keyword(p), quoted = p->token.quoted;
	char *text = named ? strdup(p->token.text) : NULL;
	const char *copy;

	if (!named) {
		fail_syntax(p);
		return "";
	}
	for (next_token(p); text && is_at(p, '+'); next_token(p)) {
		char *first = text;

		if (quoted)
			next_token(p);
		if (p->token.kind != TOKEN_ID || !p->token.quoted) {
			fail_syntax(p);
			break;
		}
		if (asprintf(&text, "%s%s", first, p->token.text) < 0)
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
	if (p->token.kind == TOKEN_ID)
		return read_text(p);
	if (p->token.kind == TOKEN_HTML)
		next_token(p);
	else
		refuse(p, p->token.line, orr_text("%.60s= wants a value next", name));
	return "";
}

/* Whose attributes are read: one list, or the parser's nodes from number `first` on. */
struct owner {
	struct orr_dot_attributes *list; /* NULL: of the nodes */
	int first;
	int number; /* of the list */
};

/* What follows a name, = and a value, at hand at the =. line: of the name. */
static void assign(struct parser *p, const struct owner *owner, const char *name, int line)
{
	const char *text = read_value(p, name);
	int again = 0;

	if (owner->list)
		again = orr_dot_set(p->dot, owner->list, name, text, line, owner->number);
	for (int i = owner->first; i < p->n_nodes && !owner->list; i++) {
		int was = orr_dot_set(p->dot, &p->dot->nodes[p->nodes[i]].attributes, name, text,
				      line, owner->number);

		again = i == owner->first ? was : again; /* `a, a` is set twice */
	}
	if (again)
		refuse(p, line,
		       orr_text("%.60s is given twice, first in line %d: take one of them away",
				name, again));
}

/* [name = value, ...] and more of them, if any. */
static void read_attributes(struct parser *p, const struct owner *owner)
{
	for (; is_at(p, '['); next_token(p)) {
		next_token(p);
		while (!p->code && !is_at(p, ']')) {
			int line = p->token.line;
			const char *name = read_text(p);

			if (is_at(p, '='))
				assign(p, owner, name, line);
			else
				fail_syntax(p);
			if (is_at(p, ',') || is_at(p, ';'))
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
	for (int i = 0; i < 2 && is_at(p, ':'); i++) {
		next_token(p);
		(void)read_text(p);
	}
}

static void read_statements(struct parser *p, int s);

/* "subgraph" [name], or nothing, and { ... } */
static int read_subgraph(struct parser *p, int parent)
{
	const char *name = "";
	int line = p->token.line, s = 0;

	if (is_word(p, "subgraph")) {
		next_token(p);
		if (!is_at(p, '{')) {
			line = p->token.line;
			name = read_text(p);
		}
	}
	if (!is_at(p, '{'))
		fail_syntax(p);
	if (++p->depth >= MOST_DEPTH)
		refuse(p, p->token.line, orr_text("subgraphs nest deeper than %d", MOST_DEPTH));
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

	if (!name && (is_at(p, '{') || is_word(p, "subgraph")))
		side.subgraph = read_subgraph(p, s);
	else
		for (bool more = true; more; name = NULL) {
			if (!name) {
				line = p->token.line;
				name = read_text(p);
			}
			read_node(p, s, name, line);
			if ((more = is_at(p, ',')))
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
	while (p->token.kind == TOKEN_ARROW) {
		next_token(p);
		read_side(p, s, NULL, 0);
	}
	if (p->n_sides == side + 1 && p->sides[side].subgraph < 0) {
		for (int i = first; i < p->n_nodes; i++) /* they have a statement of their own */
			p->dot->nodes[p->nodes[i]].stated = true;
		read_attributes(p, &(struct owner){.first = first, .number = ++p->n_lists});
	} else {
		int list = orr_dot_edge_list(p->dot, s, is_at(p, '['));

		read_attributes(p, &(struct owner){.list = &p->dot->of_edges[list],
						   .number = ++p->n_lists});
		add_edges(p, side, list);
	}
	p->n_nodes = first;
	p->n_sides = side;
}

/* What begins with a name: the graph's own attribute, or a chain. */
static void read_named(struct parser *p, int s, int number)
{
	struct owner own = {.list = &p->dot->subgraphs[s].attributes, .number = number};
	int line = p->token.line;
	const char *name = read_text(p);

	if (is_at(p, '='))
		assign(p, &own, name, line);
	else
		read_chain(p, s, name, line);
}

/* "graph", "node" or "edge", and [...] */
static void read_defaults(struct parser *p, int s)
{
	struct orr_dot_subgraph *subgraph = &p->dot->subgraphs[s];
	struct owner owner = {.number = ++p->n_lists,
			      .list = is_word(p, "graph")  ? &subgraph->attributes
				      : is_word(p, "node") ? &subgraph->node_defaults
							   : &subgraph->edge_defaults};

	next_token(p);
	p->dot->defaults = 0;
	if (!is_at(p, '['))
		fail_syntax(p);
	read_attributes(p, &owner);
}

/* All up to the }. */
static void read_statements(struct parser *p, int s)
{
	int number = ++p->n_lists;

	while (!p->code && !is_at(p, '}')) {
		if (is_word(p, "graph") || is_word(p, "node") || is_word(p, "edge"))
			read_defaults(p, s);
		else if (is_at(p, '{') || is_word(p, "subgraph"))
			read_chain(p, s, NULL, 0);
		else
			read_named(p, s, number);
		if (is_at(p, ';'))
			next_token(p);
	}
}

/* [strict] digraph [NAME] {, or graph: why not, or NULL. */
static const char *read_head(struct parser *p)
{
	bool graph;

	next_token(p);
	if (p->token.kind == TOKEN_END)
		stop(p, orr_fail(p->err, ORR_E_INPUT,
				 p->model ? "%s: an empty file: a model is digraph { ... }"
					  : "%s: an empty file: a machine is graph { ... }",
				 p->file));
	if ((p->dot->strict = is_word(p, "strict")))
		next_token(p);
	graph = is_word(p, "graph");
	if (!p->model && !graph)
		return "no machine: a machine file begins with graph {, and its links are --";
	if (p->model && graph)
		return "an undirected graph: write digraph for graph, and -> for --";
	if (p->model && !is_word(p, "digraph"))
		return "no model: a DOT file begins with digraph {, and a PipeDream profile with "
		       "an operator";
	next_token(p);
	if (p->token.kind == TOKEN_ID)
		(void)read_text(p);
	return is_at(p, '{') ? NULL : p->model ? "digraph wants { next" : "graph wants { next";
}

int orr_dot_parse(struct orr_dot *dot, const char *file, const char *text, bool model,
		  struct orr_error *err)
{
	struct parser p = {.dot = dot,
			   .file = file,
			   .start = text,
			   .at = text,
			   .line = 1,
			   .model = model,
			   .err = err};
	const char *why;

	*dot = (struct orr_dot){0};
	p.buffer = orr_arrays_add(&dot->all, strlen(text) + 1, 1);
	(void)orr_dot_subgraph(dot, "", 1, 0); /* the whole graph, */
	(void)orr_dot_list(dot);               /* and the empty list */
	if ((why = read_head(&p)))
		refuse(&p, p.token.line, why);
	next_token(&p);
	read_statements(&p, 0);
	next_token(&p);
	if (p.token.kind != TOKEN_END)
		refuse(&p, p.token.line, "something follows the graph: a file holds one");
	for (int s = 1; s < dot->n_subgraphs; s++)
		sort_nodes(&dot->subgraphs[s]);
	return p.code;
}
