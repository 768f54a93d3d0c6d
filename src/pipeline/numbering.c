#include "numbering.h"

#include <assert.h>

#include "orrery/graph.h"
#include "base/arrays.h"
#include "base/heap.h"

struct numbering {
	const struct orr_graph *g;
	const int *stage_of;
	int n_stages;
	int *leader; /* [n_stages] the first operator that computes */
	int *waits;  /* [n_stages] tensors from stages that have no number yet */
	/* the stages that read stage s, once a tensor: readers[first[s]] to readers[first[s + 1] -
	 * 1] */
	int *readers, *first;
	int *number; /* [n_stages] the new one */
	struct orr_arrays all;
};

/* Calls for every tensor between two stages. */
static void visit_tensors(struct numbering *x, void (*visit)(struct numbering *x, int from, int to))
{
	for (int i = 0; i < x->g->n_operators; i++)
		for (int k = 0; k < x->g->operators[i].n_inputs; k++) {
			int from = x->stage_of[x->g->operators[i].inputs[k]];

			if (from >= 0 && from != x->stage_of[i])
				visit(x, from, x->stage_of[i]);
		}
}

static void count(struct numbering *x, int from, int to)
{
	x->first[from + 2]++;
	x->waits[to]++;
}

static void add(struct numbering *x, int from, int to)
{
	x->readers[x->first[from + 1]++] = to;
}

static int connect(struct numbering *x, struct orr_error *err)
{
	visit_tensors(x, count);
	for (int s = 0; s < x->n_stages; s++)
		x->first[s + 2] += x->first[s + 1];
	x->readers =
		orr_arrays_add(&x->all, (size_t)x->first[x->n_stages + 1] + 1, sizeof(*x->readers));
	if (!x->readers)
		return orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d stages",
				x->n_stages);
	visit_tensors(x, add);
	for (int i = x->g->n_operators - 1; i >= 0; i--)
		if (x->stage_of[i] >= 0 && !orr_operator_is_input(&x->g->operators[i]))
			x->leader[x->stage_of[i]] = i;
	return 0;
}

/* Of the stages whose predecessors have their numbers, the one of the first leader comes next. */
static int deal_out(struct numbering *x, struct orr_error *err)
{
	struct orr_heap ready = {0};
	int n = 0, code = 0;

	for (int s = 0; s < x->n_stages && !code; s++)
		if (!x->waits[s])
			code = orr_heap_push(&ready, x->leader[s], 0, s, err);
	while (ready.n && !code) {
		int s = (int)orr_heap_pop(&ready).value;

		x->number[s] = n++;
		for (int i = x->first[s]; i < x->first[s + 1] && !code; i++)
			if (--x->waits[x->readers[i]] == 0)
				code = orr_heap_push(&ready, x->leader[x->readers[i]], 0,
						     x->readers[i], err);
	}
	orr_heap_fini(&ready);
	assert(code || n == x->n_stages);
	return code;
}

int orr_number_stages(const struct orr_graph *g, int *stage_of, int n_stages, struct orr_error *err)
{
	struct numbering x = {.g = g, .stage_of = stage_of, .n_stages = n_stages};
	size_t n = (size_t)n_stages;
	int code;

	x.leader = orr_arrays_add(&x.all, n, sizeof(*x.leader));
	x.waits = orr_arrays_add(&x.all, n, sizeof(*x.waits));
	x.first = orr_arrays_add(&x.all, n + 2, sizeof(*x.first));
	x.number = orr_arrays_add(&x.all, n, sizeof(*x.number));
	if (x.all.failed)
		code = orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d stages", n_stages);
	else if (!(code = connect(&x, err)) && !(code = deal_out(&x, err)))
		for (int i = 0; i < g->n_operators; i++)
			stage_of[i] = stage_of[i] < 0 ? -1 : x.number[stage_of[i]];
	orr_arrays_free(&x.all);
	return code;
}

bool orr_graph_has_pins(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].stage >= 0)
			return true;
	return false;
}

int orr_graph_n_computed(const struct orr_graph *g)
{
	int n = 0;

	for (int i = 0; i < g->n_operators; i++)
		n += !orr_operator_is_input(&g->operators[i]);
	return n;
}
