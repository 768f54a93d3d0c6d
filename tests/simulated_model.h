#pragma once
/* A model under a schedule on 8 devices, for the test and for the program that trains it on
 * simulated ones: both make the same jobs of the same text. */
#include "orrery/open.h"
#include "orrery/orrery.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"

#define SIMULATED_DEVICES 8
#define SIMULATED_SAMPLES 4        /* of a microbatch */
#define SIMULATED_LATENCY_NS 10000 /* of every link */
#define SIMULATED_HOST "simulated" /* whose links they are, to StarPU */

struct simulated_model {
	struct orr_graph *graph;
	struct orr_pipeline *pipeline;
	struct orr_choice choice;
	struct orr_jobs *jobs;
};

/* text: of the graph; bytes_per_s: of a link between any two devices; prefetch: jobs ahead. */
int simulated_model_init(struct simulated_model *model, const char *text, const char *schedule,
			 double bytes_per_s, int n_microbatches, int prefetch,
			 struct orr_error *err);
void simulated_model_fini(struct simulated_model *model);
