#include "ideals.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/max.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "crossing.h"
#include "pipeline/charge.h"
#include "units.h"

#define MANY 4000 /* units, which joining one pair after the other takes too long for */

/* ---- listing ---- */

struct listing {
	struct orr_ideals *x;
	const struct orr_units *u;
	uint64_t *needs;     /* [n_units * n_words] the units that a unit reads */
	int *table, n_table; /* a set of ideals */
	int most;
};

/* Add the set in the place after the last one, if it is new; false: there is no room. */
static bool add_ideal(struct listing *l)
{
	struct orr_ideals *x = l->x;
	size_t row = (size_t)x->n_words;
	const uint64_t *bits = x->bits + (size_t)x->n * row;
	int *place = orr_set_find(l->table, (size_t)l->n_table, x->bits, bits, row * sizeof(*bits));

	if (*place)
		return true;
	if (x->n == l->most)
		return false;
	*place = ++x->n;
	return true;
}

/* Breadth first, so that they come by size; units in topological order, so that the answer is the
 * same on every run. false: more than most. */
static bool list_ideals(struct listing *l)
{
	struct orr_ideals *x = l->x;
	size_t row = (size_t)x->n_words;

	x->n = 0;
	memset(x->bits, 0, row * sizeof(*x->bits));
	(void)add_ideal(l);
	for (int i = 0; i < x->n; i++)
		for (int k = 0; k < l->u->n; k++) {
			const uint64_t *here = x->bits + (size_t)i * row,
				       *needs = l->needs + (size_t)k * row;
			uint64_t *next = x->bits + (size_t)x->n * row;
			bool ready = !orr_bits_has(here, k);

			for (size_t w = 0; w < row && ready; w++)
				ready = !(needs[w] & ~here[w]);
			if (!ready)
				continue;
			memcpy(next, here, row * sizeof(*next));
			orr_bits_add(next, k);
			if (!add_ideal(l))
				return false;
		}
	return true;
}

/* The prefixes of the one order in which units are numbered. */
static void list_prefixes(struct orr_ideals *x, const struct orr_units *u)
{
	size_t row = (size_t)x->n_words;

	memset(x->bits, 0, row * sizeof(*x->bits));
	for (x->n = 1; x->n <= u->n; x->n++) {
		uint64_t *bits = x->bits + (size_t)x->n * row;

		memcpy(bits, bits - row, row * sizeof(*bits));
		orr_bits_add(bits, x->n - 1);
	}
}

static void note_needs(struct listing *l)
{
	const struct orr_units *u = l->u;
	int from, to;

	for (int i = 0; i < u->g->n_operators; i++)
		for (int k = 0; k < u->g->operators[i].n_inputs; k++)
			if (orr_units_edge(u, i, k, &from, &to))
				orr_bits_add(l->needs +
						     (size_t)u->number[to] * (size_t)l->x->n_words,
					     u->number[from]);
}

/* List the ideals of the units as they are. *fits false: there are more than most. */
static int try_units(struct orr_ideals *x, const struct orr_units *u, int most, bool flatten,
		     bool *fits, struct orr_error *err)
{
	struct listing l = {.x = x, .u = u, .most = most, .n_table = 4 * most + 7};
	int rows = flatten && u->n + 1 > most ? u->n + 1 : most, code;
	struct orr_arrays all = {0};

	x->n_units = u->n;
	x->n_words = u->n / 64 + 1;
	free(x->bits);
	x->bits = calloc(((size_t)rows + 2) * (size_t)x->n_words, sizeof(*x->bits));
	orr_arrays_make(&all, l.needs, (size_t)u->n * (size_t)x->n_words + 1);
	orr_arrays_make(&all, l.table, l.n_table);
	all.failed = all.failed || !x->bits;
	if ((code = orr_arrays_check(&all, "plan", err)))
		return code;
	note_needs(&l);
	*fits = true;
	if (flatten)
		list_prefixes(x, u);
	else
		*fits = list_ideals(&l);
	orr_arrays_free(&all);
	return 0;
}

