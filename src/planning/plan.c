#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "cut.h"
#include "figures.h"
#include "graph.h"
#include "ideals.h"
#include "jobs.h"
#include "partition.h"
#include "pipeline.h"
#include "plan_order.h"
#include "quantity.h"
#include "schedule.h"
#include "simulate.h"
#include "exchange/table.h"
#include "timeline.h"

#define MOST_IDEALS 1000   /* with one level of workers */
#define MOST_IDEALS_IN 500 /* with more: the search keeps every pair */

/* Stages on workers that were found one way or another. */
struct draft {
	int n_stages;
	int *stage_of; /* [n_operators] -1: an input */
	int *replicas;
	double *compute_s, *communication_s;
};

static void draft_fini(struct draft *d)
{
	free(d->stage_of);
	free(d->replicas);
	free(d->compute_s);
	free(d->communication_s);
	*d = (struct draft){0};
}

static int draft_init(struct draft *d, const struct orr_graph *g, int n_stages, struct orr_error *err)
{
	size_t n = (size_t)n_stages;

	*d = (struct draft){.n_stages = n_stages};
	d->stage_of = calloc((size_t)g->n_operators + 1, sizeof(int));
	d->replicas = calloc(n, sizeof(int));
	d->compute_s = calloc(n, sizeof(double));
	d->communication_s = calloc(n, sizeof(double));
	if (d->stage_of && d->replicas && d->compute_s && d->communication_s)
		return 0;
	draft_fini(d);
	return orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", n_stages);
}

static int draft_from(struct draft *d, const struct orr_graph *g, const struct orr_ideals *x,
                      const struct orr_hierarchy *h, struct orr_error *err)
{
	int code = draft_init(d, g, h->n_stages, err);

	for (int s = 0; !code && s < h->n_stages; s++) {
		d->replicas[s] = h->stages[s].workers;
		d->compute_s[s] = h->stages[s].compute_s;
		d->communication_s[s] = h->stages[s].communication_s;
	}
	for (int i = 0; !code && i < g->n_operators; i++) {
		int s = 0;

		while (x->unit_of[i] >= 0 && !orr_ideals_has(x, h->stages[s].to, x->unit_of[i]))
			s++;
		d->stage_of[i] = x->unit_of[i] >= 0 ? s : -1;
	}
	return code;
}

/* What costs nothing and reads nothing goes to its first reader, as inputs do. */
static void place_free(struct draft *d, const struct orr_graph *g)
{
	for (int i = g->n_operators - 1; i >= 0; i--)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int from = g->operators[i].inputs[k];

			if (g->operators[from].n_inputs == 0 && d->stage_of[from] < 0)
				d->stage_of[from] = d->stage_of[i];
			else if (g->operators[from].n_inputs == 0 && d->stage_of[i] < d->stage_of[from] &&
			         d->stage_of[i] >= 0)
				d->stage_of[from] = d->stage_of[i];
		}
}

/* Cut every branch by itself, one worker a stage. */
static int draft_cut(struct draft *d, const struct orr_graph *g, const struct orr_plan_options *o,
                     const struct orr_machine *machine, int n_stages, struct orr_error *err)
{
	struct orr_pipeline *p = NULL;
	int n_chosen = n_stages, code = draft_init(d, g, n_stages, err);
	double rate = machine->bandwidth_bytes_per_s;

	if (code || (code = orr_cut(g, machine, o->samples, n_stages, d->stage_of, &n_chosen, err)) ||
	    (code = orr_partition_as(&p, g, machine, d->stage_of, n_chosen, o->samples, err)))
		return code;
	for (int s = 0; s < n_stages; s++) {
		int64_t in = 0, out = 0;
		double transfer;

		for (int i = 0; i < p->stages[s].n_in; i++)
			in += p->edges[p->stages[s].in[i]].bytes;
		for (int i = 0; i < p->stages[s].n_out; i++)
			out += p->edges[p->stages[s].out[i]].bytes;
		d->replicas[s] = 1;
		d->compute_s[s] = (double)(p->stages[s].forward_ns + p->stages[s].backward_ns + p->stages[s].weight_ns +
		                           p->stages[s].update_ns / o->n_microbatches) * 1e-9;
		transfer = rate > 0 && o->activations ? 2 * (double)(in > out ? in : out) / rate : 0;
		d->communication_s[s] = transfer > d->compute_s[s] ? transfer - d->compute_s[s] : 0;
	}
	orr_pipeline_destroy(p);
	return 0;
}

/* ---- a draft as the simulator sees it ---- */

