#include "draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "operator.h"

int orr_draft_init(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	*draft = (struct orr_draft){.name = strdup(name), .length_exponent = -1};
	if (!draft->name)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", name);
	return 0;
}

void orr_draft_fini(struct orr_draft *draft)
{
	for (int i = 0; i < draft->n_operators; i++)
		orr_operator_fini(&draft->operators[i].is);
	for (int i = 0; i < draft->n_blocks; i++)
		free(draft->blocks[i].name);
	for (int i = 0; i < draft->n_encoders; i++)
		free(draft->encoders[i]);
	free(draft->name);
	free(draft->data);
	free(draft->operators);
	free(draft->edges);
	free(draft->reads);
	free(draft->blocks);
	free(draft->encoders);
	*draft = (struct orr_draft){0};
}

static int no_memory(const struct orr_draft *draft, struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its %d operators and %d edges",
			draft->name, draft->n_operators, draft->n_edges);
}

int orr_draft_add_operator(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	int n = draft->n_operators;
	struct orr_draft_operator *o;
	char *copy;

	if (n >= ORR_MOST_OPERATORS)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d operators", draft->name,
				ORR_MOST_OPERATORS);
	if (!orr_grow(&draft->operators, n, &draft->operator_room, sizeof(*o)) ||
	    !(copy = strdup(name)))
		return no_memory(draft, err);
	o = &draft->operators[n];
	*o = (struct orr_draft_operator){.block = -1, .repeat = 1};
	o->is = (struct orr_operator){.name = copy,
				      .encoder = -1,
				      .stage = -1,
				      .tied = -1,
				      .length_exponent = -1,
				      .mean_growth = 1,
				      .weight_ns = -1,
				      .update_ns = -1};
	draft->n_operators++;
	return 0;
}

int orr_draft_add_edge(struct orr_draft *draft, int from, int to, int read, struct orr_error *err)
{
	int n = draft->n_edges;

	if (n >= ORR_MOST_EDGES)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d edges", draft->name,
				ORR_MOST_EDGES);
	if (!orr_grow(&draft->edges, n, &draft->edge_room, sizeof(*draft->edges)))
		return no_memory(draft, err);
	draft->edges[draft->n_edges++] = (struct orr_draft_edge){from, to, read};
	return 0;
}

int orr_draft_add_block(struct orr_draft *draft, const char *name, int parent,
			struct orr_error *err)
{
	char *copy;

	if (!orr_grow(&draft->blocks, draft->n_blocks, &draft->block_room,
		      sizeof(*draft->blocks)) ||
	    !(copy = strdup(name)))
		return no_memory(draft, err);
	draft->blocks[draft->n_blocks++] = (struct orr_draft_block){
		.name = copy, .parent = parent, .encoder = -1, .repeat = 1, .length_exponent = -1};
	return 0;
}

int orr_draft_add_encoder(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	char *copy;

	if (!orr_grow(&draft->encoders, draft->n_encoders, &draft->encoder_room, sizeof(copy)) ||
	    !(copy = strdup(name)))
		return no_memory(draft, err);
	draft->encoders[draft->n_encoders++] = copy;
	return 0;
}

const char *orr_location(char *buffer, size_t size, const char *file, int line,
			 const char *operator)
{
	if (line > 0)
		(void)snprintf(buffer, size, "%.150s:%d: node %.80s", file, line, operator);
	else
		(void)snprintf(buffer, size, "%.150s: node %.80s", file, operator);
	return buffer;
}

int orr_operator_fail(const struct orr_graph *g, const struct orr_operator *o,
		      struct orr_error *err, const char *why)
{
	char place[256];

	return orr_fail(err, ORR_E_INPUT, "%s: %s",
			orr_location(place, sizeof(place), g->name, o->line, o->name), why);
}
