/* Allocations in which a worker has several runs of operators [Beaumont21, section 6]. */
#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "order/allocate.h"
#include "order/place.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "pipeline/parameter_cost.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "pipeline/charge.h"
#include "pipeline/numbering.h"
#include "crossing.h"

#define MOST_STEPS 2000000 /* of branch and bound: a second at most */

struct pieces {
	const struct orr_graph *g;
	struct orr_stage *costs;  /* [n_operators] */
	int *layer, *of;          /* operator -> layer, or -1: free; layer -> operator */
	int64_t *work_ns, *bytes; /* [n_layers] */
	int n_layers;
	int *worker;               /* [n_layers] */
	struct orr_sent_list sent; /* of layers */
	int *left; /* [n_operators] inputs that have not come yet; -1: it has come itself */
	struct orr_arrays all;
};

static void pieces_fini(struct pieces *x)
{
	orr_arrays_free(&x->all);
	orr_arrays_free(&x->sent.all);
}

static int pieces_init(struct pieces *x, const struct orr_graph *g,
		       const struct orr_plan_options *o, const struct orr_machine *machine,
		       int in_flight, struct orr_error *err)
{
	size_t n = (size_t)g->n_operators + 1;
	int code;

	*x = (struct pieces){.g = g};
	orr_arrays_make(&x->all, x->costs, n);
	orr_arrays_make(&x->all, x->layer, n);
	orr_arrays_make(&x->all, x->of, n);
	orr_arrays_make(&x->all, x->work_ns, n);
	orr_arrays_make(&x->all, x->bytes, n);
	orr_arrays_make(&x->all, x->worker, n);
	orr_arrays_make(&x->all, x->left, n);
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_stage *c = &x->costs[i];

		orr_charge_least(c, g, i, o->samples, machine);
		x->left[i] = g->operators[i].n_inputs;
		x->layer[i] = -1;
		if (orr_operator_is_input(&g->operators[i]))
			continue;
		x->layer[i] = x->n_layers;
		x->of[x->n_layers] = i;
		x->work_ns[x->n_layers] = c->forward_ns + c->backward_ns + c->weight_ns +
					  c->update_ns / o->n_microbatches;
		x->bytes[x->n_layers++] = orr_parameters_kept(&o->numerics, c->parameter_bytes,
							      orr_stage_trained_bytes(c), 1) +
					  c->stash_bytes * in_flight;
	}
	return orr_sent_list_init(&x->sent, g, x->layer, x->n_layers, o->samples, err);
}

static bool are_linked(const struct orr_graph *g, int before, int after)
{
	for (int k = 0; k < g->operators[after].n_inputs; k++)
		if (g->operators[after].inputs[k] == before)
			return true;
	return false;
}

/* Fewer pieces: move layers to a neighbour's worker where period and memory allow. */
static void join(struct pieces *x, const struct orr_machine *machine, int64_t period_ns,
		 int64_t *load, int64_t *held)
{
	int n_workers = machine->n_workers;
	bool moved = true;

	for (int w = 0; w < n_workers; w++)
		load[w] = held[w] = 0;
	for (int l = 0; l < x->n_layers; l++) {
		load[x->worker[l]] += x->work_ns[l];
		held[x->worker[l]] += x->bytes[l];
	}
	for (int round = 0; round < x->n_layers && moved; round++) {
		moved = false;
		for (int l = 0; l < x->n_layers; l++) {
			int here = x->worker[l], to = -1, ties = 0, kept = 0;

			for (int k = 0; k < x->n_layers; k++) {
				if (!are_linked(x->g, x->of[k], x->of[l]) &&
				    !are_linked(x->g, x->of[l], x->of[k]))
					continue;
				kept += x->worker[k] == here;
				if (x->worker[k] != here) {
					ties = to == x->worker[k] ? ties + 1 : to < 0 ? 1 : ties;
					to = to < 0 ? x->worker[k] : to;
				}
			}
			if (ties <= kept ||
			    orr_machine_work_ns(machine, to, load[to] + x->work_ns[l]) > period_ns)
				continue;
			if (orr_machine_memory(machine, to) &&
			    held[to] + x->bytes[l] > orr_machine_memory(machine, to))
				continue;
			load[here] -= x->work_ns[l];
			held[here] -= x->bytes[l];
			load[to] += x->work_ns[l];
			held[to] += x->bytes[l];
			x->worker[l] = to;
			moved = true;
		}
	}
}

/* The next operator that has all its inputs, of worker w if there is one; -1: none is left. */
static int next_of(const struct pieces *x, int w)
{
	int any = -1;

	for (int i = 0; i < x->g->n_operators; i++) {
		if (x->left[i] != 0)
			continue;
		if (x->layer[i] < 0 || x->worker[x->layer[i]] == w)
			return i;
		any = any < 0 ? i : any;
	}
	return any;
}

/* A topological order that stays with a worker as long as it can; every change begins a stage. */
static int cut_runs(struct pieces *x, int *stage_of, int *worker_of_stage)
{
	int n_stages = 0, w = -1, i;

	while ((i = next_of(x, w)) >= 0) {
		x->left[i] = -1;
		for (int k = i + 1; k < x->g->n_operators; k++)
			for (int e = 0; e < x->g->operators[k].n_inputs; e++)
				x->left[k] -= x->g->operators[k].inputs[e] == i;
		if (x->layer[i] < 0) {
			stage_of[i] = -1;
			continue;
		}
		if (x->worker[x->layer[i]] != w) {
			w = x->worker[x->layer[i]];
			worker_of_stage[n_stages++] = w;
		}
		stage_of[i] = n_stages - 1;
	}
	return n_stages;
}

