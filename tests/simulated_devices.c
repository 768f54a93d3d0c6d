/* Trains a model on devices that SimGrid simulates, under a StarPU built for it, and writes when
 * the jobs of the last step ran. The runtime is the real one; the tasks take as long as the
 * pipeline says. StarPU finds the devices and their links where STARPU_PERF_MODEL_DIR says.
 *
 *     simulated_devices MODEL SCHEDULE BYTES_PER_S MICROBATCHES PREFETCH
 *
 * writes "makespan copies bytes" of the last step, copies being those from device to device, and
 * then "start end" of every job, all in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/codelets.h"
#include "orrery/graph.h"
#include "orrery/run.h"
#include "runtime/devices/devices.h"
#include "orrery/timeline.h"
#include "simulated_model.h"

#define N_STEPS 3 /* the first has its parameters in main memory, the second makes room */
#define N_ROWS 100
#define N_COLUMNS 1024
#define LITTLE_US 1e-3 /* tasks that only add; none may take no time at all */

static const struct orr_jobs *priced; /* whose jobs the tasks are */

/* ---- how long tasks take ---- */

static double job_us(struct starpu_task *task, unsigned worker, unsigned number)
{
	const struct orr_codelet_arg *arg = task->cl_arg;

	(void)worker, (void)number;
	return arg->job < 0 ? LITTLE_US : (double)priced->duration_ns[arg->job] / 1e3 + LITTLE_US;
}

/* All stages have updates of one length. */
static double update_us(struct starpu_task *task, unsigned worker, unsigned number)
{
	(void)task, (void)worker, (void)number;
	return (double)orr_jobs_update_ns(priced, 0, priced->owners[0]) / 1e3 + LITTLE_US;
}

static struct starpu_perfmodel job_model = {
	.type = STARPU_PER_WORKER, .symbol = "job", .worker_cost_function = job_us};
static struct starpu_perfmodel update_model = {
	.type = STARPU_PER_WORKER, .symbol = "update", .worker_cost_function = update_us};

/* ---- a run ---- */

static int make_data(struct orr_dataset *data, struct orr_error *err)
{
	data->n_rows = data->n_train = N_ROWS;
	data->n_columns = N_COLUMNS;
	data->values = calloc((size_t)N_ROWS * N_COLUMNS, sizeof(float));
	data->train = calloc(N_ROWS, sizeof(*data->train));
	if (!data->values || !data->train)
		return orr_fail(err, ORR_E_NOMEM, "no memory for the data");
	for (int64_t r = 0; r < N_ROWS; r++)
		data->train[r] = r;
	return 0;
}

/* Copies from device to device since the run began. */
static void count_copies(const struct orr_run *run, int64_t *n, int64_t *bytes)
{
	struct orr_moved moved[(SIMULATED_DEVICES + 1) * (SIMULATED_DEVICES + 1)];
	int n_moved = orr_run_moved(run, moved, (int)(sizeof(moved) / sizeof(*moved)));

	*n = *bytes = 0;
	for (int i = 0; i < n_moved; i++)
		if (!strncmp(moved[i].from, "CUDA", 4) && !strncmp(moved[i].to, "CUDA", 4)) {
			*n += moved[i].n;
			*bytes += moved[i].bytes;
		}
}

/* Steps one after another, each on an empty pipeline. */
static int train(struct orr_run *run, int64_t *n, int64_t *bytes, struct orr_error *err)
{
	int64_t n_before = 0, bytes_before = 0;
	int code = 0;

	*n = *bytes = 0;
	for (int i = 0; i < N_STEPS && !code; i++) {
		n_before = *n;
		bytes_before = *bytes;
		code = orr_run_train(run, 1, NULL, NULL, err);
		count_copies(run, n, bytes);
	}
	*n -= n_before;
	*bytes -= bytes_before;
	return code;
}

static int run_jobs(const struct orr_jobs *jobs, int prefetch, struct orr_error *err)
{
	struct orr_run_options options = orr_run_options_default();
	const struct orr_timeline *t;
	struct orr_dataset data = {0};
	struct orr_run *run = NULL;
	int64_t n, bytes;
	int code;

	options.batch = SIMULATED_SAMPLES * jobs->pipeline->n_microbatches;
	options.prefetch = prefetch;
	options.hardware = ORR_HARDWARE_CUDA;
	priced = jobs;
	for (size_t i = 0; i < sizeof(orr_codelets) / sizeof(*orr_codelets); i++)
		orr_codelets[i].model = i == ORR_CODELET_UPDATE ? &update_model : &job_model;
	if ((code = make_data(&data, err)) ||
	    (code = orr_run_create(&run, jobs, &data, &options, err)) ||
	    (code = train(run, &n, &bytes, err)))
		return code;
	t = orr_run_timeline(run);
	if ((code = orr_timeline_check(t, err)))
		return code;
	printf("%lld %lld %lld\n", (long long)orr_timeline_makespan(t), (long long)n,
	       (long long)bytes);
	for (int j = 0; j < jobs->n_jobs; j++)
		printf("%lld %lld\n", (long long)t->start_ns[j], (long long)t->end_ns[j]);
	orr_run_destroy(run);
	free(data.values);
	free(data.train);
	return 0;
}

/* text: of size bytes. */
static int read_text(char *text, size_t size, const char *path, struct orr_error *err)
{
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(text, 1, size - 1, file) : 0;

	text[n] = '\0';
	if (file)
		fclose(file);
	return n ? 0 : orr_fail(err, ORR_E_INPUT, "%s cannot be read", path);
}

int main(int argc, char **argv); /* starpu.h makes starpu_main of it, which StarPU's main calls */

int main(int argc, char **argv)
{
	static char text[65536];
	struct simulated_model model = {0};
	struct orr_error err = {""};
	int code;

	if (argc != 6)
		return 2;
	if ((code = read_text(text, sizeof(text), argv[1], &err)) ||
	    (code = simulated_model_init(&model, text, argv[2], atof(argv[3]), atoi(argv[4]),
					 atoi(argv[5]), &err)) ||
	    (code = run_jobs(model.jobs, atoi(argv[5]), &err)))
		fprintf(stderr, "%s\n", err.msg);
	simulated_model_fini(&model);
	return code ? 1 : 0;
}
