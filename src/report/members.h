#pragma once
/* The operators of stages, by name. */
#include <stddef.h>
#include "orrery/orrery.h"

struct orr_pipeline;

/* The operators of every stage, in the order of the graph: operators[first[s]] to operators[first[s
 * + 1] - 1]. Empty for a pipeline without a graph. */
struct orr_members {
	const struct orr_pipeline *pipeline; /* borrowed */
	int *first, *operators;              /* owned */
};
int orr_members_init(struct orr_members *m, const struct orr_pipeline *p, struct orr_error *err);
void orr_members_fini(struct orr_members *m); /* all zero is fine */
/* "a, b, c", or "first .. last (n)" of a long list, truncated to size. Returns buffer. */
const char *orr_members_print(char *buffer, size_t size, const struct orr_members *m, int s);