int orr_plan_draft_pins(struct orr_plan_draft *d, const struct orr_graph *g,
			const struct orr_plan_options *o, const struct orr_machine *machine,
			struct orr_error *err)
{
	struct orr_pipeline *p = NULL;
	int code;

	*d = (struct orr_plan_draft){0};
	if (o->unpin || !orr_graph_has_pins(g))
		return 0;
	if ((code = orr_partition(&p, g, machine, 0, o->samples, err)))
		return code;
	if ((code = orr_plan_draft_init(d, g, p->n_stages, err)))
		goto out;
	for (int i = 0; i < g->n_operators; i++)
		d->stage_of[i] = p->stage_of[i];
	p->n_workers = machine->n_workers;
	if (p->n_stages <= p->n_workers) /* no pieces: as a chain and side by side, in order */
		goto out;
	if (!(code = orr_plan_draft_add(d, &d->worker, p->n_stages, err)))
		code = orr_place_evenly(d->worker, p, MOST_STEPS, err);
out:
	if (code)
		orr_plan_draft_fini(d);
	orr_pipeline_destroy(p);
	return code;
}

/* Where links take time: better with them counted, from there and from the best contiguous ones. */
static int count_links(struct pieces *x, const struct orr_plan_options *o,
		       const struct orr_machine *machine, struct orr_error *err)
{
	struct orr_spread_problem spread = {x->n_layers, x->work_ns, x->bytes,
					    &x->sent,    machine,    o->added};
	struct orr_layers layers = {x->n_layers, x->work_ns, x->bytes, machine};
	struct orr_allocation found;
	int64_t best_ns, other_ns;
	int *other, code;

	if (!(machine->bandwidth_bytes_per_s > 0))
		return 0;
	orr_arrays_make(&x->all, other, (size_t)x->n_layers + 1);
	if ((code = orr_arrays_check(&x->all, "plan", err)) ||
	    (code = orr_spread_improve(&spread, x->worker, &best_ns, err)) ||
	    (code = orr_allocate_contiguous(&found, other, &layers, machine->n_workers,
					    o->memory_bytes, err)) ||
	    found.period_ns < 0 || (code = orr_spread_improve(&spread, other, &other_ns, err)))
		return code;
	if (other_ns < best_ns)
		memcpy(x->worker, other, (size_t)x->n_layers * sizeof(*other));
	return 0;
}

/* The placement whose busiest worker does least; *found false: none fits. */
static int find_busy(struct pieces *x, const struct orr_plan_options *o,
		     const struct orr_machine *machine, double *bound_s, bool *found,
		     struct orr_error *err)
{
	size_t n_workers = (size_t)machine->n_workers;
	int64_t *sums = orr_arrays_add(&x->all, 2 * n_workers, sizeof(*sums));
	const struct orr_layers layers = {x->n_layers, x->work_ns, x->bytes, machine};
	struct orr_allocation best;
	int code;

	if ((code = orr_arrays_check(&x->all, "plan", err)) ||
	    (code = orr_allocate_any(&best, x->worker, &layers, machine->n_workers, o->memory_bytes,
				     MOST_STEPS, err)))
		return code;
	/* a memory limit is one of in_flight microbatches here, and another one elsewhere */
	*bound_s = (double)(best.proven && !o->memory_bytes ? best.period_ns : best.bound_ns) / 1e9;
	*found = best.period_ns >= 0;
	if (!*found)
		return 0;
	join(x, machine, best.period_ns, sums, sums + n_workers);
	return count_links(x, o, machine, err);
}

static int find_small(struct pieces *x, const struct orr_machine *machine, struct orr_error *err)
{
	const struct orr_layers layers = {x->n_layers, x->bytes, NULL, NULL};
	struct orr_allocation best;

	return orr_allocate_any(&best, x->worker, &layers, machine->n_workers, 0, MOST_STEPS, err);
}

int orr_plan_draft_pieces(struct orr_plan_draft *d, const struct orr_graph *g,
			  const struct orr_plan_options *o, const struct orr_machine *machine,
			  int in_flight, double *bound_s, struct orr_error *err)
{
	struct pieces x = {0};
	bool found = true;
	int code;

	*d = (struct orr_plan_draft){0};
	if ((code = pieces_init(&x, g, o, machine, in_flight ? in_flight : 1, err)) ||
	    (code = in_flight ? find_busy(&x, o, machine, bound_s, &found, err)
			      : find_small(&x, machine, err)) ||
	    !found)
		goto out;
	if ((code = orr_plan_draft_init(d, g, x.n_layers, err)) ||
	    (code = orr_plan_draft_add(d, &d->worker, x.n_layers + 1, err)))
		goto out;
	d->n_stages = cut_runs(&x, d->stage_of, d->worker);
out:
	if (code)
		orr_plan_draft_fini(d);
	pieces_fini(&x);
	return code;
}
