#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "base/max.h"
#include "base/sort.h"
#include "orrery/timeline.h"

const char *const orr_kind_names[] = {"forward", "backward", "weight gradient", "update"};

static int compare_cells(const void *left, const void *right)
{
	const struct orr_cell *l = left, *r = right;
	const int64_t x[] = {l->w, l->start_ns, l->end_ns, l->b, l->s, (int64_t)l->kind};
	const int64_t y[] = {r->w, r->start_ns, r->end_ns, r->b, r->s, (int64_t)r->kind};
	int i = 0;

	while (i < 5 && x[i] == y[i])
		i++;
	return orr_compare_numbers(&x[i], &y[i]);
}

static bool has_run(const struct orr_timeline *t, int j)
{
	return t->start_ns[j] >= 0 && t->end_ns[j] >= 0;
}

static void measure(struct orr_layout *layout)
{
	const struct orr_timeline *t = layout->timeline;
	int64_t low = INT64_MAX, high = INT64_MIN;

	for (int j = 0; j < t->jobs->n_jobs; j++) {
		if (!has_run(t, j))
			continue;
		low = smaller(low, t->start_ns[j]);
		high = larger(high, t->end_ns[j]);
	}
	for (int i = 0; i < t->n_updates; i++) {
		low = smaller(low, t->updates[i].start_ns);
		high = larger(high, t->updates[i].end_ns);
	}
	layout->origin_ns = low <= high ? low : 0;
	layout->span_ns = low <= high ? high - low : 0;
}

static void choose_unit(struct orr_layout *layout)
{
	static const struct {
		int64_t ns;
		const char *name;
	} units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
	int i = 0;

	if (layout->timeline->jobs->pipeline->units) {
		layout->unit = "units";
		layout->unit_ns = ORR_UNIT_NS;
		return;
	}
	while (units[i].ns > 1 && layout->span_ns < units[i].ns)
		i++;
	layout->unit = units[i].name;
	layout->unit_ns = units[i].ns;
}

static void add(struct orr_layout *layout, struct orr_cell cell)
{
	cell.start_ns -= layout->origin_ns;
	cell.end_ns -= layout->origin_ns;
	layout->cells[layout->n_cells++] = cell;
	layout->n_kind[cell.kind]++;
}

static void fill(struct orr_layout *layout)
{
	const struct orr_timeline *t = layout->timeline;
	const struct orr_jobs *jobs = t->jobs;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);

		for (int k = 0; has_run(t, j) && k < orr_jobs_n_at(jobs, j); k++)
			add(layout, (struct orr_cell){t->start_ns[j], t->end_ns[j],
						      orr_jobs_worker(jobs, j, k), job.s, job.b,
						      (enum orr_kind)job.d});
	}
	for (const struct orr_update *u = t->updates; u < t->updates + t->n_updates; u++)
		add(layout,
		    (struct orr_cell){u->start_ns, u->end_ns, u->w, u->s, -1, ORR_KIND_UPDATE});
	qsort(layout->cells, (size_t)layout->n_cells, sizeof(*layout->cells), compare_cells);
	for (int i = 0; i < layout->n_cells; i++)
		layout->first[layout->cells[i].w + 1]++;
	for (int w = 0; w < layout->n_workers; w++)
		layout->first[w + 1] += layout->first[w];
}

static void measure_labels(struct orr_layout *layout)
{
	double total[ORR_N_KINDS] = {0};

	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];

		total[cell->kind] += (double)(cell->end_ns - cell->start_ns);
		layout->last_s = cell->s > layout->last_s ? cell->s : layout->last_s;
		layout->last_b = cell->b > layout->last_b ? cell->b : layout->last_b;
	}
	for (int kind = 0; kind <= ORR_KIND_W; kind++) {
		double mean = total[kind] > 0 ? total[kind] / (double)layout->n_kind[kind] : 0;

		if (mean > 0 && (layout->shortest_ns <= 0 || mean < layout->shortest_ns))
			layout->shortest_ns = mean;
	}
}

/* The most stages on one worker; seen holds one int per stage. */
static int count_stages(const struct orr_layout *layout, int *seen)
{
	int most = 0;

	for (int w = 0; w < layout->n_workers; w++) {
		int n = 0;

		for (int i = layout->first[w]; i < layout->first[w + 1]; i++)
			if (seen[layout->cells[i].s] != w + 1) {
				seen[layout->cells[i].s] = w + 1;
				n++;
			}
		most = n > most ? n : most;
	}
	return most;
}

int orr_layout_create(struct orr_layout **out, const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	struct orr_layout *layout = calloc(1, sizeof(*layout));
	int *seen = calloc((size_t)p->n_stages, sizeof(*seen));
	int code = 0, n = t->n_updates;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		n += has_run(t, j) ? orr_jobs_n_at(t->jobs, j) : 0;
	if (!layout || !seen ||
	    !(layout->first = calloc((size_t)p->n_workers + 1, sizeof(*layout->first))) ||
	    !(layout->cells = malloc(((size_t)n + 1) * sizeof(*layout->cells)))) {
		code = orr_fail(err, ORR_E_NOMEM, "drawing: no memory for %d jobs", n);
		goto out;
	}
	layout->timeline = t;
	layout->n_workers = p->n_workers;
	measure(layout);
	choose_unit(layout);
	fill(layout);
	measure_labels(layout);
	layout->most_stages = count_stages(layout, seen);
	*out = layout;
	layout = NULL;
out:
	free(seen);
	orr_layout_destroy(layout);
	return code;
}

void orr_layout_destroy(struct orr_layout *layout)
{
	if (!layout)
		return;
	free(layout->cells);
	free(layout->first);
	free(layout);
}

int64_t orr_layout_tick_ns(const struct orr_layout *layout, int n)
{
	int64_t tick = 1;

	/* 1, 2, 5, 10, ...: the factor is 2.5 only from 2 to 5 */
	for (int i = 0; layout->span_ns / tick > n && tick < INT64_MAX / 5; i++)
		tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
	return tick;
}

const char *orr_layout_tick_print(const struct orr_layout *layout, char *buffer, size_t size,
				  int64_t time_ns)
{
	(void)snprintf(buffer, size, "%.12g", (double)time_ns / (double)layout->unit_ns);
	return buffer;
}

const char *orr_cell_print(char *buffer, size_t size, const struct orr_cell *cell)
{
	if (cell->kind == ORR_KIND_UPDATE)
		(void)snprintf(buffer, size, "%dU", cell->s);
	else
		(void)snprintf(buffer, size, "%d%c%d", cell->s, "FBW"[cell->kind], cell -> b);
	return buffer;
}

int orr_layout_finish(FILE *file, const char *what, struct orr_error *err)
{
	if (fflush(file) || ferror(file))
		return orr_fail(err, ORR_E_IO, "%s: could not be written: %s", what,
				errno ? strerror(errno) : "the device took only part of it");
	return 0;
}
