#include "draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/grow.h"
#include "base/quantity.h"

int orr_draft_init(struct orr_draft *draft, const char *name, struct orr_error *err)
{
	*draft = (struct orr_draft){.name = strdup(name), .length_exponent = -1, .err = err};
	return draft->name ? 0 : orr_draft_keep(draft, orr_no_memory(err, name));
}

int orr_draft_fail(struct orr_draft *draft, int code, const char *format, ...)
{
	va_list args;

	if (draft->err) {
		va_start(args, format);
		(void)vsnprintf(draft->err->msg, sizeof(draft->err->msg), format, args);
		va_end(args);
	}
	return orr_draft_keep(draft, code);
}

int orr_draft_no_memory(struct orr_draft *draft)
{
	return orr_draft_fail(draft, ORR_E_NOMEM, "%s: no memory", draft->name);
}

int orr_draft_keep(struct orr_draft *draft, int code)
{
	if (code && !draft->code) {
		draft->code = code;
		draft->err = NULL;
	}
	return draft->code;
}

void orr_operator_fini(struct orr_operator *o)
{
	free(o->name);
	free(o->label);
	free(o->share);
	free(o->gang);
	free(o->with);
	free(o->columns);
	free(o->tensor);
	if (o->instance)
		free(o->instance->inputs);
	free(o->instance);
	free(o->inputs);
	free(o->reads);
	*o = (struct orr_operator){0};
}

void orr_draft_fini(struct orr_draft *draft)
{
	for (int i = 0; i < draft->n_operators; i++)
		orr_operator_fini(&draft->operators[i].is);
	for (int i = 0; i < draft->n_blocks; i++) {
		free(draft->blocks[i].name);
		free(draft->blocks[i].encoder);
	}
	free(draft->name);
	free(draft->data);
	free(draft->operators);
	free(draft->edges);
	free(draft->reads);
	free(draft->blocks);
	*draft = (struct orr_draft){0};
}

/* Room for one more in one of its arrays, and a copy of the name (NULL: none); false: the draft has
 * failed. */
static bool reserve(struct orr_draft *draft, void *array, int n, int *room, size_t size,
		    const char *name, char **copy)
{
	if (!draft->code && (!orr_grow(array, n, room, size) || (name && !(*copy = strdup(name)))))
		orr_draft_no_memory(draft);
	return !draft->code;
}

struct orr_draft_operator *orr_draft_add_operator(struct orr_draft *draft, const char *name)
{
	struct orr_draft_operator *o;
	char *copy = NULL;

	if (draft->n_operators >= ORR_MOST_OPERATORS)
		orr_draft_fail(draft, ORR_E_INPUT, "%s: more than %d operators", draft->name,
			       ORR_MOST_OPERATORS);
	if (!reserve(draft, &draft->operators, draft->n_operators, &draft->operator_room,
		     sizeof(*o), name, &copy))
		return NULL;
	o = &draft->operators[draft->n_operators++];
	*o = (struct orr_draft_operator){.block = -1, .repeat = 1};
	o->is = (struct orr_operator){.name = copy,
				      .encoder = -1,
				      .stage = -1,
				      .tied = -1,
				      .length_exponent = -1,
				      .mean_growth = 1,
				      .weight_ns = -1,
				      .update_ns = -1};
	return o;
}

void orr_draft_add_edge(struct orr_draft *draft, int from, int to, int read)
{
	if (draft->n_edges >= ORR_MOST_EDGES)
		orr_draft_fail(draft, ORR_E_INPUT, "%s: more than %d edges", draft->name,
			       ORR_MOST_EDGES);
	if (reserve(draft, &draft->edges, draft->n_edges, &draft->edge_room, sizeof(*draft->edges),
		    NULL, NULL))
		draft->edges[draft->n_edges++] = (struct orr_draft_edge){from, to, read};
}

struct orr_draft_block *orr_draft_add_block(struct orr_draft *draft, const char *name, int parent,
					    const char *encoder)
{
	struct orr_draft_block *block;
	char *copy = NULL;

	if (!reserve(draft, &draft->blocks, draft->n_blocks, &draft->block_room, sizeof(*block),
		     name, &copy))
		return NULL;
	block = &draft->blocks[draft->n_blocks++];
	*block = (struct orr_draft_block){
		.name = copy, .parent = parent, .repeat = 1, .length_exponent = -1};
	if (encoder && !(block->encoder = strdup(encoder)))
		orr_draft_no_memory(draft);
	return block;
}

const char *orr_location(const char *file, int line, const char *operator)
{
	return line > 0 ? orr_text("%.150s:%d: node %.80s", file, line, operator)
			: orr_text("%.150s: node %.80s", file, operator);
}

int orr_operator_fail(const char *graph, const struct orr_operator *o, struct orr_error *err,
		      const char *why, ...)
{
	char text[sizeof(err->msg)];
	va_list args;

	va_start(args, why);
	(void)vsnprintf(text, sizeof(text), why, args);
	va_end(args);
	return orr_fail(err, ORR_E_INPUT, "%s: %s", orr_location(graph, o->line, o->name), text);
}
