#include "place.h"

#include <stdlib.h>
#include <string.h>

#include "allocate.h"
#include "orrery/parameter_cost.h"

#define ALLOCATE_STEPS 200000 /* of branch and bound */

/* Stages shared out evenly, wherever they are in the graph. */
static int place_evenly(int *worker, const struct orr_pipeline *p, struct orr_error *err)
{
	int64_t *work = calloc((size_t)p->n_stages, sizeof(*work));
	struct orr_layers layers = {p->n_stages, work, NULL, &p->machine};
	struct orr_allocation found;
	int code;

	if (!work)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d stages", p->n_stages);
	for (int s = 0; s < p->n_stages; s++)
		work[s] =
			p->stages[s].forward_ns + p->stages[s].backward_ns + p->stages[s].weight_ns;
	code = orr_allocate_any(&found, worker, &layers, p->n_workers, 0, ALLOCATE_STEPS, err);
	free(work);
	return code;
}

int orr_place(int *worker, const struct orr_pipeline *p, const struct orr_search_options *options,
	      enum orr_placement placement, struct orr_error *err)
{
	int n_workers = p->n_workers;

	if (placement == ORR_PLACEMENT_PLAN)
		return place_evenly(worker, p, err);
	if (placement == ORR_PLACEMENT_GIVEN) {
		memcpy(worker, options->worker, (size_t)p->n_stages * sizeof(*worker));
		return 0;
	}
	for (int s = 0; s < p->n_stages; s++)
		worker[s] = placement == ORR_PLACEMENT_FOLD && s / n_workers % 2
				    ? n_workers - 1 - s % n_workers
				    : s % n_workers;
	return 0;
}

/* Of worker w, where they differ its own. */
static int64_t memory_of(const struct orr_pipeline *p, const struct orr_search_options *options,
			 int w)
{
	int64_t own = orr_machine_memory(&p->machine, w);

	if (!p->machine.cluster)
		return options->memory_bytes;
	return own ? own : INT64_MAX;
}

/* No limit stays none. */
static void take_room(struct orr_timed *t, int w, int64_t bytes)
{
	if (t->most[w].bytes < INT64_MAX)
		t->most[w].bytes -= bytes;
}

void orr_place_limit(struct orr_timed *t, const int *worker,
		     const struct orr_search_options *options, struct orr_load limit)
{
	const struct orr_pipeline *p = t->jobs.pipeline;

	orr_timed_set_limit(t, limit);
	for (int w = 0; w < p->n_workers; w++)
		if (options->memory_bytes)
			t->most[w].bytes = memory_of(p, options, w);
		else if (options->room_bytes)
			t->most[w].bytes = options->room_bytes[w];
	for (int s = 0; s < p->n_stages && options->memory_bytes; s++) {
		int64_t kept = orr_parameters_kept(
			&p->numerics, orr_pipeline_share(p, s, p->stages[s].parameter_bytes),
			orr_pipeline_share(p, s, orr_stage_trained_bytes(&p->stages[s])), 1);

		for (int i = 0; i < orr_pipeline_n_at(p, s); i++)
			take_room(t, orr_pipeline_at(p, s, worker[s], i), kept);
		take_room(t, worker[s], p->stages[s].tied_trained_bytes); /* a ring's */
	}
}
