/* orrery profile: measure every operator as a stage of its own, and write the graph back with
 * costs; or measure the links between ranks. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "hardware.h"
#include "options.h"
#include "orrery/cut.h"
#include "orrery/devices.h"
#include "orrery/graph.h"
#include "links.h"
#include "output.h"
#include "orrery/partition.h"
#include "orrery/pipeline.h"
#include "orrery/quantity.h"
#include "orrery/profile.h"
#include "session.h"
#include "work.h"

struct arguments {
	struct work_options work;
	struct output_options output;
	struct orr_run_options run;
	int n_devices;
	const char *out;
	bool links;
};

enum { KEY_LINKS = 1024 };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Links:", 5},
	{"links", KEY_LINKS, NULL, 0,
	 "under mpirun, without GRAPH: latency and bandwidth between every two ranks", 5},
	{"output", 'o', "FILE.dot", 0,
	 "the graph with what was measured, for plan and the rest; - is standard output", 6},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		state->child_inputs[1] = &a->output;
		state->child_inputs[2] = &a->run;
		return 0;
	case 'o':
		a->out = arg;
		return 0;
	case KEY_LINKS:
		a->links = a->work.no_source = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A stage of its own for every operator that computes. */
static int split(struct orr_pipeline **p, const struct orr_graph *g, const struct arguments *a,
		 int64_t samples, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(a->work.open.machine.n_workers);
	int *stage_of = calloc((size_t)g->n_operators, sizeof(*stage_of)), n = 0, code;

	if (!stage_of)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %d operators", g->name,
				g->n_operators);
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = orr_operator_is_input(&g->operators[i]) ? -1 : n++;
	if (!(code = orr_partition_as(p, g, &machine, stage_of, n, samples, err)))
		code = orr_pipeline_set_step(*p, machine.n_workers, a->work.open.n_microbatches,
					     err);
	free(stage_of);
	return code;
}

/* Which operators go together to a worker: those of a cut; of a model that gathers minibatches, for
 * which not every cut does, each by itself. */
static int find_blocks(int *block_of, int *n, const struct orr_graph *g,
		       const struct orr_pipeline *p, int64_t samples, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(p->n_workers);

	if (!orr_pipeline_gathers(p))
		return orr_cut(g, &machine, samples, *n, block_of, n, err);
	*n = p->n_stages;
	for (int i = 0; i < g->n_operators; i++)
		block_of[i] = orr_operator_is_input(&g->operators[i]) ? -1 : p->stage_of[i];
	return 0;
}

/* Alone first: that tells which operators go together to a worker. Then all of them in a run. */
static int measure(struct orr_profile *profile, struct orr_graph *g, struct orr_pipeline *p,
		   const struct arguments *a, int64_t samples, struct orr_error *err)
{
	const struct orr_run_options *run = &a->run;
	struct orr_machine machine = orr_machine_default(p->n_workers);
	int n = p->n_workers < p->n_stages ? p->n_workers : p->n_stages, code;
	int *block_of = calloc((size_t)g->n_operators, sizeof(*block_of));
	struct orr_pipeline *blocks = NULL;

	if (!block_of) {
		code = orr_fail(err, ORR_E_NOMEM, "%s: no memory for its profile", g->name);
		goto out;
	}
	if ((code = orr_run_measure(p, run, err)))
		goto out;
	orr_pipeline_note(p, g, samples);
	if ((code = find_blocks(block_of, &n, g, p, samples, err)) ||
	    (code = orr_partition_as(&blocks, g, &machine, block_of, n, samples, err)) ||
	    (code = orr_pipeline_set_step(blocks, p->n_workers, p->n_microbatches, err)) ||
	    (code = orr_run_profile(profile, p, blocks, run, err)))
		goto out;
	orr_pipeline_note(p, g, samples);
	g->overhead_ns = profile->overhead_ns;
out:
	orr_pipeline_destroy(blocks);
	free(block_of);
	return code;
}

