#include "simulated_model.h"

#include <string.h>

#include "pipeline/partition.h"

int simulated_model_init(struct simulated_model *model, const char *text, const char *schedule,
			 double bytes_per_s, int n_microbatches, int prefetch,
			 struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(SIMULATED_DEVICES);
	int code;

	memset(model, 0, sizeof(*model));
	machine.bandwidth_bytes_per_s = bytes_per_s;
	machine.latency_ns = SIMULATED_LATENCY_NS;
	if ((code = orr_graph_parse(&model->graph, "model.dot", text, err)) ||
	    (code = orr_partition(&model->pipeline, model->graph, &machine, 0, SIMULATED_SAMPLES,
				  err)) ||
	    (code = orr_pipeline_set_step(model->pipeline, SIMULATED_DEVICES, n_microbatches,
					  err)) ||
	    (code = orr_choice_init(&model->choice, schedule, err)))
		return code;
	model->pipeline->prefetch = prefetch;
	return orr_jobs_create(&model->jobs, model->pipeline, &model->choice.schedule, err);
}

void simulated_model_fini(struct simulated_model *model)
{
	orr_jobs_destroy(model->jobs);
	orr_choice_fini(&model->choice);
	orr_pipeline_destroy(model->pipeline);
	orr_graph_destroy(model->graph);
}
