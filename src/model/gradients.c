/* Which gradients a backward computes where operators are frozen. */
#include <stdlib.h>

#include "orrery/graph.h"

/* Does a gradient that arrives here have somewhere to go: is anything trained, here or before?
 * Where nothing before is frozen, every operator counts, also one without parameters. */
struct upstream {
	bool trained, frozen;
};

static struct upstream look_up(struct orr_operator *o, const struct upstream *found,
			       const struct orr_operator *operators)
{
	struct upstream up = {false, o->frozen};
	int n_read = 0;

	o->has_input_gradient = false;
	for (int i = 0; i < o->n_inputs; i++) {
		if (operators[o->inputs[i]].op == ORR_OP_INPUT)
			continue;
		n_read++;
		up.frozen = up.frozen || found[o->inputs[i]].frozen;
		o->has_input_gradient = o->has_input_gradient || found[o->inputs[i]].trained;
	}
	/* what reads data alone has an input gradient as far as its costs say so */
	o->has_input_gradient = o->has_input_gradient || (!n_read && !o->frozen);
	up.trained = o->has_input_gradient || (!o->frozen && orr_operator_has_parameters(o)) ||
		     !up.frozen;
	o->has_weight_gradient = !o->frozen && up.trained;
	return up;
}

/* The halves that a split backward would have, so that either can go. */
static void split_backward(struct orr_operator *o)
{
	if (o->backward_ns < 0 || o->weight_ns >= 0)
		return;
	o->weight_ns = o->backward_ns / 2;
	o->backward_ns -= o->weight_ns;
}

int orr_graph_find_gradients(struct orr_graph *g, struct orr_error *err)
{
	struct upstream *found = calloc((size_t)g->n_operators, sizeof(*found));
	bool frozen = false, trained = false;

	if (!found)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %d operators", g->name,
				g->n_operators);
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];

		found[i] = look_up(o, found, g->operators);
		frozen = frozen || o->frozen;
		trained = trained ||
			  (o->op != ORR_OP_INPUT && !o->frozen && orr_operator_has_parameters(o));
	}
	for (int i = 0; i < g->n_operators && frozen; i++)
		split_backward(&g->operators[i]);
	free(found);
	if (frozen && !trained)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: all of its parameters are frozen, and there is nothing to train: "
			"take a frozen=true away",
			g->name);
	return 0;
}
