#include "scan.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tokens.h"

/* What an attribute belongs to: a subgraph's own, or that of the statement before [. */
struct owner {
	enum orr_mention_kind kind;
	const char *name; /* borrowed from a mention */
};

#define MOST_DEPTH 200 /* subgraphs in subgraphs: the parser's stack */

struct scanner {
	struct orr_scan *scan;
	struct orr_tokens tokens;
	const struct orr_token *token;         /* the one at hand: of tokens */
	const char *subgraphs[MOST_DEPTH + 1]; /* names of the open ones, "" for the graph's own */
	int depth;
	struct orr_error *err;
};

static int no_memory(struct scanner *s)
{
	return orr_fail(s->err, ORR_E_NOMEM, "%s:%d: no memory to read on", s->tokens.file,
			s->tokens.line);
}

static int next_token(struct scanner *s)
{
	return orr_tokens_next(&s->tokens, s->err);
}

static int mention(struct scanner *s, enum orr_mention_kind kind, const char *name,
		   const char *other, int line, const char **kept)
{
	struct orr_scan *scan = s->scan;
	struct orr_mention *m;

	if (scan->n_mentions == scan->room) {
		int room = scan->room ? 2 * scan->room : 64;

		m = realloc(scan->mentions, (size_t)room * sizeof(*m));
		if (!m)
			return no_memory(s);
		scan->mentions = m;
		scan->room = room;
	}
	m = &scan->mentions[scan->n_mentions];
	*m = (struct orr_mention){kind, strdup(name), strdup(other), line};
	scan->n_mentions++;
	if (!m->name || !m->other)
		return no_memory(s);
	if (kept)
		*kept = m->name;
	return 0;
}

static bool is_word(const struct orr_token *token, const char *word)
{
	return token->kind == ORR_TOKEN_ID && !token->quoted && strcasecmp(token->text, word) == 0;
}

/* The rest of "..." + "...", whose parts are not put together here. */
static int pass_sum(struct scanner *s)
{
	int code = 0;

	while (!code && orr_token_is(s->token, '+'))
		if (!(code = next_token(s)))
			code = next_token(s);
	return code;
}

static int open_subgraph(struct scanner *s, const char *name)
{
	if (s->depth >= MOST_DEPTH)
		return orr_fail(s->err, ORR_E_INPUT, "%s:%d: subgraphs nest deeper than %d",
				s->tokens.file, s->token->line, MOST_DEPTH);
	s->subgraphs[++s->depth] = name;
	return next_token(s);
}

/* Whose attributes stand free in a subgraph. */
static struct owner here(const struct scanner *s)
{
	if (s->depth <= 1)
		return (struct owner){ORR_MENTION_DEFAULT, "graph"};
	return (struct owner){ORR_MENTION_SUBGRAPH, s->subgraphs[s->depth]};
}

/* "subgraph" [NAME], or nothing, and {. */
static int read_subgraph(struct scanner *s)
{
	const char *name = "";
	int code = 0;

	if (is_word(s->token, "subgraph")) {
		code = next_token(s);
		if (!code && s->token->kind == ORR_TOKEN_ID) {
			code = mention(s, ORR_MENTION_SUBGRAPH, s->token->text, "", s->token->line,
				       &name);
			if (!code && !(code = next_token(s)))
				code = pass_sum(s);
		}
	}
	if (code || !orr_token_is(s->token, '{'))
		return code;
	return open_subgraph(s, name);
}

/* The value behind = and the token after it. */
static int pass_value(struct scanner *s, const char *name)
{
	int code = next_token(s);

	if (!code && s->token->kind != ORR_TOKEN_ID && s->token->kind != ORR_TOKEN_HTML)
		return orr_fail(s->err, ORR_E_INPUT, "%s:%d: %.60s= wants a value next",
				s->tokens.file, s->token->line, name);
	if (!code)
		code = next_token(s);
	return code ? code : pass_sum(s);
}

/* From [ to ]: name = value pairs. */
static int read_attributes(struct scanner *s, struct owner owner)
{
	char name[64];
	int code = next_token(s);

	while (!code && s->token->kind != ORR_TOKEN_END && !orr_token_is(s->token, ']')) {
		(void)snprintf(name, sizeof(name), "%s",
			       s->token->kind == ORR_TOKEN_ID ? s->token->text : "");
		if (s->token->kind == ORR_TOKEN_ID && owner.name)
			code = mention(s, owner.kind, owner.name, s->token->text, s->token->line,
				       NULL);
		if (!code)
			code = next_token(s);
		if (!code)
			code = pass_sum(s);
		/* libcgraph refuses any other token in place of = */
		if (!code && orr_token_is(s->token, '=') && !(code = pass_value(s, name)) &&
		    (orr_token_is(s->token, ',') || orr_token_is(s->token, ';')))
			code = next_token(s);
	}
	return code ? code : next_token(s);
}

/* A name at the start of a statement, or after an arrow. What follows may be attributes, of *owner.
 */
