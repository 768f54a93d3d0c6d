#include "report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/max.h"
#include "base/quantity.h"
#include "order/periodic.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "pipeline/machine_text.h"
#include "pipeline/parameter_cost.h"
#include "plan/advice.h"
#include "stages.h"
#include "untested.h"

struct writer {
	FILE *file;
	const struct orr_plan *plan;
	char *(*name_options)(char *line);
	bool advised;
	json_t *advice; /* of JSON */
};

static const char *span(const struct writer *w, int64_t ns)
{
	return orr_duration_text(ns, w->plan->graph->units);
}

static const char *seconds(const struct writer *w, double s)
{
	return span(w, (int64_t)(s * 1e9 + 0.5));
}

/* A line, which may name quantities; no names of a model. */
__attribute__((format(printf, 2, 3))) static void say(const struct writer *w, const char *format,
						      ...)
{
	char text[640];
	va_list values;

	va_start(values, format);
	(void)vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	(void)fputs(w->name_options(text), w->file);
}

static void write_stage(const struct writer *w, int s)
{
	const struct orr_plan *plan = w->plan;
	const struct orr_graph *g = plan->graph;
	const struct orr_plan_cost *cost = &plan->costs[s];
	const char *first = "", *last = "";
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		if (plan->pipeline->stage_of[i] == s) {
			last = g->operators[i].name;
			first = n++ ? first : last;
		}
	fprintf(w->file, "%5d  %-9s %10s %13s %9s %11s  %4d: %s%s%s\n", s,
		orr_workers_text(40, plan->workers + plan->first[s], plan->replicas[s]),
		seconds(w, cost->compute_s), seconds(w, cost->communication_s),
		seconds(w, cost->link_s), orr_size_text(plan->pipeline->stages[s].parameter_bytes),
		n, first, n > 1 ? " .. " : "", n > 1 ? last : "");
}

static void write_stages(const struct writer *w)
{
	const struct orr_pipeline *p = w->plan->pipeline;
	const struct orr_profiled *profiled = &w->plan->graph->profiled;

	orr_machine_write(w->file, &p->machine, "machine ");
	if (profiled->hardware)
		say(w, "profiled %s\n", orr_profiled_text(profiled));
	say(w, "stage  workers      compute communication      link  parameters  operators\n");
	for (int s = 0; s < p->n_stages; s++)
		write_stage(w, s);
	if (p->machine.bandwidth_bytes_per_s > 0)
		say(w, "communication: what comes on top of computing: the replicas' all-reduce, "
		       "and the busiest link where it is slower;\nlink: how long that link is "
		       "busy, the way that carries more. All per microbatch.\n");
}

/* How good the slowest stage is, and both ways of counting links, where they take time. */
static void write_least(const struct writer *w)
{
	const struct orr_plan_slowest *slowest = &w->plan->slowest;

	say(w, "By the work alone, no plan with these options has less than %s a microbatch.\n",
	    span(w, (int64_t)(slowest->least_s * 1e9)));
	if (slowest->added_s > slowest->overlapped_s)
		say(w,
		    "Links overlapped with computing, as simulated: %s a microbatch; added to it, "
		    "as older planners count: %s.\n",
		    seconds(w, slowest->overlapped_s), seconds(w, slowest->added_s));
}

/* What a search knows: of the orders and, on any workers, of all placements. */
static void write_sought(const struct writer *w)
{
	const struct orr_plan_sought *sought = &w->plan->sought;
	const struct orr_figures *f = w->plan->tried.figures;

	if (sought->from_ns)
		say(w, "Searched: from %s, %.1f%% above the bound now, after %s.\n",
		    span(w, sought->from_ns),
		    100 * ((double)f->makespan_ns / (double)f->lower_bound_ns - 1),
		    orr_count_text(sought->restarts, "restart"));
	if (!sought->n_placements)
		return;
	say(w, "Placements, one worker an operator: %s%d tried",
	    sought->all_placements ? "all that could be shorter, " : "", sought->n_placements);
	if (sought->anywhere_ns)
		say(w, "; no placement, tried or not, has a step below %s",
		    span(w, sought->anywhere_ns));
	say(w, ".\n");
}

