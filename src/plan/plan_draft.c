#include "plan_draft.h"

#include <math.h>

#include "base/hash.h"
#include "base/sort.h"
#include "pipeline/cut.h"
#include "orrery/graph.h"
#include "hierarchy.h"
#include "ideals.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "pipeline/charge.h"

void orr_plan_draft_fini(struct orr_plan_draft *d)
{
	orr_arrays_free(&d->all);
	*d = (struct orr_plan_draft){0};
}

uint64_t orr_plan_draft_hash(const struct orr_plan_draft *d, int n_operators, bool tight)
{
	uint64_t hash = orr_hash(ORR_HASH, d->stage_of, (size_t)n_operators * sizeof(int));
	size_t n_workers = 0;

	for (int s = 0; s < d->n_stages; s++) {
		const int stage[] = {tight, d->replicas[s], d->pieces};

		hash = orr_hash(hash, stage, sizeof(stage));
		n_workers += (size_t)d->replicas[s];
	}
	return orr_hash(hash, d->workers, n_workers * sizeof(int));
}

int orr_plan_draft_init(struct orr_plan_draft *d, const struct orr_graph *g, int n_stages,
			int n_workers, struct orr_error *err)
{
	int code;

	*d = (struct orr_plan_draft){.n_stages = n_stages};
	orr_arrays_make(&d->all, d->stage_of, g->n_operators + 1);
	orr_arrays_make(&d->all, d->replicas, n_stages);
	orr_arrays_make(&d->all, d->workers, n_workers);
	if ((code = orr_arrays_check(&d->all, "plan", err)))
		return code;
	for (int s = 0; s < n_stages; s++)
		d->replicas[s] = 1;
	for (int i = 0; i < n_workers; i++)
		d->workers[i] = i;
	return 0;
}

int orr_plan_draft_from(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_ideals *x, const struct orr_hierarchy *h,
			const struct orr_levels *levels, const int *order, struct orr_error *err)
{
	int code = orr_plan_draft_init(d, g, h->n_stages, h->n_workers, err), k = 0;

	for (int s = 0; !code && s < h->n_stages; s++) {
		d->replicas[s] = h->stages[s].workers;
		for (int i = 0; i < h->stages[s].workers; i++) {
			int w = orr_hierarchy_worker(&h->stages[s], levels, i);

			d->workers[k++] = order ? order[w] : w;
		}
	}
	for (int i = 0; !code && i < g->n_operators; i++) {
		int s = 0;

		while (x->unit_of[i] >= 0 && !orr_ideals_has(x, h->stages[s].to, x->unit_of[i]))
			s++;
		d->stage_of[i] = x->unit_of[i] >= 0 ? s : -1;
	}
	return code;
}

void orr_plan_draft_place_free(struct orr_plan_draft *d, const struct orr_graph *g)
{
	/* an operator with a stage never reads from a later one: only free operators move */
	for (int i = g->n_operators - 1; i >= 0; i--)
		for (int k = 0; k < g->operators[i].n_inputs && d->stage_of[i] >= 0; k++) {
			int *from = &d->stage_of[g->operators[i].inputs[k]];

			*from = *from < 0 || d->stage_of[i] < *from ? d->stage_of[i] : *from;
		}
	for (int i = 0; i < g->n_operators;
	     i++) /* an operator without readers stays with its inputs */
		for (int k = 0; k < g->operators[i].n_inputs && d->stage_of[i] < 0; k++)
			d->stage_of[i] = d->stage_of[g->operators[i].inputs[k]];
}

int orr_plan_draft_cut(struct orr_plan_draft *d, const struct orr_graph *g,
		       const struct orr_machine *machine, int64_t samples, int n_stages,
		       struct orr_error *err)
{
	int n_chosen = n_stages, code = orr_plan_draft_init(d, g, n_stages, n_stages, err);

	return code ? code : orr_cut(g, machine, samples, n_stages, d->stage_of, &n_chosen, err);
}

int orr_plan_draft_spread(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_machine *machine, int64_t samples, struct orr_error *err)
{
	struct orr_arrays all = {0};
	int n_workers = machine->n_workers, *of_rank, code;
	int64_t *stages, *workers; /* the most work, and the fastest, first */

	if (!machine->cluster)
		return 0;
	orr_arrays_make(&all, stages, d->n_stages);
	orr_arrays_make(&all, workers, n_workers);
	orr_arrays_make(&all, of_rank, n_workers);
	if ((code = orr_arrays_check(&all, "plan", err)))
		return code;
	for (int w = 0; w < n_workers; w++)
		workers[w] = -llround(orr_machine_speed(machine, w) * 1e9);
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_stage cost = {0};

		orr_charge(&cost, &g->operators[i], samples, machine);
		if (d->stage_of[i] >= 0)
			stages[d->stage_of[i]] -=
				cost.forward_ns + cost.backward_ns + cost.weight_ns;
	}
	if ((code = orr_rank(stages, NULL, d->n_stages, err)) ||
	    (code = orr_rank(workers, NULL, n_workers, err)))
		goto out;
	for (int w = 0; w < n_workers; w++)
		of_rank[workers[w]] = w;
	for (int s = 0; s < d->n_stages; s++)
		d->workers[s] = of_rank[stages[s]];
out:
	orr_arrays_free(&all);
	return code;
}
