#include "place.h"

#include <stdlib.h>

#include "allocate.h"
#include "pipeline/parameter_cost.h"

int orr_place_evenly(int *worker, const struct orr_pipeline *p, int64_t most_steps,
		     struct orr_error *err)
{
	int64_t *work = calloc((size_t)p->n_stages, sizeof(*work));
	struct orr_layers layers = {p->n_stages, work, NULL, &p->machine};
	struct orr_allocation found;
	int code;

	if (!work)
		return orr_no_memory(err, "search");
	for (int s = 0; s < p->n_stages; s++)
		work[s] =
			p->stages[s].forward_ns + p->stages[s].backward_ns + p->stages[s].weight_ns;
	code = orr_allocate_any(&found, worker, &layers, p->n_workers, 0, most_steps, err);
	free(work);
	return code;
}

void orr_place_in_turn(int *worker, const struct orr_pipeline *p, bool fold)
{
	int n_workers = p->n_workers;

	for (int s = 0; s < p->n_stages; s++)
		worker[s] =
			fold && s / n_workers % 2 ? n_workers - 1 - s % n_workers : s % n_workers;
}

void orr_place_unevenly(int *worker, int *block, const struct orr_pipeline *p)
{
	int n_workers = p->n_workers, n = p->n_stages, each = n / n_workers,
	    down = n * (each / 2) / each;

	for (int s = 0; s < n; s++) {
		block[s] =
			s < down ? (int)((int64_t)s * n_workers / down)
				 : n_workers + (int)((int64_t)(s - down) * n_workers / (n - down));
		worker[s] = block[s] < n_workers ? block[s] : 2 * n_workers - 1 - block[s];
	}
}

/* Of worker w, where they differ its own. */
static int64_t memory_of(const struct orr_pipeline *p, int64_t memory_bytes, int w)
{
	int64_t own = orr_machine_memory(&p->machine, w);

	if (!p->machine.cluster)
		return memory_bytes;
	return own ? own : INT64_MAX;
}

/* No limit stays none. */
static void take_room(struct orr_timed *t, int w, int64_t bytes)
{
	if (t->most[w].bytes < INT64_MAX)
		t->most[w].bytes -= bytes;
}

void orr_place_limit(struct orr_timed *t, const int *worker, struct orr_load limit,
		     int64_t memory_bytes, const int64_t *room_bytes)
{
	const struct orr_pipeline *p = t->jobs.pipeline;

	for (int w = 0; w < p->n_workers; w++) {
		t->most[w] = limit;
		if (memory_bytes)
			t->most[w].bytes = memory_of(p, memory_bytes, w);
		else if (room_bytes)
			t->most[w].bytes = room_bytes[w];
	}
	for (int s = 0; s < p->n_stages && memory_bytes; s++) {
		int64_t kept = orr_parameters_kept(
			&p->numerics, orr_pipeline_share(p, s, p->stages[s].parameter_bytes),
			orr_pipeline_share(p, s, orr_stage_trained_bytes(&p->stages[s])), 1);

		for (int i = 0; i < orr_pipeline_n_at(p, s); i++)
			take_room(t, orr_pipeline_at(p, s, worker[s], i), kept);
		take_room(t, worker[s], p->stages[s].tied_trained_bytes); /* a ring's */
	}
}

int orr_place_rename(int *alike, const int *worker, const struct orr_pipeline *p,
		     struct orr_error *err)
{
	int *name = calloc((size_t)p->n_workers, sizeof(*name)), n = 0; /* + 1 */
	bool named = orr_pipeline_has_gangs(p); /* by the model: then they differ */

	if (!name)
		return orr_no_memory(err, "search");
	for (int s = 0; s < p->n_stages; s++) {
		int w = worker[s];

		if (!name[w])
			name[w] = named || p->machine.cluster ? w + 1 : ++n;
		alike[s] = name[w] - 1;
	}
	free(name);
	return 0;
}
