#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "base/max.h"
#include "base/quantity.h"
#include "base/sort.h"
#include "base/utf8.h"
#include "orrery/timeline.h"
#include "pipeline/machine_text.h"

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

static void choose_unit(struct orr_layout *layout)
{
	static const struct {
		int64_t ns;
		const char *name;
	} units[] = {{1000000000, "s"}, {1000000, "ms"}, {1000, "us"}, {1, "ns"}};
	bool study = layout->timeline->jobs->pipeline->units;
	int i = 0;

	while (units[i].ns > 1 && layout->span_ns < units[i].ns)
		i++;
	layout->unit = study ? "units" : units[i].name;
	layout->unit_ns = study ? ORR_UNIT_NS : units[i].ns;
}

static void add(struct orr_layout *layout, struct orr_cell cell)
{
	layout->cells[layout->n_cells++] = cell;
	layout->n_kind[cell.kind]++;
	layout->first[cell.w + 1]++;
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
	for (int w = 0; w < layout->n_workers; w++)
		layout->first[w + 1] += layout->first[w];
}

/* From here on, times are from the first start. */
static void measure(struct orr_layout *layout)
{
	int64_t low = INT64_MAX, high = INT64_MIN;

	for (int i = 0; i < layout->n_cells; i++) {
		low = smaller(low, layout->cells[i].start_ns);
		high = larger(high, layout->cells[i].end_ns);
	}
	for (int i = 0; i < layout->n_cells; i++) {
		layout->cells[i].start_ns -= low;
		layout->cells[i].end_ns -= low;
	}
	layout->origin_ns = layout->n_cells ? low : 0;
	layout->span_ns = layout->n_cells ? high - low : 0;
}

static void measure_labels(struct orr_layout *layout)
{
	double total[ORR_N_KINDS] = {0};

	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];

		total[cell->kind] += (double)(cell->end_ns - cell->start_ns);
		layout->last_s = (int)larger(cell->s, layout->last_s);
		layout->last_b = (int)larger(cell->b, layout->last_b);
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
	int most = 0, n = 0;

	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];

		n = i == layout->first[cell->w] ? 0 : n;
		n += seen[cell->s] != cell->w + 1;
		seen[cell->s] = cell->w + 1;
		most = (int)larger(most, n);
	}
	return most;
}

int orr_layout_init(struct orr_layout *layout, const struct orr_timeline *t, struct orr_error *err)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	int code, *seen;
	size_t n = (size_t)t->n_updates;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		n += has_run(t, j) ? (size_t)orr_jobs_n_at(t->jobs, j) : 0;
	*layout = (struct orr_layout){.timeline = t, .n_workers = p->n_workers};
	orr_arrays_make(&layout->all, seen, p->n_stages);
	orr_arrays_make(&layout->all, layout->first, (size_t)p->n_workers + 1);
	orr_arrays_make(&layout->all, layout->cells, n);
	if ((code = orr_arrays_check(&layout->all, "drawing", err)))
		return code;
	fill(layout);
	measure(layout);
	choose_unit(layout);
	measure_labels(layout);
	layout->most_stages = count_stages(layout, seen);
	return 0;
}

int64_t orr_layout_tick_ns(const struct orr_layout *layout, int n)
{
	int64_t tick = 1;

	/* 1, 2, 5, 10, ...: the factor is 2.5 only from 2 to 5 */
	for (int i = 0; layout->span_ns / tick > n && tick < INT64_MAX / 5; i++)
		tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
	return tick;
}

const char *orr_layout_tick_text(const struct orr_layout *layout, int64_t time_ns)
{
	return orr_text("%.12g", (double)time_ns / (double)layout->unit_ns);
}

const char *orr_layout_label(const struct orr_cell *cell, enum orr_label label)
{
	if (cell->kind == ORR_KIND_UPDATE)
		return label == ORR_LABEL_JOB ? orr_text("%dU", cell->s) : "U";
	if (label == ORR_LABEL_JOB)
		return orr_text("%d%c%d", cell->s, "FBW"[cell->kind], cell -> b);
	return orr_text("%d", label == ORR_LABEL_NUMBER ? cell->b : cell->b % 10);
}

const char *orr_layout_worker(const struct orr_timeline *t, int w)
{
	return orr_text("w%d%s", w, orr_worker_text(&t->jobs->pipeline->machine, w));
}

int orr_layout_finish(FILE *file, const char *what, struct orr_error *err)
{
	if (fflush(file) || ferror(file))
		return orr_fail(err, ORR_E_IO, "%s: could not be written: %s", what,
				errno ? strerror(errno) : "the device took only part of it");
	return 0;
}

/* ---- SVG ---- */

void orr_svg_write_escaped(FILE *file, const char *text)
{
	size_t left = strlen(text), length;

	for (; left; text += length, left -= length) {
		const char *instead = *text == '<'                 ? "&lt;"
				      : *text == '>'               ? "&gt;"
				      : *text == '&'               ? "&amp;"
				      : (unsigned char)*text < ' ' ? " " /* XML knows no others */
								   : NULL;

		if (!(length = orr_utf8_length(text, left))) {
			length = 1;
			instead = ORR_UTF8_REPLACEMENT;
		}
		(void)fwrite(instead ? instead : text, 1, instead ? strlen(instead) : length, file);
	}
}

void orr_svg_write_text(FILE *file, double x, double y, const char *style, const char *text)
{
	fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	orr_svg_write_escaped(file, text);
	fputs("</text>\n", file);
}
