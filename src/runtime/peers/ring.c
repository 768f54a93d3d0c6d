#include "runtime/run/engine.h"

#include <stdlib.h>

/* The gradient of a stage with r owners is cut into r chunks. Chunk c starts at owner c+1, goes
 * round to owner c and is added to on the way; then it goes round once more, to all of them. Owners
 * that are neighbours on one rank copy instead of sending. Without ranks the update adds up the
 * owners' gradients in the same order (orr_rule_step), so the bits do not depend on the place. */

static int64_t chunk_floats(const struct orr_run *run, int s, int c)
{
	int64_t n = orr_program_n_parameters(run->programs[s]);
	int r = run->jobs->first_owner[s + 1] - run->jobs->first_owner[s];

	return orr_rule_chunk(n, r, c + 1) - orr_rule_chunk(n, r, c);
}

bool orr_ring_is_spread(const struct orr_run *run, int s)
{
	const struct orr_jobs *jobs = run->jobs;

	for (int i = jobs->first_owner[s] + 1; i < jobs->first_owner[s + 1]; i++)
		if (run->rank_of[jobs->owners[i]] != run->rank_of[jobs->owners[i - 1]])
			return true;
	return false;
}

int orr_ring_init(struct orr_run *run, struct orr_error *err)
{
	for (int i = 0; i < run->data.n_owned; i++) {
		struct orr_owned *o = &run->data.owned[i];
		int r = run->jobs->first_owner[o->s + 1] - run->jobs->first_owner[o->s];

		o->rings = o->update >= 0 && !o->joins && orr_ring_is_spread(run, o->s);
		if (!o->rings || !orr_run_has(run, o->w))
			continue;
		if (!(o->chunks = calloc((size_t)r, sizeof(starpu_data_handle_t))))
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d replicas", r);
		for (int c = 0; c < r && chunk_floats(run, o->s, c); c++) {
			starpu_vector_data_register(&o->chunks[c], -1, 0,
						    (uint32_t)chunk_floats(run, o->s, c),
						    sizeof(float));
			run->data.temporary_bytes += 4 * chunk_floats(run, o->s, c);
		}
	}
	return 0;
}

void orr_ring_fini(struct orr_run *run)
{
	for (int i = 0; run->data.owned && i < run->data.n_owned; i++) {
		struct orr_owned *o = &run->data.owned[i];
		int r = run->jobs->first_owner[o->s + 1] - run->jobs->first_owner[o->s];

		for (int c = 0; o->chunks && c < r; c++)
			if (o->chunks[c])
				starpu_data_unregister_no_coherency(o->chunks[c]);
		free(o->chunks);
	}
}

int orr_ring_slot_init(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	slot->rings =
		calloc((size_t)run->data.n_owned * (size_t)run->n_updates, sizeof(*slot->rings));
	if (!slot->rings)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a ring");
	for (int i = 0; i < run->data.n_owned * run->n_updates; i++) {
		const struct orr_owned *o = &run->data.owned[i % run->data.n_owned];
		int r = run->jobs->first_owner[o->s + 1] - run->jobs->first_owner[o->s];

		if (!o->chunks)
			continue;
		if (!(slot->rings[i] = calloc((size_t)r * 3, sizeof(**slot->rings))))
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for a ring of %d", r);
		for (int k = 0; k < 3 * r; k++)
			slot->rings[i][k] = (struct orr_job_task){
				.queued = {.w = o->w, .turn = ORR_NO_TURN},
				.arg = {.common = &run->common, .job = -1},
				.run = run,
				.slot = slot,
				.owned = -1,
			};
	}
	return 0;
}

/* What a chunk's message to owner i is known by, in its turn round the ring of update q. */
static int64_t tag_at(const struct orr_run *run, int i, int q, int c, int round)
{
	return (((int64_t)q * run->data.n_owned + i) * run->most_owners + c) * 2 + round;
}

/* Chunk c comes to owner i from the one before it. */
static int take(struct orr_run *run, struct orr_slot *slot, int i, int q, int c, int round,
		struct orr_error *err)
{
	const struct orr_owned *o = &run->data.owned[i], *before;
	int first = run->jobs->first_owner[o->s], end = run->jobs->first_owner[o->s + 1];
	struct orr_message m;

	before = &run->data.owned[i > first ? i - 1 : end - 1];
	if (before->chunks)
		return orr_submit_add(
			run, &slot->rings[q * run->data.n_owned + i][3 * c + 2 * round],
			before->chunks[c], o->chunks[c], true, 0, chunk_floats(run, o->s, c), err);
	m = orr_cross_message(slot, ORR_TAG_RING, tag_at(run, i, q, c, round), o->chunks[c],
			      run->rank_of[before->w]);
	return orr_ranks_receive_data(&m, NULL, NULL, err);
}

/* Chunk c goes to the one after owner i. */
static int give(struct orr_run *run, struct orr_slot *slot, int i, int q, int c, int round,
		struct orr_error *err)
{
	const struct orr_owned *o = &run->data.owned[i];
	int first = run->jobs->first_owner[o->s], end = run->jobs->first_owner[o->s + 1];
	int next = i + 1 < end ? i + 1 : first;
	struct orr_message m;

	if (run->data.owned[next].chunks)
		return 0; /* it takes a copy */
	m = orr_cross_message(slot, ORR_TAG_RING, tag_at(run, next, q, c, round), o->chunks[c],
			      run->rank_of[run->data.owned[next].w]);
	return orr_ranks_send_data(&m, err);
}

static int submit_chunk(struct orr_run *run, struct orr_slot *slot, int s, int q, int c,
			struct orr_error *err)
{
	int first = run->jobs->first_owner[s], r = run->jobs->first_owner[s + 1] - first, code = 0;
	int64_t begin = orr_rule_chunk(orr_program_n_parameters(run->programs[s]), r, c);

	for (int k = 1; k <= r && !code; k++) {
		int i = first + (c + k) % r;
		const struct orr_owned *o = &run->data.owned[i];

		if (!o->chunks)
			continue;
		if ((k > 1 && (code = take(run, slot, i, q, c, 0, err))) ||
		    (code = orr_submit_add(run, &slot->rings[q * run->data.n_owned + i][3 * c + 1],
					   o->gradient, o->chunks[c], k == 1, begin,
					   chunk_floats(run, s, c), err)))
			break;
		code = give(run, slot, i, q, c, k == r, err);
	}
	for (int k = 1; k < r && !code; k++) {
		int i = first + (c + k) % r;

		if (run->data.owned[i].chunks && !(code = take(run, slot, i, q, c, 1, err)) &&
		    k < r - 1)
			code = give(run, slot, i, q, c, 1, err);
	}
	return code;
}

int orr_ring_submit(struct orr_run *run, struct orr_slot *slot, int s, int q, struct orr_error *err)
{
	int r = run->jobs->first_owner[s + 1] - run->jobs->first_owner[s], code = 0;

	for (int c = 0; c < r && !code && chunk_floats(run, s, c); c++)
		code = submit_chunk(run, slot, s, q, c, err);
	return code;
}
