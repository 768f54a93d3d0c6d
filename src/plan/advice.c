#include "advice.h"

#include <stdlib.h>

#include "order/allocate.h"
#include "order/periodic.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "orrery/plan.h"
#include "base/arrays.h"
#include "base/max.h"
#include "base/quantity.h"
#include "pipeline/charge.h"

#define MICROBATCHES_A_STAGE 4 /* m >= 4 P keeps the bubble below a fifth [Separability] */
#define MOST_OPERATORS 3000    /* that are placed one by one */
#define MOST_STEPS 200000      /* of branch and bound */

struct advising {
	const struct orr_plan *plan;
	void (*visit)(void *user, const char *line);
	void *user;
};

/* A line of them, in the manner of printf. */
#define say(a, ...) (a)->visit((a)->user, orr_text(__VA_ARGS__))

/* Filling and draining takes depth - 1 microbatches' time, under 1F1B: an order that was searched
 * for says itself how far it is from the best. */
static void advise_microbatches(const struct advising *a)
{
	int depth = a->plan->pipeline->depth, m = a->plan->pipeline->n_microbatches;
	int n_first = a->plan->replicas[0], want = MICROBATCHES_A_STAGE * depth * n_first;

	if (depth < 2 || m >= want || a->plan->sought.from_ns)
		return;
	say(a,
	    "%d microbatches are few for a depth of %d: filling and draining leave about "
	    "%.0f%% of the time unused; [microbatches] %d leaves %.0f%%",
	    m, depth, 100.0 * (depth - 1) / ((double)m / n_first + depth - 1), want,
	    100.0 * (depth - 1) / ((double)want / n_first + depth - 1));
}

static void advise_replicas(const struct advising *a)
{
	const struct orr_pipeline *p = a->plan->pipeline;

	for (int s = 0; s < p->n_stages && !p->machine.cluster; s++) { /* they share by speed */
		int m = p->n_microbatches, r = a->plan->replicas[s], rest = m % r;

		if (!rest)
			continue;
		say(a,
		    "stage %d's %d replicas share %d microbatches unevenly: %.0f%% of "
		    "their time is unused; give a multiple, [microbatches] %d",
		    s, r, m, 100.0 * (r - rest) / (m + r - rest), m + r - rest);
		return;
	}
}

static void advise_links(const struct advising *a)
{
	const struct orr_plan *plan = a->plan;
	int worst = 0;

	for (int s = 1; s < plan->pipeline->n_stages; s++)
		if (plan->costs[s].communication_s > plan->costs[worst].communication_s)
			worst = s;
	if (plan->costs[worst].communication_s < 0.1 * plan->slowest_s)
		return;
	say(a,
	    "stage %d spends %.0f%% of the slowest stage's time on links: take faster ones "
	    "([bandwidth])%s",
	    worst, 100 * plan->costs[worst].communication_s / plan->slowest_s,
	    plan->replicas[worst] > 1 ? ", larger microbatches, or no replicas ([straight])"
				      : ", or fewer workers");
}

/* Would operators that need not be neighbours share the work better? [Beaumont21, section 6] */
static int find_anyhow(const struct orr_plan *plan, struct orr_allocation *best, double *largest_s,
		       struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	int64_t *work = calloc((size_t)g->n_operators, sizeof(*work)), largest = 0;
	struct orr_layers layers = {g->n_operators, work, NULL, &plan->pipeline->machine};
	int code = 0;

	if (!work)
		return orr_no_memory(err, "advice");
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_stage cost = {0};

		orr_charge_least(&cost, g, i, plan->options.samples, &plan->pipeline->machine);
		work[i] = cost.forward_ns + cost.backward_ns + cost.weight_ns +
			  cost.update_ns / plan->options.n_microbatches;
		largest = larger(largest, work[i]);
	}
	code = orr_allocate_any(best, NULL, &layers, plan->pipeline->n_workers, 0, MOST_STEPS, err);
	*largest_s = (double)largest * 1e-9 / orr_machine_fastest(&plan->pipeline->machine);
	free(work);
	return code;
}

/* What to do about it, where operators on any of the workers would come to best. */
static void advise_placement(const struct advising *a, const struct orr_allocation *best,
			     double busiest_s, double even_s)
{
	int n_workers = a->plan->pipeline->n_workers;
	double anyhow_s = (double)best->period_ns * 1e-9;

	if (anyhow_s < 0.99 * busiest_s && (a->plan->pinned || !a->plan->options.pieces))
		say(a, "  operators that need not be neighbours could come to %.2f times: %s",
		    anyhow_s / even_s,
		    a->plan->pinned ? "[unpin], since the model pins its stages"
				    : "leave [contiguous] out");
	else if (best->proven && anyhow_s > 0.99 * busiest_s)
		say(a,
		    "  no placement of these operators, each on one of %d workers, is better, "
		    "transfers left out: take fewer workers ([workers]), or smaller operators",
		    n_workers);
	else
		say(a,
		    "  no better placement of these operators was found; whether there is one "
		    "on %d workers is not known: try fewer ([workers]), or smaller operators",
		    n_workers);
}

