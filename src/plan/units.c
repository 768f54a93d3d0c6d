#include "units.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "pipeline/charge.h"

void orr_units_fini(struct orr_units *u)
{
	orr_arrays_free(&u->all);
}

/* Inputs, and operators without cost that read free operators only. */
static bool is_free(const struct orr_units *u, int i)
{
	const struct orr_operator *o = &u->g->operators[i];
	const struct orr_stage *costs = &u->costs[i];

	if (orr_operator_is_input(o))
		return true;
	for (int k = 0; k < o->n_inputs; k++)
		if (u->leader[o->inputs[k]] >= 0)
			return false;
	return orr_operator_is_study(o) && !costs->forward_ns && !costs->backward_ns &&
	       !costs->weight_ns && !costs->update_ns && !costs->parameter_bytes &&
	       !costs->stash_bytes && o->activation_bytes <= 0 && !u->sends[i];
}

/* Which have an edge out of them that says that something is sent. */
static void note_sent(struct orr_units *u)
{
	for (int i = 0; i < u->g->n_operators; i++) {
		const struct orr_operator *o = &u->g->operators[i];

		for (int k = 0; o->reads && k < o->n_inputs; k++)
			if (o->reads[k].bytes > 0 || o->reads[k].gradient_bytes > 0)
				u->sends[o->inputs[k]] = true;
	}
}

static int list_units(struct orr_units *u, const struct orr_graph *g,
		      const struct orr_machine *machine, int64_t samples, int n_microbatches,
		      struct orr_error *err)
{
	size_t n = (size_t)g->n_operators + 1;
	int code;

	*u = (struct orr_units){.g = g};
	orr_arrays_make(&u->all, u->costs, n);
	orr_arrays_make(&u->all, u->leader, n);
	orr_arrays_make(&u->all, u->sends, n);
	orr_arrays_make(&u->all, u->readers, n);
	orr_arrays_make(&u->all, u->inputs, n);
	orr_arrays_make(&u->all, u->reader, n);
	orr_arrays_make(&u->all, u->input, n);
	orr_arrays_make(&u->all, u->work_ns, n);
	orr_arrays_make(&u->all, u->number, n);
	orr_arrays_make(&u->all, u->operators, n);
	if ((code = orr_arrays_check(&u->all, "plan", err)))
		return code;
	note_sent(u);
	for (int i = 0; i < g->n_operators; i++) {
		orr_charge_least(&u->costs[i], g, i, samples, machine);
		u->leader[i] = is_free(u, i) ? -1 : i;
		u->work_ns[i] = u->costs[i].forward_ns + u->costs[i].backward_ns +
				u->costs[i].weight_ns + u->costs[i].update_ns / n_microbatches;
	}
	return 0;
}

int orr_units_leader(const struct orr_units *u, int i)
{
	while (u->leader[i] >= 0 && u->leader[i] != i) {
		int next = u->leader[i];

		u->leader[i] = u->leader[next]; /* the way is shorter the next time */
		i = next;
	}
	return u->leader[i];
}

bool orr_units_edge(const struct orr_units *u, int i, int k, int *from, int *to)
{
	*from = orr_units_leader(u, u->g->operators[i].inputs[k]);
	*to = orr_units_leader(u, i);
	return *from >= 0 && *to >= 0 && *from != *to;
}

/* Two edges between the same two count twice, which only keeps those from being joined. */
void orr_units_count(struct orr_units *u)
{
	int from, to;

	u->n = 0;
	for (int i = 0; i < u->g->n_operators; i++) {
		u->readers[i] = u->inputs[i] = 0;
		if (u->leader[i] != i)
			continue;
		u->operators[u->n] = i;
		u->number[i] = u->n++;
	}
	for (int i = 0; i < u->g->n_operators; i++)
		for (int k = 0; k < u->g->operators[i].n_inputs; k++) {
			if (!orr_units_edge(u, i, k, &from, &to))
				continue;
			u->readers[from]++;
			u->reader[from] = to;
			u->inputs[to]++;
			u->input[to] = from;
		}
}

/* Join u with v, which reads it. */
static void join(struct orr_units *u, int from, int to)
{
	int stays = u->readers[from] == 1 ? to : from, goes = stays == to ? from : to;

	u->work_ns[stays] += u->work_ns[goes];
	u->leader[goes] = stays;
}

