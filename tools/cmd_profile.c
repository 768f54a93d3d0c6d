/* orrery profile: measure every operator as a stage of its own, and write the graph back with
 * costs. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "graph.h"
#include "output.h"
#include "partition.h"
#include "pipeline.h"
#include "quantity.h"
#include "runtime/run.h"
#include "work.h"

#define N_ROUNDS                                                                                   \
	5 /* each takes the median of many; of the rounds the median counts, and the rest is the   \
	     spread */

struct arguments {
	struct work_options work;
	const char *out;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Output:", 4},
	{"output", 'o', "FILE.dot", 0, "the graph with what was measured, for plan and the rest",
	 4},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		return 0;
	case 'o':
		a->out = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Of every operator in every round. */
struct profile {
	int64_t forward_ns[N_ROUNDS], backward_ns[N_ROUNDS], weight_ns[N_ROUNDS];
};

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t median(int64_t *times)
{
	qsort(times, N_ROUNDS, sizeof(*times), compare_ns);
	return times[N_ROUNDS / 2];
}

/* A stage of its own for every operator that computes. */
static int split(struct orr_pipeline **p, const struct orr_graph *g, const struct arguments *a,
		 int64_t samples, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(1);
	int *stage_of = calloc((size_t)g->n_operators, sizeof(*stage_of)), n = 0, code;

	if (!stage_of)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %d operators", g->name,
				g->n_operators);
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = g->operators[i].op == ORR_OP_INPUT ? -1 : n++;
	if (!(code = orr_partition_as(p, g, &machine, stage_of, n, samples, err)))
		code = orr_pipeline_set_step(*p, 1, a->work.n_microbatches, err);
	free(stage_of);
	return code;
}

static int measure(struct profile *profiles, struct orr_pipeline *p, const struct arguments *a,
		   struct orr_error *err)
{
	struct orr_run_options run = orr_run_options_default();
	int code = 0;

	run.batch = a->work.batch;
	for (int round = 0; round < N_ROUNDS && !code; round++) {
		code = orr_run_measure(p, &run, err);
		if (!code)
			fprintf(stderr, "step %d of %d\n", round + 1, N_ROUNDS);
		for (int s = 0; s < p->n_stages && !code; s++) {
			profiles[s].forward_ns[round] = p->stages[s].forward_ns;
			profiles[s].backward_ns[round] = p->stages[s].backward_ns;
			profiles[s].weight_ns[round] = p->stages[s].weight_ns;
		}
	}
	return code;
}

static int64_t spread_of(const int64_t *sorted)
{
	return sorted[N_ROUNDS / 2] > 0
		       ? 100 * (sorted[N_ROUNDS - 1] - sorted[0]) / sorted[N_ROUNDS / 2]
		       : 0;
}

/* Into the graph, and as a table. The stash, activation and parameters follow from the shapes. */
static void note(struct orr_graph *g, const struct orr_pipeline *p, struct profile *profiles,
		 int64_t samples)
{
	printf("%-20s %-22s %10s %10s %10s %8s %10s\n", "operator", "op", "F", "B", "W", "spread",
	       "stash");
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];
		struct profile *m = &profiles[p->stage_of[i]];
		char f[32], b[32], w[32], stash[32];

		if (o->op == ORR_OP_INPUT)
			continue;
		o->forward_ns = median(m->forward_ns);
		o->backward_ns = median(m->backward_ns);
		o->weight_ns = median(m->weight_ns);
		o->stash_bytes = o->stash_floats * samples * (int64_t)sizeof(float);
		o->activation_bytes = orr_partition_output_bytes(o, samples);
		printf("%-20s %-22s %10s %10s %10s %6lld %% %10s\n", o->name, orr_op_name(o->op),
		       orr_duration_print(f, sizeof(f), o->forward_ns, false),
		       orr_duration_print(b, sizeof(b), o->backward_ns, false),
		       orr_duration_print(w, sizeof(w), o->weight_ns, false),
		       (long long)spread_of(m->forward_ns),
		       orr_size_print(stash, sizeof(stash), o->stash_bytes));
	}
}

static int write_graph(FILE *file, const void *graph, struct orr_error *err)
{
	return orr_graph_write_dot(graph, file, err);
}

static int check(const struct orr_graph *g, struct arguments *a, struct orr_error *err)
{
	if (g->operators[0].op == ORR_OP_COST)
		return orr_fail(err, ORR_E_INPUT,
				"%s: has costs and nothing to compute: profile a model whose nodes "
				"have an op",
				g->name);
	a->work.n_microbatches = a->work.n_microbatches ? a->work.n_microbatches : 8;
	if (a->work.batch < a->work.n_microbatches)
		return orr_fail(
			err, ORR_E_INPUT,
			"--batch %d is less than a sample for each of -m %d microbatches: raise "
			"--batch or lower -m",
			a->work.batch, a->work.n_microbatches);
	return 0;
}

int cmd_profile(int argc, char **argv)
{
	static const struct argp_child children[] = {{&work_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {options,
					 parse,
					 "GRAPH",
					 "Measure what every operator takes for a microbatch on "
					 "this machine.",
					 children,
					 NULL,
					 NULL};
	struct arguments a = {.work = work_options_default()};
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct profile *profiles = NULL;
	struct orr_error err = {""};
	int64_t samples;
	int code;

	command_parse(&argp, argc, argv, &a);
	if ((code = output_check_file(a.out, &err)) ||
	    (code = orr_graph_read(&graph, a.work.source, &err)) || (code = check(graph, &a, &err)))
		goto out;
	samples = ((int64_t)a.work.batch + a.work.n_microbatches - 1) / a.work.n_microbatches;
	if (!(profiles = calloc((size_t)graph->n_operators, sizeof(*profiles)))) {
		code = orr_fail(&err, ORR_E_NOMEM, "%s: no memory for its profile", graph->name);
		goto out;
	}
	if ((code = split(&pipeline, graph, &a, samples, &err)) ||
	    (code = measure(profiles, pipeline, &a, &err)))
		goto out;
	note(graph, pipeline, profiles, samples);
	code = output_file(a.out, write_graph, graph, &err);
out:
	free(profiles);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	return command_end(code, &err);
}
