#include "shards.h"

#include <stdlib.h>

static int make_tasks(struct orr_shards *shards, int i, struct orr_error *err)
{
	const struct orr_data *data = shards->slots->data;
	int n_updates = data->work->n_updates;
	int r = orr_work_replicas(data->work, data->owned[i].s);

	for (int k = 0; k < data->work->window * n_updates; k++) {
		struct orr_task *tasks = calloc((size_t)r, sizeof(*tasks));

		if (!tasks)
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d replicas", r);
		for (int c = 0; c < r; c++)
			orr_task_init(&tasks[c], shards->slots->submitter,
				      &shards->slots->slots[k / n_updates].flight,
				      data->owned[i].w);
		shards->tasks[k * data->n_owned + i] = tasks;
	}
	return 0;
}

int orr_shards_init(struct orr_shards *shards, struct orr_slots *slots,
		    const struct orr_reduce *reduce, const struct orr_ring *ring,
		    struct orr_error *err)
{
	const struct orr_data *data = slots->data;
	size_t n = (size_t)data->n_owned * (size_t)data->work->window;
	int code = 0;

	*shards = (struct orr_shards){.slots = slots};
	shards->tasks = calloc(n * (size_t)data->work->n_updates, sizeof(*shards->tasks));
	if (!shards->tasks)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d owners", data->n_owned);
	for (int i = 0; i < data->n_owned && !code; i++)
		if (data->owned[i].sharded && orr_work_has(data->work, data->owned[i].w) &&
		    !reduce->members[i].joins && !ring->rings[i])
			code = make_tasks(shards, i, err);
	return code;
}

void orr_shards_fini(struct orr_shards *shards)
{
	const struct orr_data *data = shards->slots ? shards->slots->data : NULL;

	for (int k = 0;
	     shards->tasks && k < data->n_owned * data->work->window * data->work->n_updates; k++)
		free(shards->tasks[k]);
	free(shards->tasks);
}

int orr_shards_gather(struct orr_shards *shards, const struct orr_slot *slot, int s, int q,
		      struct orr_error *err)
{
	const struct orr_data *data = shards->slots->data;
	const int *first = &data->work->jobs->first_owner[s];
	int update = slot->number * data->work->n_updates + q, code = 0;

	for (int i = first[0]; i < first[1] && !code; i++) {
		struct orr_task *tasks = shards->tasks[update * data->n_owned + i];

		for (int c = first[0]; c < first[1] && tasks && !code; c++) {
			const struct orr_owned *from = &data->owned[c];

			if (c != i && from->part.first < from->part.end)
				code = orr_task_submit_put(
					shards->slots->submitter, &tasks[c - first[0]],
					from->parameters.handle, data->owned[i].parameters.handle,
					from->part.first, from->part.first,
					from->part.end - from->part.first, err);
		}
	}
	return code;
}
