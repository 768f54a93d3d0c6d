/* Which gradients a backward computes where operators are frozen or edges have no gradient. */
#include <stdlib.h>

#include "base/arrays.h"
#include "draft.h"
#include "orrery/graph.h"

struct found {
	/* Does a gradient that arrives here have somewhere to go: is anything trained, here or
	 * before? Where nothing before is frozen or detached, every operator counts, also one
	 * without parameters. */
	bool trained, cut;
	bool read;    /* by any */
	bool reached; /* a gradient arrives: it is an end of the model, or a reader is reached */
};

/* Its readers have been looked at: from the ends up. */
static void look_down(const struct orr_operator *o, struct found *found, struct found *own)
{
	own->reached = own->reached || !own->read;
	for (int k = 0; k < o->n_inputs; k++) {
		found[o->inputs[k]].read = true;
		if (own->reached && !orr_operator_is_detached(o, k))
			found[o->inputs[k]].reached = true;
	}
}

static void look_up(struct orr_operator *o, const struct found *found, struct found *own,
		    const struct orr_operator *operators)
{
	bool above = false, trains = !o->frozen && own->reached && !orr_operator_is_input(o);
	int n_read = 0;

	own->cut = o->frozen;
	for (int k = 0; k < o->n_inputs; k++) {
		const struct found *input = &found[o->inputs[k]];

		if (orr_operator_is_input(&operators[o->inputs[k]]))
			continue;
		n_read++;
		own->cut = own->cut || input->cut || orr_operator_is_detached(o, k);
		above = above || (input->trained && !orr_operator_is_detached(o, k));
	}
	/* what reads data alone has an input gradient as far as its costs say so */
	above = above || (!n_read && trains);
	o->has_input_gradient = above && own->reached;
	o->has_weight_gradient = trains && (orr_operator_has_parameters(o) || !own->cut);
	own->trained = o->has_input_gradient || o->has_weight_gradient;
}

/* Does it say that it is trained? */
static bool wants_gradient(const struct orr_operator *o)
{
	return !o->frozen && (o->n_parameters > 0 || o->parameter_bytes > 0 || o->weight_ns > 0 ||
			      (orr_operator_is_study(o) && o->backward_ns > 0));
}

bool orr_graph_has_gradient(const struct orr_graph *g, int i, int k)
{
	const struct orr_operator *o = &g->operators[i], *x = &g->operators[o->inputs[k]];

	return o->has_input_gradient && !orr_operator_is_detached(o, k) &&
	       (x->has_input_gradient || x->has_weight_gradient);
}

int orr_graph_find_gradients(struct orr_graph *g, struct orr_error *err)
{
	struct found *found = calloc((size_t)g->n_operators, sizeof(*found));
	bool cut = false, trained = false;
	int code = 0;

	if (!found)
		return orr_no_memory(err, g->name);
	for (int i = g->n_operators - 1; i >= 0 && !code; i--) {
		look_down(&g->operators[i], found, &found[i]);
		if (!found[i].reached && wants_gradient(&g->operators[i]))
			code = orr_operator_fail(g->name, &g->operators[i], err,
						 "it is trained, and no gradient reaches it, since "
						 "edges after it say gradient=false: make it "
						 "frozen=true, or let a gradient through");
	}
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];

		look_up(o, found, &found[i], g->operators);
		cut = cut || found[i].cut;
		trained = trained || (o->has_weight_gradient && orr_operator_has_parameters(o));
	}
	/* the halves that a split backward would have, so that either can go */
	for (int i = 0; i < g->n_operators && cut; i++) {
		struct orr_operator *o = &g->operators[i];

		if (o->backward_ns < 0 || o->weight_ns >= 0 || orr_operator_is_loss(o))
			continue; /* a loss has no parameters */
		o->weight_ns = o->backward_ns / 2;
		o->backward_ns -= o->weight_ns;
	}
	free(found);
	if (!code && cut && !trained)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: all of its parameters are frozen, and there is nothing to "
				"train: take a frozen=true away",
				g->name);
	return code;
}
