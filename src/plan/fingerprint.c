/* Hashes of a graph and of a pipeline, to tell whether a file is of the same ones (FNV-1a). */
#include "orrery/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/pipeline.h"

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *byte = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
	return hash;
}

void orr_graph_fingerprint(const struct orr_graph *g, char text[24])
{
	uint64_t hash =
		mix(UINT64_C(14695981039346656037), &g->overhead_ns, sizeof(g->overhead_ns));

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];
		const int64_t numbers[] = {
			(int64_t)o->op, o->width,           o->n_parameters, o->forward_ns,
			o->backward_ns, o->weight_ns,       o->update_ns,    o->activation_bytes,
			o->stash_bytes, o->parameter_bytes, o->frozen};

		hash = mix(hash, o->name, strlen(o->name) + 1);
		hash = mix(hash, numbers, sizeof(numbers));
		hash = mix(hash, o->inputs, (size_t)o->n_inputs * sizeof(*o->inputs));
		if (o->frozen) /* else it is what it was before there was such a thing */
			hash = mix(hash, &o->frozen, sizeof(o->frozen));
	}
	(void)snprintf(text, 24, "%016" PRIx64, hash);
}

static uint64_t mix_stage(uint64_t hash, const struct orr_stage *s)
{
	const int64_t numbers[] = {s->forward_ns,      s->backward_ns,  s->weight_ns,
				   s->update_ns,       s->stash_bytes,  s->input_bytes,
				   s->parameter_bytes, s->frozen_bytes, s->frozen};

	return mix(hash, numbers, sizeof(numbers));
}

void orr_pipeline_fingerprint(const struct orr_pipeline *p, char text[24])
{
	const int64_t size[] = {p->n_stages,   p->n_workers,   p->n_microbatches,
				p->has_weight, p->overhead_ns, p->machine.latency_ns};
	uint64_t hash = mix(UINT64_C(14695981039346656037), size, sizeof(size));

	hash = mix(hash, &p->machine.bandwidth_bytes_per_s,
		   sizeof(p->machine.bandwidth_bytes_per_s));
	for (int s = 0; s < p->n_stages; s++)
		hash = mix_stage(hash, &p->stages[s]);
	for (int e = 0; e < p->n_edges; e++) {
		const int64_t numbers[] = {p->edges[e].from, p->edges[e].to, p->edges[e].bytes,
					   p->edges[e].gradient_bytes, p->edges[e].detached};

		hash = mix(hash, numbers, sizeof(numbers));
	}
	(void)snprintf(text, 24, "%016" PRIx64, hash);
}
