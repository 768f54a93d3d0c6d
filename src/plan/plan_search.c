/* The shortest order that a search finds for the stages and workers of a plan as they are. */
#include "orrery/plan.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/schedules.h"
#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "orrery/table.h"
#include "orrery/search.h"
#include "orrery/timeline.h"

#define EFFORT 8 /* million jobs timed, as the schedule auto does */

/* Memory left for stashes on each worker: of the limit, or of what the plan needs on its fullest
 * worker. */
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
			o->stashes = f->worker[w].peak_stash > o->stashes ? f->worker[w].peak_stash
									  : o->stashes;
		return 0;
	}
	for (int w = 0; w < f->n_workers && !plan->options.memory_bytes; w++)
		limit = f->worker[w].memory_bytes > limit ? f->worker[w].memory_bytes : limit;
	for (int w = 0; w < f->n_workers; w++) {
		int64_t own = orr_machine_memory(machine, w);

		room[w] = (own ? own : limit) -
			  (f->worker[w].memory_bytes - f->worker[w].peak_stash_bytes);
		o->stash_bytes = room[w] > o->stash_bytes ? room[w] : o->stash_bytes;
	}
	o->room_bytes = room;
	return o->stash_bytes > 0 ? 0
				  : orr_fail(err, ORR_E_INPUT,
					     "plan: the parameters leave no memory for a search");
}

/* Take the order, unless the one at hand is as short. */
static int take(struct orr_plan *plan, struct orr_table **table, int64_t bound_ns,
		struct orr_error *err)
{
	struct orr_schedule schedule;
	struct orr_try tried;
	int code;

	orr_table_schedule(&schedule, *table);
	if ((code = orr_try_init(&tried, plan->pipeline, &schedule, NULL, err)) ||
	    (code = orr_try_run(&tried, err)))
		goto out;
	if (tried.figures->makespan_ns < plan->tried.figures->makespan_ns) {
		struct orr_plan old = *plan;

		plan->table = *table;
		plan->tried = tried;
		*table = old.table;
		tried = old.tried;
	}
	if (bound_ns > plan->tried.figures->lower_bound_ns)
		plan->tried.figures->lower_bound_ns = bound_ns;
out:
	orr_try_fini(&tried);
	return code;
}

int orr_plan_search(struct orr_plan *plan, int64_t seconds, struct orr_error *err)
{
	struct orr_pipeline *p = plan->pipeline;
	struct orr_search_options options = {.schedules = orr_schedules,
					     .placement = ORR_PLACEMENT_GIVEN,
					     .worker = plan->workers,
					     .from = plan->tried.timeline,
					     .effort = EFFORT,
					     .seconds = seconds,
					     .seed = 1};
	struct orr_search_result result = {0};
	struct orr_table *table = NULL;
	int *worker = calloc((size_t)p->n_stages, sizeof(*worker)), code = 0;
	int64_t *room = calloc((size_t)p->n_workers, sizeof(*room));

	if (!worker || !room) {
		code = orr_fail(err, ORR_E_NOMEM, "plan: no memory for %d stages", p->n_stages);
		goto out;
	}
	for (int s = 0; s < p->n_stages; s++)
		if (plan->replicas[s] > 1) {
			code = orr_fail(
				err, ORR_E_INPUT,
				"[search] orders the jobs of one worker a stage, and stage %d "
				"has %d: give [straight] as well",
				s, plan->replicas[s]);
			goto out;
		}
	if ((code = find_room(&options, room, plan, err)) ||
	    (code = orr_table_create(&table, "search", p->n_stages, p->n_workers, p->n_microbatches,
				     true, err)) ||
	    (code = orr_search(worker, table->priority, &result, p, &options, err)))
		goto out;
	for (int j = 0; j < p->n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int s = j / ORR_N_PASSES % p->n_stages;
		enum orr_pass d = (enum orr_pass)(j % ORR_N_PASSES);

		table->compute[j] = orr_pipeline_has_pass(p, s, d, true) ? worker[s] : -1;
	}
	plan->searched_from_ns = plan->tried.figures->makespan_ns;
	code = take(plan, &table, result.bound_ns, err);
out:
	orr_table_destroy(table);
	free(worker);
	free(room);
	return code;
}
