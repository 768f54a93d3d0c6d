/* The time of a training step under the engine beside the same step done plainly, one sample after
 * the other (tests/reference.h). Usage: bench_train GRAPH... */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "reference.h"
#include "orrery/run.h"
#include "orrery/open.h"

enum { N_WORKERS = 2, N_MICROBATCHES = 4, BATCH = 96, STEPS = 40, REPEATS = 3 };

static void stop(const struct orr_error *err)
{
	fprintf(stderr, "%s\n", err->msg);
	exit(1);
}

static double *times; /* of the engine's steps */
static int n_times;

static void note(void *user, const struct orr_step *step)
{
	(void)user;
	times[n_times++] = step->seconds;
}

static double time_engine(const struct orr_jobs *jobs, const struct orr_dataset *data)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_run *run = NULL;
	struct orr_error err = {""};

	options.batch = BATCH;
	n_times = 0;
	if (orr_run_create(&run, jobs, data, &options, &err) ||
	    orr_run_train(run, STEPS, note, NULL, &err))
		stop(&err);
	orr_run_destroy(run);
	return bench_median(times, n_times);
}

static double time_reference(const struct orr_graph *g, const struct orr_dataset *data)
{
	struct reference_rule rule = {REFERENCE_MOMENTUM, 0.1, 0.9, 0.9, 0.999, 1e-8, 0};
	int64_t n = reference_n_parameters(g), rows[BATCH];
	double *parameters = calloc((size_t)n, sizeof(*parameters)), elapsed[REPEATS];
	struct orr_error err = {""};

	if (!parameters || orr_dataset_rows(data, 1, 0, BATCH, rows, &err))
		exit(1);
	for (int64_t i = 0; i < n; i++) /* any numbers that are not zero */
		parameters[i] = sin((double)i) / 20;
	for (int i = 0; i < REPEATS; i++) {
		double start = bench_seconds();

		if (reference_train(g, data->values, data->n_columns, rows, BATCH, 1, &rule,
				    parameters, NULL))
			exit(1);
		elapsed[i] = bench_seconds() - start;
	}
	free(parameters);
	return bench_median(elapsed, REPEATS);
}

static void bench(const char *path)
{
	struct orr_machine machine = orr_machine_default(N_WORKERS);
	struct orr_graph *g = NULL;
	struct orr_pipeline *p = NULL;
	struct orr_dataset *data = NULL;
	struct orr_jobs *jobs = NULL;
	struct orr_choice choice;
	struct orr_error err = {""};
	double reference;

	if (orr_graph_read(&g, path, &err) ||
	    orr_partition(&p, g, &machine, 0, BATCH / N_MICROBATCHES, &err) ||
	    orr_pipeline_set_step(p, N_WORKERS, N_MICROBATCHES, &err) ||
	    orr_dataset_read(&data, g->data, NULL, 0, &err))
		stop(&err);
	reference = time_reference(g, data);
	printf("%s, batch %d: plain sequential step %.3f ms\n", path, BATCH, 1e3 * reference);
	for (int i = 0; orr_schedules[i]; i++) {
		double engine;

		if (orr_schedules[i]->asynchronous)
			continue; /* no step to time */
		if (orr_choice_init(&choice, orr_schedules[i]->name, &err))
			stop(&err);
		if (orr_jobs_create(&jobs, p, &choice.schedule, &err)) {
			orr_choice_fini(&choice);
			continue; /* does not serve this pipeline */
		}
		engine = time_engine(jobs, data);
		printf("  %-24s %.3f ms a step on %d workers, %d microbatches: %.2f of the "
		       "sequential time\n",
		       orr_schedules[i]->name, 1e3 * engine, N_WORKERS, N_MICROBATCHES,
		       engine / reference);
		orr_jobs_destroy(jobs);
		jobs = NULL;
		orr_choice_fini(&choice);
	}
	orr_dataset_destroy(data);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}

int main(int argc, char **argv)
{
	if (!(times = calloc(STEPS, sizeof(*times))))
		return 1;
	for (int i = 1; i < argc; i++)
		bench(argv[i]);
	free(times);
	return 0;
}
