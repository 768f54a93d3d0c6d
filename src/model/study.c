/* Study graphs, which need no file: chain:8, and towers:3,1/2 for a tower of three and one of one,
 * joined by a trunk of two. Every operator takes one unit forward and one backward. */
#include "draft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/orrery.h"
#include "base/quantity.h"

#define CHAIN "chain:"
#define TOWERS "towers:"

bool orr_study_is(const char *text)
{
	return strncmp(text, CHAIN, strlen(CHAIN)) == 0 ||
	       strncmp(text, TOWERS, strlen(TOWERS)) == 0;
}

/* n operators in a row, NAME.0 to NAME.n-1, in block; the number of the last. */
static int add_row(struct orr_draft *draft, const char *name, int64_t n, int block)
{
	for (int64_t i = 0; i < n && !draft->code; i++) {
		struct orr_draft_operator *o =
			orr_draft_add_operator(draft, orr_text("%s.%lld", name, (long long)i));

		if (!o)
			break;
		o->block = block;
		o->is.forward_ns = o->is.backward_ns = ORR_UNIT_NS;
		if (i > 0)
			orr_draft_add_edge(draft, draft->n_operators - 2, draft->n_operators - 1,
					   -1);
	}
	return draft->n_operators - 1;
}

/* What a text says is their number; 0: it is refused. */
static int64_t read_number(struct orr_draft *draft, const char *text)
{
	int64_t n = 0;

	orr_draft_keep(draft,
		       orr_count_parse(&n, text, 1, ORR_MOST_OPERATORS, draft->name, draft->err));
	return n;
}

static int add_tower(struct orr_draft *draft, const char *text, int number)
{
	int64_t n = read_number(draft, text);
	char name[32];

	(void)snprintf(name, sizeof(name), "tower%d", number);
	(void)orr_draft_add_block(draft, name, -1, name);
	return add_row(draft, name, n, number);
}

/* text: "3,1/2"; changed. */
static void read_towers(struct orr_draft *draft, char *text)
{
	char *slash = strchr(text, '/'), *tower, *next = text;
	int *last = calloc(strlen(text) + 1, sizeof(*last));
	int n_towers = 0, first_trunk;

	if (!last)
		orr_draft_no_memory(draft);
	else if (!slash)
		orr_draft_fail(draft, ORR_E_INPUT,
			       "%s: no trunk: say towers:A,B,.../T, such as towers:3,3/2",
			       draft->name);
	else
		*slash = '\0';
	for (; !draft->code && (tower = strsep(&next, ",")); n_towers++)
		last[n_towers] = add_tower(draft, tower, n_towers);
	first_trunk = draft->n_operators;
	if (!draft->code)
		(void)add_row(draft, "trunk", read_number(draft, slash + 1), -1);
	for (int i = 0; i < n_towers && !draft->code; i++)
		orr_draft_add_edge(draft, last[i], first_trunk, -1);
	free(last);
}

void orr_study_read(struct orr_draft *draft, const char *text)
{
	char *copy;

	draft->units = true;
	if (strncmp(text, CHAIN, strlen(CHAIN)) == 0) {
		(void)add_row(draft, "layer", read_number(draft, text + strlen(CHAIN)), -1);
	} else if ((copy = strdup(text + strlen(TOWERS)))) {
		read_towers(draft, copy);
		free(copy);
	} else {
		orr_draft_no_memory(draft);
	}
}

int orr_study_costs_parse(struct orr_study_costs *costs, const char *text, const char *what,
			  struct orr_error *err)
{
	int64_t *const fields[] = {&costs->forward_ns, &costs->backward_ns, &costs->weight_ns};
	const char *rest = text;
	bool units[3] = {false, false, false};
	int n = 0, code = 0;

	for (; !code && n < 3 && rest; n++)
		if (!(code = orr_duration_parse(fields[n], &units[n], orr_part_next(&rest, ','),
						what, err)) &&
		    units[n] != units[0])
			code = orr_fail(
				err, ORR_E_INPUT,
				"%s: '%s' mixes plain numbers and units: give all the same unit",
				what, text);
	if (!code && (n < 2 || rest))
		code = orr_fail(err, ORR_E_INPUT, "%s: '%s': write F,B or F,B,W", what, text);
	costs->units = units[0];
	return code;
}

static void set_costs(struct orr_operator *o, const struct orr_study_costs *costs)
{
	const struct {
		int64_t *own, given;
	} pairs[] = {{&o->forward_ns, costs->forward_ns},
		     {&o->backward_ns, costs->backward_ns},
		     {&o->weight_ns, costs->weight_ns},
		     {&o->activation_bytes, costs->activation_bytes},
		     {&o->stash_bytes, costs->stash_bytes},
		     {&o->parameter_bytes, costs->parameter_bytes}};

	if (costs->backward_ns >= 0)
		o->weight_ns = -1;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (pairs[i].given >= 0)
			*pairs[i].own = pairs[i].given;
}

int orr_graph_set_costs(struct orr_graph *g, const struct orr_study_costs *costs,
			struct orr_error *err)
{
	int code;

	if (!orr_graph_is_study(g))
		return orr_fail(err, ORR_E_INPUT,
				"%s: a model that computes has costs of its own: take the costs "
				"away, or take a study such as chain:8",
				g->name);
	for (int i = 0; i < g->n_operators; i++)
		set_costs(&g->operators[i], costs);
	if (costs->forward_ns >= 0 || costs->backward_ns >= 0 || costs->weight_ns >= 0)
		g->units = costs->units;
	code = orr_graph_find_gradients(g, err);
	return code ? code : orr_graph_check_sums(g, err);
}
