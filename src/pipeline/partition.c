#include "partition.h"

#include <stdlib.h>
#include <string.h>

#include "cut.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "numbering.h"
#include "charge.h"
#include "split_stages.h"
#include "stages_of.h"

static int refuse_operator(const struct orr_graph *g, int i, struct orr_error *err,
			   const char *what, const char *other)
{
	return orr_fail(err, ORR_E_INPUT, "%s:%d: node %s: %s%s", g->name, g->operators[i].line,
			g->operators[i].name, what, other ? other : "");
}

/* ---- pins ---- */

/* Every operator but inputs is pinned, no edge goes back, and no stage is empty. */
static int take_pins(const struct orr_graph *g, int *stage_of, int *n_stages, struct orr_error *err)
{
	*n_stages = 0;
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		stage_of[i] = orr_operator_is_input(o) ? -1 : o->stage;
		if (orr_operator_is_input(o))
			continue;
		if (o->stage < 0)
			return refuse_operator(
				g, i, err,
				"no stage, and other nodes have one: pin all (stage=0) or none",
				NULL);
		*n_stages = o->stage >= *n_stages ? o->stage + 1 : *n_stages;
		for (int k = 0; k < o->n_inputs; k++)
			if (stage_of[o->inputs[k]] > o->stage)
				return orr_fail(
					err, ORR_E_INPUT,
					"%s:%d: node %s: stage=%d reads node %s of stage=%d, and "
					"stages only feed later ones: pin it to %d or more",
					g->name, o->line, o->name, o->stage,
					g->operators[o->inputs[k]].name, stage_of[o->inputs[k]],
					stage_of[o->inputs[k]]);
	}
	return 0;
}

static int check_none_empty(const struct orr_graph *g, const int *stage_of, int n_stages,
			    struct orr_error *err)
{
	bool *used = calloc((size_t)n_stages, sizeof(*used));
	int code = 0;

	if (!used)
		return orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d stages", n_stages);
	for (int i = 0; i < g->n_operators; i++)
		if (stage_of[i] >= 0)
			used[stage_of[i]] = true;
	for (int s = 0; s < n_stages && !code; s++)
		if (!used[s])
			code = orr_fail(err, ORR_E_INPUT,
					"%s: no node is pinned to stage=%d, and the last stage is "
					"%d: number the stages without a gap",
					g->name, s, n_stages - 1);
	free(used);
	return code;
}

/* ---- the way through ---- */

static int choose(const struct orr_graph *g, const struct orr_machine *machine, int n_stages,
		  int64_t samples, int *stage_of, int *n_chosen, struct orr_error *err)
{
	int n_computing = orr_graph_n_computed(g), code;

	if (orr_graph_has_pins(g)) {
		if ((code = take_pins(g, stage_of, n_chosen, err)))
			return code;
		if (n_stages && n_stages != *n_chosen)
			return orr_fail(err, ORR_E_INPUT,
					"%s: its nodes are pinned to %d stages: leave [stages] "
					"out, or take the pins (stage=) out of the file",
					g->name, *n_chosen);
		return check_none_empty(g, stage_of, *n_chosen, err);
	}
	if (n_stages > n_computing)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %d stages from %d operators: give [stages] %d or fewer",
				g->name, n_stages, n_computing, n_computing);
	if (!n_stages && orr_operator_is_study(&g->operators[0]))
		n_stages = n_computing; /* a study: every operator is a stage */
	*n_chosen = n_stages;
	if ((code = orr_cut(g, machine, samples, n_stages, stage_of, n_chosen, err)))
		return code;
	return orr_number_stages(g, stage_of, *n_chosen, err);
}

static int partition(struct orr_pipeline **out, const struct orr_graph *g,
		     const struct orr_machine *machine, int n_stages, int64_t samples,
		     struct orr_error *err)
{
	int *stage_of = malloc((size_t)g->n_operators * sizeof(*stage_of));
	int n_chosen = 0, code;

