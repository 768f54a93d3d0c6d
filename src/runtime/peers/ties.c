#include "ties.h"

#include "base/max.h"

#include "orrery/graph.h"

static bool is_set(const struct orr_graph *g, int k)
{
	return g->operators[k].tied == k && !g->operators[k].frozen;
}

static void allocate(struct orr_ties *ties)
{
	const struct orr_work *work = ties->cross->work;
	const struct orr_graph *g = work->pipeline->graph;

	for (int k = 0; k < g->n_operators; k++)
		ties->n_sets += is_set(g, k);
	ties->n_parts = orr_work_n_ties(work);
	orr_arrays_make(work->arrays, ties->sets, ties->n_sets);
	orr_arrays_make(work->arrays, ties->parts, ties->n_parts);
	orr_arrays_make(work->arrays, ties->spans, work->pipeline->n_stages);
}

static bool has(const struct orr_ties *ties, int owned)
{
	return orr_work_has(ties->cross->work, ties->slots->data->owned[owned].w);
}

/* Operator k, of every owner of its stage. */
static void add_parts(struct orr_ties *ties, struct orr_tie *set, int k)
{
	const struct orr_work *work = ties->cross->work;
	int s = work->pipeline->stage_of[k];

	for (int i = work->jobs->first_owner[s]; i < work->jobs->first_owner[s + 1]; i++) {
		ties->parts[set->first + set->n++] = (struct orr_tie_part){
			.owned = i, .at = orr_program_first_parameter(work->programs[s], k)};
		set->here = set->here || has(ties, i);
		if (has(ties, i) && i > work->jobs->first_owner[s])
			ties->n_zeros = larger(ties->n_zeros, set->n_floats);
	}
	set->s = set->n && set->s != s ? -1 : s;
}

/* The workers of the set each add up a chunk, as far as there are floats; those of one rank need
 * none. */
static void find_chunks(struct orr_ties *ties, struct orr_tie *set)
{
	const struct orr_owned *owned = ties->slots->data->owned;
	const int *rank_of = ties->cross->work->rank_of;
	bool spread = false;

	orr_arrays_make(ties->cross->work->arrays, set->chunks, set->n);
	if (orr_work_fails(ties->cross->work))
		return;
	for (int i = set->first; i < set->first + set->n; i++) {
		int w = owned[ties->parts[i].owned].w, c = 0;

		while (c < set->n_chunks && owned[set->chunks[c].adder].w != w)
			c++;
		if (c == set->n_chunks)
			set->chunks[set->n_chunks++].adder = ties->parts[i].owned;
		spread = spread || rank_of[w] != rank_of[owned[set->chunks[0].adder].w];
	}
	if (!spread)
		set->n_chunks = 1;
	set->n_chunks = (int)smaller(set->n_chunks, set->n_floats);
	for (int c = 0; c < set->n_chunks; c++) {
		set->chunks[c].first = orr_rule_chunk(set->n_floats, set->n_chunks, c);
		set->chunks[c].n_floats =
			orr_rule_chunk(set->n_floats, set->n_chunks, c + 1) - set->chunks[c].first;
	}
}

static void make_chunk(struct orr_ties *ties, const struct orr_tie *set,
		       struct orr_tie_chunk *chunk)
{
	struct orr_data *data = ties->slots->data;
	struct orr_fault *fault = data->work->fault;

	if (set->in_place) {
		chunk->sum = data->owned[ties->parts[set->first].owned].gradient;
		chunk->at = ties->parts[set->first].at;
		return;
	}
	if (set->n_chunks > 1 && !fault->code)
		fault->code =
			orr_fits(chunk->n_floats, "a part of a shared gradient of",
				 data->owned[chunk->adder].s,
				 "have more workers share the stages that have it", &fault->err);
	orr_data_make_temporary(data, &chunk->sum, chunk->n_floats);
	if (set->n_chunks > 1 && has(ties, chunk->adder))
		orr_data_make_temporary(data, &chunk->incoming, chunk->n_floats);
}

