#pragma once
/* The tokens of a DOT text, with their lines. Private to dot_parse.c. */
#include "orrery/orrery.h"

enum orr_token_kind {
	ORR_TOKEN_END,
	ORR_TOKEN_ID,    /* a name, a number or a string; text is its value, unquoted */
	ORR_TOKEN_HTML,  /* <...>, not looked into */
	ORR_TOKEN_ARROW, /* -> or --: other is its second character */
	ORR_TOKEN_OTHER  /* one of { } [ ] ; , : = + */
};

struct orr_token {
	enum orr_token_kind kind;
	char other;       /* of OTHER */
	bool quoted;      /* of ID: then it is no keyword */
	const char *text; /* of ID: good until the next token */
	int line;
};

struct orr_tokens {
	const char *file, *start, *at; /* borrowed */
	int line;
	struct orr_token token; /* the one that orr_tokens_next() read */
	char *buffer;           /* borrowed: room for as much as the text */
};

/* Read the next token. Refuses invalid ones, and those that Graphviz would read differently. */
int orr_tokens_next(struct orr_tokens *t, struct orr_error *err);

static inline bool orr_token_is(const struct orr_token *token, char other)
{
	return token->kind == ORR_TOKEN_OTHER && token->other == other;
}
