/* The shortest order that a search finds for a plan: of its stages as they are, and of its
 * operators on any workers. */
#include "orrery/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/clock.h"
#include "base/max.h"
#include "orrery/open.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "schedule/table.h"
#include "orrery/search.h"
#include "orrery/timeline.h"
#include "pipeline/numbering.h"
#include "plan_draft.h"

#define EFFORT 8          /* million jobs timed, as the schedule auto does, */
#define JOBS_OF_EFFORT 25 /* at most a million for each 25 jobs: few jobs have few orders */
#define MOST_STAGES 64
#define MOST_STAGES_A_WORKER 4 /* where operators are more than that */

/* Memory left for stashes on each worker: of the limit, or of what the plan's fullest needs. */
static int find_room(struct orr_search_options *o, int64_t *room, const struct orr_plan *plan,
		     struct orr_error *err)
{
	const struct orr_figures *f = plan->tried.figures;
	const struct orr_machine *machine = &plan->pipeline->machine;
	int64_t limit = plan->options.memory_bytes, stashes = 0;

	for (int w = 0; w < f->n_workers; w++)
		stashes += f->worker[w].peak_stash_bytes;
	if (!limit && !stashes) { /* a study without sizes: stashes are counted */
		for (int w = 0; w < f->n_workers; w++)
			o->stashes = larger(o->stashes, f->worker[w].peak_stash);
		return 0;
	}
	if (!limit)
		limit = f->worker[orr_figures_fullest(f)].memory_bytes;
	for (int w = 0; w < f->n_workers; w++) {
		int64_t own = orr_machine_memory(machine, w);

		room[w] = (own ? own : limit) -
			  (f->worker[w].memory_bytes - f->worker[w].peak_stash_bytes);
		o->stash_bytes = larger(o->stash_bytes, room[w]);
	}
	o->room_bytes = room;
	if (o->stash_bytes > 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT, "plan: the parameters leave no memory for a search");
}

static int table_for(struct orr_table **out, const struct orr_pipeline *p, struct orr_error *err)
{
	return orr_table_create(out, "search", p->n_stages, p->n_workers, p->n_microbatches, true,
				err);
}

static void fill_table(struct orr_table *table, const struct orr_pipeline *p, const int *worker)
{
	for (int j = 0; j < p->n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int s = j / ORR_N_PASSES % p->n_stages;
		enum orr_pass d = (enum orr_pass)(j % ORR_N_PASSES);

		table->compute[j] = orr_pipeline_has_pass(p, s, d, true) ? worker[s] : -1;
	}
}

/* Take the order, unless the one at hand is as short and will do. */
static int take(struct orr_plan *plan, struct orr_table **table, bool will_do, int64_t bound_ns,
		struct orr_error *err)
{
	struct orr_try tried;
	int code = orr_plan_try(&tried, plan->pipeline, *table, err);

	if (code)
		goto out;
	if (!will_do || tried.figures->makespan_ns < plan->tried.figures->makespan_ns) {
		struct orr_plan old = *plan;

		plan->table = *table;
		plan->tried = tried;
		*table = old.table;
		tried = old.tried;
	}
	plan->tried.figures->lower_bound_ns = larger(plan->tried.figures->lower_bound_ns, bound_ns);
out:
	orr_try_fini(&tried);
	return code;
}

/* The order of the plan's stages where they are. */
static int search_order(struct orr_plan *plan, int64_t seed, struct orr_error *err)
{
	struct orr_pipeline *p = plan->pipeline;
	struct orr_search_options options = {.schedules = orr_schedules,
					     .placement = ORR_PLACEMENT_GIVEN,
					     .worker = plan->workers,
					     .from = plan->tried.timeline,
					     .seed = seed,
					     .observer = plan->options.observer};
	struct orr_search_result result = {0};
	struct orr_table *table = NULL;
	int64_t *room = calloc((size_t)p->n_workers, sizeof(*room));
	int n_jobs = p->n_stages * p->n_microbatches * ORR_N_PASSES, code;

	if (!room)
		return orr_no_memory(err, "plan");
	options.effort = smaller(EFFORT, larger(1, n_jobs / JOBS_OF_EFFORT));
	if ((code = find_room(&options, room, plan, err)) || (code = table_for(&table, p, err)) ||
	    (code = orr_search(NULL, table->priority, &result, p, &options, err)))
		goto out;
	fill_table(table, p, plan->workers);
	code = take(plan, &table, true, result.bound_ns, err);
out:
	orr_table_destroy(table);
	free(room);
	return code;
}