static int simulate(struct orr_plan *plan, struct orr_table *table, struct orr_error *err)
{
	struct orr_schedule schedule;
	int code;

	plan->table = table;
	orr_table_schedule(&schedule, table);
	if ((code = orr_jobs_create(&plan->jobs, plan->pipeline, &schedule, err)) ||
	    (code = orr_simulate(&plan->timeline, plan->jobs, &plan->machine, err)))
		return code;
	return orr_figures_create(&plan->figures, plan->timeline, err);
}

static void note_world(struct orr_plan_world *world, const struct orr_plan *plan)
{
	int64_t limit = plan->options.memory_bytes;

	*world = (struct orr_plan_world){.n_stages = plan->pipeline->n_stages, .slowest_s = plan->slowest_s,
	                                 .makespan_ns = plan->figures->makespan_ns};
	for (int w = 0; w < plan->figures->n_workers; w++) {
		const struct orr_worker_figures *f = &plan->figures->worker[w];

		world->memory_bytes = f->memory_bytes > world->memory_bytes ? f->memory_bytes : world->memory_bytes;
		world->stash_bytes = f->peak_stash_bytes > world->stash_bytes ? f->peak_stash_bytes : world->stash_bytes;
		world->peak_stash = f->peak_stash > world->peak_stash ? f->peak_stash : world->peak_stash;
	}
	world->fits = !limit || world->memory_bytes <= limit;
}

static struct orr_machine machine_of(const struct orr_plan_options *o)
{
	struct orr_machine machine = orr_machine_default(orr_levels_workers(&o->levels));

	machine.memory_bytes = o->memory_bytes;
	machine.flops_per_s = o->flops_per_s;
	for (int l = 0; l < o->levels.n && o->activations; l++)
		if (o->levels.bytes_per_s[l] > 0 && o->levels.workers[l] > 1 &&
		    (machine.bandwidth_bytes_per_s <= 0 || o->levels.bytes_per_s[l] < machine.bandwidth_bytes_per_s))
			machine.bandwidth_bytes_per_s = o->levels.bytes_per_s[l];
	return machine;
}

/* Workers are numbered along the stages, so that neighbours share the inner links. */
static void number_workers(struct orr_plan *plan, const struct draft *d)
{
	int next = 0;

	for (int s = 0; s < d->n_stages; s++) {
		plan->first_worker[s] = next;
		plan->replicas[s] = d->replicas[s];
		plan->compute_s[s] = d->compute_s[s];
		plan->communication_s[s] = d->communication_s[s];
		next += d->replicas[s];
		if (d->compute_s[s] + d->communication_s[s] > plan->slowest_s)
			plan->slowest_s = d->compute_s[s] + d->communication_s[s];
		plan->one_worker_s += d->compute_s[s] * d->replicas[s];
	}
}

/* Order the jobs in one of the two worlds; the first stages hold so many microbatches. */
static int order(struct orr_plan *plan, bool side_by_side, struct orr_table **table, int64_t *makespan_ns,
                 struct orr_error *err)
{
	const struct orr_pipeline *p = plan->pipeline;
	struct orr_pipeline *chain = NULL;
	struct orr_placement x = {plan->first_worker, plan->replicas, calloc((size_t)p->n_stages, sizeof(int))};
	int code = x.cap ? 0 : orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", p->n_stages);

	if (code || (!side_by_side && (code = orr_pipeline_flatten(&chain, p, err))))
		goto out;
	orr_placement_cap(&x, chain ? chain : p);
	for (int s = 0; s < p->n_stages; s++) {
		int each = (x.cap[s] + x.replicas[s] - 1) / x.replicas[s];

		if (p->stages[s].n_in == 0 && each > plan->in_flight)
			plan->in_flight = each;
	}
	code = orr_placement_order(table, &x, chain ? chain : p, &plan->machine, makespan_ns, err);
out:
	orr_pipeline_destroy(chain);
	free(x.cap);
	return code;
}

/* The world of one draft. In a chain every stage also waits for the one before, and the makespan is the chain's;
 * its order runs on the real stages as it is, which hold as much then. */
