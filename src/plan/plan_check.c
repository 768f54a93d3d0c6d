/* What a plan refuses of a graph before it looks for one. */
#include "plan_draft.h"

#include "orrery/graph.h"

/* Measured times and guesses from FLOP do not compare: all operators have them, or none. */
int orr_plan_check_costs(const struct orr_graph *g, struct orr_error *err)
{
	const struct orr_operator *measured = NULL, *guessed = NULL;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o) || orr_operator_is_study(o))
			continue;
		if (o->forward_ns >= 0 || o->backward_ns >= 0)
			measured = o;
		if (!guessed && (o->forward_ns < 0 || o->backward_ns < 0))
			guessed = o;
	}
	if (!measured || !guessed)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: node %s: no %s, and others are measured: profile it again (`orrery "
			"profile`), or give one",
			g->name, guessed->name, guessed->forward_ns < 0 ? "forward" : "backward");
}

/* A plan chooses workers itself, and lets gradients go back before a minibatch is whole. */
int orr_plan_check_jobs(const struct orr_graph *g, struct orr_error *err)
{
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const char *says = o->n_gang ? "gang" : o->with ? "with" : "gather";
		/* an operator that computes gathers by what it is */
		bool asked = o->n_gang || o->with || orr_operator_is_study(o);

		if (o->n_gang || o->with || o->gather)
			return orr_fail(err, ORR_E_INPUT,
					"%s:%d: node %s: %s: plan places stages itself, each on "
					"workers of its own, and overlaps a minibatch with its "
					"backwards: %s%s%ssimulate it under auto",
					g->name, o->line, o->name, says, asked ? "take " : "",
					asked ? says : "", asked ? "= away, or " : "");
	}
	return 0;
}
