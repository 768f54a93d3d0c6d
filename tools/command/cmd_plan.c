/* orrery plan: operator graph -> stages, workers and orders. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "orrery/graph.h"
#include "report/html.h"
#include "report/report.h"
#include "output.h"
#include "pipeline/partition.h"
#include "orrery/plan.h"
#include "progress.h"
#include "work.h"

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t found, asked; /* is there a plan? the signal that asks for it */

/* Without a plan, and the second time, as if nothing had caught it. */
static void ask_to_stop(int number)
{
	if (!found || asked) {
		signal(number, SIG_DFL);
		raise(number);
	}
	asked = number;
}

static bool is_enough(void)
{
	found = true;
	return asked;
}

static void catch_interrupt(void)
{
	struct sigaction mine = {.sa_handler = ask_to_stop, .sa_flags = SA_RESTART}, old;

	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &mine, NULL);
}

/* All is written: the process ends as the signal wants. */
static void end_interrupted(void)
{
	if (!asked)
		return;
	(void)command_flush(0);
	command_say("interrupted: the best of the plans that were tried by then");
	signal(asked, SIG_DFL);
	raise(asked);
}

/* ---- options ---- */

/* Costs hold for microbatches of this number of samples. */
static int keep_samples(const struct options *a, const struct orr_graph *g,
			struct orr_plan_options *o, struct orr_error *err)
{
	if (!g->samples || g->samples == o->samples)
		return orr_open_check_batch(&a->open, g, err);
	if (a->open.given.batch)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: measured with %lld samples in a microbatch, and --batch %d has %lld "
			"in each of %d: leave --batch out, or profile with the same --batch and -m",
			g->name, (long long)g->samples, a->open.batch, (long long)o->samples,
			o->n_microbatches);
	o->samples = g->samples;
	return 0;
}

/* *cluster: the caller's to destroy after *o. */
static int read_machine(struct orr_cluster **cluster, struct options *a, struct orr_plan_options *o,
			struct orr_error *err)
{
	int code;

	if (a->plan.free_activations)
		return orr_fail(err, ORR_E_INPUT,
				"--free-activations: the links of %s carry them: leave the option "
				"out, or take faster links",
				a->open.machine_file);
	if ((code = orr_open_machine(cluster, &a->open.machine, &a->open, NULL, err)))
		return code;
	o->cluster = *cluster;
	o->memory_bytes = a->open.machine.memory_bytes;
	o->levels = (struct orr_levels){.n = 1, .workers = {a->open.machine.n_workers}};
	return 0;
}

static int read_options(struct orr_cluster **cluster, struct options *a, const struct orr_graph *g,
			struct orr_plan_options *o, struct orr_error *err)
{
	if (!a->open.n_microbatches)
		a->open.n_microbatches = g->n_lengths ? g->n_lengths : 8;
	*o = (struct orr_plan_options){
		.activations = !a->plan.free_activations,
		.added = a->plan.added,
		.straight = a->plan.straight,
		.by_makespan = a->plan.makespan || a->plan.search,
		.pieces = !a->plan.contiguous,
		.unpin = a->plan.unpin,
		.levels = a->machine.levels,
		.memory_bytes = a->open.machine.memory_bytes,
		.numerics = a->open.numerics,
		.n_microbatches = a->open.n_microbatches,
		.samples = orr_open_samples(&a->open),
		.flops_per_s = a->open.machine.flops_per_s,
		.enough = is_enough,
	};
	if (a->open.machine_file)
		return read_machine(cluster, a, o, err);
	if (!a->machine.workers)
		return orr_fail(err, ORR_E_INPUT,
				"no --workers: say how many, such as 4, or 4x2 for 2 groups of 4, "
				"or give a --machine");
	if (a->open.machine.n_workers > 4096)
		return orr_fail(err, ORR_E_INPUT, "--workers %s: at most 4096 are planned for",
				a->machine.workers);
	if (o->levels.n == 1)
		o->levels.workers[0] = a->open.machine.n_workers;
	return 0;
}

