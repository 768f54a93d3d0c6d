/* What it costs a rank to submit a step, through the engine: 64 stages, which compute next to
 * nothing, and 512 microbatches on 4 workers, on as many ranks as mpirun starts. Of every rank its
 * jobs, StarPU tasks and messages, sent or received, of a step, and the processor time of the
 * thread that submits them, which is what grows with them: other ranks' jobs cost nothing. Median
 * of N_STEPS; figures only, no pass or fail. Usage: bench_submit [SCHEDULE...] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orrery/open.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "orrery/run.h"
#include "orrery/figures.h"
#include "runtime/run/parts.h"
#include "bench.h"
#include "drawn_data.h"

#define N_STAGES 64
#define N_MICROBATCHES 512
#define N_WORKERS 4
#define N_STEPS 5
#define MOST_RANKS 64

enum { JOBS, TASKS, MESSAGES, MICROSECONDS, N_NUMBERS };

static struct orr_dataset data;

/* A chain; a stage is a layer. */
static void write_model(char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size,
				    "digraph chain {\n x [op=input columns=\"0:8\" stage=0]\n");

	for (int s = 0; s < N_STAGES; s++)
		n += (size_t)snprintf(text + n, size - n, " h%d [op=linear features=8 stage=%d]\n",
				      s, s);
	n += (size_t)snprintf(
		text + n, size - n,
		" y [op=input columns=\"8:16\" stage=%d]\n loss [op=mse stage=%d]\n x -> h0",
		N_STAGES - 1, N_STAGES - 1);
	for (int s = 1; s < N_STAGES; s++)
		n += (size_t)snprintf(text + n, size - n, " -> h%d", s);
	snprintf(text + n, size - n, " -> loss\n y -> loss\n}\n");
}

static int64_t thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double messages_of(struct orr_run *run)
{
	struct orr_traffic traffic;
	int64_t n = 0;

	orr_run_traffic(run, &traffic);
	for (int k = 0; k < ORR_TRANSFER_KINDS; k++)
		n += traffic.sent[k] + traffic.received[k];
	return (double)n;
}

/* The last of the steps counts; of their times the median. */
static int time_steps(struct orr_run *run, double *numbers, struct orr_error *err)
{
	double times[N_STEPS];
	int code;

	for (int i = 0; i < N_STEPS; i++) {
		double messages = messages_of(run);
		long long n_tasks = run->watch.n_tasks;
		int64_t start = thread_ns();

		if ((code = orr_step_submit(run, err)))
			return code;
		times[i] = 1e-3 * (double)(thread_ns() - start);
		numbers[TASKS] = (double)(run->watch.n_tasks - n_tasks -
					  1); /* the submission counts as one */
		if ((code = orr_run_train(run, 1, NULL, NULL, err))) /* wait for it */
			return code;
		numbers[MESSAGES] = messages_of(run) - messages;
	}
	numbers[MICROSECONDS] = bench_median(times, N_STEPS);
	for (int j = 0; j < run->work.jobs->n_jobs; j++)
		numbers[JOBS] += orr_work_computes(&run->work, j);
	return 0;
}

static void print(const char *schedule, const double *numbers)
{
	for (int k = 0; k < orr_ranks_count(); k++, numbers += N_NUMBERS)
		printf("%-8s %5d %5d %8.0f %8.0f %9.0f %9.0f us %8.2f us\n", schedule,
		       orr_ranks_count(), k, numbers[JOBS], numbers[TASKS], numbers[MESSAGES],
		       numbers[MICROSECONDS],
		       numbers[MICROSECONDS] / (numbers[TASKS] + numbers[MESSAGES]));
	fflush(stdout);
}

static int bench(const char *schedule, const char *model, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(N_WORKERS);
	struct orr_run_options options = orr_run_options_default();
	double numbers[MOST_RANKS * N_NUMBERS] = {0};
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_choice choice = {0};
	struct orr_jobs *jobs = NULL;
	struct orr_run *run = NULL;
	int code;

	options.batch = N_MICROBATCHES;
	options.timeout_s = 600;
	if ((code = orr_choice_init(&choice, schedule, err)) ||
	    (code = orr_graph_parse(&graph, "chain.dot", model, err)) ||
	    (code = orr_partition(&pipeline, graph, &machine, 0, 1, err)) ||
	    (code = orr_pipeline_set_step(pipeline, N_WORKERS, N_MICROBATCHES, err)) ||
	    (code = orr_jobs_create(&jobs, pipeline, &choice.schedule, err)) ||
	    (code = orr_run_create(&run, jobs, &data, &options, err)) ||
	    (code = time_steps(run, numbers + N_NUMBERS * orr_ranks_rank(), err)) ||
	    (code = orr_ranks_sum(numbers, N_NUMBERS * orr_ranks_count(), err)))
		goto out;
	if (!orr_ranks_rank())
		print(schedule, numbers);
out:
	orr_run_destroy(run);
	orr_jobs_destroy(jobs);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	orr_choice_fini(&choice);
	return code;
}

int main(int argc, char **argv)
{
	static char model[32 * 1024];
	static char *usual[] = {"ddp", "1f1b"};
	char **schedules = argc > 1 ? argv + 1 : usual;
	struct orr_error err = {""};
	int code = orr_ranks_start(NULL, &err);

	if (!code && orr_ranks_count() > MOST_RANKS)
		code = orr_fail(&err, ORR_E_INPUT, "%d ranks at most", MOST_RANKS);
	if (!code && !draw_data(&data, 16, 16, 0, 0, 1))
		code = orr_fail(&err, ORR_E_NOMEM, "no memory for the data");
	write_model(model, sizeof(model));
	if (!code && !orr_ranks_rank())
		printf("%-8s %5s %5s %8s %8s %9s %12s %11s\n", "schedule", "ranks", "rank", "jobs",
		       "tasks", "messages", "a step", "each");
	for (int i = 0; i < (argc > 1 ? argc - 1 : 2) && !code; i++)
		code = bench(schedules[i], model, &err);
	if (code) {
		(void)fprintf(stderr, "rank %d: %s\n", orr_ranks_rank(), err.msg);
		orr_ranks_fail(1, err.msg);
	}
	free_data(&data);
	orr_ranks_stop();
	return code != 0;
}
