#include "permuted.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "pipeline/cost.h"
#include "pipeline/microbatches.h"

static int sort_by_work(struct orr_keyed *keyed, const struct orr_pipeline *p,
			struct orr_error *err)
{
	const struct orr_microbatches *x = p->microbatches;

	for (int b = 0; b < x->n; b++) {
		keyed[b] = (struct orr_keyed){0, b};
		for (int s = 0; s < p->n_stages; s++) {
			const struct orr_cost *cost = &x->costs[b * p->n_stages + s];

			keyed[b].key += cost->forward_ns + cost->backward_ns + cost->weight_ns;
		}
	}
	return orr_sort(keyed, x->n, err);
}

static int place_of(int permutation, int i, int n)
{
	if (permutation == 0)
		return i % 2 ? n - 1 - i / 2 : i / 2;
	return permutation == 1 ? i : n - 1 - i;
}

static void permute(struct orr_permuted *to, const struct orr_pipeline *p)
{
	const struct orr_microbatches *from = p->microbatches;
	struct orr_microbatches *x = to->pipeline.microbatches;
	size_t n_stages = (size_t)p->n_stages, n_edges = (size_t)p->n_edges;

	for (size_t i = 0; i < (size_t)x->n; i++) {
		size_t b = (size_t)to->order[i];

		memcpy(x->costs + i * n_stages, from->costs + b * n_stages,
		       n_stages * sizeof(*x->costs));
		memcpy(x->bytes + i * n_edges, from->bytes + b * n_edges,
		       n_edges * sizeof(*x->bytes));
		memcpy(x->gradient_bytes + i * n_edges, from->gradient_bytes + b * n_edges,
		       n_edges * sizeof(*x->gradient_bytes));
	}
}

int orr_permuted_init(struct orr_permuted *x, const struct orr_pipeline *p, int permutation,
		      struct orr_error *err)
{
	int n = p->n_microbatches, code;
	struct orr_keyed *keyed = calloc((size_t)n, sizeof(*keyed));

	*x = (struct orr_permuted){.pipeline = *p, .order = calloc((size_t)n, sizeof(*x->order))};
	x->pipeline.microbatches = NULL;
	if (!keyed || !x->order)
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory for %d microbatches", n);
	else if (!(code = sort_by_work(keyed, p, err)) &&
		 !(code = orr_microbatches_create(&x->pipeline, n, err))) {
		for (int i = 0; i < n; i++)
			x->order[place_of(permutation, i, n)] = keyed[i].value;
		permute(x, p);
	}
	free(keyed);
	if (code)
		orr_permuted_fini(x);
	return code;
}

void orr_permuted_fini(struct orr_permuted *x)
{
	orr_pipeline_free_microbatches(x->pipeline.microbatches);
	free(x->order);
	*x = (struct orr_permuted){0};
}

void orr_permuted_back(const struct orr_permuted *x, int64_t *to, const int64_t *from, int n_passes)
{
	size_t each = (size_t)x->pipeline.n_stages * (size_t)n_passes;

	for (int i = 0; i < x->pipeline.n_microbatches; i++)
		memcpy(to + (size_t)x->order[i] * each, from + (size_t)i * each,
		       each * sizeof(*to));
}
