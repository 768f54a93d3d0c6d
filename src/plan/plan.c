#include "orrery/plan.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "hierarchy.h"
#include "ideals.h"
#include "orrery/jobs.h"
#include "orrery/partition.h"
#include "orrery/parameter_cost.h"
#include "orrery/periodic.h"
#include "orrery/pipeline.h"
#include "plan_draft.h"
#include "plan_order.h"
#include "plan_orders.h"
#include "orrery/quantity.h"
#include "orrery/schedule.h"
#include "orrery/table.h"
#include "orrery/timeline.h"
#include "tensors.h"
#include "pipeline/charge.h"

#define MOST_IDEALS 1000   /* with one level of workers */
#define MOST_IDEALS_IN 500 /* with more: the search keeps every pair */
#define MOST_PLACES 4000   /* ideals times workers that differ */
#define MOST_ORDERED 128   /* of workers that differ, of which orders are tried */
#define LEAST_IDEALS 40
#define MOST_PIECES 3000 /* operators that are placed one by one */
#define MOST_REFINEMENTS 12

/* ---- choosing ---- */

#define N_WORLDS 3
#define IN_PIECES 2

struct choosing {
	const struct orr_graph *g;
	const struct orr_plan_options *o;
	const struct orr_ideals *x;
	const struct orr_tensors *tensors;
	struct orr_plan_orders orders;   /* of workers that differ; n 0: they are alike */
	struct orr_plan *best[N_WORLDS]; /* chain, side by side, in pieces: the best that fits */
	double pieces_bound_s;           /* no allocation in pieces has a less busy worker */
	double fastest_s; /* no cut has a faster slowest stage than this; 0: the search does not
			     know */
	bool pinned;      /* the file says what the stages are */
	bool tight;       /* hold no more than there is memory for */
	struct orr_levels
		levels;         /* the workers that cuts may take, of those that the options have */
	int least_replicas;     /* and each of their stages at least */
	bool straight;          /* no replicas of any, whatever the options allow */
	struct orr_plan *least; /* where none fits, the one that needs least */
};

struct orr_plan_world *orr_plan_world_of(struct orr_plan *plan)
{
	return plan->in_pieces ? &plan->pieces : plan->side_by_side ? &plan->dag : &plan->chain;
}

#define A_LITTLE 1e-6 /* times within it are equal: sums of doubles come out a little apart */

/* Is a better than b? Where memory keeps workers waiting, the slowest stage says little. */
static bool is_better(struct orr_plan *a, struct orr_plan *b)
{
	const struct orr_plan_world *x = orr_plan_world_of(a), *y = orr_plan_world_of(b);

	if (!b->options.by_makespan && !a->wanted_bytes && !b->wanted_bytes &&
	    (x->slowest_s < y->slowest_s * (1 - A_LITTLE) ||
	     y->slowest_s < x->slowest_s * (1 - A_LITTLE)))
		return x->slowest_s < y->slowest_s;
	if (x->makespan_ns != y->makespan_ns)
		return x->makespan_ns < y->makespan_ns;
	return x->memory_bytes != y->memory_bytes ? x->memory_bytes < y->memory_bytes
						  : x->peak_stash < y->peak_stash;
}

