#include "replay.h"

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "base/json.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "plan/plan_file.h"
#include "report.h"
#include "orrery/timeline.h"

static json_t *duration_json(const struct orr_pipeline *p, int s, enum orr_pass d, bool split)
{
	if (!orr_pipeline_has_pass(p, s, d, split))
		return json_null();
	return orr_json_time(orr_pipeline_duration_ns(p, s, d, split));
}

/* What a policy sees of its pipeline and a plan does not say otherwise: durations of B with and
 * without W in it, null for a pass that a stage has not. */
static json_t *pipeline_json(const struct orr_pipeline *p)
{
	json_t *stages = json_array(), *edges = json_array(), *of;

	for (int s = 0; s < p->n_stages; s++) {
		of = json_pack("{s:i, s:I}", "depth", p->stages[s].depth, "stash_bytes",
			       (json_int_t)p->stages[s].stash_bytes);
		orr_json_set(&of, "whole", duration_json(p, s, ORR_PASS_B, false));
		orr_json_set(&of, "backward", duration_json(p, s, ORR_PASS_B, true));
		orr_json_set(&of, "weight", duration_json(p, s, ORR_PASS_W, true));
		orr_json_append(&stages, of);
	}
	for (const struct orr_edge *e = p->edges; e < p->edges + p->n_edges; e++)
		orr_json_append(&edges,
				json_pack("[i, i, I, I]", e->from, e->to, (json_int_t)e->bytes,
					  (json_int_t)e->gradient_bytes));
	return json_pack("{s:o, s:o}", "stages", stages, "edges", edges);
}

json_t *orr_replay_json(const struct orr_timeline *t, const struct orr_figures *f, int batch,
			int64_t samples, bool embed, struct orr_error *err)
{
	const struct orr_graph *g = t->jobs->pipeline->graph;
	const struct orr_machine *machine = &t->jobs->pipeline->machine;
	json_t *plan = orr_report_json(t, f, err);
	char fingerprint[24];

	if (!plan)
		return NULL;
	orr_graph_fingerprint(g, fingerprint);
	orr_json_set(&plan, "graph", json_string(g->name));
	orr_json_set(&plan, "fingerprint", json_string(fingerprint));
	if (embed)
		orr_json_set(&plan, "text", orr_graph_text_json(g, err));
	orr_json_set(&plan, "latency", orr_json_time(machine->latency_ns));
	orr_json_set(&plan, "bandwidth", json_real(machine->bandwidth_bytes_per_s));
	orr_json_set(&plan, "flops", json_real(machine->flops_per_s));
	orr_machine_json(&plan, machine);
	orr_json_set(&plan, "samples", json_integer(samples));
	orr_json_set(&plan, "batch", json_integer(batch));
	orr_plan_rules_json(&plan, t->jobs);
	orr_json_set(&plan, "pipeline", pipeline_json(t->jobs->pipeline));
	orr_microbatches_json(&plan, t->jobs->pipeline);
	for (int w = 0; w < t->jobs->pipeline->n_workers; w++)
		orr_json_keep(&plan,
			      json_object_update_new(
				      json_array_get(json_object_get(plan, "worker"), (size_t)w),
				      orr_plan_order_json(t->jobs, w)));
	if (!plan)
		(void)orr_fail(err, ORR_E_NOMEM, "plan: no memory for its JSON");
	return plan;
}
