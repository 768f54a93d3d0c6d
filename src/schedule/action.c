#include "action.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define LARGEST 999999999

/* All that PyTorch 2.15 reads, and BW of the older writing. */
static const struct {
	const char *word;
	enum orr_action_kind kind;
} words[] = {
	{"F", ORR_ACTION_F},
	{"I", ORR_ACTION_I},
	{"W", ORR_ACTION_W},
	{"B", ORR_ACTION_B},
	{"BW", ORR_ACTION_BW},
	{"SEND_F", ORR_ACTION_OTHER},
	{"RECV_F", ORR_ACTION_OTHER},
	{"SEND_B", ORR_ACTION_OTHER},
	{"RECV_B", ORR_ACTION_OTHER},
	{"WAIT_SEND_F", ORR_ACTION_OTHER},
	{"WAIT_SEND_B", ORR_ACTION_OTHER},
	{"UNSHARD", ORR_ACTION_OTHER},
	{"RESHARD", ORR_ACTION_OTHER},
	{"REDUCE_GRAD", ORR_ACTION_OTHER},
	{"WAIT_REDUCE_GRAD", ORR_ACTION_OTHER},
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

static const char *print_rest(char shown[ORR_UTF8_CELL], const struct scan *scan)
{
	return orr_utf8_print_cell(shown, scan->at, (size_t)(scan->end - scan->at));
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
	char shown[ORR_UTF8_CELL];

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
		       "B whole backward, (WAIT_)SEND_F, (WAIT_)SEND_B, RECV_F, RECV_B, UNSHARD, "
		       "RESHARD, (WAIT_)REDUCE_GRAD",
		       print_rest(shown, scan));
	return -1;
}

/* A microbatch may follow an action that does not compute. */
static bool read_action(struct orr_action *action, struct scan *scan)
{
	int word;

	if (!read_number(&action->s, scan, "stage number") || (word = read_word(scan)) < 0)
		return false;
	action->kind = words[word].kind;
	action->b = -1;
	if (action->kind == ORR_ACTION_OTHER &&
	    (scan->at == scan->end || !isdigit((unsigned char)*scan->at)))
		return true;
	return read_number(&action->b, scan, "microbatch number");
}

static bool read_end(struct scan *scan)
{
	char shown[ORR_UTF8_CELL];

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

/* (0F7;7B3)OVERLAP_F_B: actions that run together. The number of them, or 0. */
static int read_group(struct orr_action *actions, struct scan *scan)
{
	int n = 0;

	do {
		while (skip(scan, " "))
			;
		if (n == ORR_MOST_TOGETHER) {
			(void)snprintf(scan->why, scan->size, "more than %d actions in a group",
				       ORR_MOST_TOGETHER);
			return 0;
		}
		if (!read_action(&actions[n++], scan))
			return 0;
		while (skip(scan, " "))
			;
	} while (skip(scan, ";"));
	if (!skip(scan, ")OVERLAP_F_B")) {
		(void)snprintf(scan->why, scan->size,
			       "a group is actions with ; between them, such as "
			       "(0F7;7B3)OVERLAP_F_B");
		return 0;
	}
	return read_end(scan) ? n : 0;
}

int orr_action_parse(struct orr_action actions[ORR_MOST_TOGETHER], const char *cell, size_t length,
		     char *why, size_t size)
{
	struct scan scan = {cell, cell + length, why, size};

	if (skip(&scan, "("))
		return read_group(actions, &scan);
	return read_action(&actions[0], &scan) && read_end(&scan) ? 1 : 0;
}
