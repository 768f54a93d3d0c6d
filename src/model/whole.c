#include "whole.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"

int orr_whole_parameter(const struct orr_graph *g, int k, int i)
{
	const struct orr_instance *is = g->operators[k].instance, *whole;
	int j = 0;

	if (!is || i >= is->n_parameters)
		return -1;
	whole = orr_graph_whole(g)->operators[orr_graph_origin(g, k)].instance;
	while (strcmp(whole->parameters[j].name, is->parameters[i].name) != 0)
		j++;
	return j;
}

struct orr_pieces orr_whole_pieces(const struct orr_graph *g, int k, int i)
{
	const struct orr_parameter_tensor *tensor = &g->operators[k].instance->parameters[i];

	return orr_portion_pieces(&tensor->portion, tensor->n_dims, tensor->dims);
}

int orr_whole_init(struct orr_whole *whole, const struct orr_graph *g, struct orr_error *err)
{
	size_t n = (size_t)orr_graph_whole(g)->n_operators;

	*whole = (struct orr_whole){.graph = g};
	whole->first = malloc(n * sizeof(*whole->first) + 1);
	whole->next = malloc((size_t)g->n_operators * sizeof(*whole->next) + 1);
	if (!whole->first || !whole->next)
		return orr_no_memory(err, g->name);
	for (size_t o = 0; o < n; o++)
		whole->first[o] = -1;
	for (int k = g->n_operators - 1; k >= 0; k--) {
		int o = orr_graph_origin(g, k);

		whole->next[k] = whole->first[o];
		whole->first[o] = k;
	}
	for (size_t o = 0; o < n; o++) {
		int n_same = 0;

		for (int k = whole->first[o]; k >= 0; k = whole->next[k])
			n_same++;
		whole->most = n_same > whole->most ? n_same : whole->most;
	}
	return 0;
}

void orr_whole_fini(struct orr_whole *whole)
{
	free(whole->first);
	free(whole->next);
}

/* The first that begins at `at` of that parameter. */
static bool find_part(const struct orr_whole *whole, int o, int j, int64_t at,
		      struct orr_whole_part *part)
{
	const struct orr_graph *g = whole->graph;

	for (int k = whole->first[o]; k >= 0; k = whole->next[k])
		for (int i = 0, is; (is = orr_whole_parameter(g, k, i)) >= 0; i++)
			if (is == j &&
			    g->operators[k].instance->parameters[i].portion.first == at) {
				*part = (struct orr_whole_part){k, i};
				return true;
			}
	return false;
}

int orr_whole_parts(const struct orr_whole *whole, int o, int j, struct orr_whole_part *parts)
{
	int64_t at = 0;
	int n = 0;

	while (n < whole->most && find_part(whole, o, j, at, &parts[n])) {
		const struct orr_parameter_tensor *part =
			&whole->graph->operators[parts[n].k].instance->parameters[parts[n].i];

		n++;
		at += part->dims[part->portion.axis];
		if (!part->portion.of || at >= part->portion.of)
			return n;
	}
	return 0;
}
