/* How many jobs a second the simulator makes, and how much memory a million of them takes. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/pipeline.h"
#include "orrery/open.h"
#include "simulate/simulate.h"
#include "orrery/timeline.h"

enum { REPEATS = 7 };

static void bench(const char *name, int n_stages, int n_workers, int n_microbatches, double latency)
{
	struct orr_graph *g = NULL;
	struct orr_pipeline *p = NULL;
	struct orr_machine machine = orr_machine_default(n_workers);
	struct orr_choice choice;
	struct orr_jobs *jobs = NULL;
	struct orr_timeline *t = NULL;
	struct orr_error err = {""};
	double created[REPEATS], simulated[REPEATS], create_s, simulate_s;
	char source[32];

	machine.latency_ns = (int64_t)(latency * 1e9);
	snprintf(source, sizeof(source), "chain:%d", n_stages);
	if (orr_graph_read(&g, source, &err) || orr_partition(&p, g, &machine, 0, 1, &err) ||
	    orr_pipeline_set_step(p, n_workers, n_microbatches, &err) ||
	    orr_choice_init(&choice, name, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	for (int i = 0; i < REPEATS; i++) {
		double start = bench_seconds();

		orr_jobs_destroy(jobs);
		jobs = NULL;
		if (orr_jobs_create(&jobs, p, &choice.schedule, &err)) {
			fprintf(stderr, "%s\n", err.msg);
			exit(1);
		}
		created[i] = bench_seconds() - start;
		start = bench_seconds();
		if (orr_simulate(&t, jobs, &err)) {
			fprintf(stderr, "%s\n", err.msg);
			exit(1);
		}
		simulated[i] = bench_seconds() - start;
		orr_timeline_destroy(t);
	}
	create_s = bench_median(created, REPEATS);
	simulate_s = bench_median(simulated, REPEATS);
	printf("%-10s %4d stages %4d workers %6d microbatches %8d jobs: %5.2f million jobs/s "
	       "simulated, "
	       "%5.2f with the schedule evaluated and checked%s\n",
	       name, n_stages, n_workers, n_microbatches, jobs->n_jobs,
	       jobs->n_jobs / simulate_s / 1e6, jobs->n_jobs / (simulate_s + create_s) / 1e6,
	       latency > 0 ? ", costed links" : "");
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(p);
	orr_graph_destroy(g);
}

int main(void)
{
	struct rusage usage;

	bench("1f1b", 8, 8, 64, 0);
	bench("1f1b", 16, 16, 1024, 0);
	bench("1f1b", 64, 64, 8192, 0);
	getrusage(RUSAGE_SELF, &usage);
	printf("a million jobs: %.0f MB resident at most\n", (double)usage.ru_maxrss / 1e3);
	bench("gpipe", 64, 64, 8192, 0);
	bench("1f1b", 64, 8, 8192, 0);
	bench("ddp", 64, 64, 8192, 0);
	bench("1f1b", 64, 64, 1024, 0.001);
	return 0;
}
