#include "orrery/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/max.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "hierarchy.h"
#include "ideals.h"
#include "orrery/jobs.h"
#include "pipeline/parameter_cost.h"
#include "orrery/pipeline.h"
#include "plan_draft.h"
#include "base/quantity.h"
#include "orrery/schedule.h"
#include "orrery/timeline.h"
#include "pipeline/charge.h"
#include "pipeline/numbering.h"

#define MOST_IDEALS 1000   /* with one level of workers */
#define MOST_IDEALS_IN 500 /* with more: the search keeps every pair */
#define MOST_PLACES 4000   /* ideals times workers that differ */
#define MOST_ORDERED 128   /* of workers that differ, of which orders are tried */
#define LEAST_IDEALS 40
#define MOST_PIECES 3000 /* operators that are placed one by one */
#define MOST_REFINEMENTS 12

/* ---- choosing ---- */

struct choosing {
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	struct orr_machine machine; /* theirs */
	struct orr_ideals *x;
	struct orr_plan_orders orders;       /* of workers that differ; n 0: they are alike */
	struct orr_plan *best[ORR_N_WORLDS]; /* the best of each world that fits */
	double pieces_bound_s;               /* no allocation in pieces has a less busy worker */
	double fastest_s; /* no cut has a faster slowest stage than this; 0: the search does not
			     know */
	bool pinned;      /* the file says what the stages are */
	bool tight;       /* hold no more than there is memory for */
	struct orr_levels
		levels;         /* the workers that cuts may take, of those that the options have */
	int least_replicas;     /* and each of their stages at least */
	bool straight;          /* no replicas of any, whatever the options allow */
	struct orr_plan *least; /* where none fits, the one that needs least */
	bool found, fits;       /* a draft, of those considered last, and in the memory */
	int code;               /* of the first failure, after which nothing is tried */
	struct orr_error *err;
};

#define A_LITTLE 1e-6 /* times within it are equal: sums of doubles come out a little apart */

/* Is a better than b? Where memory keeps workers waiting, the slowest stage says little. */
static bool is_better(const struct orr_plan *a, const struct orr_plan *b)
{
	const struct orr_plan_world *x = &a->worlds[a->world], *y = &b->worlds[b->world];

	if (!b->options.by_makespan && !a->wanted_bytes && !b->wanted_bytes &&
	    (float)x->slowest_s != (float)y->slowest_s) /* sums of doubles come out apart */
		return x->slowest_s < y->slowest_s;
	if (x->makespan_ns != y->makespan_ns)
		return x->makespan_ns < y->makespan_ns;
	return x->memory_bytes != y->memory_bytes ? x->memory_bytes < y->memory_bytes
						  : x->peak_stash < y->peak_stash;
}

static int64_t memory_of(const struct orr_plan *plan)
{
	return plan->worlds[plan->world].memory_bytes;
}

static bool any_fits(const struct choosing *c)
{
	return c->best[ORR_WORLD_CHAIN] || c->best[ORR_WORLD_DAG] || c->best[ORR_WORLD_PIECES];
}

static bool is_enough(const struct choosing *c)
{
	return c->code || (any_fits(c) && c->o->enough && c->o->enough());
}

/* Simulate the draft in the worlds that it has; c->fits is set where it fits in any. d is spent. */
static void consider(struct choosing *c, struct orr_plan_draft *d)
{
	int first = d->pieces ? ORR_WORLD_PIECES : ORR_WORLD_CHAIN,
	    last = d->pieces ? ORR_WORLD_PIECES : ORR_WORLD_DAG;

	c->fits = c->fits || is_enough(c);
	if (!is_enough(c))
		orr_plan_draft_place_free(d, c->g);
	for (int world = first; world <= last && !is_enough(c); world++) {
		struct orr_plan *plan = NULL, **best = &c->best[world], *worse;

		if ((c->code = orr_plan_realise(&plan, c->g, c->o, d, world, c->tight, c->err)))
			break;
		if (!plan->worlds[world].fits)
			best = &c->least;
		else
			c->fits = true;
		if (!*best || (plan->worlds[world].fits ? is_better(plan, *best)
							: memory_of(plan) < memory_of(*best))) {
			worse = *best;
			*best = plan;
			plan = worse;
		}
		orr_plan_destroy(plan);
	}
	orr_plan_draft_fini(d);
}

