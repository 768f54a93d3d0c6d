/* Operators that share one set of parameters. */
#include "draft.h"

#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

static int refuse(const struct orr_graph *g, const struct orr_operator *o, const char *why,
		  struct orr_error *err)
{
	return orr_operator_fail(g->name, o, err, "share=%.60s: %s, or take share away", o->share,
				 why);
}

/* Tensors of the same sizes, whatever reads them: an embedding's and a linear's may be tied. */
static bool alike(const struct orr_instance *a, const struct orr_instance *b)
{
	if (!a || !b || a->n_parameters != b->n_parameters)
		return a == b;
	for (int i = 0; i < a->n_parameters; i++)
		if (a->parameters[i].n_dims != b->parameters[i].n_dims ||
		    memcmp(a->parameters[i].dims, b->parameters[i].dims,
			   sizeof(a->parameters[i].dims)) != 0)
			return false;
	return true;
}

/* Can o have the parameters of `first`? */
static int check(const struct orr_graph *g, const struct orr_operator *first,
		 const struct orr_operator *o, struct orr_error *err)
{
	bool same = alike(o->instance, first->instance);
	const char *differs = strcmp(orr_operator_op(o), orr_operator_op(first)) != 0 && !same
				      ? "are of another op"
			      : o->frozen != first->frozen
				      ? "are frozen here or there alone (frozen=true)"
			      : !same || o->parameter_bytes != first->parameter_bytes
				      ? "have another shape or size"
				      : NULL;

	for (int i = 0; o->instance && i < o->instance->n_parameters; i++)
		if (o->instance->parameters[i].role == ORR_ROLE_AVERAGED)
			return refuse(g, o, "its running means are of one operator alone", err);
	if (!differs)
		return 0;
	return refuse(g, o,
		      orr_text("the parameters of node %.60s in line %d %s: make both nodes alike",
			       first->name, first->line, differs),
		      err);
}

struct named {
	const char *share;
	int number;
};

static int compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->share, y->share);

	return order ? order : x->number - y->number;
}

/* named: those with a name, by name and number. */
static int tie(struct orr_graph *g, const struct named *named, int n, struct orr_error *err)
{
	int code = 0;

	for (int i = 0, first = 0; i < n && !code; i++) {
		struct orr_operator *o = &g->operators[named[i].number];

		first = strcmp(named[first].share, named[i].share) ? i : first;
		o->tied = named[first].number;
		if (i > first)
			code = check(g, &g->operators[o->tied], o, err);
		else if (!orr_operator_has_parameters(o))
			code = refuse(g, o, "it has no parameters: name nodes that have some", err);
		else if (i + 1 == n || strcmp(named[i + 1].share, named[i].share) != 0)
			code = refuse(g, o,
				      "no other node says so: name it on all that share parameters",
				      err);
	}
	return code;
}

int orr_graph_tie(struct orr_graph *g, struct orr_error *err)
{
	struct named *named = malloc((size_t)g->n_operators * sizeof(*named));
	int n = 0, code;

	if (!named)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for what its operators share",
				g->name);
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].share)
			named[n++] = (struct named){g->operators[i].share, i};
	qsort(named, (size_t)n, sizeof(*named), compare);
	code = tie(g, named, n, err);
	free(named);
	return code;
}