/* Workers that have no job, and why. */
static void write_idle(const struct writer *w)
{
	const struct orr_plan *plan = w->plan;
	int n_workers = plan->pipeline->n_workers, m = plan->pipeline->n_microbatches,
	    idle = n_workers, most = 1; /* replicas of a stage */

	for (int k = 0; k < n_workers; k++)
		idle -= plan->tried.jobs->first[k + 1] > plan->tried.jobs->first[k];
	for (int s = 0; s < plan->pipeline->n_stages; s++) {
		most = (int)larger(most, plan->replicas[s]);
		idle -= (int)larger(plan->replicas[s] - m, 0);
	}
	if (most > m)
		say(w,
		    "%d microbatches are too few for %d replicas: [microbatches] %d gives each of "
		    "them one.\n",
		    m, most, most);
	if (idle)
		say(w, "%d of %d workers stay idle: %s.\n", idle, n_workers,
		    plan->options.by_makespan
			    ? "no plan that was tried has a shorter step with them"
		    : plan->slowest.fastest ? "using them would not make the slowest stage faster"
					    : "no way to make the slowest stage faster with them "
					      "was found, but not every way was tried");
}

/* What of the graph was not looked at. */
static void write_coarse(const struct writer *w)
{
	if (w->plan->flattened)
		say(w, "Too many branches side by side: they were put one after the other to be "
		       "cut.\n");
	else if (w->plan->coarse)
		say(w, "Too many places to cut: the cheapest neighbours among the operators were "
		       "kept together.\n");
}

/* The plan beside its bounds. */
static void write_step(const struct writer *w)
{
	const struct orr_plan *plan = w->plan;
	const struct orr_pipeline *p = plan->pipeline;
	const struct orr_figures *f = plan->tried.figures;
	bool any = false;

	for (int s = 0; s < p->n_stages; s++)
		any = any || p->stages[s].parameter_bytes;
	say(w,
	    "\nSought: the %s.\n%s: %s a microbatch (times are shared by a stage's replicas); one "
	    "worker: %s, %.2f times that.\n",
	    plan->options.by_makespan ? "shortest step" : "best throughput",
	    plan->world == ORR_WORLD_PIECES ? "Busiest worker" : "Slowest stage",
	    seconds(w, plan->slowest_s), seconds(w, plan->one_worker_s),
	    plan->slowest_s > 0 ? plan->one_worker_s / plan->slowest_s : 1);
	say(w,
	    "A step of %d microbatches: %s simulated; no order of these jobs on these workers is "
	    "below %s. In flight: %d.\n",
	    p->n_microbatches, span(w, f->makespan_ns), span(w, f->lower_bound_ns),
	    plan->in_flight);
	if (any)
		say(w, "Memory: %s.\n", orr_parameter_cost_text(&plan->options.numerics));
	write_least(w);
	write_sought(w);
}

static void write_world(const struct writer *w, const char *name, enum orr_world which)
{
	const struct orr_plan_world *world = &w->plan->worlds[which];

	if (!world->fits)
		say(w, "  %-13s does not fit\n", name);
	else
		say(w, "  %-13s %s, step %s, at most %s and %s on a worker%s\n", name,
		    orr_count_text(world->n_stages, "stage"), span(w, world->makespan_ns),
		    orr_count_text(world->peak_stash, "stash"), orr_size_text(world->memory_bytes),
		    which == w->plan->world ? "  <- chosen" : "");
}

/* With the bound on every other placement. */
static void write_worlds(const struct writer *w)
{
	const struct orr_plan *plan = w->plan;

	say(w, "\n");
	if (plan->world != ORR_WORLD_PIECES || !plan->pinned) { /* else pins leave no choice */
		write_world(w, "side by side", ORR_WORLD_DAG);
		write_world(w, "as a chain", ORR_WORLD_CHAIN);
	}
	if (!plan->worlds[ORR_WORLD_PIECES].n_stages)
		return;
	write_world(w, "in pieces", ORR_WORLD_PIECES);
	if (plan->slowest.proven)
		say(w, "  No placement of these operators, one worker each, leaves the busiest "
		       "worker with less.\n");
	else if (plan->slowest.pieces_bound_s > 0)
		say(w,
		    "  Whether another placement of these operators leaves the busiest worker with "
		    "less is not known; by computing alone, none leaves it with less than %s.\n",
		    seconds(w, plan->slowest.pieces_bound_s));
}

