#include "sum.h"

#include "base/arrays.h"

int orr_sum_init(struct orr_sum *sum, struct orr_slots *slots, const struct orr_cross *cross,
		 const struct orr_policy *policy, bool whole, bool alone, struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	int n_stages = work->pipeline->n_stages, code;

	*sum = (struct orr_sum){.slots = slots, .whole = whole};
	sum->ways = orr_arrays_add(work->arrays, (size_t)n_stages, sizeof(*sum->ways));
	if (!sum->ways)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d stages", n_stages);
	if ((code = orr_reduce_init(&sum->reduce, slots, cross, policy, alone, err)) ||
	    (code = orr_ring_init(&sum->ring, slots, cross, err)) ||
	    (code = orr_ties_init(&sum->ties, slots, cross, err)))
		return code;
	for (int s = 0; s < n_stages && !code; s++)
		if (sum->reduce.members[work->jobs->first_owner[s]].joins) {
			sum->ways[s] = ORR_SUM_NCCL;
		} else if (orr_work_n_trained(work, s) && orr_work_is_spread(work, s)) {
			sum->ways[s] = ORR_SUM_RING;
			code = orr_ring_join(&sum->ring, s, err);
		}
	return code;
}

void orr_sum_fini(struct orr_sum *sum)
{
	orr_ties_fini(&sum->ties);
	orr_ring_fini(&sum->ring);
	orr_reduce_fini(&sum->reduce);
}

bool orr_sum_is_late(const struct orr_sum *sum, int s)
{
	return sum->ways[s] == ORR_SUM_NCCL || sum->ties.spans[s];
}

int orr_sum_submit_shared(struct orr_sum *sum, struct orr_slot *slot, struct orr_error *err)
{
	return orr_ties_submit(&sum->ties, slot, -1, 0, err);
}

/* Does each owner of s need the sum of its part alone? */
static bool is_part(const struct orr_sum *sum, int s)
{
	const struct orr_data *data = sum->slots->data;

	return data->owned[data->work->jobs->first_owner[s]].sharded && !sum->whole;
}

int orr_sum_submit(struct orr_sum *sum, struct orr_slot *slot, int s, int q, struct orr_error *err)
{
	int code = orr_ties_submit(&sum->ties, slot, s, q, err);

	if (code || sum->ways[s] == ORR_SUM_IN_UPDATE)
		return code;
	return sum->ways[s] == ORR_SUM_NCCL
		       ? orr_reduce_submit(&sum->reduce, slot, s, q, is_part(sum, s), false, err)
		       : orr_ring_submit(&sum->ring, slot, s, q, is_part(sum, s), err);
}

void orr_sum_read(const struct orr_sum *sum, int i, bool part, struct orr_buffers *buffers,
		  struct orr_codelet_arg *arg)
{
	const struct orr_owned *owned = sum->slots->data->owned;
	const struct orr_work *work = sum->slots->data->work;
	int s = owned[i].s, first = work->jobs->first_owner[s], r = orr_work_replicas(work, s);
	int n = buffers->n;
	bool in_place = sum->ways[s] == ORR_SUM_NCCL && part && is_part(sum, s);

	if (sum->ways[s] == ORR_SUM_NCCL)
		orr_buffers_add(buffers, owned[sum->reduce.members[i].speaker].gradient.handle,
				STARPU_R);
	/* Every replica sums the same gradients in the same order, so that they stay the same. */
	for (int k = 0; k < r && sum->ways[s] == ORR_SUM_IN_UPDATE; k++)
		orr_buffers_add(buffers, owned[first + k].gradient.handle, STARPU_R);
	for (int k = 0; k < r && sum->ways[s] == ORR_SUM_RING; k++)
		if (!part || first + k == i)
			orr_buffers_add(buffers, sum->ring.chunks[i][k], STARPU_R);
	arg->n_gradients = buffers->n - n;
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
static int copy_parts(const struct orr_sum *sum, struct orr_slot *slot, int s,
		      struct orr_error *err)
{
	const struct orr_data *data = sum->slots->data;
	int first = data->work->jobs->first_owner[s], end = data->work->jobs->first_owner[s + 1];
	int code = 0;

	for (int i = first; i < end && orr_work_has(data->work, data->owned[i].w); i++)
		for (int c = first; c < end && !code; c++) {
			const struct orr_owned *from = &data->owned[c], *to = &data->owned[i];

			if (c != i && from->part.first < from->part.end)
				code = orr_slots_put(sum->slots, slot, to->w,
						     from->parameters.handle, to->parameters.handle,
						     from->part.first, from->part.first,
						     from->part.end - from->part.first, err);
		}
	return code;
}

int orr_sum_gather(struct orr_sum *sum, struct orr_slot *slot, int s, int q, struct orr_error *err)
{
	const struct orr_data *data = sum->slots->data;

	if (!data->owned[data->work->jobs->first_owner[s]].sharded)
		return 0;
	switch (sum->ways[s]) {
	case ORR_SUM_NCCL:
		return orr_reduce_submit(&sum->reduce, slot, s, q, true, true, err);
	case ORR_SUM_RING:
		return orr_ring_gather(&sum->ring, slot, s, q, err);
	case ORR_SUM_IN_UPDATE:
		break;
	}
	return copy_parts(sum, slot, s, err);
}
