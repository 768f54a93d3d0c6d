#include "sum.h"

void orr_sum_init(struct orr_sum *sum, struct orr_slots *slots, const struct orr_cross *cross,
		  const struct orr_policy *policy, bool whole, bool alone)
{
	const struct orr_work *work = cross->work;

	*sum = (struct orr_sum){.slots = slots, .whole = whole};
	orr_arrays_make(work->arrays, sum->ways, work->pipeline->n_stages);
	orr_reduce_init(&sum->reduce, slots, cross, policy, alone);
	orr_ring_init(&sum->ring, slots, cross);
	orr_ties_init(&sum->ties, slots, cross);
	for (int s = 0; s < work->pipeline->n_stages && !orr_work_fails(work); s++)
		if (sum->reduce.members[work->jobs->first_owner[s]].joins) {
			sum->ways[s] = ORR_SUM_NCCL;
		} else if (orr_work_n_trained(work, s) && orr_work_is_spread(work, s)) {
			sum->ways[s] = ORR_SUM_RING;
			orr_ring_join(&sum->ring, s);
		}
}

bool orr_sum_is_late(const struct orr_sum *sum, int s)
{
	return sum->ways[s] == ORR_SUM_NCCL || sum->ties.spans[s];
}

/* Does each owner of s need the sum of its part alone? */
static bool is_part(const struct orr_sum *sum, int s)
{
	const struct orr_data *data = sum->slots->data;

	return data->owned[data->work->jobs->first_owner[s]].sharded && !sum->whole;
}

void orr_sum_submit(struct orr_sum *sum, struct orr_slot *slot, int s, int q)
{
	orr_ties_submit(&sum->ties, slot, s, q);
	if (sum->ways[s] == ORR_SUM_NCCL)
		orr_reduce_submit(&sum->reduce, slot, s, q, is_part(sum, s), false);
	if (sum->ways[s] == ORR_SUM_RING)
		orr_ring_submit(&sum->ring, slot, s, q, is_part(sum, s));
}

void orr_sum_read(const struct orr_sum *sum, int i, bool part, struct orr_codelet_arg *arg)
{
	const struct orr_owned *owned = sum->slots->data->owned;
	const struct orr_work *work = sum->slots->data->work;
	struct orr_submitter *submitter = sum->slots->submitter;
	int s = owned[i].s, first = work->jobs->first_owner[s], r = orr_work_replicas(work, s);
	int n = submitter->n_buffers;
	bool in_place = sum->ways[s] == ORR_SUM_NCCL && part && is_part(sum, s);

	if (sum->ways[s] == ORR_SUM_NCCL)
		orr_task_add(submitter, owned[sum->reduce.members[i].speaker].gradient, STARPU_R);
	/* Every replica sums the same gradients in the same order, so that they stay the same. */
	for (int k = 0; k < r && sum->ways[s] == ORR_SUM_IN_UPDATE; k++)
		orr_task_add(submitter, owned[first + k].gradient, STARPU_R);
	for (int k = 0; k < r && sum->ways[s] == ORR_SUM_RING; k++)
		if (!part || first + k == i)
			orr_task_add(submitter, sum->ring.chunks[i][k], STARPU_R);
	arg->n_gradients = submitter->n_buffers - n;
	arg->n_chunks = sum->ways[s] == ORR_SUM_RING || in_place ? r : 0;
	arg->offset = in_place ? owned[i].part.first : 0;
}

void orr_sum_drop(const struct orr_sum *sum, int i)
{
	const struct orr_data *data = sum->slots->data;
	starpu_data_handle_t *chunks = sum->ring.chunks[i];

	for (int k = 0; chunks && k < orr_work_replicas(data->work, data->owned[i].s); k++)
		orr_data_drop(data, chunks[k]);
}

/* Every owner here copies what the others, which are all here, have updated. */
static void copy_parts(const struct orr_sum *sum, struct orr_slot *slot, int s)
{
	const struct orr_data *data = sum->slots->data;
	int first = data->work->jobs->first_owner[s], end = data->work->jobs->first_owner[s + 1];

	for (int i = first; i < end && orr_work_has(data->work, data->owned[i].w); i++)
		for (int c = first; c < end; c++) {
			const struct orr_owned *from = &data->owned[c], *to = &data->owned[i];
			int64_t at = from->part.first, n = from->part.end - at;

			if (c != i && n > 0)
				orr_slots_add(sum->slots, slot, to->w, ORR_ADD_OVER,
					      from->parameters, at, to->parameters, at, n);
		}
}

void orr_sum_gather(struct orr_sum *sum, struct orr_slot *slot, int s, int q)
{
	const struct orr_data *data = sum->slots->data;

	if (!data->owned[data->work->jobs->first_owner[s]].sharded)
		return;
	if (sum->ways[s] == ORR_SUM_NCCL)
		orr_reduce_submit(&sum->reduce, slot, s, q, true, true);
	else if (sum->ways[s] == ORR_SUM_RING)
		orr_ring_gather(&sum->ring, slot, s, q);
	else
		copy_parts(sum, slot, s);
}