static int weigh_ideals(struct orr_ideals *x, const struct orr_units *u, struct orr_error *err)
{
	size_t n = (size_t)x->n;
	int code;

	orr_arrays_make(&x->all, x->neighbours, (size_t)x->n_units * (size_t)x->n_words + 1);
	x->compute_ns = orr_arrays_add(&x->all, n, sizeof(int64_t));
	x->update_ns = orr_arrays_add(&x->all, n, sizeof(int64_t));
	x->parameter_bytes = orr_arrays_add(&x->all, n, sizeof(int64_t));
	x->trained_bytes = orr_arrays_add(&x->all, n, sizeof(int64_t));
	x->stash_bytes = orr_arrays_add(&x->all, n, sizeof(int64_t));
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	for (int a = 0; a < x->n; a++)
		for (int i = 0; i < u->g->n_operators; i++) {
			if (x->unit_of[i] < 0 || !orr_ideals_has(x, a, x->unit_of[i]))
				continue;
			x->compute_ns[a] += u->costs[i].forward_ns + u->costs[i].backward_ns +
					    u->costs[i].weight_ns;
			x->update_ns[a] += u->costs[i].update_ns;
			x->parameter_bytes[a] += u->costs[i].parameter_bytes;
			x->trained_bytes[a] += orr_stage_trained_bytes(&u->costs[i]);
			x->stash_bytes[a] += u->costs[i].stash_bytes;
		}
	return 0;
}

static void note_neighbours(struct orr_ideals *x, const struct orr_units *u)
{
	size_t row = (size_t)x->n_words;

	for (int i = 0; i < u->g->n_operators; i++)
		for (int k = 0; x->unit_of[i] >= 0 && k < u->g->operators[i].n_inputs; k++) {
			int to = x->unit_of[i], from = x->unit_of[u->g->operators[i].inputs[k]];

			if (from < 0)
				continue;
			orr_bits_add(x->neighbours + (size_t)to * row, from);
			orr_bits_add(x->neighbours + (size_t)from * row, to);
		}
}

bool orr_ideals_connected(const struct orr_ideals *x, int a, int b, uint64_t *room)
{
	size_t row = (size_t)x->n_words;
	uint64_t *rest = room, *front = room + row;
	bool found = false, grew = true;

	for (size_t w = 0; w < row; w++) {
		rest[w] = x->bits[(size_t)b * row + w] & ~x->bits[(size_t)a * row + w];
		front[w] = found ? 0 : rest[w] & -rest[w];
		found = found || rest[w];
	}
	/* take the front out of the rest, and go on from the neighbours that are in it */
	while (grew) {
		grew = false;
		for (size_t w = 0; w < row; w++)
			while (front[w]) {
				int bit = __builtin_ctzll(front[w]);
				const uint64_t *next = x->neighbours + (w * 64 + (size_t)bit) * row;

				front[w] &= front[w] - 1;
				rest[w] &= ~(UINT64_C(1) << bit);
				for (size_t v = 0; v < row; v++)
					front[v] |= next[v] & rest[v];
				grew = true;
			}
	}
	for (size_t w = 0; w < row; w++)
		if (rest[w])
			return false;
	return true;
}

/* ---- units joined inside the stages of a cut that is known, far from where it cuts: what is near
 * stays as fine as it is, so that the next cut can be better ---- */

struct refining {
	struct orr_units *units;
	int n;            /* operators */
	const int *stage; /* borrowed */
	int *distance; /* of an operator, or of the nearest of a unit: edges to the nearest cut */
	bool *reached; /* [n] leaders */
	struct orr_arrays all; /* these */
};

/* How far every operator is from the nearest edge that is cut: 0 beside it. */
static void measure(struct refining *r)
{
	const struct orr_graph *g = r->units->g;
	const int *leader = r->units->leader;

	for (int i = 0; i < r->n; i++)
		r->distance[i] = r->n;
	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int from = g->operators[i].inputs[k];

			if (leader[from] >= 0 && leader[i] >= 0 && r->stage[i] != r->stage[from])
				r->distance[i] = r->distance[from] = 0;
		}
	for (bool changed = true; changed;) {
		changed = false;
		for (int e = 0; e < r->n; e++)
			for (int k = 0; k < g->operators[e].n_inputs; k++) {
				int *here = &r->distance[e],
				    *there = &r->distance[g->operators[e].inputs[k]];

				changed = changed || *here > *there + 1 || *there > *here + 1;
				*here = (int)smaller(*here, *there + 1);
				*there = (int)smaller(*there, *here + 1);
			}
	}
}

