/* Plans of graphs that are split: how many workers each encoder is split among, and then stages,
 * replicas and orders of groups of workers as of workers, with what a group takes. Each is
 * simulated on the workers themselves, and the shortest step is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/max.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "plan_file.h"
#include "rewrite/rewrite.h"
#include "orrery/schedule.h"
#include "plan_draft.h"

#define MOST_WIDTHS 12  /* numbers of workers that are tried */
#define MOST_VECTORS 40 /* ways to split that are all tried; else one encoder after the other */
#define TEXT 256        /* of struct orr_split_try */

struct seeking {
	struct orr_graph *g;
	const struct orr_plan_options *o;
	struct orr_split_plan *best;
	int widths[MOST_WIDTHS], n_widths;
	int n_parts; /* the operators in no encoder, and the encoders */
};

/* ---- what a group takes ---- */

/* Every stage's job starts once for each level that it has. The operators of a stage share the
 * first start, which is counted once for their stage: what is left is each exchange's. */
static void leave_first_start(struct orr_operator *to, int64_t overhead_ns)
{
	int64_t *backward_ns = to->backward_ns >= overhead_ns ? &to->backward_ns : &to->weight_ns;

	to->forward_ns -= to->forward_ns >= overhead_ns ? overhead_ns : 0;
	*backward_ns -= *backward_ns >= overhead_ns ? overhead_ns : 0;
	to->update_ns -= to->update_ns >= overhead_ns ? overhead_ns : 0;
}

/* A graph of the same operators that cost what a group takes for them; it borrows all but them.
 * With every operator a stage, the stages of the whole pipeline are what groups take for one. What
 * stages of several operators keep is counted as they are made (plan_realise.c). */
static int price_groups(struct orr_graph **out, const struct orr_graph *split,
			const struct orr_plan_options *o, struct orr_error *err)
{
	const struct orr_graph *g = split->whole;
	struct orr_machine machine = orr_plan_machine(o);
	size_t bytes = (size_t)g->n_operators * sizeof(*g->operators);
	struct orr_graph *priced = malloc(sizeof(*priced) + bytes);
	struct orr_pipeline *p = NULL;
	int code = orr_partition_apart(&p, split, &machine, o->samples, err);

	if (code || !priced)
		goto out;
	*priced = *g;
	priced->operators = memcpy(priced + 1, g->operators, bytes);
	for (int k = 0; k < g->n_operators; k++) {
		struct orr_operator *to = &priced->operators[k];
		int s = p->split->whole->stage_of[k], width = p->split->width[s];
		const struct orr_stage *stage = &p->split->whole->stages[s];

		if (orr_operator_is_input(to))
			continue;
		to->forward_ns = stage->forward_ns;
		to->backward_ns = stage->backward_ns;
		to->weight_ns = stage->weight_ns;
		to->update_ns = stage->update_ns;
		leave_first_start(to, g->overhead_ns);
		to->stash_bytes = stage->stash_bytes + stage->again_bytes;
		to->recompute = false; /* the times have it */
		to->parameter_bytes = stage->parameter_bytes;
		/* part by part, over as many links */
		to->activation_bytes =
			orr_operator_output_bytes(&g->operators[k], o->samples) / width;
	}
	*out = priced;
	priced = NULL;
out:
	if (!code && !*out)
		code = orr_no_memory(err, g->name);
	free(priced);
	orr_pipeline_destroy(p);
	return code;
}

/* ---- one way to split ---- */

void orr_split_plan_destroy(struct orr_split_plan *plan)
{
	if (!plan)
		return;
	orr_plan_destroy(plan->plan);
	orr_try_fini(&plan->tried);
	orr_pipeline_destroy(plan->pipeline);
	free(plan->costs);
	if (plan->graph)
		(void)orr_graph_unsplit(plan->graph); /* which is the caller's */
	free(plan->tries);
	free(plan->splits);
	free(plan);
}

/* n workers in groups of width, none of which lies in two of the smallest groups of the machine. */
static void group(struct orr_levels *levels, int n_groups)
{
	int rest = n_groups;

	for (int l = 0; l < levels->n; l++) {
		int of = levels->workers[l] < rest ? levels->workers[l] : rest;

		while (of > 1 && rest % of)
			of--;
		levels->workers[l] = l + 1 < levels->n ? of : rest;
		rest /= of;
	}
}

static int simulate(struct orr_split_plan *x, const struct orr_plan_options *o,
		    struct orr_error *err)
{
	const struct orr_pipeline *p = x->plan->pipeline;
	int code = orr_plan_pipeline(&x->pipeline, x->graph, p->stage_of, p->n_stages, o, err);

	return code ? code : orr_plan_try(&x->tried, x->pipeline, x->plan->table, err);
}

/* On the workers. */
static const struct orr_figures *figures_of(const struct orr_split_plan *x)
{
	return x->graph ? x->tried.figures : x->plan->tried.figures;
}