/* ---- the result ---- */

/* split: of a plan of groups, else NULL. */
static int write_plan(const struct options *a, const struct orr_plan *plan,
		      const struct orr_split_plan *split, struct orr_error *err)
{
	/* a path that is no text cannot be named in JSON: the graph itself is in the plan then */
	bool embed = a->open.given.costs || strcmp(plan->graph->name, a->open.source);
	json_t *json = orr_planned_json(plan, split, embed, command_name_options, err);
	const struct orr_page page = {
		.command = "plan",
		.report = json,
		.timelines = (const struct orr_timeline *const[]){plan->tried.timeline},
		.names = (const char *const[]){"plan"},
		.n_timelines = 1,
	};
	int code;

	if (!json)
		return ORR_E_NOMEM;
	if (!(code = output_write_json(a->out, json, err)))
		code = output_html(&a->output, &page, err);
	if (!code && a->output.json)
		return output_json(json, err);
	json_decref(json);
	return code;
}

static int make(struct orr_plan **plan, struct orr_split_plan **split, const struct options *a,
		struct orr_graph *graph, const struct orr_plan_options *o, struct orr_error *err)
{
	const char *text = a->open.splits;
	bool splits = text && strcmp(text, "1") != 0;

	for (int i = 0; i < graph->n_operators && !text; i++)
		splits = splits || graph->operators[i].split > 1;
	progress_doing("cutting into stages and placing them", NULL);
	if (splits)
		return orr_split_plan_create(split, graph, text, o, err);
	return orr_plan_create(plan, graph, o, err);
}

int cmd_plan(int argc, char **argv)
{
	struct options a = options_read(
		VERB_PLAN, "GRAPH",
		"Cut a model with costs into stages, give them workers and order their jobs.", argc,
		argv);
	struct orr_plan_options plan_options;
	struct orr_cluster *cluster = NULL; /* of --machine */
	struct orr_graph *graph = NULL;
	struct orr_plan *plan = NULL;
	struct orr_split_plan *split = NULL;
	struct orr_error err = {""};
	int code;

	if ((code = output_check_file("-o", a.out, &err)) ||
	    (code = output_check(&a.output, &err)) ||
	    (code = orr_graph_read(&graph, a.open.source, &err)) ||
	    (code = orr_open_lengths(graph, &a.open, &err)) ||
	    (code = read_options(&cluster, &a, graph, &plan_options, &err)) ||
	    (code = keep_samples(&a, graph, &plan_options, &err)) ||
	    (a.open.given.costs && (code = orr_graph_set_costs(graph, &a.open.costs, &err))) ||
	    (code = orr_partition_check_times(graph, &a.open.machine, a.open.latency_units, &err)))
		goto out;
	orr_graph_set_precision(graph, a.open.numerics.precision);
	catch_interrupt();
	if ((code = make(&plan, &split, &a, graph, &plan_options, &err)))
		goto out;
	found = false; /* from here on nothing catches it */
	work_tell_profiled(graph, graph->profiled.hardware, a.open.numerics.precision);
	if (a.plan.search && split) {
		code = orr_fail(&err, ORR_E_INPUT,
				"--search and --restarts do not look at splits: leave them or "
				"--split out");
		goto out;
	}
	if (a.plan.search && !asked) {
		plan->options.observer = progress_search(graph->units);
		code = orr_plan_search(plan, a.plan.restarts, a.plan.seconds, &err);
		progress_search_end();
		if (code)
			goto out;
	}
	if (!a.output.json && (code = orr_planned_write(stdout, split ? split->plan : plan, split,
							command_name_options, &err)))
		goto out;
	code = write_plan(&a, split ? split->plan : plan, split, &err);
	end_interrupted();
out:
	orr_plan_destroy(plan);
	orr_split_plan_destroy(split);
	orr_graph_destroy(graph);
	orr_cluster_destroy(cluster);
	return command_end(code, &err);
}