static void print(const struct orr_graph *g, const struct orr_pipeline *p,
		  const struct orr_profile *profile)
{
	char f[32], b[32], w[32], u[32], stash[32];

	printf("%-20s %-22s %10s %10s %10s %10s %7s %10s\n", "operator", "op", "F", "B", "W", "U",
	       "spread", "stash");
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o))
			continue;
		printf("%-20s %-22s %10s %10s %10s %10s %5d %% %10s\n", o->name, orr_operator_op(o),
		       orr_duration_print(f, sizeof(f), o->forward_ns, false),
		       orr_duration_print(b, sizeof(b), o->backward_ns, false),
		       orr_duration_print(w, sizeof(w), o->weight_ns, false),
		       orr_duration_print(u, sizeof(u), o->update_ns, false),
		       profile->spread_percent[p->stage_of[i]],
		       orr_size_print(stash, sizeof(stash), o->stash_bytes));
	}
	printf("\nProfiled for %s. ", orr_profiled_print(u, sizeof(u), &p->profiled));
	if (p->profiled.hardware == ORR_HARDWARE_CUDA)
		printf("Medians, alone on the first device; spread and what lies between two jobs "
		       "from %d steps on %d worker%s at once: %s.\n",
		       profile->n_steps, p->n_workers, p->n_workers == 1 ? "" : "s",
		       orr_duration_print(f, sizeof(f), profile->overhead_ns, false));
	else
		printf("Medians of %d steps on %d worker%s at once; the middle half of the F spans "
		       "the spread. Between two jobs: %s.\n",
		       profile->n_steps, p->n_workers, p->n_workers == 1 ? "" : "s",
		       orr_duration_print(f, sizeof(f), profile->overhead_ns, false));
}

/* GFLOP/s; FLOP per nanosecond. "-": it has no such pass. */
static const char *rate(char text[16], int64_t flops, int64_t samples, int64_t ns)
{
	if (flops && ns)
		(void)snprintf(text, 16, "%.1f", (double)flops * (double)samples / (double)ns);
	else
		(void)snprintf(text, 16, "-");
	return text;
}

/* Which kernels computed, and how fast the matrix products were. */
static void print_kernels(const struct orr_graph *g, int64_t samples)
{
	struct orr_core core;
	char f[16], b[16], w[16];

	if (!orr_run_core(&core))
		return;
	if (g->profiled.hardware == ORR_HARDWARE_CUDA)
		printf("\n");
	else
		printf("\nProducts: %s for %s; other kernels: %s.\n", core.library, core.products,
		       core.loops);
	printf("%-20s %10s %10s %10s   GFLOP/s\n", "product", "F", "B", "W");
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		/* 16 operations and more a float of output */
		if (!orr_operator_is_loss(o) && o->forward_flops >= 16 * o->width)
			printf("%-20s %10s %10s %10s\n", o->name,
			       rate(f, o->forward_flops, samples, o->forward_ns),
			       rate(b, orr_graph_has_gradient(g, i, 0) ? o->backward_flops : 0,
				    samples, o->backward_ns),
			       rate(w, o->has_weight_gradient ? o->weight_flops : 0, samples,
				    o->weight_ns));
	}
}

static int write_graph(FILE *file, const void *graph, struct orr_error *err)
{
	return orr_graph_write_dot(graph, file, err);
}

