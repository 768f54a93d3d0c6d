/* Which operators are split among how many workers: what the file says (split=), and over that a
 * text, "trunk=2,image=4:copied" or "2". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "rewriting.h"

/* Of every operator of that name or in the encoder of it; NULL: of all. */
static int set(struct orr_split_choice *choices, const struct orr_graph *g, const char *name, int t,
	       bool copied, struct orr_error *err)
{
	struct orr_nearest near;
	int n = 0;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		if (name && strcmp(o->name, name) != 0 &&
		    (o->encoder < 0 || strcmp(g->encoders[o->encoder], name) != 0))
			continue;
		choices[k].t = t;
		choices[k].copied = copied;
		n++;
	}
	if (n)
		return 0;
	near = orr_nearest_to(name);
	for (int i = 0; i < g->n_encoders; i++)
		orr_nearest_try(&near, g->encoders[i], NULL);
	return orr_fail(err, ORR_E_INPUT,
			"split %.60s: %s has no encoder and no operator of that name%s: `orrery "
			"show` lists them",
			name, g->name, orr_nearest_hint(&near));
}

/* One of those between commas. */
static int take(struct orr_split_choice *choices, const struct orr_graph *g, char *text,
		struct orr_error *err)
{
	char *equals = strrchr(text, '='), what[96];
	bool copied;
	int t, code;

	if (equals)
		*equals = '\0';
	(void)snprintf(what, sizeof(what), "split%s%.60s", equals ? " " : "", equals ? text : "");
	if ((code = orr_attribute_split(&t, &copied, equals ? equals + 1 : text, what, err)))
		return code;
	return set(choices, g, equals ? text : NULL, t, copied, err);
}

/* The worker of the expert that an operator belongs to: as many experts on each as can be. Where it
 * begins, its rows are chosen where they are; it ends where all of them are put together. */
static void find_experts(struct orr_split_choice *choices, const struct orr_graph *g)
{
	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];
		const struct orr_op *op = o->instance ? o->instance->op : NULL;

		choices[k].expert = -1;
		for (int i = 0; i < o->n_inputs && choices[k].t > 1 && op && !op->expert_ends;
		     i++) {
			const struct orr_operator *from = &g->operators[o->inputs[i]];
			const struct orr_split_choice *choice = &choices[o->inputs[i]];

			if (choice->t != choices[k].t)
				continue;
			if (from->instance->op->expert_begins)
				choices[k].expert =
					(int)(*orr_instance_value(from->instance, "expert") *
					      choice->t /
					      *orr_instance_value(from->instance, "experts"));
			else if (choice->expert > choices[k].expert)
				choices[k].expert = choice->expert;
		}
	}
}

int orr_splits_choose(struct orr_split_choice *choices, const struct orr_graph *g,
		      const char *splits, struct orr_error *err)
{
	char *copy, *next, *one;
	int code = 0;

	for (int k = 0; k < g->n_operators; k++) {
		const struct orr_operator *o = &g->operators[k];

		choices[k] = (struct orr_split_choice){
			.t = o->split ? o->split : 1, .copied = o->split_copied, .expert = -1};
	}
	for (const char *c = splits; c && *c; c++)
		if ((unsigned char)*c < ' ')
			return orr_fail(err, ORR_E_INPUT,
					"split: a control character in it: take it out");
	if (splits) {
		if (!(copy = strdup(splits)))
			return orr_no_memory(err, g->name);
		next = copy;
		while (!code && (one = strsep(&next, ",")))
			code = take(choices, g, one, err);
		free(copy);
	}
	find_experts(choices, g);
	return code;
}