/* One cut of the dynamic program within this memory. */
static void consider_cut(struct choosing *c, bool connected, int64_t memory_bytes, int least,
			 int most)
{
	struct orr_hierarchy_options options = {.levels = c->levels,
						.machine = &c->machine,
						.activations = c->o->activations,
						.added = c->o->added,
						.connected = connected,
						.straight = c->straight,
						.least_replicas = c->least_replicas,
						.n_microbatches = c->o->n_microbatches,
						.memory_bytes = memory_bytes,
						.numerics = c->o->numerics,
						.least_in_flight = least,
						.most_in_flight = most};
	bool limited = c->least_replicas > 1 ||
		       orr_levels_workers(&c->levels) < orr_levels_workers(&c->o->levels);
	bool all = !limited && !connected && !memory_bytes && !c->x->coarse && !c->x->flattened &&
		   c->straight == c->o->straight;
	double fastest = 0;

	c->found = false;
	for (int i = 0; i < larger(c->orders.n, 1) && !is_enough(c); i++) {
		struct orr_hierarchy h;
		struct orr_plan_draft d = {0};

		if (c->orders.n) {
			options.order = c->orders.list + (size_t)i * (size_t)c->machine.n_workers;
			all = all && c->orders.all;
		}
		c->code = orr_hierarchy_find(&h, c->x, &options, c->err);
		if (c->code || !h.n_stages) {
			free(h.stages);
			continue;
		}
		c->found = true;
		all = all && h.proven;
		fastest = !i || h.slowest_s < fastest ? h.slowest_s : fastest;
		if (!(c->code = orr_plan_draft_from(&d, c->g, c->x, &h, &c->o->levels,
						    options.order, c->err)))
			consider(c, &d);
		orr_plan_draft_fini(&d);
		free(h.stages);
	}
	if (c->found && all && !is_enough(c))
		c->fastest_s = fastest;
}

/* With a memory limit, ask for stages that can hold more and more microbatches until one fits;
 * if memory is tight, retry with fewer and fewer microbatches in flight. */
static void consider_cuts(struct choosing *c, bool connected)
{
	int n_workers = orr_levels_workers(&c->levels);
	int64_t memory = c->o->memory_bytes;

	c->fits = false;
	c->found = true;
	if (c->tight) {
		consider_cut(c, connected, memory, 1, 1);
		c->fits = !c->found; /* nothing holds more where nothing holds one */
	}
	for (int most = n_workers; c->tight && most > 1 && !c->fits && !c->code; most /= 2)
		consider_cut(c, connected, memory, 1, most);
	for (int flight = 1;
	     !c->tight && flight <= 2 * n_workers && !c->fits && c->found && !c->code; flight *= 2)
		consider_cut(c, connected, memory, flight, 0);
}

/* Fewer stages: on a half, a third, .. of the workers, or with at least so many replicas of each.
 */
static void consider_share(struct choosing *c, int share, bool replicas)
{
	const struct orr_levels *all = &c->o->levels;

	for (int l = 0; l < all->n && !replicas; l++)
		c->levels.workers[l] = all->workers[l] > share ? all->workers[l] / share : 1;
	c->least_replicas = replicas ? share : 1;
	consider_cuts(c, false);
	c->levels = *all;
	c->least_replicas = 1;
}

/* The fastest slowest stage is not the shortest step: a step also fills and drains its stages. Few
 * workers go first: of two steps that are equal the first is kept. */
static void consider_fewer_stages(struct choosing *c)
{
	const struct orr_levels *all = &c->o->levels;
	int most = 1;

	for (int l = 0; l < all->n; l++)
		most = (int)larger(most, all->workers[l]);
	for (int replicas = 0; replicas < (c->straight ? 1 : 2); replicas++)
		for (int share = 2; share <= most && !c->code; share++)
			if (most / share < most / (share - 1))
				consider_share(c, share, replicas);
}

#define NARROWINGS 8

