#include "related.h"

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/pipeline.h"

#define EFFORT 8 /* of each of these searches */

/* What is asked of a search of another step on these workers. */
static struct orr_search_options ask(const struct orr_searched *x, const int *worker)
{
	struct orr_search_options options = *x->searcher->options;

	options.placement = ORR_PLACEMENT_GIVEN;
	options.worker = worker;
	options.from = NULL;
	options.effort = EFFORT;
	options.seconds = 0;
	options.reorder = false;
	options.related--;
	options.observer = (struct orr_observer){0};
	return options;
}

static int search(const struct orr_searched *x, int *worker, int64_t *n,
		  const struct orr_pipeline *p, const struct orr_search_options *options,
		  bool *found)
{
	struct orr_error why = {""};
	int code = x->searcher->search(worker, n, NULL, p, options, &why);

	*found = !code;
	return code == ORR_E_NOMEM ? orr_fail(x->searcher->err, code, "%s", why.msg)
				   : 0; /* it fits nowhere */
}

int orr_related_relaxed(const struct orr_searched *x, int64_t *n, bool *found)
{
	const struct orr_pipeline *p = x->searcher->p;
	struct orr_search_options options = ask(x, x->worker);
	struct orr_arrays all = {0};
	int *worker = orr_arrays_add(&all, (size_t)p->n_stages, sizeof(*worker));
	int64_t largest = 0;
	int code = orr_arrays_check(&all, "search", x->searcher->err);

	if (code)
		return code;
	for (int s = 0; s < p->n_stages; s++)
		largest = larger(largest, p->stages[s].stash_bytes);
	options.stashes += options.stashes > 0;
	options.stash_bytes += options.stash_bytes > 0 ? largest : 0;
	options.memory_bytes += options.memory_bytes > 0 ? largest : 0;
	options.room_bytes = NULL;
	code = search(x, worker, n, p, &options, found);
	orr_arrays_free(&all);
	return code;
}

/* ---- neighbours as one stage ---- */

static void add_stage(struct orr_stage *to, const struct orr_stage *from, bool by_bytes)
{
	to->forward_ns += from->forward_ns;
	to->backward_ns += from->backward_ns;
	to->weight_ns += from->weight_ns;
	to->update_ns += from->update_ns;
	to->stash_bytes += by_bytes ? from->stash_bytes : 1;
	to->parameter_bytes += from->parameter_bytes;
	to->frozen_bytes += from->frozen_bytes;
	to->has_loss = to->has_loss || from->has_loss;
}

/* All that one block sends another goes over one edge. */
static int fuse_edges(struct orr_edge *to, const struct orr_pipeline *p, const int *block)
{
	int n = 0, k;

	for (int e = 0; e < p->n_edges; e++) {
		struct orr_edge edge = p->edges[e];

		edge.from = block[edge.from];
		edge.to = block[edge.to];
		for (k = 0; k < n && (to[k].from != edge.from || to[k].to != edge.to); k++)
			;
		if (edge.from == edge.to)
			continue;
		if (k == n) {
			to[n++] = edge;
			continue;
		}
		to[k].bytes += edge.bytes;
		to[k].gradient_bytes += edge.gradient_bytes;
		to[k].detached = to[k].detached && edge.detached;
	}
	for (k = 0; k < n; k++)
		to[k].gradient_bytes = to[k].gradient_bytes ? to[k].gradient_bytes : ORR_NO_BYTES;
	return n;
}

/* A stash counts for as many as it is of, where they are counted. */
static int fuse(struct orr_pipeline **out, const struct orr_pipeline *p, const int *block,
		bool by_bytes, struct orr_error *err)
{
	int n = block[p->n_stages - 1] + 1, code;
	struct orr_arrays all = {0};
	struct orr_stage *stages = orr_arrays_add(&all, (size_t)n, sizeof(*stages));
	struct orr_edge *edges = orr_arrays_add(&all, (size_t)p->n_edges + 1, sizeof(*edges));

	if ((code = orr_arrays_check(&all, "search", err)))
		return code;
	for (int s = 0; s < p->n_stages; s++)
		add_stage(&stages[block[s]], &p->stages[s], by_bytes);
	if (!(code = orr_pipeline_create(out, stages, n, edges, fuse_edges(edges, p, block),
					 err))) {
		struct orr_pipeline *fused = *out;

		fused->has_weight = p->has_weight;
		fused->units = p->units;
		fused->n_workers = p->n_workers;
		fused->n_microbatches = p->n_microbatches;
		fused->numerics = p->numerics;
		fused->overhead_ns = p->overhead_ns;
		fused->machine = p->machine;
	}
	orr_arrays_free(&all);
	return code;
}

/* Of a stage's jobs those of its block, forwards down the block and the others back. */
static void unfuse(int64_t *n, const int64_t *fused, const struct orr_pipeline *p, const int *block)
{
	int n_stages = p->n_stages, n_blocks = block[n_stages - 1] + 1;

	for (int j = 0; j < n_stages * p->n_microbatches * ORR_N_PASSES; j++) {
		int d = j % ORR_N_PASSES, s = j / ORR_N_PASSES % n_stages,
		    b = j / ORR_N_PASSES / n_stages;

		n[j] = fused[(b * n_blocks + block[s]) * ORR_N_PASSES + d] * n_stages +
		       (d == ORR_PASS_F ? s : n_stages - 1 - s);
	}
}

int orr_related_fused(const struct orr_searched *x, int64_t *n, bool *found)
{
	const struct orr_pipeline *p = x->searcher->p;
	bool by_bytes = x->searcher->options->stash_bytes || x->searcher->options->memory_bytes;
	struct orr_search_options options;
	struct orr_pipeline *fused = NULL;
	struct orr_arrays all = {0};
	size_t n_stages = (size_t)p->n_stages;
	int *worker = orr_arrays_add(&all, n_stages, sizeof(*worker)),
	    *placed = orr_arrays_add(&all, n_stages, sizeof(*placed));
	int64_t *fused_n = orr_arrays_add(&all, (size_t)x->searcher->n_jobs, sizeof(*fused_n));
	int code = orr_arrays_check(&all, "search", x->searcher->err);

	if (code || (code = fuse(&fused, p, x->block, by_bytes, x->searcher->err)))
		goto out;
	options = ask(x, worker);
	for (size_t s = 0; s < n_stages; s++)
		worker[x->block[s]] = x->worker[s];
	if (!by_bytes && options.stashes) {
		options.stash_bytes = options.stashes;
		options.stashes = 0;
	}
	code = search(x, placed, fused_n, fused, &options, found);
	if (!code && *found)
		unfuse(n, fused_n, p, x->block);
out:
	orr_pipeline_destroy(fused);
	orr_arrays_free(&all);
	return code;
}
