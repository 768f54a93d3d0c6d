#include "plan_draft.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"
#include "pipeline/cut.h"
#include "orrery/graph.h"
#include "hierarchy.h"
#include "ideals.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "pipeline/charge.h"

#define MOST_ORDERS 24 /* of workers that differ, of which all are tried */

void orr_plan_draft_fini(struct orr_plan_draft *d)
{
	orr_arrays_free(&d->all);
	*d = (struct orr_plan_draft){0};
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
		orr_hierarchy_workers(d->workers + k, d->replicas[s], &h->stages[s], levels, order);
		k += d->replicas[s];
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

/* ---- orders of workers ---- */

struct finder {
	const struct orr_machine *machine;
	struct orr_plan_orders *found;
	bool *taken; /* [n_workers] */
	int *order;  /* [n_workers] so far */
	bool too_many;
};

/* Could each stand in the other's place? */
static bool are_alike(const struct orr_machine *m, int v, int w)
{
	const struct orr_cluster *c = m->cluster;
	bool free_links = !m->latency_ns && m->bandwidth_bytes_per_s <= 0;

	return orr_machine_speed(m, v) == orr_machine_speed(m, w) &&
	       orr_machine_memory(m, v) == orr_machine_memory(m, w) &&
	       (free_links || (!c->n_pairs && c->workers[v].group == c->workers[w].group));
}

/* f->order, unless it is there. */
static void add(struct finder *f)
{
	struct orr_plan_orders *found = f->found;
	size_t n = (size_t)f->machine->n_workers;

	for (int i = 0; i < found->n; i++)
		if (!memcmp(found->list + (size_t)i * n, f->order, n * sizeof(*f->order)))
			return;
	memcpy(found->list + (size_t)found->n++ * n, f->order, n * sizeof(*f->order));
}

/* All orders that go on from the first n workers; of workers that are alike the first is next. */
static void extend(struct finder *f, int n)
{
	int n_workers = f->machine->n_workers;

	if (n == n_workers) {
		f->too_many = f->found->n == MOST_ORDERS;
		if (!f->too_many)
			add(f);
	}
	for (int w = 0; n < n_workers && w < n_workers && !f->too_many; w++) {
		bool skip = f->taken[w];

		for (int v = 0; v < w && !skip; v++)
			skip = !f->taken[v] && are_alike(f->machine, v, w);
		if (skip)
			continue;
		f->taken[w] = true;
		f->order[n] = w;
		extend(f, n + 1);
		f->taken[w] = false;
	}
}

static void reverse(int *order, int n)
{
	for (int i = 0; i < n / 2; i++) {
		int w = order[i];

		order[i] = order[n - 1 - i];
		order[n - 1 - i] = w;
	}
}

/* The file's order, which has neighbours side by side, and by speed; and each backwards. */
static void add_some(struct finder *f)
{
	int n = f->machine->n_workers;

	f->found->n = 0;
	for (int i = 0; i < 4; i++) {
		for (int w = 0; w < n; w++) {
			int at = w;

			for (; i < 2 && at > 0 &&
			       orr_machine_speed(f->machine, f->order[at - 1]) <
				       orr_machine_speed(f->machine, w);
			     at--)
				f->order[at] = f->order[at - 1];
			f->order[at] = w;
		}
		if (i % 2)
			reverse(f->order, n);
		add(f);
	}
}

int orr_plan_orders_find(struct orr_plan_orders *found, const struct orr_machine *machine,
			 struct orr_error *err)
{
	size_t n = (size_t)machine->n_workers;
	struct finder f = {.machine = machine, .found = found};
	int code;

	*found = (struct orr_plan_orders){0};
	orr_arrays_make(&found->arrays, found->list, MOST_ORDERS * n);
	orr_arrays_make(&found->arrays, f.taken, n);
	orr_arrays_make(&found->arrays, f.order, n);
	if ((code = orr_arrays_check(&found->arrays, "plan", err)))
		return code;
	extend(&f, 0);
	if (f.too_many)
		add_some(&f);
	found->all = !f.too_many;
	return 0;
}

/* ---- what is refused of a graph before a plan is looked for ---- */

/* Measured times and guesses from FLOP do not compare: all operators have them, or none. */
int orr_plan_check_costs(const struct orr_graph *g, struct orr_error *err)
{
	const struct orr_operator *measured = NULL, *guessed = NULL;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o) || orr_operator_is_study(o))
			continue;
		if (o->forward_ns >= 0 || o->backward_ns >= 0)
			measured = o;
		if (!guessed && (o->forward_ns < 0 || o->backward_ns < 0))
			guessed = o;
	}
	if (!measured || !guessed)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: node %s: no %s, and others are measured: profile it again (`orrery "
			"profile`), or give one",
			g->name, guessed->name, guessed->forward_ns < 0 ? "forward" : "backward");
}

/* A plan chooses workers itself, and lets gradients go back before a minibatch is whole. */
int orr_plan_check_jobs(const struct orr_graph *g, struct orr_error *err)
{
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const char *says = o->n_gang ? "gang" : o->with ? "with" : "gather";
		/* an operator that computes gathers by what it is */
		bool asked = o->n_gang || o->with || orr_operator_is_study(o);

		if (o->n_gang || o->with || o->gather)
			return orr_fail(err, ORR_E_INPUT,
					"%s:%d: node %s: %s: plan places stages itself, each on "
					"workers of its own, and overlaps a minibatch with its "
					"backwards: %s%s%ssimulate it under auto",
					g->name, o->line, o->name, says, asked ? "take " : "",
					asked ? says : "", asked ? "= away, or " : "");
	}
	return 0;
}