static int advise_balance(const struct advising *a, struct orr_error *err)
{
	const struct orr_plan *plan = a->plan;
	double even = plan->one_worker_s / orr_machine_speeds(&plan->pipeline->machine),
	       largest = 0, busiest;
	struct orr_allocation best = {0};
	bool pieces = plan->world == ORR_WORLD_PIECES;
	int slowest = 0, code;

	for (int s = 1; s < plan->pipeline->n_stages; s++)
		slowest = plan->costs[s].compute_s > plan->costs[slowest].compute_s ? s : slowest;
	busiest = pieces ? plan->slowest_s : plan->costs[slowest].compute_s;
	if (busiest < 1.1 * even || plan->graph->n_operators > MOST_OPERATORS)
		return 0;
	if ((code = find_anyhow(plan, &best, &largest, err)))
		return code;
	say(a, "uneven: %s %.2f times what each%s would if all shared evenly",
	    pieces ? "the busiest worker does" : orr_text("stage %d computes", slowest),
	    busiest / even, pieces ? "" : " worker");
	if (largest <= 0.99 * busiest) {
		advise_placement(a, &best, busiest, even);
		return 0;
	}
	say(a, "  one operator is all of that: %s",
	    plan->options.straight ? "allow replicas (leave [straight] out), or split it"
				   : "split it into smaller ones");
	return 0;
}

static void advise_memory(const struct advising *a)
{
	const struct orr_figures *f = a->plan->tried.figures;
	int64_t limit = a->plan->options.memory_bytes;
	int worst = orr_figures_fullest(f);

	if (a->plan->wanted_bytes)
		say(a,
		    "[memory] holds fewer microbatches than keep all workers busy: they do "
		    "nothing %.0f%% of the time; for the same stages [memory] %s is enough",
		    100 * f->bubble, orr_size_exact(a->plan->wanted_bytes));
	if (!limit || a->plan->pipeline->machine.cluster ||
	    f->worker[worst].memory_bytes < limit - limit / 10)
		return;
	say(a,
	    "worker %d uses %.0f%% of [memory], %.0f%% of it stashes: simulate with "
	    "[recompute] all, or plan for more workers",
	    worst, 100.0 * (double)f->worker[worst].memory_bytes / (double)limit,
	    100.0 * (double)f->worker[worst].peak_stash_bytes /
		    (double)f->worker[worst].memory_bytes);
}

/* What costs nothing in the plan and does in the world: then there may be far more stages than
 * workers, or all of the model on every worker. */
static void advise_free(const struct advising *a)
{
	const struct orr_pipeline *p = a->plan->pipeline;
	const struct orr_machine *m = &p->machine;
	bool replicas = false;

	for (int s = 0; s < p->n_stages; s++)
		replicas |= a->plan->replicas[s] > 1;
	if (p->n_stages > p->n_workers && !a->plan->graph->units && !p->overhead_ns)
		say(a,
		    "starting a job costs nothing here, so neither do %d stages on %d workers: "
		    "overhead=\"100us\", say, on the graph prices every job (profile writes it)",
		    p->n_stages, p->n_workers);
	if (replicas && m->bandwidth_bytes_per_s <= 0 && !m->latency_ns && !m->cluster)
		say(a, "links are free, so replicas cost nothing: [bandwidth]=10GB/s, say, prices "
		       "their all-reduce, and [straight] gives a pipeline without any");
}

int orr_plan_advise(const struct orr_plan *plan, void (*visit)(void *user, const char *line),
		    void *user, struct orr_error *err)
{
	struct advising a = {plan, visit, user};
	int code;

	advise_free(&a);
	advise_microbatches(&a);
	advise_replicas(&a);
	if ((code = advise_balance(&a, err)))
		return code;
	advise_links(&a);
	advise_memory(&a);
	return 0;
}

int orr_plan_periods(const struct orr_plan *plan, struct orr_star_point **points, int *n,
		     struct orr_error *err)
{
	*points = NULL;
	*n = 0;
	if (plan->world == ORR_WORLD_PIECES || plan->pipeline->machine.bandwidth_bytes_per_s > 0 ||
	    plan->pipeline->machine.cluster || !orr_star_serves(plan->pipeline))
		return 0;
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		if (plan->replicas[s] != 1)
			return 0;
	return orr_star_points(points, n, plan->pipeline, err);
}
