/* A draft as the simulator sees it: a plan, or none of it. */
#include "orrery/plan.h"

#include <stdlib.h>

#include "base/max.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/schedule.h"
#include "schedule/table.h"
#include "orrery/timeline.h"
#include "plan_draft.h"
#include "plan_order.h"

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

/* What groups of a split keep of a microbatch, as it is simulated: what several operators of a
 * stage read is kept once. */
static int keep_as_split(struct orr_pipeline *p, const int *stage_of,
			 const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_pipeline *split;
	int code = orr_partition_as(&split, o->split, &p->machine, stage_of, p->n_stages,
				    o->samples, err);

	for (int s = 0; s < p->n_stages && !code; s++)
		p->stages[s].stash_bytes = split->split->whole->stages[s].stash_bytes;
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

/* Where the draft does not say otherwise, workers are numbered along the stages: neighbours share
 * the inner links. */
static void number_workers(struct orr_plan *plan, const struct orr_plan_draft *d)
{
	int next = 0;

	for (int s = 0; s < d->n_stages; s++) {
		plan->first[s] = next;
		for (int i = 0; i < d->replicas[s]; i++, next++)
			plan->workers[next] = d->worker    ? d->worker[s]
					      : d->workers ? d->workers[next]
							   : next;
		plan->replicas[s] = d->replicas[s];
	}
}

/* Order the jobs in the plan's world; at most that number of microbatches in flight on the first
 * stages. tight: no more than the memory has room for. */
static int order(struct orr_plan *plan, bool tight, struct orr_table **table, int64_t *makespan_ns,
		 struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	size_t n_stages = (size_t)p->n_stages,
	       n_turns = n_stages * (size_t)p->n_microbatches + (size_t)p->n_workers;
	struct orr_pipeline *chain = NULL;
	struct orr_arrays all = {0};
	struct orr_assignment x = {.workers = plan->workers,
				   .first = plan->first,
				   .replicas = plan->replicas,
				   .turns = orr_arrays_add(&all, n_turns, sizeof(int)),
				   .cap = orr_arrays_add(&all, n_stages, sizeof(int))};
	int code = orr_arrays_check(&all, "plan", err);

	if (code ||
	    (plan->world == ORR_WORLD_CHAIN && (code = orr_pipeline_flatten(&chain, p, err))))
		goto out;
	for (int s = 0; s < p->n_stages; s++)
		orr_machine_turns(&p->machine, x.workers + x.first[s], x.replicas[s],
				  x.turns + (size_t)s * (size_t)p->n_microbatches,
				  p->n_microbatches);
	orr_assignment_cap(&x, chain ? chain : p);
	if (tight)
		orr_assignment_fit(&x, p);
	plan->wanted_bytes = x.tight ? x.wanted_bytes : 0;
	for (int s = 0; s < p->n_stages; s++) {
		int each = (x.cap[s] + x.replicas[s] - 1) / x.replicas[s];

		if (p->stages[s].n_in == 0)
			plan->in_flight =
				(int)larger(plan->in_flight, smaller(each, p->n_microbatches));
	}
	code = orr_assignment_order(table, &x, chain ? chain : p, makespan_ns, err);
out:
	orr_pipeline_destroy(chain);
	orr_arrays_free(&all);
	return code;
}

int orr_plan_lay(struct orr_plan **out, const struct orr_graph *g, const struct orr_plan_options *o,
		 const struct orr_plan_draft *d, struct orr_error *err)
{
	struct orr_plan *plan = calloc(1, sizeof(*plan));
	size_t n = (size_t)d->n_stages, n_replicas = 0;
	int code;

	for (size_t s = 0; s < n; s++)
		n_replicas += (size_t)d->replicas[s];
	if (!plan || !(plan->first = calloc(n, sizeof(int))) ||
	    !(plan->replicas = calloc(n, sizeof(int))) ||
	    !(plan->workers = calloc(n_replicas, sizeof(int))) ||
	    !(plan->costs = calloc(n, sizeof(*plan->costs)))) {
		orr_plan_destroy(plan);
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", d->n_stages);
	}
	plan->graph = g;
	plan->options = *o;
	number_workers(plan, d);
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
	int code = orr_plan_lay(&plan, g, o, d, err);

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
	free(plan->workers);
	free(plan->replicas);
	free(plan->costs);
	free(plan);
}