/* *fits is set where either world fits; d is spent. */
static int consider(struct choosing *c, struct orr_plan_draft *d, bool *fits, struct orr_error *err)
{
	int code = 0;

	orr_plan_draft_place_free(d, c->g);
	for (int world = d->worker ? IN_PIECES : 0;
	     world < (d->worker ? N_WORLDS : IN_PIECES) && !code; world++) {
		struct orr_plan *plan = NULL, **best = &c->best[world];

		if ((code = orr_plan_realise(&plan, c->g, c->o, d, world > 0, c->tight, err)))
			break;
		if (!orr_plan_world_of(plan)->fits)
			best = !c->least || orr_plan_world_of(plan)->memory_bytes <
						       orr_plan_world_of(c->least)->memory_bytes
				       ? &c->least
				       : NULL;
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

static bool is_limited(const struct choosing *c)
{
	return c->least_replicas > 1 ||
	       orr_levels_workers(&c->levels) < orr_levels_workers(&c->o->levels);
}

/* One cut of the dynamic program within this memory; *found false: there is none. */
static int consider_cut(struct choosing *c, bool connected, int64_t memory_bytes, int least,
			int most, bool *found, bool *fits, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(c->o);
	struct orr_hierarchy_options options = {.levels = c->levels,
						.machine = &machine,
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
	bool all = !is_limited(c) && !connected && !memory_bytes && !c->x->coarse &&
		   !c->x->flattened && c->straight == c->o->straight;
	double fastest = 0;
	int code = 0;

	*found = false;
	for (int i = 0; i < (c->orders.n ? c->orders.n : 1) && !code; i++) {
		struct orr_hierarchy *h = NULL;
		struct orr_plan_draft d = {0};

		if (c->orders.n) {
			options.order = c->orders.list + (size_t)i * (size_t)machine.n_workers;
			all = all && c->orders.all;
		}
		if ((code = orr_hierarchy_create(&h, c->tensors, &options, err)) || !h)
			continue;
		*found = true;
		all = all && h->proven;
		fastest = !i || h->slowest_s < fastest ? h->slowest_s : fastest;
		if (!(code = orr_plan_draft_from(&d, c->g, c->x, h, &c->o->levels, options.order,
						 err)))
			code = consider(c, &d, fits, err);
		orr_plan_draft_fini(&d);
		orr_hierarchy_destroy(h);
	}
	if (*found && all)
		c->fastest_s = fastest;
	return code;
}

/* With a memory limit, ask for stages that can hold more and more microbatches until one fits;
 * where they may not be as many as keep all workers busy, for stages that hold fewer and fewer. */
static int consider_cuts(struct choosing *c, bool connected, struct orr_error *err)
{
	int n_workers = orr_levels_workers(&c->levels), code = 0;
	int64_t memory = c->o->memory_bytes;
	bool fits = false, found = true;

	if (c->tight) {
		code = consider_cut(c, connected, memory, 1, 1, &found, &fits, err);
		fits = !found; /* nothing holds more where nothing holds one */
	}
	for (int most = n_workers; c->tight && most > 1 && !fits && !code; most /= 2)
		code = consider_cut(c, connected, memory, 1, most, &found, &fits, err);
	for (int flight = 1; !c->tight && flight <= 2 * n_workers && !fits && found && !code;
	     flight *= 2)
		code = consider_cut(c, connected, memory, flight, 0, &found, &fits, err);
	return code;
}

/* Fewer stages: on a half, a third, .. of the workers, or with at least this number of replicas of
 * each. */
static int consider_share(struct choosing *c, int share, bool replicas, struct orr_error *err)
{
	const struct orr_levels *all = &c->o->levels;
	int code;

	for (int l = 0; l < all->n && !replicas; l++)
		c->levels.workers[l] = all->workers[l] > share ? all->workers[l] / share : 1;
	c->least_replicas = replicas ? share : 1;
	code = consider_cuts(c, false, err);
	c->levels = *all;
	c->least_replicas = 1;
	return code;
}

/* The fastest slowest stage is not the shortest step: a step also fills and drains its stages. Few
 * workers go first: of two steps that are equal the first is kept. */
static int consider_fewer_stages(struct choosing *c, struct orr_error *err)
{
	const struct orr_levels *all = &c->o->levels;
	int most = 1, code = 0;

	for (int l = 0; l < all->n; l++)
		most = all->workers[l] > most ? all->workers[l] : most;
	for (int replicas = 0; replicas < (c->straight ? 1 : 2); replicas++)
		for (int share = 2; share <= most && !code; share++)
			if (most / share < most / (share - 1))
				code = consider_share(c, share, replicas, err);
	return code;
}

#define NARROWINGS 8

/* None fits: the nearest, for the message. */
static int consider_least(struct choosing *c, struct orr_error *err)
{
	bool fits, found;
	int code = consider_cut(c, false, 0, 1, 1, &found, &fits, err);
	int64_t low = c->o->memory_bytes,
		high = c->least ? orr_plan_world_of(c->least)->memory_bytes : low;

	/* workers that differ have limits of their own */
	for (int i = 0; i < NARROWINGS && !code && high - low > 1 && !c->orders.n; i++) {
		int64_t middle = low + (high - low) / 2;

		code = consider_cut(c, false, middle, 1, 1, &found, &fits, err);
		if (found)
			high = middle;
		else
			low = middle;
	}
	return code;
}

static int consider_branches(struct choosing *c, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(c->o);
	struct orr_plan_draft d = {0};
	int n = 0, code = 0;
	bool fits = false;

	for (int i = 0; i < c->g->n_operators; i++)
		n += !orr_operator_is_input(&c->g->operators[i]);
	n = machine.n_workers < n ? machine.n_workers : n;
	/* one that cannot be cut so is no candidate */
	if (!orr_plan_draft_cut(&d, c->g, &machine, c->o->samples, n, NULL) &&
	    !(code = orr_plan_draft_spread(&d, c->g, &machine, c->o->samples, err)))
		code = consider(c, &d, &fits, err);
	orr_plan_draft_fini(&d);
	return code;
}

static bool any_fits(const struct choosing *c)
{
	return c->best[0] || c->best[1] || c->best[IN_PIECES];
}

/* As with the cuts: stages that can hold more and more microbatches, until one fits. */
static int consider_pieces(struct choosing *c, struct orr_error *err)
{
	int n_workers = orr_levels_workers(&c->o->levels), code = 0;
	struct orr_machine machine = orr_plan_machine(c->o);
	bool fits = false;

	if (!c->o->pieces || c->g->n_operators > MOST_PIECES)
		return 0;
	for (int flight = 1; flight <= 2 * n_workers && !fits && !code; flight *= 2) {
		struct orr_plan_draft d = {0};

		code = orr_plan_draft_pieces(&d, c->g, c->o, &machine, flight, &c->pieces_bound_s,
					     err);
		if (code || !d.n_stages)
			break;
		code = consider(c, &d, &fits, err);
	}
	if (c->tight && !any_fits(c) && !code) { /* whatever the time, in the least memory */
		struct orr_plan_draft d = {0};

		if (!(code = orr_plan_draft_pieces(&d, c->g, c->o, &machine, 0, NULL, err)))
			code = consider(c, &d, &fits, err);
	}
	return code;
}

static int consider_all(struct choosing *c, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(c->o);
	struct orr_plan_draft d = {0};
	bool fits = false;
	int code = orr_plan_draft_pins(&d, c->g, c->o, &machine, err);

	c->pinned = d.n_stages > 0;
	if (code || c->pinned) { /* somebody has cut it */
		if (!code && !d.worker)
			code = orr_plan_draft_spread(&d, c->g, &machine, c->o->samples, err);
		if (!code)
			code = consider(c, &d, &fits, err);
		orr_plan_draft_fini(&d);
		return code;
	}
	/* replicas shorten the slowest stage, and may lengthen the step */
	for (int straight = c->o->straight; straight <= (c->o->straight || c->o->by_makespan);
	     straight++) {
		c->straight = straight;
		if ((code = consider_cuts(c, false, err)) || (code = consider_cuts(c, true, err)) ||
		    (c->o->by_makespan && (code = consider_fewer_stages(c, err))))
			return code;
	}
	c->straight = c->o->straight;
	code = consider_branches(c, err);
	return code ? code : consider_pieces(c, err);
}

/* With a memory limit, also with fewer microbatches in flight. */
static int consider_both(struct choosing *c, bool explain, struct orr_error *err)
{
	int code = consider_all(c, err);

	c->tight = true;
	if (!code && c->o->memory_bytes && !(code = consider_all(c, err)) && !any_fits(c) &&
	    explain)
		code = consider_least(c, err);
	return code;
}

/* How many the search can work with: it looks at every pair and, where workers differ, at every
 * place in their order. */
static int most_ideals(const struct orr_plan_options *o)
{
	int most = o->levels.n > 1 ? MOST_IDEALS_IN : MOST_IDEALS;

	if (!o->cluster || o->levels.workers[0] < MOST_PLACES / most)
		return most;
	most = MOST_PLACES / o->levels.workers[0];
	return most > LEAST_IDEALS ? most : LEAST_IDEALS;
}

/* The best cut so far, of stages on workers of their own; NULL: there is none. */
static struct orr_plan *best_cut(const struct choosing *c)
{
	struct orr_plan *chain = c->best[0], *dag = c->best[1];

	return !dag || (chain && is_better(chain, dag)) ? chain : dag;
}

/* Where neighbours were joined before they were cut: cut again, joining them anew inside the stages
 * found and far from their cuts, as long as that is better. */
static int refine(struct choosing *c, struct orr_ideals **x, struct orr_tensors **tensors,
		  struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(c->o);
	int code = 0;

	for (int i = 0, failed = 0;
	     i < MOST_REFINEMENTS && failed < 2 && (*x)->coarse && !c->pinned; i++) {
		const struct orr_plan *best = best_cut(c);
		int most = most_ideals(c->o) << i % 2; /* another view where one shows nothing */
		struct orr_ideals *finer = NULL;
		struct orr_tensors *t = NULL;

		if (!best ||
		    (code = orr_ideals_create(&finer, c->g, &machine, c->o->samples,
					      c->o->n_microbatches, most, best->pipeline->stage_of,
					      err)) ||
		    !finer)
			break;
		if ((code = orr_tensors_create(&t, finer, c->g, c->o->samples, err))) {
			orr_ideals_destroy(finer);
			break;
		}
		orr_tensors_destroy(*tensors);
		orr_ideals_destroy(*x);
		c->x = *x = finer;
		c->tensors = *tensors = t;
		if ((code = consider_cuts(c, false, err)))
			break;
		failed = best_cut(c) == best ? failed + 1 : 0;
	}
	return code;
}

/* No plan has a faster slowest stage than an even share of the work; without replicas, than the
 * largest operator. */
static double least_s(const struct choosing *c)
{
	struct orr_machine machine = orr_plan_machine(c->o);
	double share_s =
		       (double)c->x->compute_ns[c->x->n - 1] * 1e-9 / orr_machine_speeds(&machine),
	       largest_s = 0;

	if (c->o->straight)
		largest_s = ((double)c->x->largest_ns / orr_machine_fastest(&machine) +
			     2 * (double)c->x->overhead_ns) *
			    1e-9;
	return share_s > largest_s ? share_s : largest_s;
}

/* No cut has a faster slowest stage than this, where the search knows that. */
static double fastest_s(const struct choosing *c)
{
	return c->fastest_s > 0 ? c->fastest_s : least_s(c);
}

bool orr_plan_is_proven(const struct orr_plan *plan)
{
	return plan->pieces.fits && plan->pieces.slowest_s <= plan->pieces_bound_s * (1 + A_LITTLE);
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
	(*out)->pieces_bound_s = c->pieces_bound_s;
	(*out)->proven = orr_plan_is_proven(*out);
	(*out)->fastest = wins != IN_PIECES && (*out)->slowest_s <= fastest_s(c) * (1 + A_LITTLE);
	(*out)->least_s = least_s(c);
	(*out)->pinned = c->pinned;
	(*out)->coarse = c->x->coarse && !c->pinned;
	(*out)->flattened = c->x->flattened && !c->pinned;
	c->best[wins] = NULL;
	return 0;
}

/* What any worker could come to hold is summed up in many places: it must be countable. */
static int check_sizes(const struct orr_graph *g, const struct orr_ideals *x,
		       const struct orr_plan_options *o, struct orr_error *err)
{
	double flight = 2.0 * orr_levels_workers(&o->levels) + o->n_microbatches;
	double bytes = (double)x->parameter_bytes[x->n - 1] * 8 +
		       (double)x->stash_bytes[x->n - 1] * flight;

	return bytes < 0x1p60
		       ? 0
		       : orr_fail(err, ORR_E_INPUT,
				  "%s: parameters and stashes of %.0f microbatches in flight are "
				  "more "
				  "bytes than can be counted: take smaller sizes or fewer workers",
				  g->name, flight);
}

/* least: (optional) where nothing fits, the plan that needs least. */
static int search(struct orr_plan **out, struct orr_plan **least, const struct orr_graph *g,
		  const struct orr_plan_options *o, struct orr_error *err)
{
	struct orr_machine machine = orr_plan_machine(o);
	struct orr_plan_options nested = *o;
	/* place by place in an order of so many workers takes too long */
	bool levels =
		machine.n_workers > MOST_ORDERED && orr_machine_nested(&nested.levels, &machine);
	struct choosing c = {.g = g,
			     .o = levels ? &nested : o,
			     .levels = nested.levels,
			     .least_replicas = 1,
			     .straight = o->straight};
	struct orr_tensors *tensors = NULL;
	struct orr_ideals *x = NULL;
	int code = orr_plan_check_costs(g, err);

	if (!code && o->cluster && !levels)
		code = orr_plan_orders_find(&c.orders, &machine, err);
	if (!code && !(code = orr_charge_check(g, &machine, o->samples, err)))
		code = orr_ideals_create(&x, g, &machine, o->samples, o->n_microbatches,
					 most_ideals(c.o), NULL, err);
	if (!code)
		code = orr_tensors_create(&tensors, x, g, o->samples, err);
	c.x = x;
	c.tensors = tensors;
	if (!code && x->compute_ns[x->n - 1] == 0)
		code = orr_fail(err, ORR_E_INPUT,
				"%s: no operator takes any time: give costs, or measure them "
				"(`orrery profile`)",
				g->name);
	if (!code)
		code = check_sizes(g, x, o, err);
	if (code || (code = consider_both(&c, least != NULL, err)) ||
	    (code = refine(&c, &x, &tensors, err)))
		goto out;
	code = choose(out, &c);
	if (least) {
		*least = c.least;
		c.least = NULL;
	}
out:
	for (int i = 0; i < N_WORLDS; i++)
		orr_plan_destroy(c.best[i]);
	orr_plan_destroy(c.least);
	orr_plan_orders_fini(&c.orders);
	orr_tensors_destroy(tensors);
	orr_ideals_destroy(x);
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
	char need[32], limit[32], lack[32], fits[32], cost[96], cure[64] = "";
	int worst = 0;

	if (o->cluster)
		return refuse_workers(least, g, err);
	for (int w = 0; w < f->n_workers; w++)
		worst = f->worker[w].memory_bytes > f->worker[worst].memory_bytes ? w : worst;
	for (int k = 0; k < 3 && !*cure; k++) {
		struct orr_plan *plan = NULL;

		more.levels.workers[o->levels.n - 1] *= 2;
		if (orr_levels_workers(&more.levels) > 256)
			break;
		if (!search(&plan, NULL, g, &more, NULL))
			(void)snprintf(cure, sizeof(cure), ", or %d workers",
				       orr_levels_workers(&more.levels));
		orr_plan_destroy(plan);
	}
	orr_size_print(need, sizeof(need), f->worker[worst].memory_bytes);
	orr_size_exact(limit, sizeof(limit), o->memory_bytes);
	orr_size_print(lack, sizeof(lack), f->worker[worst].memory_bytes - o->memory_bytes);
	return orr_fail(err, ORR_E_INPUT,
			"%s: no plan fits [memory] %s: the one that needs least wants %s on worker "
			"%d, %s more, for "
			"parameters (%s) and %d stash%s: what fits is [memory] %s%s",
			g->name, limit, need, worst, lack,
			orr_parameter_cost_print(cost, sizeof(cost), &o->numerics),
			f->worker[worst].peak_stash, f->worker[worst].peak_stash == 1 ? "" : "es",
			orr_size_exact(fits, sizeof(fits), f->worker[worst].memory_bytes), cure);
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

int orr_plan_periods(const struct orr_plan *plan, struct orr_star_point **points, int *n,
		     struct orr_error *err)
{
	*points = NULL;
	*n = 0;
	if (plan->in_pieces || plan->pipeline->machine.bandwidth_bytes_per_s > 0 ||
	    plan->pipeline->machine.cluster || !orr_star_serves(plan->pipeline))
		return 0;
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		if (plan->replicas[s] != 1)
			return 0;
	return orr_star_points(points, n, plan->pipeline, err);
}