/* ---- on any workers ---- */

static int find_replicas(const struct orr_plan *plan)
{
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		if (plan->replicas[s] > 1)
			return s;
	return -1;
}

/* The worker of every one of these stages in the plan; of several, that of the first operator. */
static void fill_workers(int *worker, const struct orr_plan *plan, const struct orr_pipeline *p)
{
	for (int i = plan->graph->n_operators - 1; i >= 0; i--) {
		int s = plan->pipeline->stage_of[i];

		if (s >= 0 && p->stage_of[i] >= 0)
			worker[p->stage_of[i]] = plan->workers[plan->first[s]];
	}
}

/* Every operator that costs something is a stage; where there are too many of them, stages of
 * neighbours, more than one a worker. */
static int list_stages(struct orr_plan_draft *d, const struct orr_plan *plan, int *n_stages,
		       struct orr_error *err)
{
	const struct orr_graph *g = plan->graph;
	struct orr_machine machine = orr_plan_machine(&plan->options);
	int n = orr_graph_n_computed(g), code;

	if ((code = orr_plan_draft_pins(d, g, &plan->options, &machine, err)) || d->n_stages)
		goto out;
	if (n > MOST_STAGES) {
		code = orr_plan_draft_cut(d, g, &machine, plan->options.samples,
					  MOST_STAGES_A_WORKER * machine.n_workers, err);
		goto out;
	}
	if ((code = orr_plan_draft_init(d, g, n, n, err)))
		return code;
	n = 0;
	for (int i = 0; i < g->n_operators; i++)
		d->stage_of[i] = orr_operator_is_input(&g->operators[i]) ? -1 : n++;
out:
	*n_stages = d->n_stages;
	return code;
}

/* `now` takes the place of the plan, but for what is known of all plans of this graph. */
static void replace(struct orr_plan *plan, struct orr_plan *now)
{
	struct orr_plan old = *plan;

	*plan = *now;
	*now = old;
	plan->pinned = old.pinned;
	plan->coarse = old.coarse;
	plan->flattened = old.flattened;
	memcpy(plan->worlds, old.worlds, sizeof(plan->worlds));
	plan->slowest.least_s = old.slowest.least_s;
	plan->slowest.pieces_bound_s = old.slowest.pieces_bound_s;
	plan->sought = old.sought;
	orr_plan_note(plan, ORR_WORLD_PIECES);
	plan->slowest.proven = orr_plan_is_proven(plan);
}

/* The plan is that of the draft, in this order, if its step is shorter. */
static int take_placed(struct orr_plan *plan, const struct orr_plan_draft *d,
		       struct orr_table **table, struct orr_error *err)
{
	struct orr_plan *now = NULL;
	int code = orr_plan_realise(&now, plan->graph, &plan->options, d, ORR_WORLD_PIECES, false,
				    err);

	if (code || (code = take(now, table, false, 0, err)))
		goto out;
	if (!orr_figures_check_memory(now->tried.figures, &now->pipeline->machine, NULL) &&
	    now->tried.figures->makespan_ns < plan->tried.figures->makespan_ns) {
		replace(plan, now);
		code = orr_plan_number(plan, err);
	}
out:
	orr_plan_destroy(now);
	return code;
}

/* What auto finds on these stages takes the place of what was found, if it is shorter. */
static int search_as_auto(int *worker, int64_t *n, struct orr_places_found *found,
			  const struct orr_places *places, struct orr_observer observer,
			  struct orr_error *err)
{
	const struct orr_pipeline *p = places->p;
	struct orr_search_options options = {.schedules = orr_schedules,
					     .memory_bytes = places->memory_bytes,
					     .effort = EFFORT,
					     .related = 1,
					     .reorder = true,
					     .seed = places->seed,
					     .observer = observer};
	struct orr_search_result result = {0};
	int64_t known_ns = found->makespan_ns ? found->makespan_ns : places->known_ns;
	size_t n_jobs = (size_t)p->n_stages * (size_t)p->n_microbatches * ORR_N_PASSES;
	struct orr_arrays all = {0};
	int *auto_worker = orr_arrays_add(&all, (size_t)p->n_stages, sizeof(*auto_worker));
	int64_t *auto_n = orr_arrays_add(&all, n_jobs, sizeof(*auto_n));
	int code = orr_arrays_check(&all, "plan", err);
	struct orr_error why = {""};

