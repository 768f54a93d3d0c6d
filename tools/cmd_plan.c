/* orrery plan: operator graph -> stages, workers and orders. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "orrery/advice.h"
#include "command.h"
#include "options.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/html.h"
#include "orrery/machine_text.h"
#include "output.h"
#include "split.h"
#include "orrery/parameter_cost.h"
#include "orrery/partition.h"
#include "orrery/pipeline.h"
#include "orrery/periodic.h"
#include "orrery/plan.h"
#include "orrery/quantity.h"
#include "progress.h"
#include "orrery/untested.h"
#include "orrery/stages.h"
#include "work.h"

enum {
	KEY_STRAIGHT = 512,
	KEY_FREE,
	KEY_TRANSFERS,
	KEY_MAKESPAN,
	KEY_SEARCH,
	KEY_RESTARTS,
	KEY_CONTIGUOUS,
	KEY_PIECES,
	KEY_UNPIN,
	KEY_HTML
};

struct arguments {
	struct work_options work;
	const char *out;
	struct orr_cluster *cluster; /* owned; of --machine, or NULL */
	struct output_options output;
	bool straight, free_activations, added, by_makespan, contiguous, unpin, search;
	int restarts;    /* of the search, at least */
	int64_t seconds; /* and until so many have passed; 0: no more */
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Planning:", 4},
	{"straight", KEY_STRAIGHT, NULL, 0, "no replicas: one worker a stage", 4},
	{"free-activations", KEY_FREE, NULL, 0, "count parameters' traffic only", 4},
	{"transfers", KEY_TRANSFERS, "added", 0,
	 "how the time of links counts: overlapped with computing, as it is simulated (the "
	 "default), or added to it, as older planners do",
	 4},
	{"makespan", KEY_MAKESPAN, NULL, 0,
	 "of the plans that it tries, with fewer stages too, the one whose step of -m microbatches "
	 "is shortest, instead of the fastest slowest stage",
	 4},
	{"contiguous", KEY_CONTIGUOUS, NULL, 0,
	 "stages of neighbours alone, each on workers of its own; else also workers that have "
	 "several stages, where "
	 "that shares the work better",
	 4},
	{"pieces", KEY_PIECES, NULL, OPTION_HIDDEN, "", 4}, /* what is done anyway */
	{"unpin", KEY_UNPIN, NULL, 0, "cut anew, whatever stages the model's file pins (stage=)",
	 4},
	{"search", KEY_SEARCH, "SECONDS", OPTION_ARG_OPTIONAL,
	 "the shortest step that a search finds in this memory: cuts, workers and the order of the "
	 "jobs, with a split backward. Every run finds the same; with SECONDS it starts again from "
	 "other seeds until they have passed, so how often is left to the machine",
	 4},
	{"restarts", KEY_RESTARTS, "N", 0,
	 "start the search again from N other seeds: the same in every run, and never a longer "
	 "step",
	 4},
	{"html", KEY_HTML, "FILE", 0, "the plan and its simulated step as a page to look at", 6},
	{"output", 'o', "FILE.json", 0, "the plan, for simulate and train; - is standard output",
	 5},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		state->child_inputs[1] = &a->output;
		return 0;
	case KEY_STRAIGHT:
		a->straight = true;
		return 0;
	case KEY_FREE:
		a->free_activations = true;
		return 0;
	case KEY_TRANSFERS:
		a->added = !strcmp(arg, "added");
		if (!a->added && strcmp(arg, "overlapped") != 0)
			options_refuse("--transfers %s: overlapped or added is wanted", arg);
		return 0;
	case KEY_MAKESPAN:
		a->by_makespan = true;
		return 0;
	case KEY_CONTIGUOUS:
		a->contiguous = true;
		return 0;
	case KEY_PIECES:
		return 0;
	case KEY_UNPIN:
		a->unpin = true;
		return 0;
	case KEY_SEARCH:
		a->search = true;
		if (arg)
			a->seconds = options_count("--search", arg, 1, 1 << 20);
		return 0;
	case KEY_RESTARTS:
		a->search = true;
		a->restarts = (int)options_count("--restarts", arg, 0, 1 << 20);
		return 0;
	case KEY_HTML:
		a->output.html = arg;
		return 0;
	case 'o':
		a->out = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What the other commands take and a plan finds by itself. */
