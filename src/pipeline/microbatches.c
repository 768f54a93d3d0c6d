#include "microbatches.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "cost.h"
#include "orrery/pipeline.h"

void orr_microbatches_set(struct orr_pipeline *p, int b, const struct orr_pipeline *q)
{
	struct orr_microbatches *x = p->microbatches;

	for (int s = 0; s < p->n_stages; s++)
		x->costs[b * p->n_stages + s] = orr_cost_of_stage(&q->stages[s]);
	for (int e = 0; e < p->n_edges; e++) {
		x->bytes[b * p->n_edges + e] = q->edges[e].bytes;
		x->gradient_bytes[b * p->n_edges + e] = q->edges[e].gradient_bytes;
	}
	for (int i = 0; i < p->n_outputs; i++)
		x->outputs[b * p->n_outputs + i] = q->outputs[i].bytes;
}

int orr_microbatches_create(struct orr_pipeline *p, int n, struct orr_error *err)
{
	struct orr_microbatches *x = calloc(1, sizeof(*x));
	size_t n_costs = (size_t)n * (size_t)p->n_stages, n_edges = (size_t)n * (size_t)p->n_edges,
	       n_outputs = (size_t)n * (size_t)p->n_outputs;

	if (!x || !(x->costs = calloc(1, n_costs * sizeof(*x->costs) +
						 (2 * n_edges + n_outputs) * sizeof(*x->bytes)))) {
		orr_pipeline_free_microbatches(x);
		return orr_no_memory(err, "pipeline");
	}
	x->bytes = (int64_t *)(x->costs + n_costs);
	x->gradient_bytes = x->bytes + n_edges;
	x->outputs = x->gradient_bytes + n_edges;
	x->n = n;
	orr_pipeline_free_microbatches(p->microbatches);
	p->microbatches = x;
	for (int b = 0; b < n; b++)
		orr_microbatches_set(p, b, p);
	return 0;
}

int orr_microbatches_copy(struct orr_pipeline *p, const struct orr_pipeline *like,
			  struct orr_error *err)
{
	const struct orr_microbatches *from = like->microbatches;
	int code = orr_microbatches_create(p, from->n, err);
	struct orr_microbatches *x = p->microbatches;

	if (code)
		return code;
	memcpy(x->costs, from->costs, (size_t)from->n * (size_t)p->n_stages * sizeof(*from->costs));
	for (int e = 0; e < like->n_edges; e++) {
		int to = (int)(orr_pipeline_edge(p, like->edges[e].from, like->edges[e].to) -
			       p->edges);

		for (int b = 0; b < from->n; b++) {
			int at = b * p->n_edges + to, of = b * like->n_edges + e;

			x->bytes[at] = from->bytes[of];
			x->gradient_bytes[at] = from->gradient_bytes[of];
		}
	}
	memcpy(x->outputs, from->outputs,
	       (size_t)from->n * (size_t)p->n_outputs * sizeof(*from->outputs));
	orr_microbatches_settle(p);
	return 0;
}

static int64_t mean(double sum, int n)
{
	return (int64_t)(sum / n + 0.5);
}

void orr_microbatches_settle(struct orr_pipeline *p)
{
	const struct orr_microbatches *x = p->microbatches;

	for (int s = 0; s < p->n_stages; s++) {
		struct orr_stage *stage = &p->stages[s];
		double forward = 0, backward = 0, weight = 0;

		stage->stash_bytes = stage->input_bytes = 0;
		for (int b = 0; b < x->n; b++) {
			const struct orr_cost *cost = &x->costs[b * p->n_stages + s];

			forward += (double)cost->forward_ns;
			backward += (double)cost->backward_ns;
			weight += (double)cost->weight_ns;
			stage->stash_bytes = larger(stage->stash_bytes, cost->stash_bytes);
			stage->input_bytes = larger(stage->input_bytes, cost->input_bytes);
		}
		stage->forward_ns = mean(forward, x->n);
		stage->backward_ns = mean(backward, x->n);
		stage->weight_ns = mean(weight, x->n);
	}
	for (int e = 0; e < p->n_edges; e++) {
		struct orr_edge *edge = &p->edges[e];

		edge->bytes = edge->gradient_bytes = 0;
		for (int b = 0; b < x->n; b++) {
			int at = b * p->n_edges + e;

			edge->bytes = larger(edge->bytes, x->bytes[at]);
			edge->gradient_bytes = larger(edge->gradient_bytes, x->gradient_bytes[at]);
		}
	}
	for (int i = 0; i < p->n_outputs; i++) {
		p->outputs[i].bytes = 0;
		for (int b = 0; b < x->n; b++)
			p->outputs[i].bytes =
				larger(p->outputs[i].bytes, x->outputs[b * p->n_outputs + i]);
	}
}