/* A chain's plan can be run slower in less memory: each period at which its fullest worker holds
 * less. */
static int write_periods(const struct writer *w, struct orr_error *err)
{
	struct orr_star_point *points;
	int n, code = orr_plan_periods(w->plan, &points, &n, err);

	if (code || n < 2)
		goto out;
	say(w, "\nThe least that 1F1B* holds if a microbatch comes every T (simulate and train "
	       "take it as 1f1b-star:T=..):\n");
	for (int i = 0, last = 0; i < n; i++) {
		if (i && points[i].in_flight == points[last].in_flight &&
		    points[i].stash_bytes >= points[last].stash_bytes)
			continue;
		last = i;
		say(w, "  T %-8s %d in flight, at most %s of stashes on a worker\n",
		    span(w, points[i].period_ns), points[i].in_flight,
		    orr_size_text(points[i].stash_bytes));
	}
out:
	free(points);
	return code;
}

static void write_advice(void *writer, const char *line)
{
	struct writer *w = writer;

	say(w, "%s  %.511s\n", w->advised ? "" : "\nWhat could be better:\n", line);
	w->advised = true;
}

static void write_split(const struct writer *w, const struct orr_split_plan *split)
{
	if (split->graph)
		fprintf(w->file,
			"\nSplit: %s. The workers above are %s of the %d workers; on these a step "
			"takes %s.\n",
			*split->splits ? split->splits : "as the file says",
			orr_count_text(split->n_groups, "group"), split->pipeline->n_workers,
			span(w, split->tried.figures->makespan_ns));
	else
		fprintf(w->file, "\nSplit: none is shorter.\n");
	if (split->n_tries < 2)
		return;
	fprintf(w->file, "\n%-40s %7s %7s %12s %10s\n", "split", "groups", "stages", "step",
		"memory");
	for (const struct orr_split_try *t = split->tries; t < split->tries + split->n_tries; t++)
		fprintf(w->file, "%-40s %7d %7d %12s %10s%s\n", t->splits, t->n_groups, t->n_stages,
			span(w, t->makespan_ns), orr_size_text(t->memory_bytes),
			strcmp(t->splits, split->splits) ? "" : "  <- shortest");
}

int orr_planned_write(FILE *file, const struct orr_plan *plan, const struct orr_split_plan *split,
		      char *(*name_options)(char *line), struct orr_error *err)
{
	struct orr_untested untested = orr_untested_find(plan->tried.jobs);
	struct writer w = {file, plan, name_options, false, NULL};
	int code;

	write_stages(&w);
	write_step(&w);
	write_idle(&w);
	write_coarse(&w);
	write_worlds(&w);
	if (untested.n)
		say(&w, "\n%s\n", orr_untested_text(&untested));
	if (!(code = write_periods(&w, err)))
		code = orr_plan_advise(plan, write_advice, &w, err);
	if (!code && split)
		write_split(&w, split);
	return code;
}

static void list_advice(void *writer, const char *line)
{
	struct writer *w = writer;
	char text[512];

	(void)snprintf(text, sizeof(text), "%s", line);
	orr_json_append(&w->advice, json_string(w->name_options(text)));
}

json_t *orr_planned_json(const struct orr_plan *plan, const struct orr_split_plan *split,
			 bool embed, char *(*name_options)(char *line), struct orr_error *err)
{
	struct writer w = {.name_options = name_options};
	struct orr_untested untested = orr_untested_find(plan->tried.jobs);
	json_t *json =
		split ? orr_split_plan_json(split, embed, err) : orr_plan_json(plan, embed, err);

	if (!json)
		return NULL;
	orr_untested_json(&json, &untested);
	w.advice = json_array();
	if (orr_plan_advise(plan, list_advice, &w, err)) {
		json_decref(w.advice);
		json_decref(json);
		return NULL;
	}
	orr_json_set(&json, "advice", w.advice);
	return orr_json_check(json, "no memory for the report", err);
}
