#include "orrery/replay.h"

#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "orrery/plan.h"
#include "plan/plan_jobs.h"
#include "orrery/report.h"
#include "orrery/timeline.h"

/* Not 0: there is no memory. */
static int set_graph(json_t *plan, const struct orr_graph *g, bool embed, struct orr_error *err)
{
	char fingerprint[24];
	int failed;

	orr_graph_fingerprint(g, fingerprint);
	failed = json_object_set_new(plan, "graph", json_string(g->name));
	failed |= json_object_set_new(plan, "fingerprint", json_string(fingerprint));
	if (embed)
		failed |= json_object_set_new(plan, "text", orr_graph_text_json(g, err));
	return failed;
}

static int set_machine(json_t *plan, const struct orr_machine *machine)
{
	int failed =
		json_object_set_new(plan, "latency", json_real((double)machine->latency_ns / 1e9));

	failed |= json_object_set_new(plan, "bandwidth", json_real(machine->bandwidth_bytes_per_s));
	failed |= json_object_set_new(plan, "flops", json_real(machine->flops_per_s));
	return failed | orr_machine_json(plan, machine);
}

json_t *orr_replay_json(const struct orr_timeline *t, const struct orr_figures *f,
			const struct orr_replay_options *options, struct orr_error *err)
{
	json_t *plan = orr_report_json(t, f, err), *worker;
	int failed;
	size_t w;

	if (!plan)
		return NULL;
	failed = set_graph(plan, t->jobs->pipeline->graph, options->embed, err) |
		 set_machine(plan, &t->jobs->pipeline->machine);
	failed |= json_object_set_new(plan, "samples", json_integer(options->samples));
	failed |= json_object_set_new(plan, "batch", json_integer(options->batch));
	failed |= orr_plan_rules_json(plan, t->jobs);
	failed |= orr_microbatches_json(plan, t->jobs->pipeline);
	json_array_foreach(json_object_get(plan, "worker"), w, worker) failed |=
		orr_plan_order_json(worker, t->jobs, (int)w);
	if (!failed)
		return plan;
	json_decref(plan);
	(void)orr_fail(err, ORR_E_NOMEM, "plan: no memory for its JSON");
	return NULL;
}
