/* A draft as the simulator sees it: a plan, or none of it. */
#include "orrery/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/microbatches.h"
#include "pipeline/numbering.h"
#include "pipeline/parameter_cost.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/schedule.h"
#include "schedule/table.h"
#include "orrery/timeline.h"
#include "plan_draft.h"

int orr_plan_try(struct orr_try *tried, const struct orr_pipeline *p, const struct orr_table *table,
		 struct orr_error *err)
{
	struct orr_schedule schedule;
	int code;

	orr_table_schedule(&schedule, table);
	code = orr_try_init(tried, p, &schedule, NULL, err);
	return code ? code : orr_try_run(tried, err);
}

void orr_plan_note(struct orr_plan *plan, int number)
{
	const struct orr_figures *f = plan->tried.figures;
	struct orr_plan_world *world = &plan->worlds[number];

	*world = (struct orr_plan_world){
		.fits = !orr_figures_check_memory(f, &plan->pipeline->machine, NULL),
		.n_stages = plan->pipeline->n_stages,
		.slowest_s = plan->slowest_s,
		.makespan_ns = f->makespan_ns};
	for (int w = 0; w < f->n_workers; w++) {
		const struct orr_worker_figures *x = &f->worker[w];

		world->memory_bytes = larger(world->memory_bytes, x->memory_bytes);
		world->stash_bytes = larger(world->stash_bytes, x->peak_stash_bytes);
		world->peak_stash = (int)larger(world->peak_stash, x->peak_stash);
	}
}

/* links: whether they take time. */
static struct orr_machine machine_with(const struct orr_plan_options *o, bool links)
{
	struct orr_machine machine = orr_machine_default(orr_levels_workers(&o->levels));

	if (o->cluster) {
		machine = orr_machine_of(o->cluster, machine.n_workers);
		machine.flops_per_s = o->flops_per_s;
		return machine;
	}
	machine.memory_bytes = o->memory_bytes;
	machine.flops_per_s = o->flops_per_s;
	if (links)
		orr_machine_set_levels(&machine, &o->levels);
	return machine;
}

struct orr_machine orr_plan_machine(const struct orr_plan_options *o)
{
	return machine_with(o, o->activations);
}

/* What groups of a split keep of a microbatch, and make again, as it is simulated: what several
 * operators of a stage read is kept once. */
static int keep_as_split(struct orr_pipeline *p, const int *stage_of,
			 const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_pipeline *split;
	int code = orr_partition_as(&split, o->split, &p->machine, stage_of, p->n_stages,
				    o->samples, err);

	for (int s = 0; s < p->n_stages && !code; s++) {
		const struct orr_stage *kept = &split->split->whole->stages[s];

		p->stages[s].stash_bytes = kept->stash_bytes;
		p->stages[s].again_bytes = kept->again_bytes;
		p->stages[s].again_all_bytes = kept->again_all_bytes;
	}
	if (!code)
		orr_pipeline_destroy(split);
	return code;
}