	if (code)
		return code;
	code = orr_search(auto_worker, auto_n, &result, p, &options, &why);
	if (!code && result.makespan_ns < known_ns) {
		found->makespan_ns = result.makespan_ns;
		memcpy(worker, auto_worker, (size_t)p->n_stages * sizeof(*worker));
		memcpy(n, auto_n, n_jobs * sizeof(*n));
	}
	orr_arrays_free(&all);
	return code == ORR_E_NOMEM ? orr_fail(err, code, "%s", why.msg) : 0; /* nothing fits */
}

static int search_places(struct orr_plan *plan, int64_t seed, struct orr_error *err)
{
	struct orr_places places = {.memory_bytes = plan->options.memory_bytes,
				    .known_ns = plan->tried.figures->makespan_ns,
				    .seed = seed};
	struct orr_places_found found;
	struct orr_pipeline *p = NULL;
	struct orr_table *table = NULL;
	struct orr_plan_draft d = {0};
	int n_stages, *from, code;

	if ((code = list_stages(&d, plan, &n_stages, err)))
		goto out;
	orr_plan_draft_place_free(&d, plan->graph);
	orr_arrays_make(&d.all, from, n_stages);
	if ((code = orr_arrays_check(&d.all, "plan", err)) ||
	    (code = orr_plan_pipeline(&p, plan->graph, d.stage_of, n_stages, &plan->options, err)))
		goto out;
	places.p = p;
	if (find_replicas(plan) < 0) {
		fill_workers(from, plan, p);
		places.from = from;
	}
	if ((code = table_for(&table, p, err)) ||
	    (code = orr_places_search(d.workers, table->priority, &found, &places, err)) ||
	    (seed == 1 &&
	     (found.makespan_ns ? found.makespan_ns : places.known_ns) > found.bound_ns &&
	     (code = search_as_auto(d.workers, table->priority, &found, &places,
				    plan->options.observer, err))))
		goto out;
	if (found.makespan_ns) {
		fill_table(table, p, d.workers);
		code = take_placed(plan, &d, &table, err);
	}
	/* stages of other operators may be shorter, and so may jobs that take time to start */
	if (n_stages == orr_graph_n_computed(plan->graph) && !p->overhead_ns &&
	    found.bound_ns > plan->sought.anywhere_ns)
		plan->sought.anywhere_ns = found.bound_ns;
	plan->sought.n_placements = found.n_tried;
	plan->sought.all_placements = found.all;
out:
	orr_plan_draft_fini(&d);
	orr_table_destroy(table);
	orr_pipeline_destroy(p);
	return code;
}

static int64_t now_s(void)
{
	return orr_ns_now(CLOCK_MONOTONIC) / 1000000000;
}

static bool is_best(const struct orr_plan *plan)
{
	const struct orr_figures *f = plan->tried.figures;

	return f->makespan_ns <=
	       (plan->options.pieces ? plan->sought.anywhere_ns : f->lower_bound_ns);
}

/* Of the stages where they are; then on any workers, and where that helps of those. */
static int search_once(struct orr_plan *plan, int64_t seed, struct orr_error *err)
{
	int64_t before_ns;
	int code;

	if (find_replicas(plan) < 0 && (code = search_order(plan, seed, err)))
		return code;
	if (!plan->options.pieces)
		return 0;
	before_ns = plan->tried.figures->makespan_ns;
	if ((code = search_places(plan, seed, err)))
		return code;
	return plan->tried.figures->makespan_ns < before_ns ? search_order(plan, seed, err) : 0;
}

int orr_plan_search(struct orr_plan *plan, int restarts, int64_t seconds, struct orr_error *err)
{
	int replicas = find_replicas(plan), code;
	int64_t begin_s = now_s();

	if (replicas >= 0 && !plan->options.pieces)
		return orr_fail(err, ORR_E_INPUT,
				"[search] orders the jobs of one worker a stage, and stage %d "
				"has %d: give [straight] as well",
				replicas, plan->replicas[replicas]);
	plan->sought.from_ns = plan->tried.figures->makespan_ns;
	code = search_once(plan, 1, err);
	while (!code && !is_best(plan) &&
	       (plan->sought.restarts < restarts || now_s() - begin_s < seconds))
		code = search_once(plan, ++plan->sought.restarts + 1, err);
	if (!code) /* the row of the report that it is in */
		orr_plan_note(plan, (int)plan->world);
	return code;
}
