#pragma once
/* What stands in one cell of a schedule CSV. Private to exchange_read.c. */
#include <stdbool.h>
#include <stddef.h>

enum orr_action_kind {
	ORR_ACTION_F,
	ORR_ACTION_I,    /* input gradient */
	ORR_ACTION_W,    /* weight gradient */
	ORR_ACTION_B,    /* whole backward; in the older writing the input gradient */
	ORR_ACTION_BW,   /* whole backward in the older writing */
	ORR_ACTION_OTHER /* a transfer, a wait for one, or sharding: of no consequence here */
};
#define ORR_N_ACTIONS 6
#define ORR_MOST_TOGETHER 8 /* actions of a group */

struct orr_action {
	enum orr_action_kind kind;
	int s, b; /* b: -1 where there is none */
};

/* "F", "I", "W", "B" or "BW". */
const char *orr_action_word(enum orr_action_kind kind);

/* Read a cell without the spaces around it: one action, or those of a group. The number of them, or
 * 0 with why filled in: the error and the expected text. */
int orr_action_parse(struct orr_action actions[ORR_MOST_TOGETHER], const char *cell, size_t length,
		     char *why, size_t size);