/* Where all parts are on this rank, and no other lies in the first one's block, from which a task
 * could not add it. */
static bool adds_in_place(const struct orr_ties *ties, const struct orr_tie *set)
{
	const struct orr_tie_part *parts = &ties->parts[set->first];
	const struct orr_owned *owned = ties->slots->data->owned;
	bool in_place = set->n_chunks == 1 && owned[parts[0].owned].n_contributors;

	for (int i = 0; i < set->n; i++)
		in_place = in_place && has(ties, parts[i].owned) &&
			   (!i || parts[i].owned != parts[0].owned);
	return in_place;
}

static void make_set(struct orr_ties *ties, struct orr_tie *set, int k)
{
	const struct orr_graph *g = ties->cross->work->pipeline->graph;
	const struct orr_owned *owned = ties->slots->data->owned;

	set->n_floats = g->operators[k].n_parameters;
	set->s = ties->cross->work->pipeline->stage_of[k];
	for (int i = k; i < g->n_operators; i++)
		if (g->operators[i].tied == k)
			add_parts(ties, set, i);
	for (int i = set->first; i < set->first + set->n && set->s < 0; i++)
		ties->spans[owned[ties->parts[i].owned].s] = true;
	if (!set->here)
		return;
	find_chunks(ties, set);
	set->in_place = adds_in_place(ties, set);
	for (int c = 0; c < set->n_chunks; c++)
		make_chunk(ties, set, &set->chunks[c]);
}

void orr_ties_init(struct orr_ties *ties, struct orr_slots *slots, const struct orr_cross *cross)
{
	const struct orr_graph *g = cross->work->pipeline->graph;
	int n = 0, at = 0;

	*ties = (struct orr_ties){.slots = slots, .cross = cross};
	allocate(ties);
	for (int k = 0; k < g->n_operators && !orr_work_fails(cross->work); k++) {
		struct orr_tie *set = &ties->sets[n];

		if (!is_set(g, k))
			continue;
		set->first = at;
		make_set(ties, set, k);
		at += set->n;
		n++;
	}
	if (ties->n_zeros)
		orr_data_make_zeros(slots->data, &ties->zero, ties->n_zeros);
}

/* ---- a step ---- */

/* Update q of the slot's step, of a set. */
struct at {
	struct orr_ties *ties;
	struct orr_slot *slot;
	int q;
	const struct orr_tie *set;
};

static int rank_at(const struct at *x, int owned)
{
	return x->ties->cross->work->rank_of[x->ties->slots->data->owned[owned].w];
}

static bool takes_part(const struct at *x, int k)
{
	int i = 0;

	while (i < x->set->n && rank_at(x, x->ties->parts[x->set->first + i].owned) != k)
		i++;
	return i < x->set->n;
}

static void pass(const struct at *x, int64_t at, starpu_data_handle_t handle, int other, bool sends)
{
	orr_cross_pass(x->ties->cross, x->slot->number, ORR_TAG_TIED, at, handle, other, sends);
}

static void pass_part(const struct at *x, int i, int c, starpu_data_handle_t handle, int other,
		      bool sends)
{
	int64_t n_workers = x->ties->cross->work->pipeline->n_workers;

	pass(x, ((int64_t)x->q * x->ties->n_parts + i) * n_workers + c, handle, other, sends);
}

/* The sum of chunk c, to rank `to`; there are as many parts as chunks at least. */
static void pass_sum(const struct at *x, int c, int to, int other, bool sends)
{
	const struct orr_work *work = x->ties->cross->work;
	int64_t parts = (int64_t)work->n_updates * x->ties->n_parts * work->pipeline->n_workers;
	int64_t at = (int64_t)x->q * x->ties->n_parts + x->set->first + c;

	pass(x, parts + at * work->n_ranks + to, x->set->chunks[c].sum, other, sends);
}

