/* orrery profile: measure every operator as a stage of its own, and write the graph back with
 * costs; or measure the links between ranks. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "hardware.h"
#include "options.h"
#include "pipeline/cut.h"
#include "runtime/devices/devices.h"
#include "orrery/graph.h"
#include "base/json.h"
#include "runtime/peers/links.h"
#include "output.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "base/quantity.h"
#include "runtime/run/profile.h"
#include "session.h"

static int split(struct orr_pipeline **p, const struct orr_graph *g, const struct options *a,
		 int64_t samples, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(a->open.machine.n_workers);
	int code = orr_partition_apart(p, g, &machine, samples, err);

	return code ? code
		    : orr_pipeline_set_step(*p, machine.n_workers, a->open.n_microbatches, err);
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
		   const struct options *a, int64_t samples, struct orr_error *err)
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
	printf("%-20s %-22s %10s %10s %10s %10s %7s %10s\n", "operator", "op", "F", "B", "W", "U",
	       "spread", "stash");
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o))
			continue;
		printf("%-20s %-22s %10s %10s %10s %10s %5d %% %10s\n", o->name, orr_operator_op(o),
		       orr_duration_text(o->forward_ns, false),
		       orr_duration_text(o->backward_ns, false),
		       orr_duration_text(o->weight_ns, false),
		       orr_duration_text(o->update_ns, false),
		       profile->spread_percent[p->stage_of[i]], orr_size_text(o->stash_bytes));
	}
	printf("\nProfiled for %s. ", orr_profiled_text(&p->profiled));
	printf(p->profiled.hardware == ORR_HARDWARE_CUDA
		       ? "Medians, alone on the first device; spread and what lies between two "
			 "jobs from %d steps on %s at once: %s.\n"
		       : "Medians of %d steps on %s at once; the middle half of the F spans the "
			 "spread. Between two jobs: %s.\n",
	       profile->n_steps, orr_count_text(p->n_workers, "worker"),
	       orr_duration_text(profile->overhead_ns, false));
}

/* GFLOP/s; FLOP per nanosecond. "-": it has no such pass. */
static const char *rate(int64_t flops, int64_t samples, int64_t ns)
{
	return flops && ns ? orr_text("%.1f", (double)flops * (double)samples / (double)ns) : "-";
}

static void print_kernels(const struct orr_graph *g, int64_t samples)
{
	struct orr_core core;

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
			       rate(o->forward_flops, samples, o->forward_ns),
			       rate(orr_graph_has_gradient(g, i, 0) ? o->backward_flops : 0,
				    samples, o->backward_ns),
			       rate(o->has_weight_gradient ? o->weight_flops : 0, samples,
				    o->weight_ns));
	}
}

static int check(const struct orr_graph *g, struct options *a, struct orr_error *err)
{
	const char *why;
	int n_devices, code;

	if (orr_graph_is_study(g))
		return orr_fail(err, ORR_E_INPUT,
				"%s: has costs and nothing to compute: profile a model whose nodes "
				"have an op",
				g->name);
	a->open.n_microbatches = a->open.n_microbatches ? a->open.n_microbatches : 8;
	if (!a->open.machine.n_workers)
		a->open.machine.n_workers = hardware_workers(&a->run, &why);
	a->run.batch = a->open.batch;
	a->run.optimizer = a->open.numerics.optimizer;
	a->run.precision = a->open.numerics.precision;
	if ((code = orr_open_check_batch(&a->open, g, err)) ||
	    (code = hardware_find(&a->run, &n_devices, err)))
		return code;
	hardware_tell(&a->run);
	return 0;
}

