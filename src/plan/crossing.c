#include "crossing.h"

#include "orrery/graph.h"
#include "pipeline/charge.h"

int orr_sent_list_init(struct orr_sent_list *x, const struct orr_graph *g, const int *number, int n,
		       int64_t samples, struct orr_error *err)
{
	size_t n_edges = 0;
	int code;

	for (int i = 0; i < g->n_operators; i++)
		n_edges += (size_t)g->operators[i].n_inputs;
	orr_arrays_make(&x->all, x->first, (size_t)n + 3);
	orr_arrays_make(&x->all, x->readers, n_edges + 1);
	orr_arrays_make(&x->all, x->sent, n_edges + 1);
	if ((code = orr_arrays_check(&x->all, "plan", err)))
		return code;
	/* counted two further on, summed up, and moved on as they are filled in */
	for (int fill = 0; fill < 2; fill++) {
		for (int i = 0; i < g->n_operators; i++)
			for (int k = 0; k < g->operators[i].n_inputs && number[i] >= 0; k++) {
				int from = number[g->operators[i].inputs[k]], at;

				if (from < 0)
					continue;
				at = x->first[from + 2 - fill]++;
				if (!fill)
					continue;
				x->readers[at] = number[i];
				x->sent[at] = orr_sent_over(g, i, k, samples);
			}
		for (int i = 0; i < n && !fill; i++)
			x->first[i + 2] += x->first[i + 1];
	}
	return 0;
}