/* None fits: the nearest, for the message. */
static void consider_least(struct choosing *c)
{
	int64_t low = c->o->memory_bytes, high;

	consider_cut(c, false, 0, 1, 1);
	high = c->least ? memory_of(c->least) : low;
	/* workers that differ have limits of their own */
	for (int i = 0; i < NARROWINGS && !c->code && high - low > 1 && !c->orders.n; i++) {
		int64_t middle = low + (high - low) / 2;

		consider_cut(c, false, middle, 1, 1);
		if (c->found)
			high = middle;
		else
			low = middle;
	}
}

static void consider_branches(struct choosing *c)
{
	struct orr_plan_draft d = {0};
	int n = (int)smaller(c->machine.n_workers, orr_graph_n_computed(c->g));

	/* one that cannot be cut so is no candidate */
	if (!orr_plan_draft_cut(&d, c->g, &c->machine, c->o->samples, n, NULL) &&
	    !(c->code = orr_plan_draft_spread(&d, c->g, &c->machine, c->o->samples, c->err)))
		consider(c, &d);
	orr_plan_draft_fini(&d);
}

/* As with the cuts: stages that can hold more and more microbatches, until one fits. */
static void consider_pieces(struct choosing *c)
{
	int n_workers = orr_levels_workers(&c->o->levels);
	struct orr_plan_draft d;

	if (!c->o->pieces || c->g->n_operators > MOST_PIECES)
		return;
	c->fits = false;
	for (int flight = 1; flight <= 2 * n_workers && !c->fits && !c->code; flight *= 2) {
		c->code = orr_plan_draft_pieces(&d, c->g, c->o, &c->machine, flight,
						&c->pieces_bound_s, c->err);
		if (c->code || !d.n_stages)
			break;
		consider(c, &d);
	}
	if (c->tight && !any_fits(c) && !c->code && /* whatever the time, in the least memory */
	    !(c->code = orr_plan_draft_pieces(&d, c->g, c->o, &c->machine, 0, NULL, c->err)))
		consider(c, &d);
}

/* In the stages where the file says to cut. */
static void consider_pins(struct choosing *c, struct orr_plan_draft *d)
{
	if (!d->pieces)
		c->code = orr_plan_draft_spread(d, c->g, &c->machine, c->o->samples, c->err);
	if (!c->code)
		consider(c, d);
	orr_plan_draft_fini(d);
}

static void consider_all(struct choosing *c)
{
	struct orr_plan_draft d = {0};

	c->code = orr_plan_draft_pins(&d, c->g, c->o, &c->machine, c->err);
	c->pinned = d.n_stages > 0;
	if (c->pinned)
		consider_pins(c, &d);
	if (c->code || c->pinned)
		return;
	/* replicas shorten the slowest stage, and may lengthen the step */
	for (int straight = c->o->straight;
	     straight <= (c->o->straight || c->o->by_makespan) && !c->code; straight++) {
		c->straight = straight;
		consider_cuts(c, false);
		consider_cuts(c, true);
		if (c->o->by_makespan)
			consider_fewer_stages(c);
	}
	c->straight = c->o->straight;
	if (!is_enough(c))
		consider_branches(c);
	if (!is_enough(c))
		consider_pieces(c);
}

/* With a memory limit, also with fewer microbatches in flight. */
static int consider_both(struct choosing *c, bool explain)
{
	consider_all(c);
	c->tight = true;
	if (!c->code && c->o->memory_bytes)
		consider_all(c);
	if (!c->code && c->o->memory_bytes && !any_fits(c) && explain)
		consider_least(c);
	return c->code;
}

/* How many the search can work with: it looks at every pair and, where workers differ, at every
 * place in their order. */
static int most_ideals(const struct orr_plan_options *o)
{
	int most = o->levels.n > 1 ? MOST_IDEALS_IN : MOST_IDEALS;

	if (o->cluster)
		most = (int)smaller(most, larger(MOST_PLACES / o->levels.workers[0], LEAST_IDEALS));
	return most;
}

/* The best cut so far, of stages on workers of their own; NULL: there is none. */
static struct orr_plan *best_cut(const struct choosing *c)
{
	struct orr_plan *chain = c->best[ORR_WORLD_CHAIN], *dag = c->best[ORR_WORLD_DAG];

