#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "graph.h"
#include "ideals.h"
#include "jobs.h"
#include "partition.h"
#include "pipeline.h"
#include "plan_draft.h"
#include "plan_order.h"
#include "quantity.h"
#include "schedule.h"
#include "simulate.h"
#include "exchange/table.h"
#include "timeline.h"

#define MOST_IDEALS 1000   /* with one level of workers */
#define MOST_IDEALS_IN 500 /* with more: the search keeps every pair */

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
static void number_workers(struct orr_plan *plan, const struct orr_plan_draft *d)
{
	int next = 0;

	for (int s = 0; s < d->n_stages; s++) {
		double busy = 0;

		plan->first_worker[s] = d->worker ? d->worker[s] : next;
		plan->replicas[s] = d->replicas[s];
		plan->compute_s[s] = d->compute_s[s];
		plan->communication_s[s] = d->communication_s[s];
		next += d->replicas[s];
		for (int t = 0; t <= s; t++) /* pieces of one worker add up */
			if (t == s || (d->worker && d->worker[t] == d->worker[s]))
				busy += d->compute_s[t] + d->communication_s[t];
		plan->slowest_s = busy > plan->slowest_s ? busy : plan->slowest_s;
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
                   const struct orr_plan_draft *d, bool side_by_side, struct orr_error *err)
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
	plan->in_pieces = d->worker != NULL;
	note_world(plan->in_pieces ? &plan->pieces : side_by_side ? &plan->dag : &plan->chain, plan);
	if (!side_by_side)
		plan->chain.makespan_ns = makespan_ns;
	*out = plan;
	plan = NULL;
out:
	orr_plan_destroy(plan);
	return code;
}

/* ---- choosing ---- */

#define N_WORLDS 3
#define IN_PIECES 2

struct choosing {
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	const struct orr_ideals *x;
	struct orr_plan *best[N_WORLDS]; /* chain, side by side, in pieces: the best that fits */
	bool proven;               /* no allocation in pieces is better balanced */
	struct orr_plan *least;    /* where none fits, the one that needs least */
};

static const struct orr_plan_world *world_of(const struct orr_plan *plan)
{
	return plan->in_pieces ? &plan->pieces : plan->side_by_side ? &plan->dag : &plan->chain;
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
static int consider(struct choosing *c, struct orr_plan_draft *d, bool *fits, struct orr_error *err)
{
	int code = 0;

	orr_plan_draft_place_free(d, c->g);
	for (int world = d->worker ? IN_PIECES : 0; world < (d->worker ? N_WORLDS : IN_PIECES) && !code; world++) {
		struct orr_plan *plan = NULL, **best = &c->best[world];

		if ((code = realise(&plan, c->g, c->o, d, world > 0, err)))
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
	orr_plan_draft_fini(d);
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
		struct orr_plan_draft d = {0};

		if ((code = orr_hierarchy_create(&h, c->x, &options, err)))
			break;
		if (!h && flight == 1) { /* none fits: what comes near, for the message */
			options.memory_bytes = 0;
			code = orr_hierarchy_create(&h, c->x, &options, err);
		}
		if (!code && h && !(code = orr_plan_draft_from(&d, c->g, c->x, h, err)))
			code = consider(c, &d, &fits, err);
		orr_plan_draft_fini(&d);
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
		struct orr_plan_draft d = {0};

		/* one that cannot be cut so is no candidate */
		if (!orr_plan_draft_cut(&d, c->g, c->o, &machine, n, NULL))
			code = consider(c, &d, &fits, err);
		orr_plan_draft_fini(&d);
	}
	return code;
}

/* As with the cuts: stages that can hold more and more microbatches, until one fits. */
static int consider_pieces(struct choosing *c, struct orr_error *err)
{
	int n_workers = orr_levels_workers(&c->o->levels), code = 0;
	struct orr_machine machine = machine_of(c->o);
	bool fits = false;

	for (int flight = 1; c->o->pieces && flight <= 2 * n_workers && !fits && !code; flight *= 2) {
		struct orr_plan_draft d = {0};

		code = orr_plan_draft_pieces(&d, c->g, c->o, &machine, flight, &c->proven, err);
		if (code || !d.n_stages)
			break;
		code = consider(c, &d, &fits, err);
		orr_plan_draft_fini(&d);
	}
	return code;
}

static int consider_all(struct choosing *c, struct orr_error *err)
{
	struct orr_machine machine = machine_of(c->o);
	struct orr_plan_draft d = {0};
	bool fits = false;
	int code = orr_plan_draft_pins(&d, c->g, c->o, &machine, err);

	if (code || d.n_stages) { /* somebody has cut it */
		if (!code)
			code = consider(c, &d, &fits, err);
		orr_plan_draft_fini(&d);
		return code;
	}
	if ((code = consider_cuts(c, false, err)) || (code = consider_cuts(c, true, err)) ||
	    (code = consider_branches(c, err)))
		return code;
	return consider_pieces(c, err);
}

/* Where two are as good, the one that is simpler to run. */
static int choose(struct orr_plan **out, struct choosing *c)
{
	static const int order[] = {1, 0, IN_PIECES};
	int wins = -1;

	for (int i = 0; i < N_WORLDS; i++)
		if (c->best[order[i]] && (wins < 0 || is_better(c->best[order[i]], c->best[wins])))
			wins = order[i];
	if (wins < 0)
		return ORR_E_INPUT;
	*out = c->best[wins];
	if (c->best[0])
		(*out)->chain = c->best[0]->chain;
	if (c->best[1])
		(*out)->dag = c->best[1]->dag;
	if (c->best[IN_PIECES])
		(*out)->pieces = c->best[IN_PIECES]->pieces;
	(*out)->proven = c->proven;
	(*out)->coarse = c->x->coarse;
	(*out)->flattened = c->x->flattened;
	c->best[wins] = NULL;
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
	if (code || (code = consider_all(&c, err)))
		goto out;
	code = choose(out, &c);
	*least = c.least;
	c.least = NULL;
out:
	for (int i = 0; i < N_WORLDS; i++)
		orr_plan_destroy(c.best[i]);
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
