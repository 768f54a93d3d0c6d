#include "ideals.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
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

	for (int i = 0; i < u->g->n_operators; i++) {
		int to = orr_units_leader(u, i);

		for (int k = 0; to >= 0 && k < u->g->operators[i].n_inputs; k++) {
			int from = orr_units_leader(u, u->g->operators[i].inputs[k]);

			if (from >= 0 && from != to)
				orr_bits_add(l->needs +
						     (size_t)u->number[to] * (size_t)l->x->n_words,
					     u->number[from]);
		}
	}
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

/* Join neighbours until there are few enough ideals, a tenth of the units between two tries. r:
 * (optional) inside the stages that it knows. */
static int join_until(struct orr_ideals *x, struct orr_units *u, struct orr_refining *r, int most,
		      bool *fits, struct orr_error *err)
{
	int code = 0;

	for (*fits = false; !code && !*fits;) {
		int n = u->n / 10 + 1;

		/* a unit more is an ideal more at least */
		if (u->n < most && ((code = try_units(x, u, most, false, fits, err)) || *fits))
			break;
		if (!(n = r ? orr_refining_join(r, n) : orr_units_join(u, n)))
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
	struct orr_refining *r = NULL;
	bool fits = false;
	int code;

	if (u->n > MANY)
		return 0;
	if (!(code = orr_refining_create(&r, u, stage_of, err)))
		code = join_until(x, u, r, most, &fits, err);
	if (!fits)
		x->n = 0;
	orr_refining_destroy(r);
	return code;
}

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
	orr_arrays_free(&x->all);
	free(x);
}
