#include "whole_state.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/ranks.h"
#include "parts.h"

static size_t part_bytes(const struct orr_owned *o)
{
	return (size_t)(o->part.end - o->part.first) * sizeof(float);
}

int orr_whole_state_room(float **state, const struct orr_run *run, const struct orr_owned *o,
			 struct orr_error *err)
{
	int64_t n = orr_work_n_trained(&run->work, o->s) * run->data.n_state;

	*state = calloc((size_t)n + 1, sizeof(**state));
	return *state ? 0
		      : orr_fail(err, ORR_E_NOMEM,
				 "checkpoint: no memory for the optimizer's state of stage %d",
				 o->s);
}

/* Each of the n_state tensors of a part lies after the one before; so do those of the whole. */
static void put(float *whole, const struct orr_run *run, const struct orr_owned *o,
		const float *part)
{
	int64_t n = orr_work_n_trained(&run->work, o->s);

	for (int k = 0; k < run->data.n_state; k++)
		memcpy(whole + k * n + o->part.first, part + k * (o->part.end - o->part.first),
		       part_bytes(o));
}

void orr_whole_state_take(float *part, const struct orr_run *run, const struct orr_owned *o,
			  const float *whole)
{
	int64_t n = orr_work_n_trained(&run->work, o->s);

	for (int k = 0; k < run->data.n_state; k++)
		memcpy(part + k * (o->part.end - o->part.first), whole + k * n + o->part.first,
		       part_bytes(o));
}

/* The part of owner o, here or elsewhere, to the rank of the first owner, if that is another one.
 */
static int bring(float *whole, const struct orr_run *run, const struct orr_owned *o, int to,
		 struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	size_t bytes = part_bytes(o) * (size_t)run->data.n_state;
	float *part = NULL;
	int code;

	if (!bytes || (!orr_work_has(work, o->w) && work->rank != to))
		return 0;
	if (!orr_work_has(work, o->w)) {
		if (!(part = malloc(bytes)))
			return orr_fail(err, ORR_E_NOMEM, "checkpoint: no memory for a part");
		code = orr_ranks_receive(work->rank_of[o->w], ORR_RANKS_FIRST_TAG, part, bytes,
					 err);
		if (!code)
			put(whole, run, o, part);
		free(part);
		return code;
	}
	if ((code = orr_data_acquire(o->state.handle, STARPU_R, &part, err)))
		return code;
	if (work->rank == to)
		put(whole, run, o, part);
	else
		code = orr_ranks_send(to, ORR_RANKS_FIRST_TAG, part, bytes, err);
	orr_data_release(o->state.handle);
	return code;
}

int orr_whole_state_gather(float **state, const struct orr_run *run, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	const int *first = work->jobs->first_owner;
	int code = 0;

	for (int s = 0; s < work->pipeline->n_stages && !code; s++) {
		const struct orr_owned *o = &run->data.owned[first[s]];

		if (o->sharded && orr_work_has(work, o->w))
			code = orr_whole_state_room(&state[s], run, o, err);
	}
	if ((code = orr_ranks_agree(code, err)))
		return code;
	for (int i = 0; i < run->data.n_owned && !code; i++) {
		const struct orr_owned *o = &run->data.owned[i];

		if (o->sharded)
			code = bring(state[o->s], run, o,
				     work->rank_of[run->data.owned[first[o->s]].w], err);
	}
	return orr_ranks_agree(code, err);
}
