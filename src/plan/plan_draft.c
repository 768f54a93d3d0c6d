#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

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

static bool equal(const int *a, const int *b, int n)
{
	return a == b || (a && b && !memcmp(a, b, (size_t)n * sizeof(*a)));
}

static bool is_draft(const struct orr_plan_draft *a, const struct orr_plan_draft *b,
		     int n_operators)
{
	int n_workers = 0;

	if (a->n_stages != b->n_stages || !equal(a->stage_of, b->stage_of, n_operators) ||
	    !equal(a->replicas, b->replicas, a->n_stages) ||
	    !equal(a->worker, b->worker, a->n_stages))
		return false;
	for (int s = 0; s < a->n_stages; s++)
		n_workers += a->replicas[s];
	return equal(a->workers, b->workers, n_workers);
}

struct orr_plan_tried *orr_plan_drafts_add(struct orr_plan_drafts *x, struct orr_plan_draft *d,
					   bool tight, int n_operators, bool *known)
{
	struct orr_plan_tried *tried = x->list;

	for (; tried < x->list + ORR_PLAN_MOST_DRAFTS && tried < x->list + x->n; tried++)
		if (tried->tight == tight && is_draft(&tried->draft, d, n_operators)) {
			orr_plan_draft_fini(d);
			*known = true;
			return tried;
		}
	*known = false;
	tried = &x->list[x->n++ % ORR_PLAN_MOST_DRAFTS];
	orr_plan_draft_fini(&tried->draft);
	*tried = (struct orr_plan_tried){.draft = *d, .tight = tight};
	*d = (struct orr_plan_draft){0};
	return tried;
}

void orr_plan_drafts_fini(struct orr_plan_drafts *x)
{
	for (int i = 0; i < ORR_PLAN_MOST_DRAFTS; i++)
		orr_plan_draft_fini(&x->list[i].draft);
}

int orr_plan_draft_init(struct orr_plan_draft *d, const struct orr_graph *g, int n_stages,
			struct orr_error *err)
{
	int code;

	*d = (struct orr_plan_draft){.n_stages = n_stages};
	if ((code = orr_plan_draft_add(d, &d->stage_of, g->n_operators + 1, err)) ||
	    (code = orr_plan_draft_add(d, &d->replicas, n_stages, err)))
		return code;
	for (int s = 0; s < n_stages; s++)
		d->replicas[s] = 1;
	return 0;
}

int orr_plan_draft_add(struct orr_plan_draft *d, int **array, int n, struct orr_error *err)
{
	*array = orr_arrays_add(&d->all, (size_t)n, sizeof(**array));
	return orr_arrays_check(&d->all, "plan", err);
}

int orr_plan_draft_from(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_ideals *x, const struct orr_hierarchy *h,
			const struct orr_levels *levels, const int *order, struct orr_error *err)
{
	int code = orr_plan_draft_init(d, g, h->n_stages, err), k = 0;

	if (!code)
		code = orr_plan_draft_add(d, &d->workers, h->n_workers, err);
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
	int n_chosen = n_stages, code = orr_plan_draft_init(d, g, n_stages, err);

	return code ? code : orr_cut(g, machine, samples, n_stages, d->stage_of, &n_chosen, err);
}

/* The one with most that is left, or -1. */
static int largest_of(const double *sizes, const bool *taken, int n)
{
	int largest = -1;

	for (int i = 0; i < n; i++)
		if (!taken[i] && (largest < 0 || sizes[i] > sizes[largest]))
			largest = i;
	return largest;
}

int orr_plan_draft_spread(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_machine *machine, int64_t samples, struct orr_error *err)
{
	size_t n = (size_t)d->n_stages, n_workers = (size_t)machine->n_workers;
	struct orr_arrays all = {0};
	double *work = orr_arrays_add(&all, n, sizeof(*work)),
	       *speed = orr_arrays_add(&all, n_workers, sizeof(*speed));
	bool *placed = orr_arrays_add(&all, n, sizeof(*placed)),
	     *taken = orr_arrays_add(&all, n_workers, sizeof(*taken));
	int code = orr_arrays_check(&all, "plan", err);

	if (code || !machine->cluster)
		goto out;
	if ((code = orr_plan_draft_add(d, &d->workers, d->n_stages, err)))
		goto out;
	for (size_t w = 0; w < n_workers; w++)
		speed[w] = orr_machine_speed(machine, (int)w);
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_stage cost = {0};

		orr_charge(&cost, &g->operators[i], samples, machine);
		if (d->stage_of[i] >= 0)
			work[d->stage_of[i]] +=
				(double)(cost.forward_ns + cost.backward_ns + cost.weight_ns);
	}
	for (size_t k = 0; k < n; k++) {
		int s = largest_of(work, placed, (int)n),
		    w = largest_of(speed, taken, (int)n_workers);

		d->workers[s] = w;
		placed[s] = taken[w] = true;
	}
out:
	orr_arrays_free(&all);
	return code;
}
