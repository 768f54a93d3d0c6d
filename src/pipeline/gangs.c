#include "gangs.h"

#include <string.h>

#include "orrery/graph.h"

static int refuse(const struct orr_graph *g, const struct orr_operator *o, const char *name,
		  const char *why, struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s:%d: node %s: %s: %s", g->name, o->line, o->name, name,
			why);
}

/* 1 + the stage of the operator or encoder of that name; 0: there is none. */
static int find_stage(const struct orr_graph *g, const int *stage_of, const char *name)
{
	for (int i = 0; i < g->n_operators; i++)
		if (!orr_operator_is_input(&g->operators[i]) && !strcmp(g->operators[i].name, name))
			return stage_of[i] + 1;
	for (int i = 0; i < g->n_operators; i++)
		if (!orr_operator_is_input(&g->operators[i]) && g->operators[i].encoder >= 0 &&
		    !strcmp(g->encoders[g->operators[i].encoder], name))
			return stage_of[i] + 1;
	return 0;
}

static int take_with(struct orr_stage *stages, const struct orr_graph *g, const int *stage_of,
		     int i, struct orr_error *err)
{
	const struct orr_operator *o = &g->operators[i];
	struct orr_gang *gang = &stages[stage_of[i]].gang;
	int with = find_stage(g, stage_of, o->with);

	if (!with)
		return refuse(g, o, "with",
			      "no operator and no encoder has that name: give one of those that "
			      "orrery show lists",
			      err);
	if (with == stage_of[i] + 1) /* it is */
		return 0;
	if (gang->with && gang->with != with)
		return refuse(g, o, "with",
			      "another operator of its stage is with another one: give both the "
			      "same, or cut between them (stage=)",
			      err);
	gang->with = with;
	return 0;
}

int orr_partition_gangs(struct orr_stage *stages, const struct orr_graph *g, const int *stage_of,
			struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < g->n_operators && !code; i++) {
		const struct orr_operator *o = &g->operators[i];
		struct orr_stage *stage = &stages[stage_of[i]];
		struct orr_gang *gang = &stage->gang;

		if (orr_operator_is_input(o)) /* it is with whatever reads it */
			continue;
		stage->gather = stage->gather || o->gather;
		for (int k = 0; k < o->n_inputs && o->gather; k++)
			if (!orr_operator_is_input(&g->operators[o->inputs[k]]) &&
			    stage_of[o->inputs[k]] == stage_of[i])
				return refuse(
					g, o, "gather",
					"what it reads is made in its own stage, which has one "
					"microbatch at a time: cut before it (stage=, or more "
					"[stages])",
					err);
		if (o->n_gang && gang->n &&
		    (o->n_gang != gang->n || !o->gang != !gang->workers ||
		     (o->gang && memcmp(o->gang, gang->workers,
					(size_t)gang->n * sizeof(*gang->workers)) != 0)))
			return refuse(g, o, "gang",
				      "another operator of its stage is on other workers: give "
				      "both the same, or cut between them (stage=)",
				      err);
		if (o->n_gang) {
			gang->n = o->n_gang;
			gang->workers = o->gang;
		}
		if (o->with)
			code = take_with(stages, g, stage_of, i, err);
	}
	return code;
}
