/* Microbatches of unequal length. */
#include <math.h>
#include <stdlib.h>

#include "orrery/graph.h"

double orr_operator_growth(const struct orr_graph *g, const struct orr_operator *o, int b)
{
	return pow(g->lengths[b], o->length_exponent);
}

double orr_operator_size_growth(const struct orr_graph *g, const struct orr_operator *o, int b)
{
	return o->length_exponent > 0 ? g->lengths[b] : 1;
}

static void find_mean_growths(struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];
		double sum = 0;

		for (int b = 0; b < g->n_lengths; b++)
			sum += orr_operator_growth(g, o, b);
		o->mean_growth = sum / g->n_lengths;
	}
}

int orr_graph_set_lengths(struct orr_graph *g, const double *lengths, int n, struct orr_error *err)
{
	double *relative = calloc((size_t)n + 1, sizeof(*relative)), sum = 0;

	if (!relative)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for %d lengths", g->name, n);
	for (int b = 0; b < n; b++) {
		if (!(lengths[b] > 0) || !isfinite(sum += lengths[b])) {
			free(relative);
			return orr_fail(err, ORR_E_INPUT,
					"[lengths]: microbatch %d has length %g: give one above 0",
					b, lengths[b]);
		}
	}
	for (int b = 0; b < n; b++)
		relative[b] = lengths[b] / (sum / n);
	free(g->lengths);
	g->lengths = relative;
	g->n_lengths = n;
	find_mean_growths(g);
	return 0;
}