static int check_together(const struct options *a, const struct session *s, struct orr_error *err)
{
	if (a->links && (a->open.source || a->out))
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

static int profile(struct options *a, struct orr_error *err)
{
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_profile profile = {0};
	struct output_stream s;
	int64_t samples;
	int code;

	if ((code = output_check_file("-o", a->out, err)) ||
	    (code = orr_graph_read(&graph, a->open.source, err)) || (code = check(graph, a, err)))
		goto out;
	samples = orr_open_samples(&a->open);
	orr_graph_set_precision(graph, a->open.numerics.precision);
	graph->overhead_ns = 0; /* of an earlier profile */
	graph->profiled = (struct orr_profiled){0};
	if ((code = split(&pipeline, graph, a, samples, err)) ||
	    (code = measure(&profile, graph, pipeline, a, samples, err)))
		goto out;
	print(graph, pipeline, &profile);
	print_kernels(graph, samples);
	if (a->out && !(code = output_begin(&s, a->out, err)))
		code = output_end(&s, orr_graph_write_dot(graph, s.file, err), err);
out:
	orr_profile_fini(&profile);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	return code;
}

/* ---- links between ranks ---- */

/* The simulator has one kind of link: the one that no real one is worse than. */
static struct orr_link worst_of(const struct orr_links *links)
{
	struct orr_link worst = links->links[0];

	for (int i = 1; i < links->n_links; i++) {
		const struct orr_link *l = &links->links[i];

		if (l->latency_ns > worst.latency_ns)
			worst.latency_ns = l->latency_ns;
		if (l->bandwidth_bytes_per_s < worst.bandwidth_bytes_per_s)
			worst.bandwidth_bytes_per_s = l->bandwidth_bytes_per_s;
	}
	return worst;
}

/* Without blanks. */
static void print_word(const char *text)
{
	for (; *text; text++)
		if (*text != ' ')
			(void)putchar(*text);
}

static void print_links(const struct orr_links *links)
{
	struct orr_link worst = worst_of(links);

	printf("%-24s %-24s %10s %12s\n", "rank", "rank", "latency", "bandwidth");
	for (const struct orr_link *l = links->links; l < links->links + links->n_links; l++)
		printf("%-24s %-24s %10s %12s\n", orr_text("%d %s", l->a, links->hosts[l->a]),
		       orr_text("%d %s", l->b, links->hosts[l->b]),
		       orr_duration_text(l->latency_ns, false),
		       orr_text("%s/s", orr_size_text((int64_t)l->bandwidth_bytes_per_s)));
	/* as options take them */
	printf("\nThe slowest, for simulate: --latency ");
	print_word(orr_duration_text(worst.latency_ns, false));
	printf(" --bandwidth ");
	print_word(orr_size_text((int64_t)worst.bandwidth_bytes_per_s));
	printf("/s\n");
}

static json_t *links_json(const struct orr_links *links, struct orr_error *err)
{
	struct orr_link worst = worst_of(links);
	json_t *all = json_array(), *json;

	for (const struct orr_link *l = links->links; l < links->links + links->n_links; l++)
		orr_json_append(&all, json_pack("{s:[i,i],s:[s,s],s:o,s:f}", "ranks", l->a, l->b,
						"hosts", links->hosts[l->a], links->hosts[l->b],
						"latency", orr_json_time(l->latency_ns),
						"bandwidth", l->bandwidth_bytes_per_s));
	json = json_pack("{s:i,s:o,s:f,s:f}", "ranks", links->n_ranks, "links", all, "latency",
			 (double)worst.latency_ns / 1e9, "bandwidth", worst.bandwidth_bytes_per_s);
	return orr_json_check(json, "no memory for the report", err);
}

static int profile_links(bool json, struct session *s)
{
	struct orr_links links;
	int code = orr_links_measure(&links, &s->err);

	if (code)
		return code;
	if (!s->rank && json)
		code = output_json(links_json(&links, &s->err), &s->err);
	else if (!s->rank)
		print_links(&links);
	orr_links_fini(&links);
	return code;
}

/* ---- the verb ---- */

int cmd_profile(int argc, char **argv)
{
	struct options a =
		options_read(VERB_PROFILE, "GRAPH\n--links",
			     "Measure what every operator takes for a microbatch on this machine, "
			     "with all workers (one a CUDA device, or one a core) at work.",
			     argc, argv);
	struct session session = {0};
	struct orr_error *err = &session.err;
	int code;

	if (!(code = session_join(&session)) && !(code = check_together(&a, &session, err)))
		code = a.links ? profile_links(a.output.json, &session) : profile(&a, err);
	return session_end(&session, code);
}
