#pragma once
/* Frozen operators of a graph that was read without any. */
#include <stdio.h>
#include <string.h>

#include "orrery/graph.h"

/* Freeze the operators named in a list, " a b c ", with spaces around each; before g is cut. */
static inline int freeze(struct orr_graph *g, const char *names, struct orr_error *err)
{
	char name[64];

	for (int k = 0; k < g->n_operators; k++) {
		(void)snprintf(name, sizeof(name), " %s ", g->operators[k].name);
		g->operators[k].frozen = strstr(names, name) != NULL;
	}
	return orr_graph_find_gradients(g, err);
}

/* The first operator that is frozen and whose parameters, in the order of the operators, are not as
 * they were; NULL: none. */
static inline const char *find_thawed(const struct orr_graph *g, const float *before,
				      const float *after)
{
	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		if (o->frozen && memcmp(before, after, (size_t)o->n_parameters * sizeof(*after)))
			return o->name;
		before += o->n_parameters;
		after += o->n_parameters;
	}
	return NULL;
}