static int read_name(struct scanner *s, bool arrow, struct owner *owner)
{
	char *name = strdup(s->token->text);
	bool node = is_word(s->token, "node"), edge = is_word(s->token, "edge");
	bool graph = is_word(s->token, "graph");
	int line = s->token->line, code;

	if (!name)
		return no_memory(s);
	if ((code = next_token(s)) || (code = pass_sum(s)))
		goto out;
	if (node || edge || graph) {
		*owner = graph ? here(s)
			       : (struct owner){ORR_MENTION_DEFAULT, node ? "node" : "edge"};
	} else if (orr_token_is(s->token, '=')) {
		code = mention(s, here(s).kind, here(s).name, name, line, NULL);
		if (!code)
			code = pass_value(s, name);
	} else {
		*owner = (struct owner){ORR_MENTION_NODE, NULL};
		if ((code = mention(s, ORR_MENTION_NODE, name, "", line, &owner->name)))
			goto out;
		if (arrow)
			*owner = (struct owner){ORR_MENTION_DEFAULT, "edge"};
		while (!code && orr_token_is(s->token, ':')) /* a port */
			if (!(code = next_token(s)))
				code = next_token(s);
	}
out:
	free(name);
	return code;
}

static int read_statements(struct scanner *s)
{
	struct owner owner = {ORR_MENTION_NODE, NULL};
	bool arrow = false, after_arrow;
	int code = 0;

	while (!code && s->depth > 0 && s->token->kind != ORR_TOKEN_END) {
		after_arrow = arrow;
		arrow = s->token->kind == ORR_TOKEN_ARROW;
		if (orr_token_is(s->token, '[')) {
			code = read_attributes(s, owner);
		} else if (orr_token_is(s->token, '{') || is_word(s->token, "subgraph")) {
			owner.name = NULL;
			code = read_subgraph(s);
		} else if (orr_token_is(s->token, '}')) {
			owner = (struct owner){ORR_MENTION_DEFAULT, "edge"};
			s->depth--;
			code = next_token(s);
		} else if (s->token->kind == ORR_TOKEN_ID) {
			code = read_name(s, after_arrow, &owner);
		} else {
			code = next_token(s);
		}
	}
	if (!code && s->depth > 0)
		code = orr_fail(s->err, ORR_E_INPUT,
				"%s:%d: the file ends inside the graph: close it with }",
				s->tokens.file, s->tokens.line);
	return code;
}

/* [strict] digraph [NAME] { */
static int read_head(struct scanner *s)
{
	int code = next_token(s);

	if (!code && s->token->kind == ORR_TOKEN_END)
		return orr_fail(s->err, ORR_E_INPUT,
				"%s: an empty file: a model is digraph { ... }", s->tokens.file);
	if (!code && is_word(s->token, "strict"))
		code = next_token(s);
	if (!code && is_word(s->token, "graph"))
		return orr_fail(s->err, ORR_E_INPUT,
				"%s:%d: an undirected graph: write digraph for graph, and "
				"-> for --",
				s->tokens.file, s->token->line);
	if (!code && !is_word(s->token, "digraph"))
		return orr_fail(s->err, ORR_E_INPUT,
				"%s:%d: no model: a DOT file begins with digraph {, and a "
				"PipeDream profile with an operator",
				s->tokens.file, s->token->line);
	if (!code)
		code = next_token(s);
	if (!code && s->token->kind == ORR_TOKEN_ID)
		code = next_token(s);
	if (!code)
		code = pass_sum(s);
	if (!code && !orr_token_is(s->token, '{'))
		return orr_fail(s->err, ORR_E_INPUT, "%s:%d: digraph wants { next", s->tokens.file,
				s->token->line);
	return code ? code : open_subgraph(s, "");
}

static int compare_mentions(const void *a, const void *b)
{
	const struct orr_mention *x = a, *y = b;
	int order = (x->kind > y->kind) - (x->kind < y->kind);

	if (order == 0)
		order = strcmp(x->name, y->name);
	if (order == 0)
		order = strcmp(x->other, y->other);
	return order ? order : (x->line > y->line) - (x->line < y->line);
}

int orr_scan_init(struct orr_scan *scan, const char *file, const char *text, struct orr_error *err)
{
	struct scanner s = {.scan = scan, .err = err};
	int code;

	*scan = (struct orr_scan){0};
	s.tokens = (struct orr_tokens){.file = file, .start = text, .at = text, .line = 1};
	s.token = &s.tokens.token;
	if (!(code = read_head(&s)) && !(code = read_statements(&s)) &&
	    s.token->kind != ORR_TOKEN_END)
		code = orr_fail(err, ORR_E_INPUT,
				"%s:%d: something follows the graph: a file holds one", file,
				s.token->line);
	if (!code && scan->n_mentions > 0)
		qsort(scan->mentions, (size_t)scan->n_mentions, sizeof(*scan->mentions),
		      compare_mentions);
	orr_tokens_fini(&s.tokens);
	if (code)
		orr_scan_fini(scan);
	return code;
}

void orr_scan_fini(struct orr_scan *scan)
{
	int i;

	for (i = 0; i < scan->n_mentions; i++) {
		free(scan->mentions[i].name);
		free(scan->mentions[i].other);
	}
	free(scan->mentions);
	*scan = (struct orr_scan){0};
}

int orr_scan_line(const struct orr_scan *scan, enum orr_mention_kind kind, const char *name,
		  const char *other)
{
	struct orr_mention key = {kind, (char *)(intptr_t)name, (char *)(intptr_t)other, 0};
	int low = 0, high = scan->n_mentions, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (compare_mentions(&scan->mentions[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == scan->n_mentions || scan->mentions[low].kind != kind ||
	    strcmp(scan->mentions[low].name, name) != 0 ||
	    strcmp(scan->mentions[low].other, other) != 0)
		return 0;
	return scan->mentions[low].line;
}