static int64_t most_memory(const struct orr_split_plan *x)
{
	const struct orr_figures *f = figures_of(x);

	return f->worker[orr_figures_fullest(f)].memory_bytes;
}

/* With this number of groups; *out NULL: they do not fit the workers or the memory. Where nothing
 * is split, groups are workers. */
static int plan_groups(struct orr_split_plan **out, struct seeking *k, const char *splits,
		       int n_groups, struct orr_error *err)
{
	struct orr_plan_options o = *k->o;
	struct orr_split_plan *x = calloc(1, sizeof(*x));
	struct orr_graph *split;
	struct orr_error why = {""};
	int code;

	if (!x || !(x->splits = strdup(splits ? splits : ""))) {
		free(x);
		return orr_no_memory(err, k->g->name);
	}
	x->n_groups = n_groups;
	o.by_makespan = true;
	group(&o.levels, n_groups);
	if ((code = orr_graph_split(&split, k->g, splits, err)))
		goto out;
	if (split != k->g) {
		x->graph = split;
		o.split = split;
		if ((code = price_groups(&x->costs, split, k->o, err)))
			goto out;
	}
	if ((code = orr_plan_create(&x->plan, x->graph ? x->costs : k->g, &o, &why)) ||
	    (x->graph && (code = simulate(x, k->o, &why)))) {
		/* too many groups, or too little memory */
		code = code == ORR_E_INPUT ? 0 : orr_fail(err, code, "%s", why.msg);
	} else if (!k->o->memory_bytes || most_memory(x) <= k->o->memory_bytes) {
		*out = x;
		return 0;
	}
out:
	orr_split_plan_destroy(x);
	return code;
}

/* ---- as a file ---- */

static json_t *tries_json(const struct orr_split_plan *plan)
{
	json_t *list = json_array();

	for (int i = 0; i < plan->n_tries; i++) {
		const struct orr_split_try *t = &plan->tries[i];

		orr_json_append(&list, json_pack("{s:s, s:i, s:i, s:f, s:I}", "split", t->splits,
						 "groups", t->n_groups, "stages", t->n_stages,
						 "makespan", (double)t->makespan_ns / 1e9,
						 "memory_bytes", (json_int_t)t->memory_bytes));
	}
	return list;
}

/* What differs from the plan of the groups. */
static void set_split(json_t **json, const struct orr_split_plan *plan)
{
	const struct orr_figures *f = plan->tried.figures;
	const struct orr_machine *machine = &plan->pipeline->machine;
	char fingerprint[24];

	orr_graph_fingerprint(plan->graph->whole, fingerprint);
	orr_json_update(json, json_pack("{s:s, s:s, s:i, s:i, s:O, s:f, s:f, s:f}", "fingerprint",
					fingerprint, "split", plan->splits, "groups",
					plan->n_groups, "workers", plan->pipeline->n_workers,
					"group_makespan", json_object_get(*json, "makespan"),
					"makespan", (double)f->makespan_ns / 1e9, "lower_bound",
					(double)f->lower_bound_ns / 1e9, "bandwidth",
					machine->bandwidth_bytes_per_s));
	orr_machine_json(json, machine);
}

json_t *orr_split_plan_json(const struct orr_split_plan *plan, bool embed, struct orr_error *err)
{
	json_t *json = orr_plan_json(plan->plan, embed && !plan->graph, err);

	if (!json)
		return NULL;
	orr_json_set(&json, "splits", tries_json(plan));
	if (plan->graph)
		set_split(&json, plan);
	if (plan->graph && embed)
		orr_json_set(&json, "text", orr_graph_text_json(plan->graph->whole, err));
	return orr_json_check(json, "plan: no memory for its JSON", err);
}

/* ---- all of them ---- */

static int note(struct orr_split_plan *best, const struct orr_split_plan *x, struct orr_error *err)
{
	struct orr_split_try *grown =
		realloc(best->tries, (size_t)(best->n_tries + 1) * sizeof(*grown));

	if (!grown)
		return orr_no_memory(err, "plan");
	best->tries = grown;
	grown[best->n_tries] = (struct orr_split_try){
		.n_groups = x->n_groups,
		.n_stages = x->plan->pipeline->n_stages,
		.makespan_ns = figures_of(x)->makespan_ns,
		.memory_bytes = most_memory(x),
	};
	(void)snprintf(grown[best->n_tries].splits, sizeof(grown->splits), "%s", x->splits);
	best->n_tries++;
	return 0;
}

/* Keeps x where it has the shorter step; the list of tries goes on with it. */
static int keep(struct seeking *k, struct orr_split_plan *x, struct orr_error *err)
{
	struct orr_split_plan *best = k->best;
	int code;

	if (!best) {
		k->best = x;
		return note(x, x, err);
	}
	if ((code = note(best, x, err)))
		goto out;
	if (figures_of(x)->makespan_ns < figures_of(best)->makespan_ns) {
		x->tries = best->tries;
		x->n_tries = best->n_tries;
		best->tries = NULL;
		k->best = x;
		x = best;
	}
out:
	orr_split_plan_destroy(x);
	return code;
}

