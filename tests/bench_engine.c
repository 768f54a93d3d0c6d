/* What the engine costs per job: microseconds from submission to the end, over jobs that do
 * nothing.
 *   engine       our policy, with measured times, callbacks, step after step
 *   pinned       the same with StarPU's workerorder instead of our policy
 *   eager, lws   the same, and StarPU places
 * Medians of interleaved rounds, of ratios within a round; figures only, no pass or fail. */
#include <stdio.h>
#include <stdlib.h>

#include "orrery/open.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "runtime/run/parts.h"
#include "bench.h"
#include "drawn_data.h"

#define N_ROUNDS 15
#define N_STEPS 40
#define N_STAGES 4
#define N_MICROBATCHES 32
#define N_WORKERS 2

static const char model[] =
	"digraph chain {\n"
	"  x [op=input columns=\"0:8\" stage=0]\n  a [op=linear features=8 stage=0]\n"
	"  b [op=linear features=8 stage=1]\n  c [op=linear features=8 stage=2]\n"
	"  d [op=linear features=8 stage=3]\n  y [op=input columns=\"8:16\" stage=3]\n"
	"  loss [op=mse stage=3]\n  x -> a -> b -> c -> d -> loss\n  y -> loss\n}\n";

static struct orr_dataset data;

static double per_job_us(const struct orr_jobs *jobs, int64_t start_ns)
{
	return (double)(orr_clock_ns() - start_ns) * 1e-3 / ((double)N_STEPS * jobs->n_jobs);
}

enum { ENGINE, PINNED, EAGER, LWS, FREEING, PINNED_FREEING, N_VARIANTS };
static const struct {
	const char *name, *policy;
	int64_t keep_bytes;
} variants[N_VARIANTS] = {
	{"engine", NULL, INT64_MAX},   {"pinned", "pinned", INT64_MAX},
	{"eager", "eager", INT64_MAX}, {"lws", "lws", INT64_MAX},
	{"engine, freeing", NULL, 0},  {"pinned, freeing", "pinned", 0},
};

static double run_variant(int variant, const struct orr_jobs *jobs)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_run_hooks hooks = {.policy = variants[variant].policy};
	struct orr_run *run = NULL;
	struct orr_error err = {""};
	double result = -1;
	int64_t start;

	options.batch = N_MICROBATCHES;
	options.keep_bytes = variants[variant].keep_bytes;
	if (!orr_run_create_hooked(&run, jobs, &data, &options, &hooks, &err)) {
		atomic_store(&run->session.common.cancelled, true); /* jobs return at once */
		if (!orr_run_train(run, 3, NULL, NULL, &err)) {
			start = orr_clock_ns();
			if (!orr_run_train(run, N_STEPS, NULL, NULL, &err))
				result = per_job_us(jobs, start);
		}
	}
	if (result < 0)
		(void)fprintf(stderr, "%s\n", err.msg);
	orr_run_destroy(run);
	return result;
}

static double ratio(double times[][N_ROUNDS], int a, int b)
{
	double ratios[N_ROUNDS];

	for (int i = 0; i < N_ROUNDS; i++)
		ratios[i] = times[a][i] / times[b][i];
	return bench_median(ratios, N_ROUNDS);
}

static void report(const char *schedule, double times[][N_ROUNDS])
{
	double engine = ratio(times, ENGINE, PINNED),
	       freeing = ratio(times, FREEING, PINNED_FREEING);

	for (int v = 0; v < N_VARIANTS; v++) {
		double median = bench_median(times[v], N_ROUNDS); /* and they are sorted */

		printf("%-6s %-16s %6.2f us per job, %.2f at best\n", schedule, variants[v].name,
		       median, times[v][0]);
	}
	printf("%-6s engine / pinned %.2f, freeing: engine / pinned %.2f\n", schedule, engine,
	       freeing);
}

static int bench(const char *schedule, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(N_WORKERS);
	struct orr_choice choice = {0};
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_jobs *jobs = NULL;
	static double times[N_VARIANTS][N_ROUNDS];
	int code;

	if ((code = orr_graph_parse(&graph, "chain", model, err)) ||
	    (code = orr_partition(&pipeline, graph, &machine, 0, 1, err)) ||
	    (code = orr_pipeline_set_step(pipeline, N_WORKERS, N_MICROBATCHES, err)) ||
	    (code = orr_choice_init(&choice, schedule, err)) ||
	    (code = orr_jobs_create(&jobs, pipeline, &choice.schedule, err)))
		goto out;
	for (int i = 0; i < N_ROUNDS && !code; i++)
		for (int v = 0; v < N_VARIANTS; v++)
			if ((times[v][i] = run_variant(v, jobs)) < 0)
				code = orr_fail(err, ORR_E_RUNTIME, "%s failed", variants[v].name);
	if (!code)
		report(schedule, times);
out:
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	return code;
}

int main(void)
{
	struct orr_error err = {""};
	int code = draw_data(&data, 16, 16, 0, 0, 1) ? 0 : orr_fail(&err, ORR_E_NOMEM, "no memory");

	if (!code && !(code = bench("1f1b", &err)))
		code = bench("gpipe", &err);
	free_data(&data);
	if (code)
		(void)fprintf(stderr, "bench_engine: %s\n", err.msg);
	return code ? 1 : 0;
}