/* No unit has to come between the two, which an edge joins: no other way leads from one to the
 * other. Ways do not leave a stage and come back. Units of several operators are in no order, so
 * edges are looked at until nothing changes, first those from there on. */
static bool may_join(const struct refining *r, int from, int to)
{
	const struct orr_graph *g = r->units->g;
	bool changed = true;
	int a, b;

	memset(r->reached, 0, (size_t)r->n * sizeof(*r->reached));
	for (int first = from; changed || first; first = 0) {
		changed = first > 0;
		for (int i = first; i < r->n; i++)
			for (int k = 0; k < g->operators[i].n_inputs && r->stage[i] == r->stage[to];
			     k++) {
				if (!orr_units_edge(r->units, i, k, &a, &b) || r->reached[b] ||
				    (!r->reached[a] && (a != from || b == to)))
					continue;
				if (b == to)
					return false;
				r->reached[b] = changed = true;
			}
	}
	return true;
}

/* Is the edge from unit `from` to `to` to be joined before that of a and b? b -1: there is none. */
static bool comes_first(const struct refining *r, int from, int to, int a, int b)
{
	const int64_t *work = r->units->work_ns;
	int64_t here = smaller(r->distance[from], r->distance[to]),
		there = b < 0 ? -1 : smaller(r->distance[a], r->distance[b]);

	return here > there || (here == there && work[from] + work[to] < work[a] + work[b]);
}

static bool join_one(struct refining *r)
{
	const struct orr_graph *g = r->units->g;
	int best_from = -1, best_to = -1, from, to;

	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			if (orr_units_edge(r->units, i, k, &from, &to) &&
			    r->stage[from] == r->stage[to] &&
			    comes_first(r, from, to, best_from, best_to) && may_join(r, from, to)) {
				best_from = from;
				best_to = to;
			}
	if (best_from < 0)
		return false;
	r->units->leader[best_to] = best_from;
	r->units->work_ns[best_from] += r->units->work_ns[best_to];
	r->distance[best_from] = (int)smaller(r->distance[best_from], r->distance[best_to]);
	return true;
}

/* Join n pairs of units, the farthest from the cut first, and of those the cheapest; how many there
 * were. Numbers of units are not topological then. */
static int refining_join(struct refining *r, int n)
{
	int joined = 0;

	while (joined < n && join_one(r))
		joined++;
	orr_units_count(r->units);
	return joined;
}

/* stage_of: [n_operators] of the known cut. Borrows both; u has an operator in each unit but for
 * those without cost. */
static int refining_init(struct refining *r, struct orr_units *u, const int *stage_of,
			 struct orr_error *err)
{
	int code;

	*r = (struct refining){.units = u, .n = u->g->n_operators, .stage = stage_of};
	orr_arrays_make(&r->all, r->distance, r->n);
	orr_arrays_make(&r->all, r->reached, r->n);
	if (!(code = orr_arrays_check(&r->all, "plan", err)))
		measure(r);
	return code;
}

/* ---- few enough ideals ---- */

/* Join neighbours until there are few enough ideals, a tenth of the units between two tries. r:
 * (optional) inside the stages that it knows. */
static int join_until(struct orr_ideals *x, struct orr_units *u, struct refining *r, int most,
		      bool *fits, struct orr_error *err)
{
	int code = 0;

	for (*fits = false; !code && !*fits;) {
		int n = u->n / 10 + 1;

		/* a unit more is an ideal more at least */
		if (u->n < most && ((code = try_units(x, u, most, false, fits, err)) || *fits))
			break;
		if (!(n = r ? refining_join(r, n) : orr_units_join(u, n)))
			break;
		x->coarse = true;
	}
	return code;
}

