#include "action.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LARGEST 999999999
#define SHOWN 24 /* characters of a wrong cell in a message */

static const struct {
	const char *word;
	enum orr_action_kind kind;
	bool numbered; /* a microbatch follows */
} words[] = {
	{"F", ORR_ACTION_F, true},
	{"I", ORR_ACTION_I, true},
	{"W", ORR_ACTION_W, true},
	{"B", ORR_ACTION_B, true},
	{"BW", ORR_ACTION_BW, true},
	{"SEND_F", ORR_ACTION_OTHER, true},
	{"RECV_F", ORR_ACTION_OTHER, true},
	{"SEND_B", ORR_ACTION_OTHER, true},
	{"RECV_B", ORR_ACTION_OTHER, true},
	{"UNSHARD", ORR_ACTION_OTHER, false},
	{"RESHARD", ORR_ACTION_OTHER, false},
	{"REDUCE_GRAD", ORR_ACTION_OTHER, false},
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

const char *orr_action_word(enum orr_action_kind kind)
{
	return words[kind].word;
}

/* What is left to read, and where complaints go. */
struct scan {
	const char *at, *end;
	char *why;
	size_t size;
};

/* The rest, fit to be printed. */
static const char *print_rest(char shown[SHOWN + 4], const struct scan *scan)
{
	size_t n = 0, length = (size_t)(scan->end - scan->at);

	for (; n < length && n < SHOWN; n++)
		shown[n] = isprint((unsigned char)scan->at[n]) ? scan->at[n] : '?';
	(void)snprintf(shown + n, 4, "%s", n < length ? "..." : "");
	return shown;
}

static bool read_number(int *value, struct scan *scan, const char *what)
{
	int n = 0;

	if (scan->at == scan->end || !isdigit((unsigned char)*scan->at)) {
		(void)snprintf(scan->why, scan->size,
			       "no %s: write stage, pass, microbatch, such as 0F0", what);
		return false;
	}
	for (; scan->at < scan->end && isdigit((unsigned char)*scan->at); scan->at++) {
		if (n > (LARGEST - (*scan->at - '0')) / 10) {
			(void)snprintf(scan->why, scan->size, "a %s above %d", what, LARGEST);
			return false;
		}
		n = 10 * n + (*scan->at - '0');
	}
	*value = n;
	return true;
}

/* Its place in words, or -1. */
static int read_word(struct scan *scan)
{
	const char *start = scan->at;
	size_t length;
	char shown[SHOWN + 4];

	while (scan->at < scan->end && (isalpha((unsigned char)*scan->at) || *scan->at == '_'))
		scan->at++;
	length = (size_t)(scan->at - start);
	for (size_t i = 0; i < N_WORDS; i++)
		if (strlen(words[i].word) == length && !memcmp(words[i].word, start, length))
			return (int)i;
	scan->at = start;
	if (length)
		scan->end = start + length;
	(void)snprintf(scan->why, scan->size,
		       "no pass '%s': there are F forward, I input gradient, W weight gradient, "
		       "B whole backward, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, "
		       "REDUCE_GRAD",
		       print_rest(shown, scan));
	return -1;
}

static bool read_action(struct orr_action *action, struct scan *scan)
{
	int word;

	if (!read_number(&action->s, scan, "stage number") || (word = read_word(scan)) < 0)
		return false;
	action->kind = words[word].kind;
	action->b = -1;
	return !words[word].numbered || read_number(&action->b, scan, "microbatch number");
}

static bool read_end(struct scan *scan)
{
	char shown[SHOWN + 4];

	if (scan->at == scan->end)
		return true;
	(void)snprintf(scan->why, scan->size, "'%s' is too much: cells are separated by commas",
		       print_rest(shown, scan));
	return false;
}

static bool skip(struct scan *scan, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, text, length))
		return false;
	scan->at += length;
	return true;
}

/* (0F7;7B3)OVERLAP_F_B: one forward and one backward. */
static bool read_pair(struct orr_action actions[2], struct scan *scan)
{
	bool forward[2];

	if (!read_action(&actions[0], scan))
		return false;
	if (!skip(scan, ";"))
		goto refuse;
	while (skip(scan, " "))
		;
	if (!read_action(&actions[1], scan))
		return false;
	for (int i = 0; i < 2; i++) {
		forward[i] = actions[i].kind == ORR_ACTION_F;
		if (actions[i].kind == ORR_ACTION_W || actions[i].kind == ORR_ACTION_OTHER)
			goto refuse;
	}
	if (forward[0] == forward[1] || !skip(scan, ")OVERLAP_F_B"))
		goto refuse;
	return read_end(scan);
refuse:
	(void)snprintf(scan->why, scan->size,
		       "a pair is one forward and one backward, such as (0F7;7B3)OVERLAP_F_B");
	return false;
}

int orr_action_parse(struct orr_action actions[2], const char *cell, size_t length, char *why,
		     size_t size)
{
	struct scan scan = {cell, cell + length, why, size};

	if (skip(&scan, "("))
		return read_pair(actions, &scan) ? 2 : 0;
	return read_action(&actions[0], &scan) && read_end(&scan) ? 1 : 0;
}
