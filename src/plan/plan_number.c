/* A plan's stages in the numbers that every other command would give them. The searches need
 * numbers of their own: chains of cuts, branches, pieces. */
#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/table.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "pipeline/numbering.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"

/* Every stage of the draft as the plan has it, and old[n_stages], the number that it had there. */
static int renumber(struct orr_plan_draft *d, int *old, const struct orr_plan *plan,
		    struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	int code, n_replicas = 0, next = 0;

	for (int i = 0; i < g->n_operators; i++)
		d->stage_of[i] =
			orr_operator_is_input(&g->operators[i]) ? -1 : plan->pipeline->stage_of[i];
	if ((code = orr_number_stages(g, d->stage_of, d->n_stages, err)))
		return code;
	for (int i = 0; i < g->n_operators; i++)
		if (d->stage_of[i] >= 0)
			old[d->stage_of[i]] = plan->pipeline->stage_of[i];
	for (int s = 0; s < d->n_stages; s++)
		n_replicas += plan->replicas[s];
	if ((code = orr_plan_draft_add(d, &d->workers, n_replicas, err)))
		return code;
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
	int n_stages = plan->pipeline->n_stages, *old, code;
	struct orr_plan_draft d;
	struct orr_plan *now = NULL;
	bool moved = false;

	if ((code = orr_plan_draft_init(&d, plan->graph, n_stages, err)) ||
	    (code = orr_plan_draft_add(&d, &old, n_stages, err)) ||
	    (orr_graph_has_pins(plan->graph) && !plan->options.unpin) ||
	    (code = renumber(&d, old, plan, err)))
		goto out;
	for (int s = 0; s < n_stages; s++)
		moved = moved || old[s] != s;
	if (!moved || (code = orr_plan_lay(&now, plan->graph, &plan->options, &d, err)) ||
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
