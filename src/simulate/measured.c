#include "measured.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"

/* Longer than any step, and short enough that sums of such times stay exact. */
#define MOST_S 1e8

struct file {
	const char *path;
	const struct orr_jobs *jobs;
	struct orr_timeline *timeline;
	struct orr_error *err;
};

static int read_time(int64_t *time_ns, const struct file *file, int w, const json_t *worker,
		     const char *name, size_t i)
{
	const json_t *item = json_array_get(json_object_get(worker, name), i);
	double s = json_number_value(item);

	if (!json_is_number(item) || !(s >= 0 && s <= MOST_S))
		return orr_fail(
			file->err, ORR_E_INPUT,
			"%s: worker %d, %s %zu: give seconds from 0 to %g, one for each job",
			file->path, w, name, i, MOST_S);
	*time_ns = llround(1e9 * s);
	return 0;
}

static int read_job(const struct file *file, int w, const json_t *worker, size_t i)
{
	const json_t *order = json_object_get(worker, "order");
	int j = file->jobs->by_worker[file->jobs->first[w] + (int)i], code;
	const char *text = json_string_value(json_array_get(order, i));
	struct orr_job job = orr_jobs_at(file->jobs, j);
	char expected[48];

	(void)snprintf(expected, sizeof(expected), "%d%c%d", job.s, orr_pass_letter(job.d), job.b);
	if (!text || strcmp(text, expected) != 0)
		return orr_fail(file->err, ORR_E_INPUT,
				"%s: worker %d, job %zu is %.20s, and %s in the schedule: give the "
				"plan that was run",
				file->path, w, i, text ? text : "missing", expected);
	code = read_time(&file->timeline->start_ns[j], file, w, worker, "start", i);
	return code ? code : read_time(&file->timeline->end_ns[j], file, w, worker, "end", i);
}

static int read_worker(const struct file *file, int w, const json_t *worker)
{
	size_t n = (size_t)(file->jobs->first[w + 1] - file->jobs->first[w]),
	       n_there = json_array_size(json_object_get(worker, "order"));
	int code = 0;

	if (n_there > n)
		return orr_fail(file->err, ORR_E_INPUT,
				"%s: worker %d has %zu jobs, and %zu in the schedule: give the "
				"plan that was run",
				file->path, w, n_there, n);
	for (size_t i = 0; i < n && !code; i++)
		code = read_job(file, w, worker, i);
	return code;
}

/* A step of no length compares with nothing. */
static bool took_time(const struct orr_timeline *t)
{
	for (int j = 0; j < t->jobs->n_jobs; j++)
		if (t->end_ns[j] > t->start_ns[j])
			return true;
	return false;
}

static int read_workers(const struct file *file, const json_t *json)
{
	const json_t *workers = json_object_get(json, "worker");
	int n = file->jobs->pipeline->n_workers, code = 0;
	struct orr_error why;

	if (json_array_size(workers) != (size_t)n)
		return orr_fail(file->err, ORR_E_INPUT,
				"%s: the times of %zu workers, and the schedule has %d: give the "
				"plan that was run",
				file->path, json_array_size(workers), n);
	for (int w = 0; w < n && !code; w++)
		code = read_worker(file, w, json_array_get(workers, (size_t)w));
	if (!code && orr_timeline_check(file->timeline, &why))
		code = orr_fail(file->err, ORR_E_INPUT, "%s: %.200s", file->path, why.msg);
	if (!code && !took_time(file->timeline))
		code = orr_fail(file->err, ORR_E_INPUT,
				"%s: no job took any time: give the seconds of a step that ran",
				file->path);
	return code;
}

/* What a file of times cannot say. */
static int check(const struct orr_jobs *jobs, const char *path, struct orr_error *err)
{
	const char *what = jobs->versions          ? "a schedule that never flushes"
			   : jobs->most_at > 1     ? "jobs on several workers"
			   : jobs->pipeline->units ? "costs in units: give them in seconds"
						   : NULL;

	return what ? orr_fail(err, ORR_E_INPUT, "%s: not beside %s", path, what) : 0;
}

int orr_measured_read(struct orr_timeline **out, const struct orr_jobs *jobs, const char *path,
		      struct orr_error *err)
{
	struct file file = {.path = path, .jobs = jobs, .err = err};
	json_error_t why;
	json_t *json = NULL;
	char *text = NULL;
	int code = check(jobs, path, err);

	if (code || (code = orr_timeline_create(&file.timeline, jobs, err)))
		return code;
	file.timeline->measured = true;
	code = orr_input_read(&text, NULL, path, "a JSON of times of jobs", err);
	if (!code && !(json = json_loads(text, JSON_REJECT_DUPLICATES, &why)))
		code = orr_fail(err, ORR_E_INPUT, "%s:%d: no times of jobs: %.160s", path, why.line,
				why.text);
	if (!code && !(code = read_workers(&file, json))) {
		*out = file.timeline;
		file.timeline = NULL;
	}
	free(text);
	json_decref(json);
	orr_timeline_destroy(file.timeline);
	return code;
}