static int realise(struct orr_plan **out, const struct orr_graph *g, const struct orr_plan_options *o,
                   const struct draft *d, bool side_by_side, struct orr_error *err)
{
	struct orr_plan *plan = calloc(1, sizeof(*plan));
	struct orr_table *table = NULL;
	size_t n = (size_t)d->n_stages;
	int64_t makespan_ns = 0;
	int code;

	if (!plan || !(plan->first_worker = calloc(n, sizeof(int))) || !(plan->replicas = calloc(n, sizeof(int))) ||
	    !(plan->compute_s = calloc(n, sizeof(double))) || !(plan->communication_s = calloc(n, sizeof(double)))) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", d->n_stages);
		goto out;
	}
	plan->graph = g;
	plan->options = *o;
	plan->machine = machine_of(o);
	plan->side_by_side = side_by_side;
	number_workers(plan, d);
	if ((code = orr_partition_as(&plan->pipeline, g, &plan->machine, d->stage_of, d->n_stages, o->samples, err)))
		goto out;
	plan->pipeline->optimizer_floats = o->optimizer_floats;
	if ((code = orr_pipeline_set_step(plan->pipeline, plan->machine.n_workers, o->n_microbatches, err)) ||
	    (code = order(plan, side_by_side, &table, &makespan_ns, err)) || (code = simulate(plan, table, err)))
		goto out;
	note_world(side_by_side ? &plan->dag : &plan->chain, plan);
	if (!side_by_side)
		plan->chain.makespan_ns = makespan_ns;
	*out = plan;
	plan = NULL;
out:
	orr_plan_destroy(plan);
	return code;
}

/* ---- choosing ---- */

struct choosing {
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	const struct orr_ideals *x;
	struct orr_plan *best[2];  /* chain, side by side: the best that fits */
	struct orr_plan *least;    /* where none fits, the one that needs least */
};

static const struct orr_plan_world *world_of(const struct orr_plan *plan)
{
	return plan->side_by_side ? &plan->dag : &plan->chain;
}

/* Is a better than b? Times within a millionth are equal: sums of doubles come out a little apart. */
static bool is_better(const struct orr_plan *a, const struct orr_plan *b)
{
	const struct orr_plan_world *x = world_of(a), *y = world_of(b);

	if (!b->options.by_makespan && (x->slowest_s < y->slowest_s * (1 - 1e-6) ||
	                                y->slowest_s < x->slowest_s * (1 - 1e-6)))
		return x->slowest_s < y->slowest_s;
	if (x->makespan_ns != y->makespan_ns)
		return x->makespan_ns < y->makespan_ns;
	return x->memory_bytes != y->memory_bytes ? x->memory_bytes < y->memory_bytes : x->peak_stash < y->peak_stash;
}

/* *fits is set where either world fits; d is spent. */
static int consider(struct choosing *c, struct draft *d, bool *fits, struct orr_error *err)
{
	int code = 0;

	place_free(d, c->g);
	for (int world = 0; world < 2 && !code; world++) {
		struct orr_plan *plan = NULL, **best = &c->best[world];

		if ((code = realise(&plan, c->g, c->o, d, world == 1, err)))
			break;
		if (!world_of(plan)->fits)
			best = !c->least || world_of(plan)->memory_bytes < world_of(c->least)->memory_bytes ? &c->least : NULL;
		else
			*fits = true;
		if (best && (!*best || best == &c->least || is_better(plan, *best))) {
			orr_plan_destroy(*best);
			*best = plan;
			plan = NULL;
		}
		orr_plan_destroy(plan);
	}
	draft_fini(d);
	return code;
}

/* With a memory limit, ask for stages that can hold more and more microbatches until one fits. */
static int consider_cuts(struct choosing *c, bool connected, struct orr_error *err)
{
	int n_workers = orr_levels_workers(&c->o->levels), code = 0;
	bool fits = false;

	for (int flight = 1; flight <= 2 * n_workers && !fits && !code; flight *= 2) {
		struct orr_hierarchy_options options = {.levels = c->o->levels, .activations = c->o->activations,
			.connected = connected, .straight = c->o->straight, .memory_bytes = c->o->memory_bytes,
			.copies = 2 + c->o->optimizer_floats, .least_in_flight = flight};
		struct orr_hierarchy *h = NULL;
		struct draft d = {0};

		if ((code = orr_hierarchy_create(&h, c->x, &options, err)))
			break;
		if (!h && flight == 1) { /* none fits: what comes near, for the message */
			options.memory_bytes = 0;
			code = orr_hierarchy_create(&h, c->x, &options, err);
		}
		if (!code && h && !(code = draft_from(&d, c->g, c->x, h, err)))
			code = consider(c, &d, &fits, err);
		draft_fini(&d);
		if (!h)
			break;
		orr_hierarchy_destroy(h);
	}
	return code;
}

static int consider_branches(struct choosing *c, struct orr_error *err)
{
	struct orr_machine machine = machine_of(c->o);
	int n = 0, code = 0;
	bool fits = false;

	for (int i = 0; i < c->g->n_operators; i++)
		n += c->g->operators[i].op != ORR_OP_INPUT;
	n = machine.n_workers < n ? machine.n_workers : n;
	if (c->x->n_units < n)
		return 0;
	{
		struct draft d = {0};

		/* one that cannot be cut so is no candidate */
		if (!draft_cut(&d, c->g, c->o, &machine, n, NULL))
			code = consider(c, &d, &fits, err);
		draft_fini(&d);
	}
	return code;
}