static int reduce(struct orr_ideals *x, struct orr_units *u, int most, struct orr_error *err)
{
	bool fits;
	int code;

	if (u->n > MANY) {
		x->coarse = true;
		if ((code = orr_units_join_many(u, most - 1, err)))
			return code;
	}
	if ((code = join_until(x, u, NULL, most, &fits, err)) || fits)
		return code;
	/* still too many side by side: one after the other */
	x->flattened = true;
	if (u->n > 2 * most)
		orr_units_flatten(u, most - 1);
	return try_units(x, u, most, true, &fits, err);
}

/* Fewer than MANY; x->n is 0 where that leaves too many ideals. */
static int reduce_inside(struct orr_ideals *x, struct orr_units *u, int most, const int *stage_of,
			 struct orr_error *err)
{
	struct refining r;
	bool fits = false;
	int code;

	if (u->n > MANY)
		return 0;
	if (!(code = refining_init(&r, u, stage_of, err)))
		code = join_until(x, u, &r, most, &fits, err);
	if (!fits)
		x->n = 0;
	orr_arrays_free(&r.all);
	return code;
}

/* ---- what is sent over cuts ---- */

/* What is read of each operator, and where: of its own unit, nothing is sent. */
struct readers {
	const int *unit_of;
	int n_words; /* of a set of units */
	struct orr_sent_list list;
};

static int64_t bytes_of(const struct readers *r, int i, int k, bool gradient)
{
	if (r->unit_of[r->list.readers[k]] == r->unit_of[i])
		return 0;
	return gradient ? r->list.sent[k].gradient_bytes : r->list.sent[k].bytes;
}

/* The least that a reader of operator i reads beyond `above`; INT64_MAX: nothing. */
static int64_t next_size(const struct readers *r, int i, bool gradient, int64_t above)
{
	int64_t least = INT64_MAX;

	for (int k = r->list.first[i]; k < r->list.first[i + 1]; k++)
		if (bytes_of(r, i, k, gradient) > above)
			least = smaller(least, bytes_of(r, i, k, gradient));
	return least;
}

/* The output of operator of, or its gradient. A stage reads the most that one of its operators
 * does: a tensor for each size that one reads, of what it is more than the size before. */
static void add_tensors(struct orr_tensors *t, const struct readers *r, int of)
{
	size_t row = (size_t)r->n_words;
	int first = t->n;

	for (int gradient = 0; gradient < 2; gradient++) {
		int64_t size, before = 0;

		for (; (size = next_size(r, of, gradient, before)) < INT64_MAX; before = size) {
			uint64_t *readers = t->readers + (size_t)t->n * row;
			int i = first;

			memset(readers, 0, row * sizeof(*readers));
			for (int k = r->list.first[of]; k < r->list.first[of + 1]; k++) {
				int unit = r->unit_of[r->list.readers[k]];

				if (bytes_of(r, of, k, gradient) >= size)
					orr_bits_add(readers, unit);
			}
			while (i < t->n && memcmp(t->readers + (size_t)i * row, readers,
						  row * sizeof(*readers)) != 0)
				i++;
			t->makers[i] = r->unit_of[of];
			if (i == t->n)
				t->sent[t->n++] = (struct orr_sent){0};
			*(gradient ? &t->sent[i].gradient_bytes : &t->sent[i].bytes) +=
				size - before;
		}
	}
}

static bool is_there(const struct orr_ideals *x, int i, int a)
{
	return orr_ideals_has(x, a, x->tensors.makers[i]);
}

bool orr_tensors_read(const struct orr_ideals *x, int i, int a, int b)
{
	const uint64_t *before = x->bits + (size_t)a * (size_t)x->n_words,
		       *after = x->bits + (size_t)b * (size_t)x->n_words;
	const uint64_t *readers = x->tensors.readers + (size_t)i * (size_t)x->n_words;

	for (int w = 0; w < x->n_words; w++)
		if (after[w] & ~before[w] & readers[w])
			return true;
	return false;
}

struct orr_sent orr_tensors_sent(const struct orr_ideals *x, int base, int a, int b)
{
	const struct orr_tensors *t = &x->tensors;
	struct orr_sent sum = {0};

	for (int l = t->first_live[a]; l < t->first_live[a + 1]; l++)
		if (orr_tensors_read(x, t->live[l], a, b) &&
		    !(base && is_there(x, t->live[l], base))) {
			sum.bytes += t->sent[t->live[l]].bytes;
			sum.gradient_bytes += t->sent[t->live[l]].gradient_bytes;
		}
	return sum;
}