static int refuse_given(const struct arguments *a, struct orr_error *err)
{
	const struct {
		bool given;
		const char *option, *instead;
	} others[] = {
		{a->work.open.given.schedule, "--schedule",
		 "it finds the order itself: leave it out, and simulate the plan with another one"},
		{a->work.open.n_stages > 0, "--stages",
		 "it finds how many: leave it out, or pin them (stage=)"},
		{a->work.open.order != ORR_RUN_AS_SCHEDULED, "--order",
		 "give it to simulate or train with the plan"},
		{a->work.open.recompute, "--recompute",
		 "give it to simulate or train with the plan"},
		{a->work.open.versions, a->work.open.versions,
		 "give it to simulate or train with the plan"},
		{a->work.open.microbatch_costs, "--microbatch-costs",
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
static int keep_samples(const struct arguments *a, const struct orr_graph *g,
			struct orr_plan_options *o, struct orr_error *err)
{
	if (!g->samples || g->samples == o->samples)
		return orr_open_check_batch(&a->work.open, g, err);
	if (a->work.open.given.batch)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: measured with %lld samples in a microbatch, and --batch %d has %lld "
			"in each of %d: leave --batch out, or profile with the same --batch and -m",
			g->name, (long long)g->samples, a->work.open.batch, (long long)o->samples,
			o->n_microbatches);
	o->samples = g->samples;
	return 0;
}

/* Workers that differ: one level of them. */
static int read_machine(struct arguments *a, struct orr_plan_options *o, struct orr_error *err)
{
	int code;

	if (a->free_activations)
		return orr_fail(err, ORR_E_INPUT,
				"--free-activations: the machine %s says that: change it there",
				a->work.open.machine_file);
	if ((code = orr_open_machine(&a->cluster, &a->work.open.machine, &a->work.open, NULL, err)))
		return code;
	o->cluster = a->cluster;
	o->memory_bytes = a->work.open.machine.memory_bytes;
	o->levels = (struct orr_levels){.n = 1, .workers = {a->work.open.machine.n_workers}};
	return 0;
}

static int read_options(struct arguments *a, const struct orr_graph *g, struct orr_plan_options *o,
			struct orr_error *err)
{
	if (!a->work.open.n_microbatches)
		a->work.open.n_microbatches = g->n_lengths ? g->n_lengths : 8;
	*o = (struct orr_plan_options){
		.activations = !a->free_activations,
		.added = a->added,
		.straight = a->straight,
		.by_makespan = a->by_makespan || a->search,
		.pieces = !a->contiguous,
		.unpin = a->unpin,
		.levels = a->work.levels,
		.memory_bytes = a->work.open.machine.memory_bytes,
		.numerics = a->work.open.numerics,
		.n_microbatches = a->work.open.n_microbatches,
		.samples = orr_open_samples(&a->work.open),
		.flops_per_s = a->work.open.machine.flops_per_s,
	};
	if (a->work.open.machine_file)
		return read_machine(a, o, err);
	if (!a->work.workers)
		return orr_fail(err, ORR_E_INPUT,
				"no --workers: say how many, such as 4, or 4x2 for 2 groups of 4, "
				"or give a --machine");
	if (a->work.open.machine.n_workers > 4096)
		return orr_fail(err, ORR_E_INPUT, "--workers %s: at most 4096 are planned for",
				a->work.workers);
	if (o->levels.n == 1)
		o->levels.workers[0] = a->work.open.machine.n_workers;
	return 0;
}

static void print_stage(const struct orr_plan *plan, int s)
{
	const struct orr_graph *g = plan->graph;
	char compute[32], communication[32], link[32], size[32], workers[40];
	const char *first = NULL, *last = NULL;
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		if (plan->pipeline->stage_of[i] == s) {
			first = first ? first : g->operators[i].name;
			last = g->operators[i].name;
			n++;
		}
	orr_duration_print(compute, sizeof(compute),
			   (int64_t)(plan->costs[s].compute_s * 1e9 + 0.5), g->units);
	orr_duration_print(communication, sizeof(communication),
			   (int64_t)(plan->costs[s].communication_s * 1e9 + 0.5), g->units);
	orr_duration_print(link, sizeof(link), (int64_t)(plan->costs[s].link_s * 1e9 + 0.5),
			   g->units);
	orr_size_print(size, sizeof(size), plan->pipeline->stages[s].parameter_bytes);
	orr_workers_print(workers, sizeof(workers), plan->workers + plan->first[s],
			  plan->replicas[s]);
	printf("%5d  %-9s %10s %13s %9s %11s  %4d: %s%s%s\n", s, workers, compute, communication,
	       link, size, n, first ? first : "", n > 1 ? " .. " : "", n > 1 ? last : "");
}

static void print_world(const char *name, const struct orr_plan_world *world, bool chosen,
			bool units)
{
	char makespan[32], memory[32];

	if (!world->fits) {
		printf("  %-13s does not fit\n", name);
		return;
	}
	orr_duration_print(makespan, sizeof(makespan), world->makespan_ns, units);
	orr_size_print(memory, sizeof(memory), world->memory_bytes);
	printf("  %-13s %d stage%s, step %s, at most %d stash%s and %s on a worker%s\n", name,
	       world->n_stages, world->n_stages == 1 ? "" : "s", makespan, world->peak_stash,
	       world->peak_stash == 1 ? "" : "es", memory, chosen ? "  <- chosen" : "");
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
	char period[32], size[32];
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
		orr_duration_print(period, sizeof(period), points[i].period_ns, plan->graph->units);
		orr_size_print(size, sizeof(size), points[i].stash_bytes);
		printf("  T %-8s %d in flight, at most %s of stashes on a worker\n", period,
		       points[i].in_flight, size);
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
	char bound[32];

	print_world("in pieces", &plan->pieces, plan->in_pieces, plan->graph->units);
	orr_duration_print(bound, sizeof(bound), (int64_t)(plan->pieces_bound_s * 1e9 + 0.5),
			   plan->graph->units);
	if (plan->proven)
		printf("  No placement of these operators, one worker each, leaves the busiest "
		       "worker with less.\n");
	else if (plan->pieces_bound_s > 0)
		printf("  Whether another placement of these operators leaves the busiest worker "
		       "with less is not known; by computing alone, none leaves it with less than "
		       "%s.\n",
		       bound);
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
		       : plan->fastest ? "using them would not make the slowest stage faster"
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
	char least[32], overlapped[32], added[32];

	orr_duration_print(least, sizeof(least), (int64_t)(plan->least_s * 1e9),
			   plan->graph->units);
	printf("By the work alone, no plan with these options has less than %s a microbatch.\n",
	       least);
	if (plan->added_s <= plan->overlapped_s)
		return;
	orr_duration_print(overlapped, sizeof(overlapped),
			   (int64_t)(plan->overlapped_s * 1e9 + 0.5), plan->graph->units);
	orr_duration_print(added, sizeof(added), (int64_t)(plan->added_s * 1e9 + 0.5),
			   plan->graph->units);
	printf("Links overlapped with computing, as simulated: %s a microbatch; added to it, as "
	       "older planners count: %s.\n",
	       overlapped, added);
}

/* What a search on any workers knows of all placements. */
static void print_anywhere(const struct orr_plan *plan)
{
	char bound[32];

	if (!plan->n_placements)
		return;
	printf("Placements, one worker an operator: %s%d tried",
	       plan->all_placements ? "all that could be shorter, " : "", plan->n_placements);
	orr_duration_print(bound, sizeof(bound), plan->anywhere_ns, plan->graph->units);
	if (plan->anywhere_ns)
		printf("; no placement, tried or not, has a step below %s", bound);
	printf(".\n");
}

static int print_text(const struct orr_plan *plan, struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	char slowest[32], one[32], makespan[32], bound[32], cost[96];
	bool any = false;

	orr_machine_write(stdout, &plan->pipeline->machine, "machine ");
	if (g->profiled.hardware)
		printf("profiled %s\n", orr_profiled_print(one, sizeof(one), &g->profiled));
	printf("stage  workers      compute communication      link  parameters  operators\n");
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		print_stage(plan, s);
	if (plan->pipeline->machine.bandwidth_bytes_per_s > 0)
		printf("communication: what comes on top of computing: the replicas' all-reduce, "
		       "and the busiest link where it is slower;\nlink: how long that link is "
		       "busy, the way that carries more. All per microbatch.\n");
	orr_duration_print(slowest, sizeof(slowest), (int64_t)(plan->slowest_s * 1e9 + 0.5),
			   g->units);
	orr_duration_print(one, sizeof(one), (int64_t)(plan->one_worker_s * 1e9 + 0.5), g->units);
	orr_duration_print(makespan, sizeof(makespan), plan->tried.figures->makespan_ns, g->units);
	orr_duration_print(bound, sizeof(bound), plan->tried.figures->lower_bound_ns, g->units);
	printf("\nSought: the %s.\n%s: %s a microbatch (times are shared by a stage's replicas); "
	       "one worker: %s, %.2f times that.\n",
	       plan->options.by_makespan ? "shortest step" : "best throughput",
	       plan->in_pieces ? "Busiest worker" : "Slowest stage", slowest, one,
	       plan->slowest_s > 0 ? plan->one_worker_s / plan->slowest_s : 1);
	printf("A step of %d microbatches: %s simulated; no order of these jobs on these workers "
	       "is below %s. In flight: %d.\n",
	       plan->pipeline->n_microbatches, makespan, bound, plan->in_flight);
	if (has_parameters(plan->pipeline))
		printf("Memory: %s.\n",
		       orr_parameter_cost_print(cost, sizeof(cost), &plan->options.numerics));
	print_least(plan);
	if (plan->searched_from_ns) {
		orr_duration_print(one, sizeof(one), plan->searched_from_ns, g->units);
		printf("Searched: from %s, %.1f%% above the bound now, after %d restart%s.\n", one,
		       100 * ((double)plan->tried.figures->makespan_ns /
				      (double)plan->tried.figures->lower_bound_ns -
			      1),
		       plan->restarts, plan->restarts == 1 ? "" : "s");
	}
	print_anywhere(plan);
	print_idle(plan);
	print_replicas(plan);
	if (plan->flattened)
		printf("Too many branches side by side: they were put one after the other to be "
		       "cut.\n");
	else if (plan->coarse)
		printf("Too many places to cut: the cheapest neighbours among the operators were "
		       "kept together.\n");
	printf("\n");
	if (!plan->in_pieces || !plan->pinned) { /* else pins leave no choice */
		print_world("side by side", &plan->dag, !plan->in_pieces && plan->side_by_side,
			    g->units);
		print_world("as a chain", &plan->chain, !plan->in_pieces && !plan->side_by_side,
			    g->units);
	}
	if (plan->pieces.n_stages)
		print_pieces(plan);
	print_untested(plan);
	if (print_periods(plan, err))
		return ORR_E_NOMEM;
	return orr_plan_advise(plan, print_advice, &any, err);
}

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
static int write_plan(const struct arguments *a, const struct orr_plan *plan,
		      const struct orr_split_plan *split, struct orr_error *err)
{
	struct orr_untested untested[ORR_MOST_UNTESTED];
	int n = orr_untested_find(untested, plan->tried.jobs), code;
	/* a path that is no text cannot be named in JSON: the graph itself is in the plan then */
	bool embed = a->work.open.given.costs || strcmp(plan->graph->name, a->work.open.source);
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

static int make(struct orr_plan **plan, struct orr_split_plan **split, const struct arguments *a,
		struct orr_graph *graph, const struct orr_plan_options *o, struct orr_error *err)
{
	const char *text = a->work.open.splits;

	progress_doing("cutting into stages and placing them", NULL);
	if (text ? strcmp(text, "1") != 0 : split_is_said(graph))
		return orr_split_plan_create(split, graph, text, o, err);
	return orr_plan_create(plan, graph, o, err);
}

int cmd_plan(int argc, char **argv)
{
	const struct argp shared = work_argp_without(
		"schedule stages order recompute sync accumulate microbatch-costs ");
	const struct argp_child children[] = {
		{&shared, 0, NULL, 0}, {&output_json_argp, 0, NULL, 0}, {0}};
	const struct argp argp = {
		options,
		parse,
		"GRAPH",
		"Cut a model with costs into stages, give them workers and order their jobs.",
		children,
		NULL,
		NULL};
	struct arguments a = {.work = work_options_default()};
	struct orr_plan_options plan_options;
	struct orr_graph *graph = NULL;
	struct orr_plan *plan = NULL;
	struct orr_split_plan *split = NULL;
	struct orr_error err = {""};
	int code;

	options_parse(&argp, argc, argv, &a);
	if ((code = refuse_given(&a, &err)) || (code = output_check_file("-o", a.out, &err)) ||
	    (code = output_check(&a.output, &err)) ||
	    (code = orr_graph_read(&graph, a.work.open.source, &err)) ||
	    (code = orr_open_lengths(graph, &a.work.open, &err)) ||
	    (code = read_options(&a, graph, &plan_options, &err)) ||
	    (code = keep_samples(&a, graph, &plan_options, &err)) ||
	    (a.work.open.given.costs &&
	     (code = orr_graph_set_costs(graph, &a.work.open.costs, &err))) ||
	    (code = orr_partition_check_latency(graph, &a.work.open.machine,
						a.work.open.latency_units, &err)))
		goto out;
	orr_graph_set_precision(graph, a.work.open.numerics.precision);
	if ((code = make(&plan, &split, &a, graph, &plan_options, &err)))
		goto out;
	work_tell_profiled(graph, graph->profiled.hardware, a.work.open.numerics.precision);
	if (a.search && split) {
		code = orr_fail(&err, ORR_E_INPUT,
				"--search and --restarts do not look at splits: leave them or "
				"--split out");
		goto out;
	}
	if (a.search) {
		plan->options.observer = progress_search(graph->units);
		code = orr_plan_search(plan, a.restarts, a.seconds, &err);
		progress_search_end();
		if (code)
			goto out;
	}
	if (!a.output.json && (code = print_text(split ? split->plan : plan, &err)))
		goto out;
	if (!a.output.json && split)
		split_print(split);
	code = write_plan(&a, split ? split->plan : plan, split, &err);
out:
	orr_plan_destroy(plan);
	orr_split_plan_destroy(split);
	orr_graph_destroy(graph);
	orr_cluster_destroy(a.cluster);
	return command_end(code, &err);
}
