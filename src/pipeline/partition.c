#include "partition.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "cut.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "numbering.h"
#include "charge.h"
#include "stages_of.h"

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
			return orr_fail(err, ORR_E_INPUT,
					"%s:%d: node %s: no stage, and other nodes have one: pin "
					"all (stage=0) or none",
					g->name, o->line, o->name);
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
		return orr_no_memory(err, "partition");
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

/* *n_stages: as many as are asked for, 0: any; becomes the number that there are. */
static int choose(const struct orr_graph *g, const struct orr_machine *machine, int *n_stages,
		  int64_t samples, int *stage_of, struct orr_error *err)
{
	int n_computing = orr_graph_n_computed(g), wanted = *n_stages, code;

	if (orr_graph_has_pins(g)) {
		if ((code = take_pins(g, stage_of, n_stages, err)))
			return code;
		if (wanted && wanted != *n_stages)
			return orr_fail(err, ORR_E_INPUT,
					"%s: its nodes are pinned to %d stages: leave [stages] "
					"out, or take the pins (stage=) out of the file",
					g->name, *n_stages);
		return check_none_empty(g, stage_of, *n_stages, err);
	}
	if (wanted > n_computing)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %d stages from %d operators: give [stages] %d or fewer",
				g->name, wanted, n_computing, n_computing);
	if (!wanted && orr_graph_is_study(g))
		*n_stages = n_computing; /* a study: every operator is a stage */
	if ((code = orr_cut(g, machine, samples, *n_stages, stage_of, n_stages, err)))
		return code;
	return orr_number_stages(g, stage_of, *n_stages, err);
}

/* The stages that are given: inputs are with their readers. */
static int take(const struct orr_graph *g, const int *given, int n_stages, int *stage_of,
		struct orr_error *err)
{
	memcpy(stage_of, given, (size_t)g->n_operators * sizeof(*given));
	orr_stages_place_inputs(g, stage_of);
	for (int i = 0; i < g->n_operators; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int x = g->operators[i].inputs[k];

			if (stage_of[x] > stage_of[i])
				return orr_fail(err, ORR_E_INPUT,
						"%s: stage %d reads %s of stage %d, and stages "
						"only feed later ones: move %s to a later stage",
						g->name, stage_of[i], g->operators[x].name,
						stage_of[x], g->operators[i].name);
		}
	return check_none_empty(g, stage_of, n_stages, err);
}

/* given: the stage of every operator; NULL: it is chosen. */
static int partition(struct orr_pipeline **out, const struct orr_graph *g,
		     const struct orr_machine *machine, const int *given, int n_stages,
		     int64_t samples, struct orr_error *err)
{
	int *stage_of = malloc((size_t)g->n_operators * sizeof(*stage_of)), code;

	if (!stage_of)
		return orr_no_memory(err, g->name);
	if ((given && (code = take(g, given, n_stages, stage_of, err))) ||
	    (code = orr_charge_check(g, machine, samples, err)) ||
	    (!given && (code = choose(g, machine, &n_stages, samples, stage_of, err)))) {
		free(stage_of);
		return code;
	}
	return orr_stages_of(out, g, machine, stage_of, n_stages, samples, err);
}

/* Of a graph that was split the one before is cut, for a machine of groups. */
static int partition_whole(struct orr_pipeline **out, const struct orr_graph *g,
			   const struct orr_machine *machine, const struct orr_machine *groups,
			   const int *given, int n_stages, int64_t samples, struct orr_error *err)
{
	struct orr_pipeline *whole;
	int code;

	if (!g->whole)
		return partition(out, g, machine, given, n_stages, samples, err);
	if ((code = orr_charge_check(g, machine, samples, err)) ||
	    (code = partition(&whole, g->whole, groups, given, n_stages, samples, err)))
		return code;
	return orr_split_partition(out, g, machine, whole, samples, err);
}

int orr_partition_widest(const struct orr_graph *g)
{
	int widest = 1;

	for (int i = 0; g->whole && i < g->n_operators; i++)
		widest = g->operators[i].shard >= widest ? g->operators[i].shard + 1 : widest;
	return widest;
}

int orr_partition(struct orr_pipeline **out, const struct orr_graph *g,
		  const struct orr_machine *machine, int n_stages, int64_t samples,
		  struct orr_error *err)
{
	struct orr_machine groups = *machine;
	int widest = orr_partition_widest(g);

	groups.n_workers = (machine->n_workers + widest - 1) / widest;
	return partition_whole(out, g, machine, &groups, NULL, n_stages, samples, err);
}

int orr_partition_as(struct orr_pipeline **out, const struct orr_graph *g,
		     const struct orr_machine *machine, const int *stage_of, int n_stages,
		     int64_t samples, struct orr_error *err)
{
	return partition_whole(out, g, machine, machine, stage_of, n_stages, samples, err);
}

int orr_partition_apart(struct orr_pipeline **out, const struct orr_graph *g,
			const struct orr_machine *machine, int64_t samples, struct orr_error *err)
{
	const struct orr_graph *whole = orr_graph_whole(g);
	int *stage_of = malloc((size_t)whole->n_operators * sizeof(*stage_of)), n = 0, code;

	if (!stage_of)
		return orr_no_memory(err, g->name);
	for (int i = 0; i < whole->n_operators; i++)
		stage_of[i] = orr_operator_is_input(&whole->operators[i]) ? -1 : n++;
	code = orr_partition_as(out, g, machine, stage_of, n, samples, err);
	free(stage_of);
	return code;
}

int orr_partition_check_times(const struct orr_graph *g, const struct orr_machine *machine,
			      bool units, struct orr_error *err)
{
	const struct orr_cluster *cluster = machine->cluster;

	if (!(machine->latency_ns || machine->host.latency_ns || orr_machine_overhead(machine)) ||
	    (cluster ? cluster->units : units) == g->units)
		return 0;
	if (cluster)
		return orr_fail(err, ORR_E_INPUT,
				g->units ? "%s: its times have a unit, and the durations of %s "
					   "have none: give plain numbers, or [costs] 1ms,2ms"
					 : "%s: its times have no unit, and the durations of "
					   "%s have: say 5us",
				cluster->name, g->name);
	return orr_fail(err, ORR_E_INPUT,
			g->units ? "[latency] has a unit, and the durations of %s have none: give "
				   "a plain number, or [costs] 1ms,2ms"
				 : "[latency] has no unit, and the durations of %s have: say 5us",
			g->name);
}
