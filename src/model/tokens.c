#include "tokens.h"

#include <ctype.h>
#include <string.h>

/* Skip blanks (the same as Graphviz'), comments and lines that begin with #. */
static int skip(struct orr_tokens *t, struct orr_error *err)
{
	for (;;) {
		if (*t->at == '\n') {
			t->line++;
			t->at++;
		} else if (*t->at == ' ' || *t->at == '\t' || *t->at == '\r') {
			t->at++;
		} else if ((t->at[0] == '/' && t->at[1] == '/') ||
			   (*t->at == '#' && (t->at == t->start || t->at[-1] == '\n'))) {
			t->at += strcspn(t->at, "\n");
		} else if (t->at[0] == '/' && t->at[1] == '*') {
			const char *end = strstr(t->at + 2, "*/");

			if (!end)
				return orr_fail(err, ORR_E_INPUT,
						"%s:%d: a comment without an end: close it with */",
						t->file, t->line);
			for (; t->at < end + 2; t->at++)
				t->line += *t->at == '\n';
		} else {
			return 0;
		}
	}
}

static void set_text(struct orr_tokens *t, const char *text, size_t length)
{
	memcpy(t->buffer, text, length);
	t->buffer[length] = '\0';
	t->token.kind = ORR_TOKEN_ID;
	t->token.text = t->buffer;
}

/* "..." as Graphviz reads it: \" is a quote, a backslash before a line's end joins the lines. */
static int read_string(struct orr_tokens *t, struct orr_error *err)
{
	const char *end = t->at + 1;
	char *to;
	int line = t->line;

	while (*end && *end != '"')
		end += end[0] == '\\' && end[1] ? 2 : 1;
	if (!*end)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: a string without an end: close it with \"", t->file, line);
	set_text(t, t->at, (size_t)(end - t->at));
	for (to = t->buffer, t->at++; t->at < end; t->at++) {
		t->line += *t->at == '\n';
		if (t->at[0] == '\\' && t->at[1] == '\\')
			*to++ = *t->at++;
		else if (t->at[0] == '\\' && t->at[1] == '"')
			t->at++;
		else if (t->at[0] == '\\' && t->at[1] == '\n')
			continue;
		*to++ = *t->at;
	}
	*to = '\0';
	t->at++;
	t->token.quoted = true;
	return 0;
}

static int read_html(struct orr_tokens *t, struct orr_error *err)
{
	int nested = 0, line = t->line;

	t->token.kind = ORR_TOKEN_HTML;
	do {
		nested += (*t->at == '<') - (*t->at == '>');
		t->line += *t->at == '\n';
		t->at++;
	} while (nested > 0 && *t->at);
	if (nested > 0)
		return orr_fail(err, ORR_E_INPUT,
				"%s:%d: an HTML label without an end: close it with >", t->file,
				line);
	return 0;
}

static bool in_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* A name or a number without quotes. Graphviz reads 12x as two words, which is never meant. */
static int read_word(struct orr_tokens *t, struct orr_error *err)
{
	const char *end = t->at;
	bool number = *end == '-' || *end == '.' || isdigit((unsigned char)*end);
	size_t digits;

	if (!number) {
		while (in_name(*end))
			end++;
	} else {
		end += *end == '-';
		digits = strspn(end, "0123456789");
		end += digits;
		if (*end == '.') {
			end++;
			digits += strspn(end, "0123456789");
			end += strspn(end, "0123456789");
		}
		if (digits == 0)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s:%d: %.1s stands alone: put names that hold it in quotes",
				t->file, t->line, t->at);
		if (in_name(*end) || *end == '.') {
			end += strcspn(end, " \t\r\n;,[]{}=\"");
			return orr_fail(
				err, ORR_E_INPUT,
				"%s:%d: %.*s is neither a name nor a number: put it in quotes",
				t->file, t->line, end - t->at < 60 ? (int)(end - t->at) : 60,
				t->at);
		}
	}
	set_text(t, t->at, (size_t)(end - t->at));
	t->at = end;
	return 0;
}

int orr_tokens_next(struct orr_tokens *t, struct orr_error *err)
{
	int code = skip(t, err);

	if (code)
		return code;
	t->token = (struct orr_token){.kind = ORR_TOKEN_OTHER, .other = *t->at, .line = t->line};
	if (!*t->at) {
		t->token.kind = ORR_TOKEN_END;
		return 0;
	}
	if (*t->at == '"')
		return read_string(t, err);
	if (*t->at == '<')
		return read_html(t, err);
	if (t->at[0] == '-' && (t->at[1] == '>' || t->at[1] == '-')) {
		t->token.kind = ORR_TOKEN_ARROW;
		t->token.other = t->at[1];
		t->at += 2;
		return 0;
	}
	if (in_name(*t->at) || *t->at == '-' || *t->at == '.')
		return read_word(t, err);
	if (!strchr("{}[];,:=+", *t->at))
		return orr_fail(
			err, ORR_E_INPUT,
			isprint((unsigned char)*t->at)
				? "%s:%d: %c has no place here: put names that hold it in quotes"
				: "%s:%d: no text (a byte %#x)",
			t->file, t->line, (unsigned char)*t->at);
	t->at++;
	return 0;
}