struct pair {
	int from, to;
	int64_t work_ns;
};

/* Unit i and its one reader, or its one input: one of which has no other, so that joining them
 * makes no cycle. false: it has more. */
static bool find_pair(const struct orr_units *u, int i, bool reader, struct pair *pair)
{
	int from = reader ? i : u->input[i], to = reader ? u->reader[i] : i;

	if ((reader ? u->readers[i] : u->inputs[i]) != 1)
		return false;
	*pair = (struct pair){from, to, u->work_ns[from] + u->work_ns[to]};
	return true;
}

int orr_units_join(struct orr_units *u, int n)
{
	int joined = 0;

	for (; joined < n; joined++) {
		struct pair best = {-1, -1, INT64_MAX}, pair;

		for (int k = 0; k < u->n; k++)
			for (int reader = 1; reader >= 0; reader--)
				if (find_pair(u, u->operators[k], reader, &pair) &&
				    pair.work_ns < best.work_ns)
					best = pair;
		if (best.from < 0)
			break;
		join(u, best.from, best.to);
		orr_units_count(u);
	}
	return joined;
}

/* Pairs that have no unit in common, the cheapest first, half of those there are; *n: how many. */
static int join_pairs(struct orr_units *u, int most, int *n, struct orr_error *err)
{
	struct orr_arrays all = {0};
	struct orr_keyed *pairs = orr_arrays_add(&all, 2 * (size_t)u->n, sizeof(*pairs));
	bool *taken = orr_arrays_add(&all, (size_t)u->g->n_operators, sizeof(*taken));
	int n_pairs = 0, code = orr_arrays_check(&all, "plan", err);
	struct pair pair;

	*n = 0;
	if (code)
		return code;
	for (int k = 0; k < u->n; k++)
		for (int reader = 1; reader >= 0; reader--)
			if (find_pair(u, u->operators[k], reader, &pair))
				pairs[n_pairs++] = (struct orr_keyed){pair.work_ns,
								      2 * u->operators[k] + reader};
	if ((code = orr_sort(pairs, n_pairs, err)))
		goto out;
	for (int i = 0; i < n_pairs && *n < n_pairs / 2 + 1 && u->n - *n > most; i++) {
		(void)find_pair(u, pairs[i].value / 2, pairs[i].value % 2, &pair);
		if (taken[pair.from] || taken[pair.to])
			continue;
		taken[pair.from] = taken[pair.to] = true;
		join(u, pair.from, pair.to);
		++*n;
	}
	orr_units_count(u);
out:
	orr_arrays_free(&all);
	return code;
}

int orr_units_join_many(struct orr_units *u, int most, struct orr_error *err)
{
	int n = 1, code = 0;

	while (u->n > most && n && !code)
		code = join_pairs(u, most, &n, err);
	return code;
}

void orr_units_flatten(struct orr_units *u, int most)
{
	double all = 0, sum = 0;
	int first = -1, part = -1;

	for (int k = 0; k < u->n; k++) /* one more each: what costs nothing has to be spread, too */
		all += (double)u->work_ns[u->operators[k]] + 1;
	for (int k = 0; k < u->n && u->n > most; k++) {
		int i = u->operators[k], now = (int)(sum / all * most);

		sum += (double)u->work_ns[i] + 1;
		if (now == part) {
			u->work_ns[first] += u->work_ns[i];
			u->leader[i] = first;
			continue;
		}
		part = now;
		first = i;
	}
	orr_units_count(u);
}

/* A unit without cost and readers joins its input: no cut between the two is better. */
static void join_free_sinks(struct orr_units *u)
{
	for (int i = u->g->n_operators - 1; i >= 0; i--) {
		int from;

		if (u->leader[i] != i || u->readers[i] || u->inputs[i] != 1 || u->work_ns[i] ||
		    u->costs[i].parameter_bytes)
			continue;
		from = orr_units_leader(u, u->input[i]);
		join(u, from, i);
		u->readers[from]--;
	}
	orr_units_count(u);
}

int orr_units_init(struct orr_units *u, const struct orr_graph *g,
		   const struct orr_machine *machine, int64_t samples, int n_microbatches,
		   struct orr_error *err)
{
	int code = list_units(u, g, machine, samples, n_microbatches, err);

	if (!code) {
		orr_units_count(u);
		join_free_sinks(u);
	}
	return code;
}