	return !dag || (chain && is_better(chain, dag)) ? chain : dag;
}

/* Where neighbours were joined before they were cut: cut again, joining them anew inside the stages
 * found and far from their cuts, as long as that is better. */
static int refine(struct choosing *c)
{
	for (int i = 0, failed = 0;
	     i < MOST_REFINEMENTS && failed < 2 && c->x->coarse && !c->pinned && !is_enough(c);
	     i++) {
		const struct orr_plan *best = best_cut(c);
		int most = most_ideals(c->o) << i % 2; /* another view where one shows nothing */
		struct orr_ideals *finer = NULL;

		if (!best ||
		    (c->code = orr_ideals_create(&finer, c->g, &c->machine, c->o->samples,
						 c->o->n_microbatches, most,
						 best->pipeline->stage_of, c->err)) ||
		    !finer)
			break;
		orr_ideals_destroy(c->x);
		c->x = finer;
		consider_cuts(c, false);
		failed = best_cut(c) == best ? failed + 1 : 0;
	}
	return c->code;
}

/* No plan is faster than an even share of the work; without replicas, than its largest operator. */
static double least_s(const struct choosing *c)
{
	double share_s = (double)c->x->compute_ns[c->x->n - 1] * 1e-9 /
			 orr_machine_speeds(&c->machine),
	       largest_s = 0;

	if (c->o->straight)
		largest_s = ((double)c->x->largest_ns / orr_machine_fastest(&c->machine) +
			     2 * (double)c->x->overhead_ns) *
			    1e-9;
	return fmax(share_s, largest_s);
}

bool orr_plan_is_proven(const struct orr_plan *plan)
{
	const struct orr_plan_world *pieces = &plan->worlds[ORR_WORLD_PIECES];

	return pieces->fits && pieces->slowest_s <= plan->slowest.pieces_bound_s * (1 + A_LITTLE);
}

/* Where two are as good, the one that is simpler to run. */
static int choose(struct orr_plan **out, struct choosing *c)
{
	static const enum orr_world order[] = {ORR_WORLD_DAG, ORR_WORLD_CHAIN, ORR_WORLD_PIECES};
	struct orr_plan **wins = NULL, *plan;
	double least = least_s(c), fastest = c->fastest_s > 0 ? c->fastest_s : least;

	for (int i = 0; i < ORR_N_WORLDS; i++) {
		struct orr_plan **x = &c->best[order[i]];

		wins = *x && (!wins || is_better(*x, *wins)) ? x : wins;
	}
	if (!wins)
		return ORR_E_INPUT;
	plan = *wins;
	for (int i = 0; i < ORR_N_WORLDS; i++)
		if (c->best[i])
			plan->worlds[i] = c->best[i]->worlds[i];
	plan->slowest.pieces_bound_s = c->pieces_bound_s;
	plan->slowest.proven = orr_plan_is_proven(plan);
	plan->slowest.fastest =
		plan->world != ORR_WORLD_PIECES && plan->slowest_s <= fastest * (1 + A_LITTLE);
	plan->slowest.least_s = least;
	plan->pinned = c->pinned;
	plan->coarse = c->x->coarse && !c->pinned;
	plan->flattened = c->x->flattened && !c->pinned;
	*wins = NULL;
	*out = plan;
	return 0;
}

/* What any worker could come to hold is summed up in many places: it must be countable. */
static int check_sizes(const struct orr_graph *g, const struct orr_ideals *x,
		       const struct orr_plan_options *o, struct orr_error *err)
{
	double flight = 2.0 * orr_levels_workers(&o->levels) + o->n_microbatches;
	double bytes = (double)x->parameter_bytes[x->n - 1] * 8 +
		       (double)x->stash_bytes[x->n - 1] * flight;

	if (bytes < 0x1p60)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"%s: parameters and stashes of %.0f microbatches in flight are more bytes "
			"than can be counted: take smaller sizes or fewer workers",
			g->name, flight);
}

