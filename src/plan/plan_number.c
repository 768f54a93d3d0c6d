/* A plan's stages in the numbers that every other command would give them. The searches need
 * numbers of their own: chains of cuts, branches, pieces. */
#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/table.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/numbering.h"
#include "orrery/partition.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"

static bool has_pins(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].stage >= 0)
			return true;
	return false;
}

/* stage_of[n_operators], -1 for inputs, and old[n_stages], the number that each had. */
static int find_numbers(int *stage_of, int *old, const struct orr_plan *plan, struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	int code;

	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] =
			orr_operator_is_input(&g->operators[i]) ? -1 : plan->pipeline->stage_of[i];
	if ((code = orr_number_stages(g, stage_of, plan->pipeline->n_stages, err)))
		return code;
	for (int i = 0; i < g->n_operators; i++)
		if (stage_of[i] >= 0)
			old[stage_of[i]] = plan->pipeline->stage_of[i];
	return 0;
}

/* The order of the same jobs. */
static int move_table(struct orr_table **out, const struct orr_table *t, const int *old,
		      struct orr_error *err)
{
	int n_passes = t->split_backward ? 3 : 2;
	int code = orr_table_create(out, t->name, t->n_stages, t->n_workers, t->n_microbatches,
				    t->split_backward, err);

	if (code)
		return code;
	for (int b = 0; b < t->n_microbatches; b++)
		for (int s = 0; s < t->n_stages; s++)
			for (int d = 0; d < n_passes; d++) {
				int to = (b * t->n_stages + s) * n_passes + d;
				int from = (b * t->n_stages + old[s]) * n_passes + d;

				(*out)->compute[to] = t->compute[from];
				(*out)->priority[to] = t->priority[from];
			}
	return 0;
}

/* What plan says of each stage goes to now, whose arrays are there. */
static void move_stages(struct orr_plan *now, const struct orr_plan *plan, const int *old)
{
	for (int s = 0, next = 0; s < plan->pipeline->n_stages; s++) {
		now->first[s] = next;
		now->replicas[s] = plan->replicas[old[s]];
		now->costs[s] = plan->costs[old[s]];
		for (int i = 0; i < now->replicas[s]; i++)
			now->workers[next++] = plan->workers[plan->first[old[s]] + i];
	}
}

static int build(struct orr_plan *now, const struct orr_plan *plan, const int *stage_of,
		 const int *old, struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	struct orr_schedule schedule;
	size_t n = (size_t)p->n_stages, n_replicas = 0;
	int code;

	for (size_t s = 0; s < n; s++)
		n_replicas += (size_t)plan->replicas[s];
	if (!(now->first = calloc(n, sizeof(int))) || !(now->replicas = calloc(n, sizeof(int))) ||
	    !(now->workers = calloc(n_replicas, sizeof(int))) ||
	    !(now->costs = calloc(n, sizeof(*now->costs))))
		return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", p->n_stages);
	move_stages(now, plan, old);
	if ((code = orr_partition_as(&now->pipeline, plan->graph, &plan->pipeline->machine,
				     stage_of, p->n_stages, plan->options.samples, err)) ||
	    (code = orr_pipeline_set_step(now->pipeline, p->n_workers, p->n_microbatches, err)) ||
	    (code = move_table(&now->table, plan->table, old, err)))
		return code;
	now->pipeline->numerics = p->numerics;
	orr_table_schedule(&schedule, now->table);
	if ((code = orr_try_init(&now->tried, now->pipeline, &schedule, NULL, err)))
		return code;
	return orr_try_run(&now->tried, err);
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
	int n_stages = plan->pipeline->n_stages, code;
	int *stage_of = calloc((size_t)plan->graph->n_operators, sizeof(*stage_of));
	int *old = calloc((size_t)n_stages, sizeof(*old));
	struct orr_plan *now = calloc(1, sizeof(*now));
	bool moved = false;

	if (!stage_of || !old || !now) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", n_stages);
		goto out;
	}
	if (has_pins(plan->graph) && !plan->options.unpin) {
		code = 0;
		goto out;
	}
	if ((code = find_numbers(stage_of, old, plan, err)))
		goto out;
	for (int s = 0; s < n_stages; s++)
		moved = moved || old[s] != s;
	if (moved && !(code = build(now, plan, stage_of, old, err)))
		swap(plan, now);
out:
	orr_plan_destroy(now);
	free(stage_of);
	free(old);
	return code;
}
