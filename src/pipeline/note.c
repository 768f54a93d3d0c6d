#include "orrery/pipeline.h"

#include "orrery/graph.h"

void orr_pipeline_note(const struct orr_pipeline *p, struct orr_graph *g, int64_t samples)
{
	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_stage *stage = &p->stages[p->stage_of[i]];
		struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_input(o)) { /* its readers take the time */
			o->forward_ns = o->backward_ns = 0;
			continue;
		}
		o->forward_ns = stage->forward_ns;
		o->backward_ns = stage->backward_ns;
		o->weight_ns = stage->weight_ns;
		o->update_ns = stage->update_ns;
		/* these follow from the shapes */
		o->stash_bytes = orr_operator_stash_floats(o) * samples * (int64_t)sizeof(float);
		o->activation_bytes = orr_operator_output_bytes(o, samples);
	}
	g->samples = samples;
	g->profiled = p->profiled;
}