/* least: (optional) where nothing fits, the plan that needs least. */
static int search(struct orr_plan **out, struct orr_plan **least, const struct orr_graph *g,
		  const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(o);
	struct orr_plan_options nested = *o;
	/* one worker after the other takes too long where there are many */
	bool levels =
		machine.n_workers > MOST_ORDERED && orr_machine_nested(&nested.levels, &machine);
	struct choosing c = {.g = g,
			     .o = levels ? &nested : o,
			     .machine = orr_plan_machine(levels ? &nested : o),
			     .levels = nested.levels,
			     .least_replicas = 1,
			     .straight = o->straight,
			     .err = err};
	int code = orr_plan_check_costs(g, err);

	if (!code && o->cluster && !levels)
		code = orr_plan_orders_find(&c.orders, &machine, err);
	if (!code && !(code = orr_charge_check(g, &machine, o->samples, err)))
		code = orr_ideals_create(&c.x, g, &machine, o->samples, o->n_microbatches,
					 most_ideals(c.o), NULL, err);
	if (!code && c.x->compute_ns[c.x->n - 1] == 0)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no operator takes any time: give costs, or measure them "
				"(`orrery profile`)",
				g->name);
	if (!code)
		code = check_sizes(g, c.x, o, err);
	if (code || (code = consider_both(&c, least != NULL)) || (code = refine(&c)))
		goto out;
	code = choose(out, &c);
	if (least) {
		*least = c.least;
		c.least = NULL;
	}
out:
	for (int i = 0; i < ORR_N_WORLDS; i++)
		orr_plan_destroy(c.best[i]);
	orr_plan_destroy(c.least);
	orr_arrays_free(&c.orders.arrays);
	orr_ideals_destroy(c.x);
	return code;
}

/* Of workers that differ, the first that lacks memory. */
static int refuse_workers(const struct orr_plan *least, const struct orr_graph *g,
			  struct orr_error *err)
{
	struct orr_error why = {""};
	int code = orr_figures_check_memory(least->tried.figures, &least->pipeline->machine, &why);

	return orr_fail(err, code,
			"%s: no plan fits the machine %s: in the one that needs least, %s", g->name,
			least->options.cluster->name, why.msg);
}

/* Which worker lacks how much, and with how many it would fit. */
static int refuse(const struct orr_plan *least, const struct orr_graph *g,
		  const struct orr_plan_options *o, struct orr_error *err)
{
	const struct orr_figures *f = least->tried.figures;
	struct orr_plan_options more = *o;
	const char *cure = "";
	int worst = orr_figures_fullest(f);

	if (o->cluster)
		return refuse_workers(least, g, err);
	for (int k = 0; k < 3 && !*cure; k++) {
		struct orr_plan *plan = NULL;

		more.levels.workers[o->levels.n - 1] *= 2;
		if (orr_levels_workers(&more.levels) > 256)
			break;
		if (!search(&plan, NULL, g, &more, NULL))
			cure = orr_text(", or %d workers", orr_levels_workers(&more.levels));
		orr_plan_destroy(plan);
	}
	return orr_fail(err, ORR_E_INPUT,
			"%s: no plan fits [memory] %s: the one that needs least wants %s on worker "
			"%d, %s more, for parameters (%s) and %s: what fits is [memory] %s%s",
			g->name, orr_size_exact(o->memory_bytes),
			orr_size_text(f->worker[worst].memory_bytes), worst,
			orr_size_text(f->worker[worst].memory_bytes - o->memory_bytes),
			orr_parameter_cost_text(&o->numerics),
			orr_count_text(f->worker[worst].peak_stash, "stash"),
			orr_size_exact(f->worker[worst].memory_bytes), cure);
}

int orr_plan_create(struct orr_plan **out, const struct orr_graph *g,
		    const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_plan *least = NULL;
	int code = orr_plan_check_jobs(g, err);

	if (code)
		return code;
	code = search(out, &least, g, o, err);
	if (code == ORR_E_INPUT && least)
		code = refuse(least, g, o, err);
	if (!code && (code = orr_plan_number(*out, err))) {
		orr_plan_destroy(*out);
		*out = NULL;
	}
	orr_plan_destroy(least);
	return code;
}
