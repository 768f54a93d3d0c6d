/* The runtime on 8 devices that SimGrid simulates, beside the simulator of this project: two
 * independent ones of the same links. Usage: test_simgrid PROGRAM FOLDER, PROGRAM being
 * simulated_devices and FOLDER one for the platform's files. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "orrery/timeline.h"
#include "platform.h"
#include "simulated_model.h"
#include "suite.h"

#define FEATURES 256
#define MOST_JOBS 4096

static const char *program, *folder;

/* ---- models of equal stages, each one linear operator ---- */

struct text {
	char at[32768];
	size_t n;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text->n += (size_t)vsnprintf(text->at + text->n, sizeof(text->at) - text->n, format,
				     arguments);
	va_end(arguments);
	ck_assert_uint_lt(text->n, sizeof(text->at));
}

/* Stages from first to below end, one after another, behind the operator `before`. */
static void add_chain(struct text *text, int first, int end, const char *before)
{
	add(text, "%s", before);
	for (int s = first; s < end; s++)
		add(text, " -> l%d", s);
	add(text, ";\n");
}

/* Towers of the given lengths (ends with 0), joined by a trunk; uneven: not all passes take the
 * same time. */
static void write_model(struct text *text, const int *towers, int n_stages, int uneven)
{
	int s = 0;

	text->n = 0;
	add(text, "digraph model {\n");
	for (int k = 0; k < n_stages; k++)
		add(text,
		    "l%d [op=linear features=%d stage=%d forward=\"%dms\" backward=\"%dms\" "
		    "weight=\"%dms\" update=\"1ms\"];\n",
		    k, FEATURES, k, 10 + k * uneven % 5, 10 + k * uneven % 7, 10 - k * uneven % 3);
	add(text,
	    "y [op=input columns=\"0:%d\"]; loss [op=mse stage=%d]; l%d -> loss; y -> loss;\n",
	    FEATURES, n_stages - 1, n_stages - 1);
	for (int i = 0; towers[i]; s += towers[i++])
		;
	if (s)
		add(text, "join [op=add stage=%d];\n", s);
	else
		add(text, "join [op=input columns=\"0:%d\"];\n", FEATURES);
	add_chain(text, s, n_stages, "join");
	s = 0;
	for (int i = 0; towers[i]; s += towers[i++]) {
		add(text, "x%d [op=input columns=\"%d:%d\"];\n", i, i * FEATURES,
		    (i + 1) * FEATURES);
		add(text, "x%d", i);
		add_chain(text, s, s + towers[i], "");
		add(text, "l%d -> join;\n", s + towers[i] - 1);
	}
	add(text, "}\n");
}

/* ---- a step in both ---- */

struct step {
	struct text text;
	struct simulated_model model;
	struct orr_timeline *expected; /* the simulator's */
	long long start_ns[MOST_JOBS], end_ns[MOST_JOBS];
	long long makespan_ns, n_copies, bytes; /* from device to device */
};

static void train(struct step *step, const char *schedule, double bytes_per_s, int n_microbatches,
		  int prefetch)
{
	char path[512], command[2048];
	FILE *file, *output;

	platform_write(folder, bytes_per_s, SIMULATED_LATENCY_NS / 1e9);
	snprintf(path, sizeof(path), "%s/model.dot", folder);
	file = fopen(path, "w");
	ck_assert_msg(file != NULL, "%s cannot be written", path);
	fputs(step->text.at, file);
	fclose(file);
	snprintf(command, sizeof(command), "'%s' '%s' '%s' %.17g %d %d --log=root.thresh:warning",
		 program, path, schedule, bytes_per_s, n_microbatches, prefetch);
	output = popen(command, "r");
	ck_assert_ptr_nonnull(output);
	ck_assert_msg(fscanf(output, "%lld %lld %lld", &step->makespan_ns, &step->n_copies,
			     &step->bytes) == 3,
		      "no step of %s", command);
	for (int j = 0; j < step->model.jobs->n_jobs; j++)
		ck_assert_int_eq(fscanf(output, "%lld %lld", &step->start_ns[j], &step->end_ns[j]),
				 2);
	ck_assert_msg(!pclose(output), "%s fails", command);
}

static void step_init(struct step *step, const char *schedule, double bytes_per_s,
		      int n_microbatches, int prefetch)
{
	struct orr_error err = {""};

	ck_assert_msg(!simulated_model_init(&step->model, step->text.at, schedule, bytes_per_s,
					    n_microbatches, prefetch, &err) &&
			      !orr_simulate(&step->expected, step->model.jobs, &err),
		      "%s: %s", schedule, err.msg);
	ck_assert_int_le(step->model.jobs->n_jobs, MOST_JOBS);
	train(step, schedule, bytes_per_s, n_microbatches, prefetch);
}

