/* What the engine costs per job: microseconds from submission to the end, over jobs that do
 * nothing.
 *   engine       our policy, with measured times, callbacks, step after step
 *   pinned       the same with StarPU's workerorder instead of our policy
 *   eager, lws   the same, and StarPU places
 *   by hand      the same tasks, placement, dependencies and order as a plain StarPU program with
 *                workerorder: no times, no callbacks
 * Medians of interleaved rounds, of ratios within a round; figures only, no pass or fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin.h"
#include "orrery/open.h"
#include "orrery/graph.h"
#include "orrery/machine.h"
#include "pipeline/partition.h"
#include "runtime/run/parts.h"

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

static float values[16 * 16];
static int64_t rows[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static struct orr_dataset data = {.n_rows = 16,
				  .n_columns = 16,
				  .values = values,
				  .n_train = 16,
				  .train = rows,
				  .n_test = 16,
				  .test = rows};

static double per_job_us(const struct orr_jobs *jobs, int64_t start_ns)
{
	return (double)(orr_clock_ns() - start_ns) * 1e-3 / ((double)N_STEPS * jobs->n_jobs);
}

/* ---- the engine ---- */

static double run_engine(const struct orr_jobs *jobs, const char *policy, int64_t keep_bytes)
{
	struct orr_run_options options = orr_run_options_default();
	struct orr_run_hooks hooks = {.policy = policy};
	struct orr_run *run = NULL;
	struct orr_error err = {""};
	double result = -1;
	int64_t start;

	options.batch = N_MICROBATCHES;
	options.keep_bytes = keep_bytes;
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

/* ---- by hand ---- */

static void do_nothing(void *buffers[], void *cl_arg)
{
	(void)buffers;
	(void)cl_arg;
	orr_spin_end();
}

static struct starpu_codelet nothing = {
	.name = "nothing",
	.cpu_funcs = {do_nothing},
	.nbuffers = STARPU_VARIABLE_NBUFFERS,
};

static unsigned give_way(void *user)
{
	(void)user;
	orr_spin_wait();
	return 1;
}

/* Handles of one chain: what a stage and a microbatch have, and what a stage has. */
enum { ACTIVATION, GRADIENT, STASH, TOKEN, BLOCK, N_EACH };
static starpu_data_handle_t each[N_EACH][N_STAGES][N_MICROBATCHES];
static starpu_data_handle_t parameters[N_STAGES], sums[N_STAGES];
static float memory[4096];

static void for_handles(bool make)
{
	for (int s = 0; s < N_STAGES; s++) {
		if (make) {
			starpu_vector_data_register(&parameters[s], STARPU_MAIN_RAM,
						    (uintptr_t)memory, 72, 4);
			starpu_vector_data_register(&sums[s], STARPU_MAIN_RAM, (uintptr_t)memory,
						    72, 4);
		} else {
			starpu_data_unregister(parameters[s]);
			starpu_data_unregister(sums[s]);
		}
		for (int k = 0; k < N_EACH; k++)
			for (int b = 0; b < N_MICROBATCHES; b++) {
				starpu_data_handle_t *handle = &each[k][s][b];

				if (!make)
					starpu_data_unregister(*handle);
				else if (k == TOKEN)
					starpu_void_data_register(handle);
				else
					starpu_vector_data_register(
						handle, k == BLOCK ? STARPU_MAIN_RAM : -1,
						k == BLOCK ? (uintptr_t)memory : 0, 8, 4);
			}
	}
}

static void add(struct starpu_task *task, starpu_data_handle_t handle,
		enum starpu_data_access_mode mode)
{
	task->handles[task->nbuffers] = handle;
	task->modes[task->nbuffers++] = mode;
}

static unsigned order[STARPU_NMAXWORKERS]; /* counts for the life of StarPU */

static int submit_by_hand(struct starpu_task *task, int w)
{
	task->cl = &nothing;
	task->execute_on_a_specific_worker = 1;
	task->workerid = (unsigned)w % starpu_worker_get_count();
	task->workerorder = ++order[task->workerid];
	return starpu_task_submit(task);
}

static int submit_job(const struct orr_jobs *jobs, int j)
{
	struct starpu_task *task = starpu_task_create();
	struct orr_job job = orr_jobs_at(jobs, j);
	int s = job.s, b = job.b, cap = jobs->cap ? jobs->cap[s] : 0;
	bool last = s == N_STAGES - 1;

	add(task, parameters[s], STARPU_R);
	if (job.d == ORR_PASS_F) {
		if (!s || last)
			add(task, each[BLOCK][s][b], STARPU_R);
		if (s)
			add(task, each[ACTIVATION][s - 1][b], STARPU_R);
		if (!last)
			add(task, each[ACTIVATION][s][b], STARPU_W);
		add(task, each[STASH][s][b], STARPU_W);
	} else {
		add(task, each[STASH][s][b], STARPU_RW);
		if (!last)
			add(task, each[GRADIENT][s][b], STARPU_R);
		if (s)
			add(task, each[GRADIENT][s - 1][b], STARPU_W);
		add(task, sums[s], b ? STARPU_RW : STARPU_W);
	}
	if (cap)
		add(task, each[TOKEN][s][b % cap], STARPU_W);
	return submit_by_hand(task, jobs->compute[j]);
}

static int submit_update(const struct orr_jobs *jobs, int s)
{
	struct starpu_task *task = starpu_task_create();

	add(task, parameters[s], STARPU_RW);
	add(task, sums[s], STARPU_R);
	return submit_by_hand(task, jobs->owners[s]);
}

static double run_by_hand(const struct orr_jobs *jobs, const int *sequence)
{
	struct starpu_conf conf;
	int64_t start = 0;
	double result;
	int failed = 0;

	memset(order, 0, sizeof(order));
	starpu_conf_init(&conf);
	conf.sched_policy_name = "eager";
	conf.ncpus = N_WORKERS;
	conf.ncuda = conf.nopencl = 0;
	if (starpu_init(&conf))
		return -1;
	starpu_idle_hook_register(give_way, NULL);
	for_handles(true);
	for (int k = -3; k < N_STEPS && !failed; k++) {
		if (!k) {
			starpu_task_wait_for_all();
			start = orr_clock_ns();
		}
		starpu_task_wait_for_n_submitted((unsigned)(jobs->n_jobs + N_STAGES));
		for (int i = 0; i < jobs->n_jobs && !failed; i++)
			failed = submit_job(jobs, sequence[i]);
		for (int s = 0; s < N_STAGES && !failed; s++)
			failed = submit_update(jobs, s);
	}
	starpu_task_wait_for_all();
	result = failed ? -1 : per_job_us(jobs, start);
	for_handles(false);
	starpu_shutdown();
	return result;
}

/* ---- rounds ---- */

enum { ENGINE, PINNED, BY_HAND, EAGER, LWS, FREEING, PINNED_FREEING, N_VARIANTS };
static const char *const names[N_VARIANTS] = {
	"engine", "pinned", "pinned, by hand", "eager", "lws", "engine, freeing", "pinned, freeing",
};

static double run_variant(int variant, const struct orr_jobs *jobs, const int *sequence)
{
	switch (variant) {
	case ENGINE:
		return run_engine(jobs, NULL, INT64_MAX);
	case PINNED:
		return run_engine(jobs, "pinned", INT64_MAX);
	case BY_HAND:
		return run_by_hand(jobs, sequence);
	case EAGER:
		return run_engine(jobs, "eager", INT64_MAX);
	case LWS:
		return run_engine(jobs, "lws", INT64_MAX);
	case FREEING:
		return run_engine(jobs, NULL, 0);
	default:
		return run_engine(jobs, "pinned", 0);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *unsorted, int n)
{
	double sorted[N_ROUNDS];

	memcpy(sorted, unsorted, (size_t)n * sizeof(*sorted));
	qsort(sorted, (size_t)n, sizeof(*sorted), compare);
	return sorted[n / 2];
}

static double ratio(double times[][N_ROUNDS], int a, int b)
{
	double ratios[N_ROUNDS];

	for (int i = 0; i < N_ROUNDS; i++)
		ratios[i] = times[a][i] / times[b][i];
	return median(ratios, N_ROUNDS);
}

static void report(const char *schedule, double times[][N_ROUNDS])
{
	for (int v = 0; v < N_VARIANTS; v++) {
		double least = times[v][0];

		for (int i = 1; i < N_ROUNDS; i++)
			least = times[v][i] < least ? times[v][i] : least;
		printf("%-6s %-16s %6.2f us per job, %.2f at best\n", schedule, names[v],
		       median(times[v], N_ROUNDS), least);
	}
	printf("%-6s engine / pinned %.2f, engine / pinned by hand %.2f, freeing: engine / pinned "
	       "%.2f\n",
	       schedule, ratio(times, ENGINE, PINNED), ratio(times, ENGINE, BY_HAND),
	       ratio(times, FREEING, PINNED_FREEING));
}

static int bench(const char *schedule, struct orr_error *err)
{
	struct orr_machine machine = orr_machine_default(N_WORKERS);
	struct orr_choice choice = {0};
	struct orr_graph *graph = NULL;
	struct orr_pipeline *pipeline = NULL;
	struct orr_jobs *jobs = NULL;
	static double times[N_VARIANTS][N_ROUNDS];
	int *sequence = NULL, code;

	if ((code = orr_graph_parse(&graph, "chain", model, err)) ||
	    (code = orr_partition(&pipeline, graph, &machine, 0, 1, err)) ||
	    (code = orr_pipeline_set_step(pipeline, N_WORKERS, N_MICROBATCHES, err)) ||
	    (code = orr_choice_init(&choice, schedule, err)) ||
	    (code = orr_jobs_create(&jobs, pipeline, &choice.schedule, err)))
		goto out;
	sequence = calloc((size_t)jobs->n_jobs, sizeof(*sequence));
	code = sequence ? orr_jobs_sequence(jobs, sequence, err)
			: orr_fail(err, ORR_E_NOMEM, "no memory");
	for (int i = 0; i < N_ROUNDS && !code; i++)
		for (int v = 0; v < N_VARIANTS; v++)
			if ((times[v][i] = run_variant(v, jobs, sequence)) < 0)
				code = orr_fail(err, ORR_E_RUNTIME, "%s failed", names[v]);
	if (!code)
		report(schedule, times);
out:
	free(sequence);
	orr_jobs_destroy(jobs);
	orr_choice_fini(&choice);
	orr_pipeline_destroy(pipeline);
	orr_graph_destroy(graph);
	return code;
}

int main(void)
{
	struct orr_error err = {""};
	int code = bench("1f1b", &err);

	if (!code)
		code = bench("gpipe", &err);
	if (code)
		(void)fprintf(stderr, "bench_engine: %s\n", err.msg);
	return code ? 1 : 0;
}