int orr_plan_pipeline(struct orr_pipeline **out, const struct orr_graph *g, const int *stage_of,
		      int n_stages, const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(o);
	int code = orr_partition_as(out, g, &machine, stage_of, n_stages, o->samples, err);

	if (code)
		return code;
	(*out)->numerics = o->numerics;
	if ((o->split && (code = keep_as_split(*out, stage_of, o, err))) ||
	    (code = orr_pipeline_set_step(*out, machine.n_workers, o->n_microbatches, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
	return code;
}

/* ---- from stages on workers to the order of every worker's jobs ---- */

/* Microbatch b of stage s is on the plan's worker first[s] + turns[s * n_microbatches + b]; at most
 * cap[s] of its microbatches are in flight. */
struct assignment {
	const struct orr_plan *plan;
	int *turns;           /* as orr_machine_turns() has them */
	int *cap;             /* [n_stages] */
	bool tight;           /* caps were lowered, and must be kept */
	int64_t wanted_bytes; /* the need of the fullest worker with the caps as they were */
};

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct assignment *x = data;

	(void)d;
	return x->plan->workers[x->plan->first[s] + x->turns[s * p->n_microbatches + b]];
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	(void)p;
	return ((const struct assignment *)data)->cap[s];
}

/* Stages of one worker that come out alike go along the stages, and back. */
static int64_t by_depth(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int depth = p->stages[s].depth;

	(void)data;
	return d == ORR_PASS_F ? (2 * (int64_t)b + p->depth - depth) * 2 * p->n_stages + s
			       : (2 * (int64_t)b + p->depth + depth - 1) * 2 * p->n_stages +
					 2 * p->n_stages - 1 - s;
}

static int64_t backward_first(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			      const void *data)
{
	int64_t n = (int64_t)b * p->n_stages;

	(void)data;
	return d == ORR_PASS_F ? (int64_t)p->n_stages * p->n_microbatches + n + s
			       : n + p->n_stages - 1 - s;
}

/* Set the caps to the smallest that keep every worker after s busy: s's replicas plus those on the
 * path from it to a sink that has most. */
static void set_caps(const struct assignment *x, const struct orr_pipeline *p)
{
	for (int s = p->n_stages - 1; s >= 0; s--) {
		int64_t most = 0;

		for (int i = 0; i < p->stages[s].n_out; i++)
			most = larger(most, x->cap[orr_stage_after(p, s, i)]);
		x->cap[s] = x->plan->replicas[s] + (int)most;
	}
}

/* The least memory of a worker of stage s; 0: none is limited. */
static int64_t least_memory(const struct orr_plan *plan, int s)
{
	int64_t least = 0;

	for (int i = 0; i < plan->replicas[s]; i++) {
		int64_t bytes = orr_machine_memory(&plan->pipeline->machine,
						   plan->workers[plan->first[s] + i]);

		least = bytes && (!least || bytes < least) ? bytes : least;
	}
	return least;
}

/* Of microbatches in flight, those on each replica of stage s. */
static int each(const struct assignment *x, int s)
{
	return (x->cap[s] + x->plan->replicas[s] - 1) / x->plan->replicas[s];
}

/* Lower the caps to what every worker has room for beside its parameters, gradients and optimizer's
 * state, but not below a microbatch. A longer period holds less, as in 1F1B* [Beaumont21]. */
static void lower_caps(struct assignment *x)
{
	const struct orr_plan *plan = x->plan;
	const struct orr_pipeline *p = plan->pipeline;

	for (int s = 0; s < p->n_stages; s++) {
		int64_t fixed = 0, stash = 0, wanted = 0, room,
			memory_bytes = least_memory(plan, s);

		for (int t = 0; t < p->n_stages; t++) { /* of one worker */
			if (plan->workers[plan->first[t]] != plan->workers[plan->first[s]])
				continue;
			fixed += orr_parameters_kept(&p->numerics, p->stages[t].parameter_bytes,
						     orr_stage_trained_bytes(&p->stages[t]),
						     plan->replicas[t]) +
				 p->stages[t].tied_trained_bytes; /* of a ring's */
			stash += p->stages[t].stash_bytes;
			wanted += p->stages[t].stash_bytes * each(x, t);
		}
		x->wanted_bytes = larger(x->wanted_bytes, fixed + wanted);
		room = larger(1, stash > 0 ? (memory_bytes - fixed) / stash : p->n_microbatches);
		if (!memory_bytes || fixed + wanted <= memory_bytes || room >= each(x, s))
			continue;
		x->cap[s] = (int)room * plan->replicas[s];
		x->tight = true;
	}
}

/* Freeze the order in which a worker started its jobs. Where several start at once, all but the
 * last take no time: forwards go first, each along the stages and then back. */
static int freeze(struct orr_table **out, const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int *listed = calloc((size_t)jobs->n_jobs + 1, sizeof(*listed)), n = 0, code;

	if (!listed)
		return orr_no_memory(err, "plan");
	if ((code = orr_table_create(out, "plan", p->n_stages, p->n_workers, p->n_microbatches,
				     false, err)))
		goto out;
	for (int pass = 0; pass < 2; pass++)
		for (int b = 0; b < p->n_microbatches; b++)
			for (int k = 0; k < p->n_stages; k++) {
				int j = orr_jobs_index(jobs, pass ? p->n_stages - 1 - k : k, b,
						       (enum orr_pass)pass);

				(*out)->compute[j] = orr_jobs_has(jobs, j) ? jobs->compute[j] : -1;
				if (!orr_jobs_has(jobs, j))
					continue;
				(*out)->priority[j] =
					t->start_ns[j] * 2 + (t->end_ns[j] > t->start_ns[j]);
				listed[n++] = j;
			}
	code = orr_rank((*out)->priority, listed, n, err);
out:
	free(listed);
	return code;
}

/* How a schedule does: its makespan, then its largest peak. */
static int try_schedule(struct orr_table **best, int64_t least[2],
			const struct orr_schedule *schedule, const struct orr_pipeline *p,
			struct orr_error *err)
{
	const struct orr_figures *f;
	struct orr_table *table = NULL;
	struct orr_try tried;
	int64_t peak, makespan_ns;
	int code;

	if ((code = orr_try_init(&tried, p, schedule, NULL, err)) ||
	    (code = orr_try_time(&tried, err)))
		goto out;
	makespan_ns = orr_timeline_makespan(tried.timeline);
	if (*best && makespan_ns > least[0]) /* whatever the memory */
		goto out;
	if ((code = orr_figures_create(&tried.figures, tried.timeline, err)))
		goto out;
	f = tried.figures;
	peak = f->worker[orr_figures_fullest(f)].memory_bytes;
	if (*best && makespan_ns == least[0] && peak >= least[1])
		goto out;
	if ((code = freeze(&table, tried.timeline, err)))
		goto out;
	orr_table_destroy(*best);
	*best = table;
	table = NULL;
	least[0] = makespan_ns;
	least[1] = peak;
out:
	orr_table_destroy(table);
	orr_try_fini(&tried);
	return code;
}

/* The better of two orders on p: 1F1B by its closed form, and one forward one backward as they
 * come, a backward first, under the caps [Narayanan19]; where they are tight, only the second. */
static int take_better(struct orr_table **out, const struct assignment *x,
		       const struct orr_pipeline *p, int64_t *makespan_ns, struct orr_error *err)
{
	struct orr_schedule closed = {.name = "1f1b",
				      .summary = "",
				      .order = ORR_ORDER_STRICT,
				      .compute = compute,
				      .priority = by_depth,
				      .data = x};
	struct orr_schedule greedy = {.name = "1f1b-rr",
				      .summary = "",
				      .order = ORR_ORDER_GREEDY,
				      .compute = compute,
				      .priority = backward_first,
				      .in_flight = in_flight,
				      .data = x};
	struct orr_table *best = NULL;
	int64_t least[2] = {INT64_MAX, INT64_MAX};
	int code;

	if ((!x->tight && (code = try_schedule(&best, least, &closed, p, err))) ||
	    (code = try_schedule(&best, least, &greedy, p, err))) {
		orr_table_destroy(best);
		return code;
	}
	*out = best;
	*makespan_ns = least[0];
	return 0;
}

/* The same stages, each also after the one before it. */
static int flatten(struct orr_pipeline **out, const struct orr_pipeline *p, struct orr_error *err)
{
	size_t n_stages = (size_t)p->n_stages;
	struct orr_arrays all = {0};
	struct orr_stage *stages = orr_arrays_add(&all, n_stages, sizeof(*stages));
	struct orr_edge *edges =
		orr_arrays_add(&all, (size_t)p->n_edges + n_stages, sizeof(*edges));
	int n = p->n_edges, code = orr_arrays_check(&all, "plan", err);

	if (code)
		return code;
	memcpy(stages, p->stages, (size_t)p->n_stages * sizeof(*stages));
	if (n)
		memcpy(edges, p->edges, (size_t)n * sizeof(*edges));
	for (int s = 0; s < p->n_stages; s++) {
		bool linked = s + 1 == p->n_stages;

		for (int i = 0; i < p->stages[s].n_in; i++) /* creating adds them again */
			stages[s].input_bytes -= p->edges[p->stages[s].in[i]].bytes;
		for (int i = 0; i < p->stages[s].n_out && !linked; i++)
			linked = orr_stage_after(p, s, i) == s + 1;
		if (!linked) /* stages keep the passes that they have */
			edges[n++] = (struct orr_edge){
				.from = s,
				.to = s + 1,
				.detached = !p->stages[s + 1].has_input_gradient ||
					    (!p->stages[s].has_input_gradient &&
					     !p->stages[s].has_weight_gradient)};
	}
	if ((code = orr_pipeline_create(out, stages, p->n_stages, edges, n, err)))
		goto out;
	(*out)->has_weight = p->has_weight;
	(*out)->units = p->units;
	(*out)->numerics = p->numerics;
	(*out)->machine = p->machine;
	if ((code = orr_pipeline_tie(*out, p->tied, p->n_tied, err)) ||
	    (code = orr_pipeline_set_outputs(*out, p->outputs, p->n_outputs, err)) ||
	    (p->microbatches && (code = orr_microbatches_copy(*out, p, err))) ||
	    (code = orr_pipeline_set_step(*out, p->n_workers, p->n_microbatches, err))) {
		orr_pipeline_destroy(*out);
		*out = NULL;
	}
out:
	orr_arrays_free(&all);
	return code;
}

/* Order the jobs in the plan's world; at most that number of microbatches in flight on the first
 * stages. tight: no more than the memory has room for. */
static int order(struct orr_plan *plan, bool tight, struct orr_table **table, int64_t *makespan_ns,
		 struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	int n_stages = p->n_stages, m = p->n_microbatches;
	struct orr_pipeline *chain = NULL;
	struct orr_arrays all = {0};
	struct assignment x = {.plan = plan};
	int code;

	orr_arrays_make(&all, x.turns, (size_t)n_stages * (size_t)m + (size_t)p->n_workers);
	orr_arrays_make(&all, x.cap, n_stages);
	if ((code = orr_arrays_check(&all, "plan", err)) ||
	    (plan->world == ORR_WORLD_CHAIN && (code = flatten(&chain, p, err))))
		goto out;
	for (int s = 0; s < n_stages; s++)
		orr_machine_turns(&p->machine, plan->workers + plan->first[s], plan->replicas[s],
				  x.turns + (size_t)s * (size_t)m, m);
	set_caps(&x, chain ? chain : p);
	if (tight)
		lower_caps(&x);
	plan->wanted_bytes = x.tight ? x.wanted_bytes : 0;
	for (int s = 0; s < n_stages; s++)
		if (p->stages[s].n_in == 0)
			plan->in_flight = (int)larger(plan->in_flight, smaller(each(&x, s), m));
	code = take_better(table, &x, chain ? chain : p, makespan_ns, err);
out:
	orr_pipeline_destroy(chain);
	orr_arrays_free(&all);
	return code;
}

/* ---- a plan ---- */

/* A plan of the draft, its costs and jobs still to come. */
static int lay(struct orr_plan **out, const struct orr_graph *g, const struct orr_plan_options *o,
	       const struct orr_plan_draft *d, struct orr_error *err)
{
	struct orr_plan *plan = calloc(1, sizeof(*plan));
	size_t n = (size_t)d->n_stages, n_replicas = 0;
	int code;

	for (size_t s = 0; s < n; s++)
		n_replicas += (size_t)d->replicas[s];
	if (!plan || !(plan->first = calloc(2 * n + n_replicas, sizeof(int))) ||
	    !(plan->costs = calloc(n, sizeof(*plan->costs)))) {
		orr_plan_destroy(plan);
		return orr_no_memory(err, "plan");
	}
	plan->replicas = plan->first + n; /* one array */
	plan->workers = plan->replicas + n;
	plan->graph = g;
	plan->options = *o;
	memcpy(plan->replicas, d->replicas, n * sizeof(int));
	memcpy(plan->workers, d->workers, n_replicas * sizeof(int));
	for (size_t s = 1; s < n; s++)
		plan->first[s] = plan->first[s - 1] + plan->replicas[s - 1];
	if ((code = orr_plan_pipeline(&plan->pipeline, g, d->stage_of, d->n_stages, o, err))) {
		orr_plan_destroy(plan);
		return code;
	}
	*out = plan;
	return 0;
}

int orr_plan_realise(struct orr_plan **out, const struct orr_graph *g,
		     const struct orr_plan_options *o, const struct orr_plan_draft *d, int world,
		     bool tight, struct orr_error *err)
{
	struct orr_machine links = machine_with(o, true);
	struct orr_plan *plan;
	int64_t makespan_ns = 0;
	int code = lay(&plan, g, o, d, err);

	if (code)
		return code;
	plan->world = (enum orr_world)world;
	if ((code = orr_plan_cost(plan, &links, err)) ||
	    (code = order(plan, tight, &plan->table, &makespan_ns, err)) ||
	    (code = orr_plan_try(&plan->tried, plan->pipeline, plan->table, err))) {
		orr_plan_destroy(plan);
		return code;
	}
	orr_plan_note(plan, world);
	if (world == ORR_WORLD_CHAIN)
		plan->worlds[world].makespan_ns = makespan_ns;
	*out = plan;
	return 0;
}

void orr_plan_destroy(struct orr_plan *plan)
{
	if (!plan)
		return;
	orr_try_fini(&plan->tried);
	orr_table_destroy(plan->table);
	orr_pipeline_destroy(plan->pipeline);
	free(plan->first);
	free(plan->costs);
	free(plan);
}

/* ---- a plan's stages in the numbers that every other command would give them: the searches need
 * numbers of their own: chains of cuts, branches, pieces ---- */

/* Every stage of the draft as the plan has it, and old[n_stages], the number that it had there. */
static int renumber(struct orr_plan_draft *d, int *old, const struct orr_plan *plan,
		    struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	int code, next = 0;

	for (int i = 0; i < g->n_operators; i++)
		d->stage_of[i] =
			orr_operator_is_input(&g->operators[i]) ? -1 : plan->pipeline->stage_of[i];
	if ((code = orr_number_stages(g, d->stage_of, d->n_stages, err)))
		return code;
	for (int i = 0; i < g->n_operators; i++)
		if (d->stage_of[i] >= 0)
			old[d->stage_of[i]] = plan->pipeline->stage_of[i];
	for (int s = 0; s < d->n_stages; s++) {
		d->replicas[s] = plan->replicas[old[s]];
		for (int i = 0; i < d->replicas[s]; i++)
			d->workers[next++] = plan->workers[plan->first[old[s]] + i];
	}
	return 0;
}

/* The order of the same jobs. */
static int move_table(struct orr_table **out, const struct orr_table *t, const int *old,
		      struct orr_error *err)
{
	int code = orr_table_create(out, t->name, t->n_stages, t->n_workers, t->n_microbatches,
				    t->split_backward, err);

	for (int to = 0; to < orr_table_n_jobs(t) && !code; to++) {
		int n_passes = orr_table_n_passes(t), s = to / n_passes % t->n_stages,
		    from = to + (old[s] - s) * n_passes;

		(*out)->compute[to] = t->compute[from];
		(*out)->priority[to] = t->priority[from];
	}
	return code;
}

static void swap(struct orr_plan *plan, struct orr_plan *now)
{
	struct orr_plan both = *plan;

	both.first = now->first, both.replicas = now->replicas, both.workers = now->workers;
	both.costs = now->costs;
	both.pipeline = now->pipeline, both.table = now->table, both.tried = now->tried;
	*now = *plan;
	*plan = both;
}

int orr_plan_number(struct orr_plan *plan, struct orr_error *err)
{
	int n_stages = plan->pipeline->n_stages, *old, code,
	    n_workers = plan->first[n_stages - 1] + plan->replicas[n_stages - 1];
	struct orr_plan_draft d;
	struct orr_plan *now = NULL;
	bool moved = false;

	if ((code = orr_plan_draft_init(&d, plan->graph, n_stages, n_workers, err)))
		return code;
	orr_arrays_make(&d.all, old, n_stages);
	if ((code = orr_arrays_check(&d.all, "plan", err)) ||
	    (orr_graph_has_pins(plan->graph) && !plan->options.unpin) ||
	    (code = renumber(&d, old, plan, err)))
		goto out;
	for (int s = 0; s < n_stages; s++)
		moved = moved || old[s] != s;
	if (!moved || (code = lay(&now, plan->graph, &plan->options, &d, err)) ||
	    (code = move_table(&now->table, plan->table, old, err)) ||
	    (code = orr_plan_try(&now->tried, now->pipeline, now->table, err)))
		goto out;
	for (int s = 0; s < n_stages; s++)
		now->costs[s] = plan->costs[old[s]];
	swap(plan, now);
out:
	orr_plan_destroy(now);
	orr_plan_draft_fini(&d);
	return code;
}
