/* A draft as the simulator sees it: a plan, or none of it. */
#include "orrery/plan.h"

#include <stdlib.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/partition.h"
#include "orrery/pipeline.h"
#include "orrery/schedule.h"
#include "orrery/table.h"
#include "orrery/timeline.h"
#include "plan_draft.h"
#include "plan_order.h"

static int simulate(struct orr_plan *plan, struct orr_table *table, struct orr_error *err)
{
	struct orr_schedule schedule;
	int code;

	plan->table = table;
	orr_table_schedule(&schedule, table);
	if ((code = orr_try_init(&plan->tried, plan->pipeline, &schedule, NULL, err)))
		return code;
	return orr_try_run(&plan->tried, err);
}

void orr_plan_note(struct orr_plan_world *world, const struct orr_plan *plan)
{
	*world = (struct orr_plan_world){.n_stages = plan->pipeline->n_stages,
					 .slowest_s = plan->slowest_s,
					 .makespan_ns = plan->tried.figures->makespan_ns};
	for (int w = 0; w < plan->tried.figures->n_workers; w++) {
		const struct orr_worker_figures *f = &plan->tried.figures->worker[w];

		world->memory_bytes = f->memory_bytes > world->memory_bytes ? f->memory_bytes
									    : world->memory_bytes;
		world->stash_bytes = f->peak_stash_bytes > world->stash_bytes ? f->peak_stash_bytes
									      : world->stash_bytes;
		world->peak_stash =
			f->peak_stash > world->peak_stash ? f->peak_stash : world->peak_stash;
	}
	world->fits =
		!orr_figures_check_memory(plan->tried.figures, &plan->pipeline->machine, NULL);
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

/* Order the jobs in one of the two worlds; the first stages hold so many microbatches. tight: no
 * more than the memory has room for. */
static int order(struct orr_plan *plan, bool side_by_side, bool tight, struct orr_table **table,
		 int64_t *makespan_ns, struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	struct orr_pipeline *chain = NULL;
	struct orr_assignment x = {.workers = plan->workers,
				   .first = plan->first,
				   .replicas = plan->replicas,
				   .turns = calloc((size_t)p->n_stages * (size_t)p->n_microbatches +
							   (size_t)p->n_workers,
						   sizeof(int)),
				   .cap = calloc((size_t)p->n_stages, sizeof(int))};
	int code = x.cap && x.turns ? 0
				    : orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages",
					       p->n_stages);

	if (code || (!side_by_side && (code = orr_pipeline_flatten(&chain, p, err))))
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

		each = each < p->n_microbatches ? each : p->n_microbatches;
		if (p->stages[s].n_in == 0 && each > plan->in_flight)
			plan->in_flight = each;
	}
	code = orr_assignment_order(table, &x, chain ? chain : p, makespan_ns, err);
out:
	orr_pipeline_destroy(chain);
	free(x.cap);
	free(x.turns);
	return code;
}

int orr_plan_realise(struct orr_plan **out, const struct orr_graph *g,
		     const struct orr_plan_options *o, const struct orr_plan_draft *d,
		     bool side_by_side, bool tight, struct orr_error *err)
{
	struct orr_plan *plan = calloc(1, sizeof(*plan));
	struct orr_machine machine = orr_plan_machine(o), links = machine_with(o, true);
	struct orr_table *table = NULL;
	size_t n = (size_t)d->n_stages, n_replicas = 0;
	int64_t makespan_ns = 0;
	int code;

	for (size_t s = 0; s < n; s++)
		n_replicas += (size_t)d->replicas[s];
	if (!plan || !(plan->first = calloc(n, sizeof(int))) ||
	    !(plan->replicas = calloc(n, sizeof(int))) ||
	    !(plan->workers = calloc(n_replicas, sizeof(int))) ||
	    !(plan->costs = calloc(n, sizeof(*plan->costs)))) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", d->n_stages);
		goto out;
	}
	plan->graph = g;
	plan->options = *o;
	plan->side_by_side = side_by_side;
	number_workers(plan, d);
	if ((code = orr_partition_as(&plan->pipeline, g, &machine, d->stage_of, d->n_stages,
				     o->samples, err)))
		goto out;
	plan->pipeline->numerics = o->numerics;
	if ((code = orr_pipeline_set_step(plan->pipeline, machine.n_workers, o->n_microbatches,
					  err)))
		goto out;
	if ((code = orr_plan_cost(plan, &links, err)) ||
	    (code = order(plan, side_by_side, tight, &table, &makespan_ns, err)) ||
	    (code = simulate(plan, table, err)))
		goto out;
	plan->in_pieces = d->worker != NULL;
	orr_plan_note(plan->in_pieces ? &plan->pieces
		      : side_by_side  ? &plan->dag
				      : &plan->chain,
		      plan);
	if (!side_by_side)
		plan->chain.makespan_ns = makespan_ns;
	*out = plan;
	plan = NULL;
out:
	orr_plan_destroy(plan);
	return code;
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