static int list_live(struct orr_ideals *x, struct orr_error *err)
{
	struct orr_tensors *t = &x->tensors;
	int n = 0, room = 0;

	for (int a = 0; a < x->n; a++) {
		t->first_live[a] = n;
		for (int i = 0; i < t->n; i++) {
			if (!is_there(x, i, a) || !orr_tensors_read(x, i, a, x->n - 1))
				continue;
			if (!orr_grow(&t->live, n, &room, sizeof(*t->live)))
				return orr_no_memory(err, "plan");
			t->live[n++] = i;
		}
	}
	t->first_live[x->n] = n;
	return 0;
}

static int list_tensors(struct orr_ideals *x, const struct orr_graph *g, int64_t samples,
			struct orr_error *err)
{
	struct orr_tensors *t = &x->tensors;
	struct readers r = {.unit_of = x->unit_of, .n_words = x->n_words};
	int *number = orr_arrays_add(&x->all, (size_t)g->n_operators + 1, sizeof(*number)), code;
	size_t most;

	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	for (int i = 0; i < g->n_operators; i++) /* data is sent by none */
		number[i] = x->unit_of[i] < 0 ? -1 : i;
	if ((code = orr_sent_list_init(&r.list, g, number, g->n_operators, samples, err)))
		return code;
	most = 2 * (size_t)r.list.first[g->n_operators] + 1;
	orr_arrays_make(&x->all, t->sent, most);
	orr_arrays_make(&x->all, t->makers, most);
	orr_arrays_make(&x->all, t->readers, most * (size_t)x->n_words);
	orr_arrays_make(&x->all, t->first_live, x->n + 1);
	if (!(code = orr_arrays_check(&x->all, "plan", err))) {
		for (int i = 0; i < g->n_operators; i++)
			add_tensors(t, &r, i);
		code = list_live(x, err);
	}
	orr_arrays_free(&r.list.all);
	return code;
}

/* ---- all of it ---- */

int orr_ideals_create(struct orr_ideals **out, const struct orr_graph *g,
		      const struct orr_machine *machine, int64_t samples, int n_microbatches,
		      int most, const int *stage_of, struct orr_error *err)
{
	struct orr_ideals *x = calloc(1, sizeof(*x));
	struct orr_units u = {0};
	int code;

	if (!x)
		return orr_no_memory(err, "plan");
	orr_arrays_make(&x->all, x->unit_of, (size_t)g->n_operators + 1);
	*out = NULL;
	if ((code = orr_arrays_check(&x->all, "plan", err)) ||
	    (code = orr_units_init(&u, g, machine, samples, n_microbatches, err)) ||
	    (code = stage_of ? reduce_inside(x, &u, most, stage_of, err)
			     : reduce(x, &u, most, err)) ||
	    !x->n)
		goto out;
	if (!u.n) {
		code = orr_fail(
			err, ORR_E_INPUT,
			"%s: nothing here costs anything: give costs, or `orrery profile` it",
			g->name);
		goto out;
	}
	for (int i = 0; i < g->n_operators; i++) {
		int64_t work_ns =
			u.costs[i].forward_ns + u.costs[i].backward_ns + u.costs[i].weight_ns;

		x->largest_ns = work_ns > x->largest_ns ? work_ns : x->largest_ns;
		x->unit_of[i] = u.leader[i] < 0 ? -1 : u.number[orr_units_leader(&u, i)];
	}
	x->overhead_ns = g->overhead_ns + orr_machine_overhead(machine);
	if ((code = weigh_ideals(x, &u, err)))
		goto out;
	note_neighbours(x, &u);
	if ((code = list_tensors(x, g, samples, err)))
		goto out;
	*out = x;
	x = NULL;
out:
	orr_units_fini(&u);
	orr_ideals_destroy(x);
	return code;
}

void orr_ideals_destroy(struct orr_ideals *x)
{
	if (!x)
		return;
	free(x->bits);
	free(x->tensors.live);
	orr_arrays_free(&x->all);
	free(x);
}
