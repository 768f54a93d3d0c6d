/* Timeline -> schedule CSV. */
#include "open/exchange.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "base/arrays.h"
#include "base/max.h"
#include "layout.h"
#include "orrery/timeline.h"

#define MOST_STEPS 10 /* of a job, where cells are steps */

/* What all starts and durations are multiples of; 0 where that is too small to line up by. */
static int64_t find_step_ns(const struct orr_timeline *t, int64_t first_ns)
{
	int64_t step = 0, longest = 0;

	for (int j = 0; j < t->jobs->n_jobs; j++) {
		int64_t duration = t->end_ns[j] - t->start_ns[j];

		if (!orr_jobs_has(t->jobs, j))
			continue;
		if (!duration)
			return 0;
		longest = duration > longest ? duration : longest;
		step = common_divisor(common_divisor(t->start_ns[j] - first_ns, duration), step);
	}
	return longest / step > MOST_STEPS ? 0 : step;
}

struct entry {
	int64_t start_ns, end_ns;
	int place; /* in an order that keeps every dependency: jobs that take no time need one */
	int j;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* The jobs of each worker, in the order in which they ran: entries[first[w]] on. */
static void order_jobs(struct entry *entries, const struct orr_timeline *t, const int *sequence,
		       int *place)
{
	const struct orr_jobs *jobs = t->jobs;

	for (int i = 0; i < jobs->n_jobs; i++)
		place[sequence[i]] = i;
	for (int i = 0; i < jobs->first[jobs->pipeline->n_workers]; i++) {
		int j = jobs->by_worker[i];

		entries[i] = (struct entry){t->start_ns[j], t->end_ns[j], place[j], j};
	}
	for (int w = 0; w < jobs->pipeline->n_workers && jobs->order == ORR_ORDER_GREEDY; w++)
		qsort(entries + jobs->first[w], (size_t)(jobs->first[w + 1] - jobs->first[w]),
		      sizeof(*entries), compare_entries);
}

/* The place of every job in one order of all, by start. */
static void place_all(int *place, struct entry *sorted, const struct entry *entries, size_t n)
{
	memcpy(sorted, entries, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_entries);
	for (size_t i = 0; i < n; i++)
		place[sorted[i].j] = (int)i;
}

static void write_job(FILE *file, const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	char letter = orr_pass_letter(job.d);

	fprintf(file, "%d%c%d", job.s, letter == 'B' && jobs->n_passes == 3 ? 'I' : letter, job.b);
}

/* A job on several workers is in the row of the first. place: the cells where one order of all jobs
 * says it for the others; or NULL. n_cells: in a row, where cells are steps. */
static void write_row(FILE *file, const struct orr_jobs *jobs, const struct entry *entry, int w,
		      const int *place, int64_t first_ns, int64_t step_ns, int64_t n_cells)
{
	int64_t at = 0; /* cells that have been begun */
	int n = 0;

	for (int i = 0; i < jobs->first[w + 1] - jobs->first[w]; i++) {
		int64_t cell = step_ns ? (entry[i].start_ns - first_ns) / step_ns
			       : place ? place[entry[i].j]
				       : n;

		if (jobs->compute[entry[i].j] != w)
			continue;
		n++;
		for (; at < cell + 1; at++)
			if (at)
				fputc(',', file);
		write_job(file, jobs, entry[i].j);
	}
	/* a row without a comma, and without a job, would be no row */
	for (n_cells = n_cells < 2 && !n ? 2 : n_cells; at < n_cells; at++)
		if (at)
			fputc(',', file);
	fputc('\n', file);
}

static int write(FILE *file, const struct orr_timeline *t, bool stepped, struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const bool gangs = orr_pipeline_has_gangs(jobs->pipeline);
	int64_t first_ns = INT64_MAX, last_ns = 0, step_ns, n_cells = 0;
	size_t n = (size_t)jobs->first[jobs->pipeline->n_workers];
	struct orr_arrays all = {0};
	struct entry *entries = orr_arrays_add(&all, n + 1, sizeof(*entries));
	struct entry *sorted = orr_arrays_add(&all, n + 1, sizeof(*sorted));
	int *sequence = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*sequence));
	int *place = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*place)), code;

	for (int j = 0; j < jobs->n_jobs; j++) {
		if (!orr_jobs_has(jobs, j))
			continue;
		first_ns = smaller(first_ns, t->start_ns[j]);
		last_ns = larger(last_ns, t->end_ns[j]);
	}
	if ((code = orr_arrays_check(&all, "schedule", err)) ||
	    (code = orr_jobs_sequence(jobs, sequence, err)))
		goto out;
	order_jobs(entries, t, sequence, place);
	step_ns = stepped ? find_step_ns(t, first_ns) : 0;
	if (step_ns)
		n_cells = (last_ns - first_ns) / step_ns;
	if (gangs)
		place_all(place, sorted, entries, n);
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		write_row(file, jobs, entries + jobs->first[w], w, gangs ? place : NULL, first_ns,
			  step_ns, n_cells);
	code = orr_layout_finish(file, "schedule", err);
out:
	orr_arrays_free(&all);
	return code;
}

/* Of a graph that was split, when the stages before were computed: from the first to the last of
 * their parts. What a schedule says is the order of those, on groups. */
static int write_whole(FILE *file, const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_split *split = t->jobs->pipeline->split;
	struct orr_jobs whole = *t->jobs->groups->jobs; /* its arrays are borrowed */
	size_t n = (size_t)whole.n_jobs;
	struct orr_arrays all = {0};
	struct orr_timeline joined = {.jobs = &whole};
	int code;

	joined.start_ns = orr_arrays_add(&all, n, sizeof(int64_t));
	joined.end_ns = orr_arrays_add(&all, n, sizeof(int64_t));
	if ((code = orr_arrays_check(&all, "schedule", err)))
		return code;
	if (t->jobs->order == ORR_ORDER_GREEDY)
		whole.order = ORR_ORDER_GREEDY; /* as it ran */
	for (size_t j = 0; j < n; j++)
		joined.start_ns[j] = INT64_MAX;
	for (int j = 0; j < t->jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(t->jobs, j);
		int k = orr_jobs_index(&whole, split->stage[job.s], job.b, job.d);

		if (!orr_jobs_has(t->jobs, j))
			continue;
		joined.start_ns[k] = smaller(joined.start_ns[k], t->start_ns[j]);
		joined.end_ns[k] = larger(joined.end_ns[k], t->end_ns[j]);
	}
	code = write(file, &joined, false, err);
	orr_arrays_free(&all);
	return code;
}

int orr_exchange_write(FILE *file, const struct orr_timeline *t, struct orr_error *err)
{
	return t->jobs->groups ? write_whole(file, t, err) : write(file, t, true, err);
}
