#pragma once
/* The attributes of DOT files: ours, by operator, and Graphviz's, which are let through. Private to
 * the DOT reader. */
#include <stdbool.h>
#include "draft.h"
#include "base/nearest.h"

/* What reading keeps besides the draft. */
struct orr_dot_durations {
	int plain_line, unit_line; /* of the first duration of either kind; 0: none yet */
	bool plain_zero;           /* which is of neither */
};

/* Set name=text on o. line: of the attribute. Refuses attributes that o's op, which is set, does
 * not have. */
int orr_attribute_set(struct orr_draft_operator *o, struct orr_dot_durations *durations,
		      const char *file, int line, const char *name, const char *text,
		      struct orr_error *err);
/* The same of an edge; what is its place. */
int orr_attribute_set_edge(struct orr_read *read, const char *name, const char *text,
			   const char *what, struct orr_error *err);
/* A duration; what and line locate it in messages. A graph's durations are all in units, or none
 * is. */
int orr_attribute_duration(int64_t *ns, struct orr_dot_durations *durations, const char *what,
			   int line, const char *text, struct orr_error *err);
/* "true" or "false"; what is its place. */
int orr_attribute_truth(bool *truth, const char *text, const char *what, struct orr_error *err);
/* One of the plain costs. */
bool orr_attribute_is_cost(const char *name);

/* Whether Graphviz draws something with it; kind: 'n'ode, 'e'dge or 'g'raph. */
bool orr_attribute_draws(char kind, const char *name);
/* Or it is ours; of an edge, or of a graph and its subgraphs. */
bool orr_attribute_is_known(char kind, const char *name);
/* " (did you mean forward?)" for a name that nothing has, or ""; op: of the node, or
 * NULL. */
struct orr_op;
const char *orr_attribute_hint(char kind, const char *name, const struct orr_op *op);
