/* orrery plan: operator graph -> stages, workers and orders. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "plan/advice.h"
#include "command.h"
#include "options_read.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "report/html.h"
#include "pipeline/machine_text.h"
#include "output.h"
#include "pipeline/parameter_cost.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "order/periodic.h"
#include "orrery/plan.h"
#include "base/quantity.h"
#include "progress.h"
#include "report/untested.h"
#include "report/stages.h"
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

/* What the other commands take and a plan finds by itself. */
static int refuse_given(const struct options *a, struct orr_error *err)
{
	const struct {
		bool given;
		const char *option, *instead;
	} others[] = {
		{a->open.given.schedule, "--schedule",
		 "it finds the order itself: leave it out, and simulate the plan with another one"},
		{a->open.n_stages > 0, "--stages",
		 "it finds how many: leave it out, or pin them (stage=)"},
		{a->open.order != ORR_RUN_AS_SCHEDULED, "--order",
		 "give it to simulate or train with the plan"},
		{a->open.recompute, "--recompute", "give it to simulate or train with the plan"},
		{a->open.versions, a->open.versions, "give it to simulate or train with the plan"},
		{a->open.microbatch_costs, "--microbatch-costs",
		 "its stages are not known before: give --lengths, or give the file to simulate "
		 "with the plan"},
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (others[i].given)
			return orr_fail(err, ORR_E_INPUT, "%s is nothing for a plan: %s",
					others[i].option, others[i].instead);
	return 0;
}

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

/* Workers that differ: one level of them. */
/* *cluster: the caller's to destroy after *o. */
static int read_machine(struct orr_cluster **cluster, struct options *a, struct orr_plan_options *o,
			struct orr_error *err)
{
	int code;

	if (a->plan.free_activations)
		return orr_fail(err, ORR_E_INPUT,
				"--free-activations: the machine %s says that: change it there",
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

static const char *seconds(double s, const struct orr_graph *g)
{
	return orr_duration_text((int64_t)(s * 1e9 + 0.5), g->units);
}

static void print_stage(const struct orr_plan *plan, int s)
{
	const struct orr_graph *g = plan->graph;
	const struct orr_plan_cost *cost = &plan->costs[s];
	const char *first = NULL, *last = NULL;
	char workers[40];
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		if (plan->pipeline->stage_of[i] == s) {
			first = first ? first : g->operators[i].name;
			last = g->operators[i].name;
			n++;
		}
	orr_workers_print(workers, sizeof(workers), plan->workers + plan->first[s],
			  plan->replicas[s]);
	printf("%5d  %-9s %10s %13s %9s %11s  %4d: %s%s%s\n", s, workers,
	       seconds(cost->compute_s, g), seconds(cost->communication_s, g),
	       seconds(cost->link_s, g), orr_size_text(plan->pipeline->stages[s].parameter_bytes),
	       n, first ? first : "", n > 1 ? " .. " : "", n > 1 ? last : "");
}

static void print_world(const char *name, const struct orr_plan_world *world, bool chosen,
			bool units)
{
	if (!world->fits) {
		printf("  %-13s does not fit\n", name);
		return;
	}
	printf("  %-13s %d stage%s, step %s, at most %d stash%s and %s on a worker%s\n", name,
	       world->n_stages, world->n_stages == 1 ? "" : "s",
	       orr_duration_text(world->makespan_ns, units), world->peak_stash,
	       world->peak_stash == 1 ? "" : "es", orr_size_text(world->memory_bytes),
	       chosen ? "  <- chosen" : "");
}

static void print_advice(void *user, const char *line)
{
	bool *any = user;
	char text[512];

	(void)snprintf(text, sizeof(text), "%s", line);
	printf("%s  %s\n", *any ? "" : "\nWhat could be better:\n", command_name_options(text));
	*any = true;
}

/* A chain's plan can be run slower in less memory: each period at which its fullest worker holds
 * less. */
static int print_periods(const struct orr_plan *plan, struct orr_error *err)
{
	struct orr_star_point *points;
	int n, code = orr_plan_periods(plan, &points, &n, err);

	if (code || n < 2) {
		free(points);
		return code;
	}
	printf("\nThe least that 1F1B* holds if a microbatch comes every T (simulate and train "
	       "take it as 1f1b-star:T=..):\n");
	for (int i = 0, last = 0; i < n; i++) {
		if (i && points[i].in_flight == points[last].in_flight &&
		    points[i].stash_bytes >= points[last].stash_bytes)
			continue;
		last = i;
		printf("  T %-8s %d in flight, at most %s of stashes on a worker\n",
		       orr_duration_text(points[i].period_ns, plan->graph->units),
		       points[i].in_flight, orr_size_text(points[i].stash_bytes));
	}
	free(points);
	return 0;
}

static void print_untested(const struct orr_plan *plan)
{
	struct orr_untested untested[ORR_MOST_UNTESTED];
	int n = orr_untested_find(untested, plan->tried.jobs);
	char text[256];

	if (n)
		printf("\n%s\n", orr_untested_print(text, sizeof(text), untested, n));
}

/* The bound on every other placement. */
static void print_pieces(const struct orr_plan *plan)
{
	print_world("in pieces", &plan->worlds[ORR_WORLD_PIECES], plan->world == ORR_WORLD_PIECES,
		    plan->graph->units);
	if (plan->slowest.proven)
		printf("  No placement of these operators, one worker each, leaves the busiest "
		       "worker with less.\n");
	else if (plan->slowest.pieces_bound_s > 0)
		printf("  Whether another placement of these operators leaves the busiest worker "
		       "with less is not known; by computing alone, none leaves it with less than "
		       "%s.\n",
		       seconds(plan->slowest.pieces_bound_s, plan->graph));
}

/* Workers that have no job, and why. */
static void print_idle(const struct orr_plan *plan)
{
	int n_workers = plan->pipeline->n_workers, m = plan->pipeline->n_microbatches,
	    idle = n_workers, most = 0;

	for (int w = 0; w < n_workers; w++)
		idle -= plan->tried.jobs->first[w + 1] > plan->tried.jobs->first[w];
	for (int s = 0; s < plan->pipeline->n_stages; s++) {
		idle -= plan->replicas[s] > m ? plan->replicas[s] - m : 0;
		most = plan->replicas[s] > most ? plan->replicas[s] : most;
	}
	if (most > m)
		printf("%d microbatches are too few for %d replicas: -m %d gives each of them "
		       "one.\n",
		       m, most, most);
	if (idle)
		printf("%d of %d workers stay idle: %s.\n", idle, n_workers,
		       plan->options.by_makespan
			       ? "no plan that was tried has a shorter step with them"
		       : plan->slowest.fastest
			       ? "using them would not make the slowest stage faster"
			       : "no way to make the slowest stage faster with them was "
				 "found, but not every way was tried");
}

/* Why all of the model is on every worker, and what gives a pipeline. */
static void print_replicas(const struct orr_plan *plan)
{
	const struct orr_machine *m = &plan->pipeline->machine;
	int most = 1;

	for (int s = 0; s < plan->pipeline->n_stages; s++)
		most = plan->replicas[s] > most ? plan->replicas[s] : most;
	if (most > 1 && m->bandwidth_bytes_per_s <= 0 && !m->latency_ns && !m->cluster)
		printf("Links are free, so replicas cost nothing: --bandwidth=10GB/s, say, prices "
		       "their "
		       "all-reduce, and --straight gives a pipeline without any.\n");
}

/* Why there may be far more stages than workers. */
static void print_free_jobs(const struct orr_plan *plan)
{
	if (plan->pipeline->n_stages > plan->pipeline->n_workers && !plan->graph->units &&
	    !plan->pipeline->overhead_ns)
		printf("Starting a job costs nothing here, so neither do %d stages on %d workers: "
		       "overhead=\"100us\", say, on the graph prices every job (profile writes it)"
		       ".\n",
		       plan->pipeline->n_stages, plan->pipeline->n_workers);
}

static bool has_parameters(const struct orr_pipeline *p)
{
	for (int s = 0; s < p->n_stages; s++)
		if (p->stages[s].parameter_bytes)
			return true;
	return false;
}

/* How good the slowest stage is, and both ways of counting links, where they take time. */
static void print_least(const struct orr_plan *plan)
{
	printf("By the work alone, no plan with these options has less than %s a microbatch.\n",
	       orr_duration_text((int64_t)(plan->slowest.least_s * 1e9), plan->graph->units));
	if (plan->slowest.added_s <= plan->slowest.overlapped_s)
		return;
	printf("Links overlapped with computing, as simulated: %s a microbatch; added to it, as "
	       "older planners count: %s.\n",
	       seconds(plan->slowest.overlapped_s, plan->graph),
	       seconds(plan->slowest.added_s, plan->graph));
}

/* What a search on any workers knows of all placements. */
static void print_anywhere(const struct orr_plan *plan)
{
	if (!plan->sought.n_placements)
		return;
	printf("Placements, one worker an operator: %s%d tried",
	       plan->sought.all_placements ? "all that could be shorter, " : "",
	       plan->sought.n_placements);
	if (plan->sought.anywhere_ns)
		printf("; no placement, tried or not, has a step below %s",
		       orr_duration_text(plan->sought.anywhere_ns, plan->graph->units));
	printf(".\n");
}

static int print_text(const struct orr_plan *plan, struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	const struct orr_figures *f = plan->tried.figures;
	char profiled[32], cost[96];
	bool any = false;

	orr_machine_write(stdout, &plan->pipeline->machine, "machine ");
	if (g->profiled.hardware)
		printf("profiled %s\n",
		       orr_profiled_print(profiled, sizeof(profiled), &g->profiled));
	printf("stage  workers      compute communication      link  parameters  operators\n");
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		print_stage(plan, s);
	if (plan->pipeline->machine.bandwidth_bytes_per_s > 0)
		printf("communication: what comes on top of computing: the replicas' all-reduce, "
		       "and the busiest link where it is slower;\nlink: how long that link is "
		       "busy, the way that carries more. All per microbatch.\n");
	printf("\nSought: the %s.\n%s: %s a microbatch (times are shared by a stage's replicas); "
	       "one worker: %s, %.2f times that.\n",
	       plan->options.by_makespan ? "shortest step" : "best throughput",
	       plan->world == ORR_WORLD_PIECES ? "Busiest worker" : "Slowest stage",
	       seconds(plan->slowest_s, g), seconds(plan->one_worker_s, g),
	       plan->slowest_s > 0 ? plan->one_worker_s / plan->slowest_s : 1);
	printf("A step of %d microbatches: %s simulated; no order of these jobs on these workers "
	       "is below %s. In flight: %d.\n",
	       plan->pipeline->n_microbatches, orr_duration_text(f->makespan_ns, g->units),
	       orr_duration_text(f->lower_bound_ns, g->units), plan->in_flight);
	if (has_parameters(plan->pipeline))
		printf("Memory: %s.\n",
		       orr_parameter_cost_print(cost, sizeof(cost), &plan->options.numerics));
	print_least(plan);
	if (plan->sought.from_ns)
		printf("Searched: from %s, %.1f%% above the bound now, after %d restart%s.\n",
		       orr_duration_text(plan->sought.from_ns, g->units),
		       100 * ((double)f->makespan_ns / (double)f->lower_bound_ns - 1),
		       plan->sought.restarts, plan->sought.restarts == 1 ? "" : "s");
	print_anywhere(plan);
	print_idle(plan);
	print_free_jobs(plan);
	print_replicas(plan);
	if (plan->flattened)
		printf("Too many branches side by side: they were put one after the other to be "
		       "cut.\n");
	else if (plan->coarse)
		printf("Too many places to cut: the cheapest neighbours among the operators were "
		       "kept together.\n");
	printf("\n");
	if (plan->world != ORR_WORLD_PIECES || !plan->pinned) { /* else pins leave no choice */
		print_world("side by side", &plan->worlds[ORR_WORLD_DAG],
			    plan->world == ORR_WORLD_DAG, g->units);
		print_world("as a chain", &plan->worlds[ORR_WORLD_CHAIN],
			    plan->world == ORR_WORLD_CHAIN, g->units);
	}
	if (plan->worlds[ORR_WORLD_PIECES].n_stages)
		print_pieces(plan);
	print_untested(plan);
	if (print_periods(plan, err))
		return ORR_E_NOMEM;
	return orr_plan_advise(plan, print_advice, &any, err);
}

/* ---- splits ---- */

static bool split_is_said(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].split > 1)
			return true;
	return false;
}

static void print_tries(const struct orr_split_plan *plan)
{
	printf("\n%-40s %7s %7s %12s %10s\n", "split", "groups", "stages", "step", "memory");
	for (int i = 0; i < plan->n_tries; i++) {
		const struct orr_split_try *t = &plan->tries[i];

		printf("%-40s %7d %7d %12s %10s%s\n", t->splits, t->n_groups, t->n_stages,
		       orr_duration_text(t->makespan_ns, plan->plan->graph->units),
		       orr_size_text(t->memory_bytes),
		       strcmp(t->splits, plan->splits) ? "" : "  <- shortest");
	}
}

static void print_split(const struct orr_split_plan *plan)
{
	if (plan->graph)
		printf("\nSplit: %s. The workers above are %d group%s of the %d workers; on these "
		       "a "
		       "step takes %s.\n",
		       *plan->splits ? plan->splits : "as the file says", plan->n_groups,
		       plan->n_groups == 1 ? "" : "s", plan->pipeline->n_workers,
		       orr_duration_text(plan->tried.figures->makespan_ns, plan->graph->units));
	else
		printf("\nSplit: none is shorter.\n");
	if (plan->n_tries > 1)
		print_tries(plan);
}

/* ---- the result ---- */

static int write_page(const struct output_options *o, const struct orr_plan *plan, json_t *report,
		      struct orr_error *err)
{
	const struct orr_page page = {
		.command = "plan",
		.report = report,
		.timelines = (const struct orr_timeline *const[]){plan->tried.timeline},
		.names = (const char *const[]){"plan"},
		.n_timelines = 1,
	};

	return output_html(o, &page, err);
}

/* split: of a plan of groups, else NULL. */
static int write_plan(const struct options *a, const struct orr_plan *plan,
		      const struct orr_split_plan *split, struct orr_error *err)
{
	struct orr_untested untested[ORR_MOST_UNTESTED];
	int n = orr_untested_find(untested, plan->tried.jobs), code;
	/* a path that is no text cannot be named in JSON: the graph itself is in the plan then */
	bool embed = a->open.given.costs || strcmp(plan->graph->name, a->open.source);
	json_t *json =
		split ? orr_split_plan_json(split, embed, err) : orr_plan_json(plan, embed, err);

	if (!json)
		return ORR_E_NOMEM;
	if (!(code = orr_untested_report(json, untested, n, err)))
		code = output_file(a->out, output_write_json, json, err);
	if (!code)
		code = write_page(&a->output, plan, json, err);
	if (!code && a->output.json)
		return output_json(json, err);
	json_decref(json);
	return code;
}

static int make(struct orr_plan **plan, struct orr_split_plan **split, const struct options *a,
		struct orr_graph *graph, const struct orr_plan_options *o, struct orr_error *err)
{
	const char *text = a->open.splits;

	progress_doing("cutting into stages and placing them", NULL);
	if (text ? strcmp(text, "1") != 0 : split_is_said(graph))
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

	if ((code = refuse_given(&a, &err)) || (code = output_check_file("-o", a.out, &err)) ||
	    (code = output_check(&a.output, &err)) ||
	    (code = orr_graph_read(&graph, a.open.source, &err)) ||
	    (code = orr_open_lengths(graph, &a.open, &err)) ||
	    (code = read_options(&cluster, &a, graph, &plan_options, &err)) ||
	    (code = keep_samples(&a, graph, &plan_options, &err)) ||
	    (a.open.given.costs && (code = orr_graph_set_costs(graph, &a.open.costs, &err))) ||
	    (code = orr_partition_check_latency(graph, &a.open.machine, a.open.latency_units,
						&err)))
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
	if (!a.output.json && (code = print_text(split ? split->plan : plan, &err)))
		goto out;
	if (!a.output.json && split)
		print_split(split);
	code = write_plan(&a, split ? split->plan : plan, split, &err);
	end_interrupted();
out:
	orr_plan_destroy(plan);
	orr_split_plan_destroy(split);
	orr_graph_destroy(graph);
	orr_cluster_destroy(cluster);
	return command_end(code, &err);
}