static int choose(struct orr_plan **out, struct choosing *c)
{
	struct orr_plan *chain = c->best[0], *dag = c->best[1];
	bool dag_wins = dag && (!chain || !is_better(chain, dag));

	if (!chain && !dag)
		return ORR_E_INPUT;
	*out = dag_wins ? dag : chain;
	if (chain)
		(*out)->chain = chain->chain;
	if (dag)
		(*out)->dag = dag->dag;
	(*out)->coarse = c->x->coarse;
	(*out)->flattened = c->x->flattened;
	c->best[dag_wins] = NULL;
	return 0;
}

static int search(struct orr_plan **out, struct orr_plan **least, const struct orr_graph *g,
                  const struct orr_plan_options *o, struct orr_error *err)
{
	struct choosing c = {.g = g, .o = o};
	struct orr_machine machine = machine_of(o);
	struct orr_ideals *x = NULL;
	int code = orr_ideals_create(&x, g, &machine, o->samples, o->n_microbatches, o->levels.n > 1 ? MOST_IDEALS_IN : MOST_IDEALS, err);

	c.x = x;
	if (!code && x->compute_ns[x->n - 1] == 0)
		code = orr_fail(err, ORR_E_INPUT, "%s: no operator takes any time: give costs, or measure them "
		                "(`orrery profile`)", g->name);
	if (code || (code = consider_cuts(&c, false, err)) || (code = consider_cuts(&c, true, err)) ||
	    (code = consider_branches(&c, err)))
		goto out;
	code = choose(out, &c);
	*least = c.least;
	c.least = NULL;
out:
	orr_plan_destroy(c.best[0]);
	orr_plan_destroy(c.best[1]);
	orr_plan_destroy(c.least);
	orr_ideals_destroy(x);
	return code;
}

/* Which worker lacks how much, and with how many it would fit. */
static int refuse(const struct orr_plan *least, const struct orr_graph *g, const struct orr_plan_options *o,
                  struct orr_error *err)
{
	const struct orr_figures *f = least->figures;
	struct orr_plan_options more = *o;
	char need[32], limit[32], lack[32], cure[64] = "";
	int worst = 0;

	for (int w = 0; w < f->n_workers; w++)
		worst = f->worker[w].memory_bytes > f->worker[worst].memory_bytes ? w : worst;
	for (int k = 0; k < 3 && !*cure; k++) {
		struct orr_plan *plan = NULL, *nearest = NULL;

		more.levels.workers[o->levels.n - 1] *= 2;
		if (orr_levels_workers(&more.levels) > 256)
			break;
		if (!search(&plan, &nearest, g, &more, NULL))
			(void)snprintf(cure, sizeof(cure), ", or %d workers", orr_levels_workers(&more.levels));
		orr_plan_destroy(plan);
		orr_plan_destroy(nearest);
	}
	orr_size_print(need, sizeof(need), f->worker[worst].memory_bytes);
	orr_size_print(limit, sizeof(limit), o->memory_bytes);
	orr_size_print(lack, sizeof(lack), f->worker[worst].memory_bytes - o->memory_bytes);
	return orr_fail(err, ORR_E_INPUT,
	                "%s: no plan fits --memory %s: the one that needs least wants %s on worker %d, %s more, for "
	                "parameters, gradients, optimizer and %d stashes: what fits is --memory %lldB%s",
	                g->name, limit, need, worst, lack, f->worker[worst].peak_stash,
	                (long long)f->worker[worst].memory_bytes, cure);
}

int orr_plan_create(struct orr_plan **out, const struct orr_graph *g, const struct orr_plan_options *o,
                    struct orr_error *err)
{
	struct orr_plan *least = NULL;
	int code = search(out, &least, g, o, err);

	if (code == ORR_E_INPUT && least)
		code = refuse(least, g, o, err);
	orr_plan_destroy(least);
	return code;
}

void orr_plan_destroy(struct orr_plan *plan)
{
	if (!plan)
		return;
	orr_figures_destroy(plan->figures);
	orr_timeline_destroy(plan->timeline);
	orr_jobs_destroy(plan->jobs);
	orr_table_destroy(plan->table);
	orr_pipeline_destroy(plan->pipeline);
	free(plan->first_worker);
	free(plan->replicas);
	free(plan->compute_s);
	free(plan->communication_s);
	free(plan);
}