static int check(const struct orr_graph *g, struct arguments *a, struct orr_error *err)
{
	const char *why;
	int code;

	if (orr_operator_is_study(&g->operators[0]))
		return orr_fail(err, ORR_E_INPUT,
				"%s: has costs and nothing to compute: profile a model whose nodes "
				"have an op",
				g->name);
	if (a->work.open.given.schedule || a->work.open.n_stages || a->work.open.recompute ||
	    a->work.open.versions || a->work.open.order)
		return orr_fail(
			err, ORR_E_INPUT,
			"profile measures operators, which no schedule and no cut changes: leave "
			"out --schedule, --stages, --order, --recompute, --sync and --accumulate");
	if (a->work.open.lengths || a->work.open.microbatch_costs)
		return orr_fail(err, ORR_E_INPUT,
				"profile measures microbatches of as many samples each: leave out "
				"--lengths and --microbatch-costs");
	if (a->work.open.splits)
		return orr_fail(
			err, ORR_E_INPUT,
			"profile measures operators as they are, and splits take their costs "
			"in parts: give --split to simulate, plan or train with the profile");
	a->work.open.n_microbatches = a->work.open.n_microbatches ? a->work.open.n_microbatches : 8;
	if (!a->work.open.machine.n_workers)
		a->work.open.machine.n_workers = hardware_workers(&a->run, &why);
	a->run.batch = a->work.open.batch;
	a->run.optimizer = a->work.open.numerics.optimizer;
	a->run.precision = a->work.open.numerics.precision;
	if ((code = orr_open_check_batch(&a->work.open, g, err)) ||
	    (code = hardware_find(&a->run, &a->n_devices, err)))
		return code;
	hardware_tell(&a->run);
	return 0;
}

static int check_together(const struct arguments *a, const struct session *s, struct orr_error *err)
{
	if (a->links && (a->work.open.source || a->out))
		return orr_fail(
			err, ORR_E_INPUT,
			"--links are those between ranks, of no model: leave out GRAPH and -o");
	if (!a->links && s->n_ranks > 1)
		return orr_fail(err, ORR_E_INPUT,
				"one process measures GRAPH, with all its workers: leave out "
				"mpirun, or measure the links between ranks with --links");
	if (!a->links && a->output.json)
		return orr_fail(
			err, ORR_E_INPUT,
			"--json is of --links: what is measured of GRAPH goes to a file (-o)");
	return 0;
}

static int profile(struct arguments *a, struct orr_error *err)
{
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_profile profile = {0};
	int64_t samples;
	int code;

	if ((code = output_check_file("-o", a->out, err)) ||
	    (code = orr_graph_read(&graph, a->work.open.source, err)) ||
	    (code = check(graph, a, err)))
		goto out;
	samples = orr_open_samples(&a->work.open);
	orr_graph_set_precision(graph, a->work.open.numerics.precision);
	graph->overhead_ns = 0; /* of an earlier profile */
	graph->profiled = (struct orr_profiled){0};
	if ((code = split(&pipeline, graph, a, samples, err)) ||
	    (code = measure(&profile, graph, pipeline, a, samples, err)))
		goto out;
	print(graph, pipeline, &profile);
	print_kernels(graph, samples);
	code = output_file(a->out, write_graph, graph, err);
out:
	orr_profile_fini(&profile);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	return code;
}

int cmd_profile(int argc, char **argv)
{
	const struct argp shared = work_argp_without(
		"schedule stages order recompute sync accumulate lengths "
		"microbatch-costs costs activation stash parameters machine latency "
		"bandwidth link memory flops shard-optimizer split ");
	const struct argp_child children[] = {{&shared, 0, NULL, 0},
					      {&output_json_argp, 0, NULL, 0},
					      {&hardware_argp, 0, NULL, 0},
					      {0}};
	const struct argp argp = {
		options,
		parse,
		"GRAPH\n--links",
		"Measure what every operator takes for a microbatch on this "
		"machine, with all workers (one a CUDA device, or one a core) at work.",
		children,
		NULL,
		NULL};
	struct arguments a = {.work = work_options_default(), .run = orr_run_options_default()};
	struct session session = {0};
	struct orr_error *err = &session.err;
	int code;

	options_parse(&argp, argc, argv, &a);
	if (!(code = session_join(&session)) && !(code = check_together(&a, &session, err)))
		code = a.links ? links_profile(a.output.json, &session) : profile(&a, err);
	return session_end(&session, code);
}