	if (!stage_of)
		return orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d operators",
				g->n_operators);
	if ((code = orr_charge_check(g, machine, samples, err)) ||
	    (code = choose(g, machine, n_stages, samples, stage_of, &n_chosen, err))) {
		free(stage_of);
		return code;
	}
	return orr_stages_of(out, g, machine, stage_of, n_chosen, samples, err);
}

static int partition_as(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, const int *stage_of, int n_stages,
			int64_t samples, struct orr_error *err)
{
	size_t bytes = (size_t)g->n_operators * sizeof(*stage_of);
	int *copy = malloc(bytes), code;

	if (!copy)
		return orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d operators",
				g->n_operators);
	memcpy(copy, stage_of, bytes);
	orr_stages_place_inputs(g, copy);
	for (int i = 0; i < g->n_operators; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			if (copy[g->operators[i].inputs[k]] > copy[i]) {
				code = orr_fail(err, ORR_E_INPUT,
						"%s: stage %d reads %s of stage %d, and stages "
						"only feed later ones: move %s to a later stage",
						g->name, copy[i],
						g->operators[g->operators[i].inputs[k]].name,
						copy[g->operators[i].inputs[k]],
						g->operators[i].name);
				goto out;
			}
	if ((code = check_none_empty(g, copy, n_stages, err)) ||
	    (code = orr_charge_check(g, machine, samples, err)))
		goto out;
	return orr_stages_of(out, g, machine, copy, n_stages, samples, err);
out:
	free(copy);
	return code;
}

int orr_partition_widest(const struct orr_graph *g)
{
	int widest = 1;

	for (int i = 0; g->whole && i < g->n_operators; i++)
		widest = g->operators[i].shard >= widest ? g->operators[i].shard + 1 : widest;
	return widest;
}

/* The graph before the split is what is cut. */
int orr_partition(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int n_stages, int64_t samples,
		  struct orr_error *err)
{
	struct orr_machine groups = *machine;
	struct orr_pipeline *whole;
	int widest = orr_partition_widest(g), code;

	if (!g->whole)
		return partition(out, g, machine, n_stages, samples, err);
	groups.n_workers = (machine->n_workers + widest - 1) / widest;
	if ((code = orr_charge_check(g, machine, samples, err)) ||
	    (code = partition(&whole, g->whole, &groups, n_stages, samples, err)))
		return code;
	return orr_split_partition(out, g, machine, whole, samples, err);
}

int orr_partition_as(struct orr_pipeline **out, const struct orr_graph *g,
		     const struct orr_machine *machine, const int *stage_of, int n_stages,
		     int64_t samples, struct orr_error *err)
{
	struct orr_pipeline *whole;
	int code;

	if (!g->whole)
		return partition_as(out, g, machine, stage_of, n_stages, samples, err);
	if ((code = orr_charge_check(g, machine, samples, err)) ||
	    (code = partition_as(&whole, g->whole, machine, stage_of, n_stages, samples, err)))
		return code;
	return orr_split_partition(out, g, machine, whole, samples, err);
}

int orr_partition_check_latency(const struct orr_graph *g, const struct orr_machine *machine,
				bool units, struct orr_error *err)
{
	const struct orr_cluster *cluster = machine->cluster;

	if (!machine->latency_ns || (cluster ? cluster->units : units) == g->units)
		return 0;
	if (cluster)
		return orr_fail(err, ORR_E_INPUT,
				g->units ? "%s: its latencies have a unit, and the durations of %s "
					   "have none: give plain numbers, or [costs] 1ms,2ms"
					 : "%s: its latencies have no unit, and the durations of "
					   "%s have: say 5us",
				cluster->name, g->name);
	return orr_fail(err, ORR_E_INPUT,
			g->units ? "[latency] has a unit, and the durations of %s have none: give "
				   "a plain number, or [costs] 1ms,2ms"
				 : "[latency] has no unit, and the durations of %s have: say 5us",
			g->name);
}
