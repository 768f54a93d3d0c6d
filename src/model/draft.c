#include "draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	int i;

	for (i = 0; i < draft->n_operators; i++)
		orr_operator_fini(&draft->operators[i].is);
	for (i = 0; i < draft->n_blocks; i++)
		free(draft->blocks[i].name);
	for (i = 0; i < draft->n_encoders; i++)
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

/* The array with room for one more, or NULL: then it is as it was. */
static void *room_for_one(void *array, int n, int *room, size_t size)
{
	int more = *room ? 2 * *room : 16;

	if (n < *room)
		return array;
	array = realloc(array, (size_t)more * size);
	if (array)
		*room = more;
	return array;
}

static int no_memory(const struct orr_draft *draft, struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its %d operators and %d edges",
			draft->name, draft->n_operators, draft->n_edges);
}

int orr_draft_add_operator(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	int n = draft->n_operators;
	struct orr_draft_operator *operators;
	char *copy;

	if (n >= ORR_MOST_OPERATORS)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d operators", draft->name,
				ORR_MOST_OPERATORS);
	operators = room_for_one(draft->operators, n, &draft->operator_room, sizeof(*operators));
	if (!operators)
		return no_memory(draft, err);
	draft->operators = operators;
	copy = strdup(name);
	if (!copy)
		return no_memory(draft, err);
	operators[n] = (struct orr_draft_operator){.block = -1, .repeat = 1};
	operators[n].is = (struct orr_operator){.name = copy,
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
	struct orr_draft_edge *edges;

	if (n >= ORR_MOST_EDGES)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d edges", draft->name,
				ORR_MOST_EDGES);
	edges = room_for_one(draft->edges, n, &draft->edge_room, sizeof(*edges));
	if (!edges)
		return no_memory(draft, err);
	draft->edges = edges;
	edges[n] = (struct orr_draft_edge){from, to, read};
	draft->n_edges++;
	return 0;
}

int orr_draft_add_block(struct orr_draft *draft, const char *name, int parent,
			struct orr_error *err)
{
	int n = draft->n_blocks;
	struct orr_draft_block *blocks;
	char *copy;

	blocks = room_for_one(draft->blocks, n, &draft->block_room, sizeof(*blocks));
	if (!blocks)
		return no_memory(draft, err);
	draft->blocks = blocks;
	copy = strdup(name);
	if (!copy)
		return no_memory(draft, err);
	blocks[n] = (struct orr_draft_block){
		.name = copy, .parent = parent, .encoder = -1, .repeat = 1, .length_exponent = -1};
	draft->n_blocks++;
	return 0;
}

int orr_draft_add_encoder(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	int n = draft->n_encoders;
	char **encoders;

	encoders = room_for_one(draft->encoders, n, &draft->encoder_room, sizeof(*encoders));
	if (!encoders)
		return no_memory(draft, err);
	draft->encoders = encoders;
	encoders[n] = strdup(name);
	if (!encoders[n])
		return no_memory(draft, err);
	draft->n_encoders++;
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
