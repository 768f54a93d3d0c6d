#include "units.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/graph.h"

struct orr_refining {
	struct orr_units *units;
	int n, n_words;   /* operators */
	const int *stage; /* borrowed */
	int *distance;   /* of an operator, or of the nearest of a unit: edges to the nearest cut */
	uint64_t *after; /* [n * n_words] of every leader, the leaders that have to wait for it */
	uint64_t *before;      /* the same the other way round */
	struct orr_arrays all; /* with this struct */
};

static uint64_t *row_of(const struct orr_refining *r, uint64_t *matrix, int i)
{
	return matrix + (size_t)i * (size_t)r->n_words;
}

static void take_out(uint64_t *row, int i)
{
	row[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static void unite(const struct orr_refining *r, uint64_t *row, const uint64_t *with)
{
	for (int w = 0; w < r->n_words; w++)
		row[w] |= with[w];
}

/* Edges between operators that are not free, as units have them. */
static bool has_edge(const struct orr_refining *r, int from, int to)
{
	return orr_units_leader(r->units, from) >= 0 && orr_units_leader(r->units, to) >= 0;
}

/* How far every operator is from the nearest edge that is cut: 0 beside it. */
static void measure(struct orr_refining *r)
{
	const struct orr_graph *g = r->units->g;

	for (int i = 0; i < r->n; i++)
		r->distance[i] = r->n;
	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int from = g->operators[i].inputs[k];

			if (has_edge(r, from, i) && r->stage[i] != r->stage[from])
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

/* Which leaders wait for which. Operators are in topological order, units of several are sinks. */
static void close_over(struct orr_refining *r)
{
	const struct orr_graph *g = r->units->g;

	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int from = orr_units_leader(r->units, g->operators[i].inputs[k]),
			    to = orr_units_leader(r->units, i);

			if (from < 0 || to < 0 || from == to)
				continue;
			orr_bits_add(row_of(r, r->before, to), from);
			unite(r, row_of(r, r->before, to), row_of(r, r->before, from));
		}
	for (int to = 0; to < r->n; to++)
		for (int from = 0; from < r->n; from++)
			if (orr_bits_has(row_of(r, r->before, to), from))
				orr_bits_add(row_of(r, r->after, from), to);
}

/* No unit has to come between the two. */
static bool may_join(const struct orr_refining *r, int from, int to)
{
	const uint64_t *after = row_of(r, r->after, from), *before = row_of(r, r->before, to);

	for (int w = 0; w < r->n_words; w++)
		if (after[w] & before[w])
			return false;
	return true;
}

static void join(struct orr_refining *r, int from, int to)
{
	struct orr_units *u = r->units;
	uint64_t *after = row_of(r, r->after, from), *before = row_of(r, r->before, from);

	u->leader[to] = from;
	u->work_ns[from] += u->work_ns[to];
	r->distance[from] = (int)smaller(r->distance[from], r->distance[to]);
	unite(r, after, row_of(r, r->after, to));
	unite(r, before, row_of(r, r->before, to));
	for (int i = 0; i < r->n; i++) {
		take_out(row_of(r, r->after, i), to);
		take_out(row_of(r, r->before, i), to);
	}
	take_out(after, from);
	take_out(before, from);
	for (int i = 0; i < r->n; i++) {
		if (orr_bits_has(before, i)) {
			unite(r, row_of(r, r->after, i), after);
			orr_bits_add(row_of(r, r->after, i), from);
		}
		if (orr_bits_has(after, i)) {
			unite(r, row_of(r, r->before, i), before);
			orr_bits_add(row_of(r, r->before, i), from);
		}
	}
}

/* Is the edge from unit `from` to `to` to be joined before that of a and b? b -1: there is none. */
static bool comes_first(const struct orr_refining *r, int from, int to, int a, int b)
{
	const int64_t *work = r->units->work_ns;
	int64_t here = smaller(r->distance[from], r->distance[to]),
		there = b < 0 ? -1 : smaller(r->distance[a], r->distance[b]);

	return here > there || (here == there && work[from] + work[to] < work[a] + work[b]);
}

static bool join_one(struct orr_refining *r)
{
	const struct orr_graph *g = r->units->g;
	int best_from = -1, best_to = -1;

	for (int i = 0; i < r->n; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++) {
			int from = orr_units_leader(r->units, g->operators[i].inputs[k]),
			    to = orr_units_leader(r->units, i);

			if (from >= 0 && to >= 0 && from != to && r->stage[from] == r->stage[to] &&
			    comes_first(r, from, to, best_from, best_to) && may_join(r, from, to)) {
				best_from = from;
				best_to = to;
			}
		}
	if (best_from < 0)
		return false;
	join(r, best_from, best_to);
	return true;
}

int orr_refining_join(struct orr_refining *r, int n)
{
	int joined = 0;

	while (joined < n && join_one(r))
		joined++;
	orr_units_count(r->units);
	return joined;
}

int orr_refining_create(struct orr_refining **out, struct orr_units *u, const int *stage_of,
			struct orr_error *err)
{
	size_t n = (size_t)u->g->n_operators, row = n / 64 + 1;
	struct orr_arrays all = {0};
	struct orr_refining *r = orr_arrays_add(&all, 1, sizeof(*r));
	int *distance = orr_arrays_add(&all, n, sizeof(*distance));
	uint64_t *after = orr_arrays_add(&all, n * row, sizeof(*after)),
		 *before = orr_arrays_add(&all, n * row, sizeof(*before));
	int code = orr_arrays_check(&all, "plan", err);

	if (code)
		return code;
	*r = (struct orr_refining){u, (int)n, (int)row, stage_of, distance, after, before, all};
	measure(r);
	close_over(r);
	*out = r;
	return 0;
}

void orr_refining_destroy(struct orr_refining *r)
{
	struct orr_arrays all = r ? r->all : (struct orr_arrays){0};

	orr_arrays_free(&all);
}