static void step_fini(struct step *step)
{
	orr_timeline_destroy(step->expected);
	simulated_model_fini(&step->model);
}

/* ---- the same order, and nearly the same times ---- */

/* Two simulators of the same links differ in this: StarPU copies to a device one thing at a time,
 * whatever the links, and copies what a job reads when nothing else keeps that job from running,
 * such as a cap or the job before it that adds to the same gradient. */
#define LATER 0.03
#define EARLIER 0.0005

/* Links on which what moves takes half a millisecond; a pass takes ten. */
static const struct {
	int towers[3], n_stages, uneven;
	const char *schedule;
	double bytes_per_s;
	int n_microbatches;
} cases[] = {
	{{0}, 8, 0, "1f1b", 8e6, 16},         {{0}, 8, 0, "gpipe", 8e6, 16},
	{{0}, 8, 0, "zb-h1", 8e6, 16},        {{0}, 8, 0, "zb-2p", 8e6, 16},
	{{0}, 8, 0, "1f1b-r", 8e6, 16},       {{0}, 8, 1, "1f1b", 8e6, 16},
	{{0}, 16, 0, "interleaved", 8e6, 16}, {{0}, 16, 3, "interleaved", 8e6, 16},
	{{0}, 16, 0, "v-half", 8e6, 16},      {{0}, 8, 0, "fsdp", 5e8, 8},
	{{0}, 8, 2, "fsdp", 5e8, 16},         {{0}, 8, 0, "fslpp:G=2,R=4", 5e8, 8},
	{{3, 3}, 8, 0, "1f1b", 8e6, 16},      {{3, 3}, 8, 0, "zb-h1", 8e6, 16},
	{{3, 3}, 8, 0, "gpipe", 8e6, 16},     {{4, 2}, 8, 0, "zb-2p", 8e6, 16},
	{{4, 2}, 8, 2, "1f1b", 8e6, 16},      {{4, 2}, 8, 3, "zb-h1", 8e6, 16},
};

/* The job of worker w that starts next at from or later; -1: none. */
static int next_job(const struct orr_jobs *jobs, const long long *start_ns, int w, long long from)
{
	int next = -1;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		if (start_ns[j] >= from && (next < 0 || start_ns[j] < start_ns[next]))
			next = j;
	}
	return next;
}

static void check_order(const struct step *step, const char *name)
{
	const struct orr_jobs *jobs = step->model.jobs;
	static long long expected[MOST_JOBS];

	for (int j = 0; j < jobs->n_jobs; j++)
		expected[j] = step->expected->start_ns[j];
	for (int w = 0; w < SIMULATED_DEVICES; w++) {
		long long here = 0, there = 0;

		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int j = next_job(jobs, expected, w, here);
			int k = next_job(jobs, step->start_ns, w, there);

			ck_assert_msg(j >= 0 && j == k,
				      "%s: worker %d, place %d: %d here, %d there", name, w,
				      i - jobs->first[w], j, k);
			here = expected[j] + 1;
			there = step->start_ns[j] + 1;
		}
	}
}

/* The largest difference of a start, in ns. */
static double largest_shift(const struct step *step)
{
	double most = 0;

	for (int j = 0; j < step->model.jobs->n_jobs; j++) {
		double shift = (double)(step->start_ns[j] - step->expected->start_ns[j]);

		shift = orr_jobs_has(step->model.jobs, j) ? shift : 0;
		most = shift > most ? shift : -shift > most ? -shift : most;
	}
	return most;
}

/* Activations and their gradients move as often in both. Parameters stay on a device for more jobs
 * than one, so they move as often or less. */
static void check_copies(const struct step *step, const char *name)
{
	long long n = 0, bytes = 0;
	bool fetches = false;

	for (int i = 0; i < step->expected->n_transfers; i++) {
		const struct orr_transfer *t = &step->expected->transfers[i];

		fetches |= t->kind == ORR_TRANSFER_PARAMETER;
		n++;
		bytes += t->bytes;
	}
	if (fetches)
		ck_assert_msg(step->n_copies > 0 && step->n_copies <= n && step->bytes <= bytes,
			      "%s: %lld copies of %lld bytes here, %lld of %lld there", name, n,
			      bytes, step->n_copies, step->bytes);
	else
		ck_assert_msg(step->n_copies == n && step->bytes == bytes,
			      "%s: %lld copies of %lld bytes here, %lld of %lld there", name, n,
			      bytes, step->n_copies, step->bytes);
}

