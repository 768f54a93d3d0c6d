#include "ring.h"

/* The gradient of a stage with r owners is cut into r chunks. Chunk c starts at owner c+1, goes
 * round to owner c and is added to on the way; then it goes round once more, to all of them. Owners
 * that are neighbours on one rank copy instead of sending. Without ranks the update adds up the
 * owners' gradients in the same order (optimizer.h), so the bits do not depend on the place. */

/* Sums go round, then what they are; parameters are the third round. */
enum { SUM, SUMMED, PARAMETERS, N_ROUNDS };

static int64_t chunk_floats(const struct orr_work *work, int s, int c)
{
	int64_t n = orr_work_n_trained(work, s);
	int r = orr_work_replicas(work, s);

	return orr_rule_chunk(n, r, c + 1) - orr_rule_chunk(n, r, c);
}

static void make_chunks(struct orr_ring *ring, int i)
{
	struct orr_data *data = ring->slots->data;
	struct orr_fault *fault = data->work->fault;
	int s = data->owned[i].s, r = orr_work_replicas(data->work, s);

	orr_arrays_make(data->work->arrays, ring->chunks[i], r);
	for (int c = 0; c < r && chunk_floats(data->work, s, c) && !orr_work_fails(data->work);
	     c++) {
		int64_t n = chunk_floats(data->work, s, c);

		fault->code = orr_fits(n, "a part of the gradient of", s,
				       "cut the graph into more stages", &fault->err);
		orr_data_make_temporary(data, &ring->chunks[i][c], n);
	}
}

void orr_ring_init(struct orr_ring *ring, struct orr_slots *slots, const struct orr_cross *cross)
{
	*ring = (struct orr_ring){.slots = slots, .cross = cross};
	orr_arrays_make(cross->work->arrays, ring->chunks, slots->data->n_owned);
}

void orr_ring_join(struct orr_ring *ring, int s)
{
	const struct orr_work *work = ring->cross->work;

	for (int i = work->jobs->first_owner[s];
	     i < work->jobs->first_owner[s + 1] && !orr_work_fails(work); i++)
		if (orr_work_has(work, ring->slots->data->owned[i].w))
			make_chunks(ring, i);
}

/* ---- a step ---- */

/* Update q of the slot's step. */
struct at {
	struct orr_ring *ring;
	struct orr_slot *slot;
	int q;
};

static int64_t chunk_of(const struct at *x, int i, int c)
{
	return chunk_floats(x->ring->cross->work, x->ring->slots->data->owned[i].s, c);
}

/* The message of chunk c to or from rank `other`, on its way to owner i in this round. */
static void pass(const struct at *x, int i, int c, int round, starpu_data_handle_t chunk, int other,
		 bool sends)
{
	int64_t n_owned = x->ring->slots->data->n_owned;
	int64_t tag = ((x->q * n_owned + i) * x->ring->cross->most_owners + c) * N_ROUNDS + round;

	orr_cross_pass(x->ring->cross, x->slot->number, ORR_TRANSFER_ALL_REDUCE, tag, chunk, other,
		       sends);
}

/* The owner that is `by` places after owner i, which are fewer than all. */
static int beside(const struct at *x, int i, int by)
{
	const struct orr_work *work = x->ring->cross->work;
	int s = x->ring->slots->data->owned[i].s, first = work->jobs->first_owner[s];
	int r = orr_work_replicas(work, s);

	return first + (i - first + by + r) % r;
}

static int rank_of(const struct at *x, int i)
{
	return x->ring->cross->work->rank_of[x->ring->slots->data->owned[i].w];
}

/* Chunk c comes to owner i from the one before it. */
static void take(const struct at *x, int i, int c, int round)
{
	int before = beside(x, i, -1);
	starpu_data_handle_t chunk = x->ring->chunks[i][c];

	if (x->ring->chunks[before])
		orr_slots_add(x->ring->slots, x->slot, x->ring->slots->data->owned[i].w,
			      ORR_ADD_ALL, x->ring->chunks[before][c], 0, chunk, 0,
			      chunk_of(x, i, c));
	else
		pass(x, i, c, round, chunk, rank_of(x, before), false);
}

/* Chunk c goes to the one after owner i. */
static void give(const struct at *x, int i, int c, int round)
{
	int next = beside(x, i, 1);

	if (!x->ring->chunks[next]) /* else it takes a copy */
		pass(x, next, c, round, x->ring->chunks[i][c], rank_of(x, next), true);
}

/* Chunk c goes round: from the owner after c to c, each adding its own, or from c, which has it, to
 * the others. */
static void go_round(const struct at *x, int s, int c, int round)
{
	const struct orr_work *work = x->ring->cross->work;
	const struct orr_owned *owned = x->ring->slots->data->owned;
	int first = work->jobs->first_owner[s], r = orr_work_replicas(work, s);
	int64_t begin = orr_rule_chunk(orr_work_n_trained(work, s), r, c);

	for (int k = 0; k < r; k++) {
		int i = first + (c + k + (round == SUM)) % r;

		if (!x->ring->chunks[i])
			continue;
		if (k)
			take(x, i, c, round);
		if (round == SUM)
			orr_slots_add(x->ring->slots, x->slot, owned[i].w,
				      k ? ORR_ADD_TO : ORR_ADD_ALL, owned[i].gradient, begin,
				      x->ring->chunks[i][c], 0, chunk_of(x, i, c));
		if (k < r - 1)
			give(x, i, c, round);
	}
}

/* Between chunk c at owner i and its parameters. */
static void exchange(const struct at *x, int i, int c, bool comes)
{
	const struct orr_owned *o = &x->ring->slots->data->owned[i];
	int64_t begin = orr_rule_chunk(orr_work_n_trained(x->ring->cross->work, o->s),
				       orr_work_replicas(x->ring->cross->work, o->s), c);
	starpu_data_handle_t chunk = x->ring->chunks[i][c];

	if (comes)
		orr_slots_add(x->ring->slots, x->slot, o->w, ORR_ADD_OVER, chunk, 0, o->parameters,
			      begin, chunk_of(x, i, c));
	else
		orr_slots_add(x->ring->slots, x->slot, o->w, ORR_ADD_ALL, o->parameters, begin,
			      chunk, 0, chunk_of(x, i, c));
}

void orr_ring_submit(struct orr_ring *ring, struct orr_slot *slot, int s, int q, bool part)
{
	const struct orr_work *work = ring->cross->work;
	const struct at x = {ring, slot, q};

	for (int c = 0; c < orr_work_replicas(work, s) && chunk_floats(work, s, c); c++) {
		go_round(&x, s, c, SUM);
		if (!part)
			go_round(&x, s, c, SUMMED);
	}
}

void orr_ring_gather(struct orr_ring *ring, struct orr_slot *slot, int s, int q)
{
	const struct orr_work *work = ring->cross->work;
	const struct at x = {ring, slot, q};
	int first = work->jobs->first_owner[s], r = orr_work_replicas(work, s);

	for (int c = 0; c < r && chunk_floats(work, s, c); c++) {
		if (ring->chunks[first + c])
			exchange(&x, first + c, c, false);
		go_round(&x, s, c, PARAMETERS);
		for (int i = first; i < first + r; i++) {
			if (!ring->chunks[i])
				continue;
			if (i != first + c)
				exchange(&x, i, c, true);
			orr_data_drop(ring->slots->data, ring->chunks[i][c]);
		}
	}
}