/* From as many groups as the narrowest allow to as few as the widest need: the most that fit, and
 * where all are as wide, those. */
static int try_splits(struct seeking *k, const char *splits, int least, int most,
		      struct orr_error *err)
{
	int n_workers = orr_levels_workers(&k->o->levels), code = 0;
	struct orr_split_plan *x = NULL;

	for (int n = n_workers / least; n >= 1 && n >= n_workers / most && !x && !code; n--)
		code = plan_groups(&x, k, splits, n, err);
	return x && !code ? keep(k, x, err) : code;
}

static bool was_tried(const struct seeking *k, const char *splits)
{
	for (int i = 0; k->best && i < k->best->n_tries; i++)
		if (!strcmp(k->best->tries[i].splits, splits))
			return true;
	return false;
}

/* "2,image=1,text=4" */
static int try_vector(struct seeking *k, const int *width, struct orr_error *err)
{
	int least = width[0], most = width[0];
	char text[TEXT];
	size_t used = (size_t)snprintf(text, sizeof(text), "%d", width[0]);

	for (int i = 1; i < k->n_parts; i++) {
		least = (int)smaller(least, width[i]);
		most = (int)larger(most, width[i]);
		if (width[i] != width[0] && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, ",%s=%d",
						 k->g->encoders[i - 1], width[i]);
	}
	if (used >= sizeof(text))
		return orr_fail(err, ORR_E_INPUT,
				"%s: the names of its encoders are too long to try all splits: "
				"shorten them, or give one split",
				k->g->name);
	return was_tried(k, text) ? 0 : try_splits(k, text, least, most, err);
}

static int64_t shortest(const struct seeking *k)
{
	return k->best ? figures_of(k->best)->makespan_ns : INT64_MAX;
}

/* All of them where they are few; else all parts alike, and from the best one after the other. */
static int try_all(struct seeking *k, struct orr_error *err)
{
	int *width = calloc((size_t)k->n_parts, sizeof(*width)), best = 0, code = 0;
	double n = 1;

	if (!width)
		return orr_no_memory(err, k->g->name);
	for (int i = 0; i < k->n_parts; i++)
		n *= k->n_widths;
	for (int v = 0; n <= MOST_VECTORS && v < (int)n && !code; v++) {
		for (int i = 0, rest = v; i < k->n_parts; i++, rest /= k->n_widths)
			width[i] = k->widths[rest % k->n_widths];
		code = try_vector(k, width, err);
	}
	for (int v = 0; n > MOST_VECTORS && v < k->n_widths && !code; v++) {
		int64_t before = shortest(k);

		for (int i = 0; i < k->n_parts; i++)
			width[i] = k->widths[v];
		code = try_vector(k, width, err);
		best = shortest(k) < before ? v : best;
	}
	for (int i = 0; i < k->n_parts; i++)
		width[i] = k->widths[best];
	for (int i = 0; n > MOST_VECTORS && i < k->n_parts && !code; i++) {
		int kept = width[i];

		for (int v = 0; v < k->n_widths && !code; v++) {
			int64_t before = shortest(k);

			if (k->widths[v] == kept)
				continue;
			width[i] = k->widths[v];
			code = try_vector(k, width, err);
			kept = shortest(k) < before ? width[i] : kept;
		}
		width[i] = kept;
	}
	free(width);
	return code;
}

/* Inside the smallest group of the machine, which it divides. */
static void choose_widths(struct seeking *k)
{
	int node = k->o->levels.workers[0];

	for (int t = 1; t <= node && k->n_widths < MOST_WIDTHS; t *= 2)
		if (node % t == 0)
			k->widths[k->n_widths++] = t;
}

int orr_split_plan_create(struct orr_split_plan **out, struct orr_graph *g, const char *splits,
			  const struct orr_plan_options *options, struct orr_error *err)
{
	struct seeking k = {.g = g, .o = options, .n_parts = g->n_encoders + 1};
	int n_workers = orr_levels_workers(&options->levels), code;

	if (options->cluster)
		return orr_fail(err, ORR_E_INPUT,
				"%s: groups of a machine's workers are not planned: give [workers] "
				"and links, or simulate a split",
				options->cluster->name);
	if ((code = orr_plan_check_jobs(g, err)))
		return code;
	choose_widths(&k);
	code = splits && !strcmp(splits, "any") ? try_all(&k, err)
						: try_splits(&k, splits, 1, n_workers, err);
	if (!code && !k.best)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no plan fits %d workers%s split so: give more workers, more "
				"[memory] or another split",
				g->name, n_workers,
				options->memory_bytes ? " and their memory" : "");
	if (code) {
		orr_split_plan_destroy(k.best);
		return code;
	}
	*out = k.best;
	return 0;
}