/* Chunk c of part i goes into the sum here: from the gradient, or from another rank. */
static void add(const struct at *x, int i, int c, bool first)
{
	const struct orr_tie_part *part = &x->ties->parts[i];
	const struct orr_tie_chunk *chunk = &x->set->chunks[c];
	const struct orr_data *data = x->ties->slots->data;
	bool here = has(x->ties, part->owned);
	starpu_data_handle_t from = here    ? data->owned[part->owned].gradient
				    : first ? chunk->sum
					    : chunk->incoming;

	if (!here)
		pass_part(x, i, c, from, rank_at(x, part->owned), false);
	if (from == chunk->sum)
		return;
	orr_slots_add(x->ties->slots, x->slot, data->owned[chunk->adder].w,
		      first ? ORR_ADD_ALL : ORR_ADD_TO, from, here ? part->at + chunk->first : 0,
		      chunk->sum, chunk->at, chunk->n_floats);
	if (!here)
		orr_data_drop(data, from);
}

/* Chunk c of part i, which is here, goes to the rank that adds it up. */
static void give(const struct at *x, int i, int c)
{
	const struct orr_tie_part *part = &x->ties->parts[i];
	const struct orr_tie_chunk *chunk = &x->set->chunks[c];
	const struct orr_owned *o = &x->ties->slots->data->owned[part->owned];

	orr_slots_add(x->ties->slots, x->slot, o->w, ORR_ADD_ALL, o->gradient,
		      part->at + chunk->first, chunk->sum, 0, chunk->n_floats);
	pass_part(x, i, c, chunk->sum, rank_at(x, chunk->adder), true);
}

static void add_up(const struct at *x, int c)
{
	bool adds = has(x->ties, x->set->chunks[c].adder), any = false;

	for (int i = x->set->first; i < x->set->first + x->set->n; i++) {
		int owned = x->ties->parts[i].owned;

		if (!x->ties->slots->data->owned[owned].n_contributors) /* it has made none */
			continue;
		if (adds)
			add(x, i, c, !any);
		else if (has(x->ties, owned))
			give(x, i, c);
		any = true;
	}
}

/* The sum of chunk c comes to all ranks that have owners of the set. */
static void share(const struct at *x, int c)
{
	const struct orr_work *work = x->ties->cross->work;
	int from = rank_at(x, x->set->chunks[c].adder);

	if (from != work->rank) {
		pass_sum(x, c, work->rank, from, false);
		return;
	}
	for (int k = 0; k < work->n_ranks; k++)
		if (k != work->rank && takes_part(x, k))
			pass_sum(x, c, k, k, true);
}

/* The sum, or zeros, in place of chunk c of part i, which is here. */
static void put_back(const struct at *x, int i, int c)
{
	const struct orr_tie_part *part = &x->ties->parts[i];
	const struct orr_tie_chunk *chunk = &x->set->chunks[c];
	const struct orr_data *data = x->ties->slots->data;
	const struct orr_owned *o = &data->owned[part->owned];
	bool first = part->owned == data->work->jobs->first_owner[o->s];

	orr_slots_add(x->ties->slots, x->slot, o->w, ORR_ADD_OVER,
		      first ? chunk->sum : x->ties->zero, first ? chunk->at : 0, o->gradient,
		      part->at + chunk->first, chunk->n_floats);
}

/* One loop after the other, so that no chunk waits until another has come back. */
static void submit_set(const struct at *x)
{
	const struct orr_tie *set = x->set;

	for (int c = 0; c < set->n_chunks; c++)
		add_up(x, c);
	for (int c = 0; c < set->n_chunks; c++)
		share(x, c);
	for (int i = set->first + set->in_place; i < set->first + set->n; i++)
		for (int c = 0; c < set->n_chunks && has(x->ties, x->ties->parts[i].owned); c++)
			put_back(x, i, c);
	for (int c = 0; c < set->n_chunks && !set->in_place; c++)
		orr_data_drop(x->ties->slots->data, set->chunks[c].sum);
}

void orr_ties_submit(struct orr_ties *ties, struct orr_slot *slot, int s, int q)
{
	for (int i = 0; i < ties->n_sets; i++) {
		const struct at x = {ties, slot, q, &ties->sets[i]};

		if (x.set->here && x.set->s == s)
			submit_set(&x);
	}
}
