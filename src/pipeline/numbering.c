#include "numbering.h"

#include <assert.h>

#include "orrery/graph.h"
#include "base/arrays.h"
#include "base/heap.h"

struct numbering {
	int n_stages;
	int *leader;                /* [n_stages] the first operator that computes */
	int *waits;                 /* [n_stages] tensors from stages that have no number yet */
	struct orr_readers readers; /* of stages */
	int *number;                /* [n_stages] the new one */
	struct orr_arrays all;
};

void orr_readers_find(struct orr_readers *readers, struct orr_arrays *all,
		      const struct orr_graph *g, const int *part_of, int n_parts)
{
	int *first = readers->first = orr_arrays_add(all, (size_t)n_parts + 2, sizeof(*first));

	/* count into the next part but one, sum up, and each start moves to its place as readers
	 * are put down */
	for (int pass = 0; pass < 2 && !all->failed; pass++) {
		for (int i = 0; i < g->n_operators; i++)
			for (int k = 0; k < g->operators[i].n_inputs; k++) {
				int from = part_of[g->operators[i].inputs[k]], to = part_of[i];

				if (from < 0 || to < 0 || from == to)
					continue;
				if (pass)
					readers->of[first[from + 1]++] = to;
				else
					first[from + 2]++;
			}
		for (int p = 0; p < n_parts && !pass; p++)
			first[p + 2] += first[p + 1];
		if (!pass)
			readers->of = orr_arrays_add(all, (size_t)first[n_parts + 1] + 1,
						     sizeof(*readers->of));
	}
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
		for (int i = x->readers.first[s]; i < x->readers.first[s + 1] && !code; i++) {
			int to = x->readers.of[i];

			if (--x->waits[to] == 0)
				code = orr_heap_push(&ready, x->leader[to], 0, to, err);
		}
	}
	orr_heap_fini(&ready);
	assert(code || n == x->n_stages);
	return code;
}

int orr_number_stages(const struct orr_graph *g, int *stage_of, int n_stages, struct orr_error *err)
{
	struct numbering x = {.n_stages = n_stages};
	size_t n = (size_t)n_stages;
	int code = 0;

	x.leader = orr_arrays_add(&x.all, n, sizeof(*x.leader));
	x.waits = orr_arrays_add(&x.all, n, sizeof(*x.waits));
	x.number = orr_arrays_add(&x.all, n, sizeof(*x.number));
	orr_readers_find(&x.readers, &x.all, g, stage_of, n_stages);
	if (x.all.failed) {
		code = orr_fail(err, ORR_E_NOMEM, "partition: no memory for %d stages", n_stages);
		goto out;
	}
	for (int i = 0; i < x.readers.first[n_stages]; i++)
		x.waits[x.readers.of[i]]++;
	for (int i = g->n_operators - 1; i >= 0; i--)
		if (stage_of[i] >= 0 && !orr_operator_is_input(&g->operators[i]))
			x.leader[stage_of[i]] = i;
	if ((code = deal_out(&x, err)))
		goto out;
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = stage_of[i] < 0 ? -1 : x.number[stage_of[i]];
out:
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