/* Nothing is measured. */
static void check_again(const struct step *step, int i)
{
	static struct step again;

	memcpy(&again.text, &step->text, sizeof(again.text));
	step_init(&again, cases[i].schedule, cases[i].bytes_per_s, cases[i].n_microbatches, 2);
	ck_assert_msg(!memcmp(step->start_ns, again.start_ns, sizeof(again.start_ns)) &&
			      !memcmp(step->end_ns, again.end_ns, sizeof(again.end_ns)) &&
			      step->makespan_ns == again.makespan_ns,
		      "%s: another time is another step", cases[i].schedule);
	step_fini(&again);
}

START_TEST(agree)
{
	static struct step step;
	const char *name = cases[_i].schedule;
	double expected, off;

	write_model(&step.text, cases[_i].towers, cases[_i].n_stages, cases[_i].uneven);
	step_init(&step, name, cases[_i].bytes_per_s, cases[_i].n_microbatches, 2);
	expected = (double)orr_timeline_makespan(step.expected);
	off = (double)step.makespan_ns / expected - 1;
	printf("%-13s %s of %2d: %8.3f ms here, %8.3f ms by StarPU, %+.2f%%; starts differ by "
	       "%.3f ms at most\n",
	       name, *cases[_i].towers ? "towers" : "chain ", cases[_i].n_stages, expected / 1e6,
	       (double)step.makespan_ns / 1e6, 100 * off, largest_shift(&step) / 1e6);
	check_order(&step, name);
	check_copies(&step, name);
	ck_assert_msg(off >= -EARLIER && off <= LATER, "%s: %+.2f%%", name, 100 * off);
	ck_assert_msg(largest_shift(&step) <= LATER * expected, "%s: %.3f ms", name,
		      largest_shift(&step) / 1e6);
	if (_i % 3 == 0)
		check_again(&step, _i);
	step_fini(&step);
}
END_TEST

/* ---- parameters move while the job before runs ---- */

/* Time in which worker w waits between its jobs. */
static long long idle_ns(const struct step *step, int w)
{
	const struct orr_jobs *jobs = step->model.jobs;
	long long idle = 0;

	for (int i = jobs->first[w]; i + 1 < jobs->first[w + 1]; i++)
		idle += step->start_ns[jobs->by_worker[i + 1]] - step->end_ns[jobs->by_worker[i]];
	return idle;
}

/* When its last job ends. */
static long long last_end(const struct step *step)
{
	long long last = 0;

	for (int j = 0; j < step->model.jobs->n_jobs; j++)
		last = step->end_ns[j] > last ? step->end_ns[j] : last;
	return last;
}

/* A microbatch a worker: each of its jobs is ready when the one before it has ended, and reads
 * parameters that are on another device, but those of one stage. Nothing else moves but gradients,
 * for which no job waits. So without look-ahead a job waits for the whole transfer, with it less
 * than one transfer is to be seen in all. */
START_TEST(prefetch_overlaps)
{
	static struct step with, without;
	static const int none[] = {0};
	double bytes_per_s = 1e8, transfer_ns;
	int n_stages = 8;

	write_model(&with.text, none, n_stages, 0);
	memcpy(&without.text, &with.text, sizeof(with.text));
	step_init(&with, "fsdp", bytes_per_s, SIMULATED_DEVICES, 1);
	step_init(&without, "fsdp", bytes_per_s, SIMULATED_DEVICES, 0);
	transfer_ns = (double)with.model.pipeline->stages[0].parameter_bytes / bytes_per_s * 1e9 +
		      SIMULATED_LATENCY_NS;
	for (int w = 0; w < SIMULATED_DEVICES; w++) {
		/* neither those of its own stage, nor those for its first job, which wait anyway */
		int n_hidden = n_stages - 1 - (w > 0);

		printf("fsdp, worker %d waits %6.3f ms between its jobs with look-ahead, %6.3f ms "
		       "without; %d transfers take %6.3f ms\n",
		       w, (double)idle_ns(&with, w) / 1e6, (double)idle_ns(&without, w) / 1e6,
		       n_hidden, n_hidden * transfer_ns / 1e6);
		ck_assert((double)idle_ns(&with, w) < transfer_ns);
		ck_assert((double)idle_ns(&without, w) > 0.99 * n_hidden * transfer_ns);
	}
	ck_assert((double)(last_end(&without) - last_end(&with)) > (n_stages - 3) * transfer_ns);
	ck_assert_int_lt(with.makespan_ns, without.makespan_ns);
	step_fini(&without);
	step_fini(&with);
}
END_TEST

int main(int argc, char **argv)
{
	const struct suite_test tests[] = {
		EACH(agree, N_OF(cases)),
		ONCE(prefetch_overlaps),
	};

	if (argc != 3)
		return 2;
	program = argv[1];
	folder = argv[2];
	return suite_run("simgrid", tests, N_OF(tests));
}
