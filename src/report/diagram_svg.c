#include "diagram.h"

#include <string.h>

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "layout.h"
#include "base/max.h"
#include "base/quantity.h"
#include "parts.h"
#include "orrery/timeline.h"
#include "simulate/failures.h"
#include "pipeline/machine_text.h"

/* Neighbouring microbatches get neighbouring hues, whose lightness differs too, so that they are
 * told apart by colour-blind eyes; F is light and B dark throughout, so that a greyscale print
 * tells passes apart. */
#define N_HUES 8
static const struct {
	const char *fill[2]; /* F, B; W is hatched with both */
	const char *on_dark; /* of a label on B */
} hues[N_HUES] = {
	{{"#c2dfff", "#2273c3"}, "#fff"}, {{"#adf3fb", "#00a5b3"}, "#111"},
	{{"#b8ebc8", "#008b4e"}, "#fff"}, {{"#faecb6", "#c8a91f"}, "#111"},
	{{"#ffdbbe", "#c97409"}, "#fff"}, {{"#ffcdc4", "#b34638"}, "#fff"},
	{{"#ffd9e6", "#d56897"}, "#111"}, {{"#dfd0ff", "#7751af"}, "#fff"},
};
#define UPDATE_FILL "#4a4a52"
#define CURVE "#8496b0"
#define MIN_WIDTH 900
#define MAX_WIDTH 1800
#define WIDTH_PER_CELL 22 /* half as much again where a label needs the stage */
#define MAX_CELLS 150000  /* more are snapped to a coarser grid, where they merge */
#define CHARACTER 0.63    /* width of a digit, in font sizes */
#define MIN_FONT 5.5
#define MOST_TITLES 20000 /* of more jobs none is wide enough to be pointed at */

#define LEFT 48 /* margin */
#define TOP 70  /* of the first worker's row */

/* Widths are in tenths of a pixel where times are concerned: whole numbers make short paths. */
struct svg {
	FILE *file;
	const struct orr_layout *layout;
	const struct orr_figures *figures;
	int width;                       /* of the drawing, without margins */
	int right;                       /* margin for the peaks */
	int grid;                        /* tenths of a pixel that times are rounded to */
	double pitch, height;            /* from row to row; of a row */
	double memory_top, memory_pitch; /* of the curves */
	double memory_height;            /* of a curve; 0: nothing is kept */
	bool outlined;                   /* cells are wide enough for outlines */
	bool bytes;                      /* curves are in bytes */
	int64_t peak;                    /* of all workers */
	double font;                     /* of the labels in cells; 0: none */
	bool whole;                      /* labels are 2F0, not 0 */
};

static void choose_labels(struct svg *svg)
{
	const struct orr_layout *layout = svg->layout;
	double room, most = svg->height * 0.6 < 11 ? svg->height * 0.6 : 11;
	int whole = snprintf(NULL, 0, "%dF%d", layout->last_s, layout->last_b);
	int number = snprintf(NULL, 0, "%d", layout->last_b);

	room = layout->span_ns ? layout->shortest_ns * svg->width / (double)layout->span_ns : 0;
	svg->outlined = room >= 4;
	room -= 3;
	svg->whole = room >= whole * CHARACTER * 8.5;
	svg->font = room / ((svg->whole ? whole : number) * CHARACTER);
	svg->font = svg->font > most ? most : svg->font;
	if (svg->font < MIN_FONT) /* then the longer passes at least */
		svg->font = most < MIN_FONT ? 0 : most < 8 ? most : 8;
}

static void choose_sizes(struct svg *svg)
{
	const struct orr_layout *layout = svg->layout;
	int n_workers = layout->n_workers, most = 0;
	int64_t stashes = 0, bytes = 0;

	for (int w = 0; w < n_workers; w++) {
		const struct orr_worker_figures *figures = &svg->figures->worker[w];

		most = (int)larger(most, layout->first[w + 1] - layout->first[w]);
		stashes = larger(stashes, figures->peak_stash);
		bytes = larger(bytes, figures->peak_stash_bytes);
	}
	svg->bytes = bytes > 0;
	svg->peak = svg->bytes ? bytes : stashes;
	most = most > MAX_WIDTH ? MAX_WIDTH : most;
	most *= layout->most_stages > 1 ? WIDTH_PER_CELL * 3 / 2 : WIDTH_PER_CELL;
	svg->width = most < MIN_WIDTH ? MIN_WIDTH : most > MAX_WIDTH ? MAX_WIDTH : most;
	svg->right = svg->bytes ? 64 : 40;
	svg->pitch = n_workers <= 20 ? 30 : n_workers >= 100 ? 6 : 600.0 / n_workers;
	svg->height = svg->pitch > 20 ? svg->pitch - 4 : svg->pitch * 0.87;
	svg->memory_top = TOP + n_workers * svg->pitch + 62;
	svg->memory_pitch = n_workers <= 10 ? 26 : n_workers >= 52 ? 5 : 260.0 / n_workers;
	svg->memory_height = svg->peak > 0 ? svg->memory_pitch * 0.87 : 0;
	svg->grid = 1;
	while (svg->grid < 40 && layout->n_cells > MAX_CELLS &&
	       (int64_t)n_workers * svg->width * 10 / svg->grid > MAX_CELLS)
		svg->grid *= 2;
	choose_labels(svg);
}

static double row_top(const struct svg *svg, int w)
{
	return TOP + w * svg->pitch;
}

static int tenths(const struct svg *svg, int64_t time_ns)
{
	int64_t span = svg->layout->span_ns;

	if (!span)
		return 0;
	return (int)((double)time_ns * svg->width * 10 / ((double)span * svg->grid) + 0.5) *
	       svg->grid;
}

static void write_tenths(FILE *file, int value)
{
	fprintf(file, value % 10 ? "%d.%d" : "%d", value / 10, value % 10);
}

/* Of a path: a box in worker w's row, in tenths. */
static void write_box(const struct svg *svg, int w, int from, int width)
{
	fputc('M', svg->file);
	write_tenths(svg->file, LEFT * 10 + from);
	fprintf(svg->file, ",%.1fh", row_top(svg, w));
	write_tenths(svg->file, width);
	fprintf(svg->file, "v%.1fh-", svg->height);
	write_tenths(svg->file, width);
	fputc('z', svg->file);
}

static double bottom(const struct svg *svg)
{
	double rows = TOP + svg->layout->n_workers * svg->pitch;

	return svg->memory_height > 0
		       ? svg->memory_top + svg->layout->n_workers * svg->memory_pitch + 12
		       : rows + 44;
}

static void write_title(const struct svg *svg)
{
	const struct orr_timeline *t = svg->layout->timeline;
	const struct orr_pipeline *p = t->jobs->pipeline;
	const struct orr_figures *f = svg->figures;

	orr_svg_write_text(svg->file, LEFT, 28, "font-size=\"17\" font-weight=\"bold\"",
			   orr_text("%s%s: %s on %s, %s", t->jobs->schedule,
				    t->measured ? ", measured" : "",
				    orr_count_text(p->n_stages, "stage"),
				    orr_count_text(p->n_workers, "worker"),
				    orr_count_text(p->n_microbatches, "microbatch")));
	orr_svg_write_text(
		svg->file, LEFT, 49, "font-size=\"13\" fill=\"" QUIET "\"",
		orr_text("makespan %s, lower bound %s, bubble %.1f%%, span bubble %.1f%%",
			 orr_time_text(f->makespan_ns, p->units),
			 orr_time_text(f->lower_bound_ns, p->units), 100 * f->bubble,
			 100 * f->span_bubble));
}

static void write_patterns(const struct svg *svg)
{
	if (!svg->layout->n_kind[ORR_KIND_W])
		return;
	fputs("<defs>\n", svg->file);
	for (int hue = 0; hue < N_HUES; hue++)
		fprintf(svg->file,
			"<pattern id=\"w%d\" width=\"4\" height=\"4\" "
			"patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
			"<rect width=\"4\" height=\"4\" fill=\"%s\"/>"
			"<rect width=\"1\" height=\"4\" fill=\"%s\"/></pattern>\n",
			hue, hues[hue].fill[ORR_KIND_F], hues[hue].fill[ORR_KIND_B]);
	fputs("</defs>\n", svg->file);
}

static void write_axis(const struct svg *svg)
{
	const struct orr_layout *layout = svg->layout;
	int64_t tick = orr_layout_tick_ns(layout, svg->width / 70);
	double rows = row_top(svg, layout->n_workers);
	double end = svg->memory_height > 0 ? bottom(svg) - 12 : rows;

	fprintf(svg->file, "<path stroke=\"" GRID "\" fill=\"none\" d=\"");
	for (int64_t time = 0; time <= layout->span_ns; time += tick) {
		double x = LEFT + tenths(svg, time) / 10.0;

		fprintf(svg->file, "M%.1f,%dV%.1f", x, TOP - 4, rows + 4);
		if (svg->memory_height > 0)
			fprintf(svg->file, "M%.1f,%.1fV%.1f", x, svg->memory_top - 4, end);
	}
	fputs("\"/>\n<g font-size=\"12\" text-anchor=\"middle\">\n", svg->file);
	for (int64_t time = 0; time <= layout->span_ns; time += tick)
		fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			LEFT + tenths(svg, time) / 10.0, rows + 18,
			orr_layout_tick_text(layout, time));
	fputs("</g>\n", svg->file);
	orr_svg_write_text(svg->file, LEFT + svg->width, rows + 34,
			   "font-size=\"12\" text-anchor=\"end\"",
			   orr_text("time (%s)", layout->unit));
}

/* Labels of that font, one every n rows, do not overlap. */
static int label_step(double pitch, double font)
{
	int step = 1;

	while (step * pitch < font)
		step = step % 4 ? step * 2 : step + 4;
	return step;
}

/* Its name and speed, where workers differ, for who points at it. */
static void write_worker(const struct svg *svg, int w)
{
	const char *is = orr_worker_text(&svg->layout->timeline->jobs->pipeline->machine, w);

	if (!*is)
		return;
	fputs("<title>", svg->file);
	orr_svg_write_escaped(svg->file, is + 1);
	fputs("</title>", svg->file);
}

/* Backgrounds, on which idle time shows, and names of workers at regular distances. */
static void write_rows(const struct svg *svg, double top, double pitch, double height)
{
	double font = pitch < 11 ? 9 : 12;
	int n = svg->layout->n_workers, step = label_step(pitch, font);

	fprintf(svg->file, "<path fill=\"" ROW_FILL "\" d=\"");
	for (int w = 0; w < n; w++)
		fprintf(svg->file, "M%d,%.1fh%dv%.1fh-%dz", LEFT, top + w * pitch, svg->width,
			height, svg->width);
	fputs("\"/>\n", svg->file);
	fprintf(svg->file, "<g font-size=\"%.0f\" text-anchor=\"end\">\n", font);
	for (int w = 0; w < n; w += step) {
		fprintf(svg->file, "<text x=\"%d\" y=\"%.1f\">w%d", LEFT - 6,
			top + w * pitch + height / 2 + font * 0.35, w);
		write_worker(svg, w);
		fputs("</text>\n", svg->file);
	}
	fputs("</g>\n", svg->file);
}

/* W is hatched with the colours of F and B. Outlines part the jobs of one microbatch. */
static void start_cells(const struct svg *svg, int hue, enum orr_kind kind)
{
	if (kind == ORR_KIND_UPDATE)
		fputs("<path fill=\"" UPDATE_FILL "\"", svg->file);
	else if (kind == ORR_KIND_W)
		fprintf(svg->file, "<path fill=\"url(#w%d)\"", hue);
	else
		fprintf(svg->file, "<path fill=\"%s\"", hues[hue].fill[kind]);
	if (svg->outlined && hue >= 0)
		fprintf(svg->file, " stroke=\"%s\"",
			kind == ORR_KIND_B ? "#fff\" stroke-width=\"0.7"
					   : hues[hue].fill[ORR_KIND_B]);
	fputs(" d=\"", svg->file);
}

/* One path for all cells of one look: hue and kind; hue is -1 for updates. */
static void write_cells(const struct svg *svg, int hue, enum orr_kind kind)
{
	const struct orr_layout *layout = svg->layout;
	bool started = false;

	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];
		int from = tenths(svg, cell->start_ns);
		int width = tenths(svg, cell->end_ns) - from;

		if (kind == ORR_KIND_UPDATE && width < 10) /* to be seen at all */
			width = 10;
		if (cell->kind != kind || width <= 0 || (hue >= 0 && cell->b % N_HUES != hue))
			continue;
		if (!started)
			start_cells(svg, hue, kind);
		started = true;
		write_box(svg, cell->w, from, width);
	}
	if (started)
		fputs("\"/>\n", svg->file);
}

static void write_labels(const struct svg *svg)
{
	const struct orr_layout *layout = svg->layout;
	double down = svg->height / 2 + svg->font * 0.36;
	enum orr_label which = svg->whole ? ORR_LABEL_JOB : ORR_LABEL_NUMBER;

	if (svg->font <= 0)
		return;
	fprintf(svg->file, "<g font-size=\"%.1f\" text-anchor=\"middle\">\n", svg->font);
	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];
		double from = tenths(svg, cell->start_ns) / 10.0;
		double to = tenths(svg, cell->end_ns) / 10.0;
		const char *label = orr_layout_label(cell, which), *ink = NULL;

		if (cell->kind == ORR_KIND_UPDATE)
			ink = "#fff";
		else if (cell->kind == ORR_KIND_B)
			ink = hues[cell->b % N_HUES].on_dark;
		if ((double)strlen(label) * svg->font * CHARACTER > to - from - 2)
			continue;
		fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\"", LEFT + (from + to) / 2,
			row_top(svg, cell->w) + down);
		if (ink)
			fprintf(svg->file, " fill=\"%s\"", ink);
		else if (cell->kind == ORR_KIND_W)
			fprintf(svg->file,
				" stroke=\"%s\" stroke-width=\"2.5\" "
				"paint-order=\"stroke\"",
				hues[cell->b % N_HUES].fill[ORR_KIND_F]);
		fprintf(svg->file, ">%s</text>\n", label);
	}
	fputs("</g>\n", svg->file);
}

/* Parked stashes on their way, as lines under their worker's row: from it, and back. */
static void write_parked(const struct svg *svg, bool back)
{
	const struct orr_timeline *t = svg->layout->timeline;

	fprintf(svg->file, "<path fill=\"none\" stroke-width=\"1.4\" stroke=\"%s\" d=\"",
		back ? CURVE : UPDATE_FILL);
	for (int i = 0; i < t->n_transfers; i++) {
		const struct orr_transfer *x = &t->transfers[i];
		int w = x->kind == ORR_TRANSFER_PARK ? t->jobs->compute[x->consumer] : -1;

		if (w < 0 || (x->to == w) != back)
			continue;
		fputc('M', svg->file);
		write_tenths(svg->file,
			     LEFT * 10 + tenths(svg, x->start_ns - svg->layout->origin_ns));
		fprintf(svg->file, ",%.1fH", row_top(svg, w) + svg->height + (back ? 2.7 : 1));
		write_tenths(svg->file,
			     LEFT * 10 + tenths(svg, x->end_ns - svg->layout->origin_ns));
	}
	fputs("\"/>\n", svg->file);
}

/* A step curve as it is drawn: changes at one point of the grid become one. */
struct curve {
	const struct svg *svg;
	double base;
	int x;
	int64_t value, high, shown;
};

static void write_step(struct curve *curve)
{
	const struct svg *svg = curve->svg;
	double scale = svg->memory_height / (double)svg->peak;

	if (curve->high == curve->shown && curve->value == curve->shown)
		return;
	fputc('H', svg->file);
	write_tenths(svg->file, LEFT * 10 + curve->x);
	fprintf(svg->file, "V%.1f", curve->base - (double)curve->high * scale);
	if (curve->value != curve->high)
		fprintf(svg->file, "V%.1f", curve->base - (double)curve->value * scale);
	curve->shown = curve->value;
}

static void add_point(void *user, int64_t time_ns, int stashes, int64_t bytes)
{
	struct curve *curve = user;
	int64_t since = time_ns - curve->svg->layout->origin_ns;
	int x = tenths(curve->svg, since > 0 ? since : 0);

	if (x != curve->x) {
		write_step(curve);
		curve->x = x;
		curve->high = 0;
	}
	curve->value = curve->svg->bytes ? bytes : stashes;
	curve->high = curve->value > curve->high ? curve->value : curve->high;
}

static void write_peaks(const struct svg *svg)
{
	double font = svg->memory_pitch < 11 ? 9 : 12;
	int step = label_step(svg->memory_pitch, font);

	fprintf(svg->file, "<g font-size=\"%.0f\">\n", font);
	for (int w = 0; w < svg->layout->n_workers; w += step) {
		const struct orr_worker_figures *worker = &svg->figures->worker[w];

		fprintf(svg->file, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT + svg->width + 6,
			svg->memory_top + w * svg->memory_pitch + svg->memory_height / 2 +
				font * 0.35,
			svg->bytes ? orr_size_text(worker->peak_stash_bytes)
				   : orr_text("%d", worker->peak_stash));
	}
	fputs("</g>\n", svg->file);
}

/* The curves and their heading. */
static int write_memory(const struct svg *svg, struct orr_error *err)
{
	orr_svg_write_text(svg->file, LEFT, svg->memory_top - 10,
			   "font-size=\"13\" font-weight=\"bold\"",
			   svg->bytes ? "stash over time" : "stage stashes over time");
	orr_svg_write_text(svg->file, LEFT + svg->width + 6, svg->memory_top - 10,
			   "font-size=\"12\"", "peak");
	for (int w = 0; w < svg->layout->n_workers; w++) {
		struct curve curve = {.svg = svg};
		int code;

		curve.base = svg->memory_top + w * svg->memory_pitch + svg->memory_height;
		fprintf(svg->file, "<path fill=\"" CURVE "\" d=\"M%d,%.1f", LEFT, curve.base);
		if ((code = orr_timeline_stash(svg->layout->timeline, w, add_point, &curve, err)))
			return code;
		write_step(&curve);
		fputs("z\"/>\n", svg->file);
	}
	write_peaks(svg);
	return 0;
}
static void write_swatch(const struct svg *svg, double x, double y, const char *fill,
			 const char *stroke)
{
	fprintf(svg->file,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"22\" height=\"14\" fill=\"%s\" "
		"stroke=\"%s\"/>\n",
		x, y, fill, stroke);
}

static void write_legend(const struct svg *svg)
{
	const char *fills[] = {hues[0].fill[0], hues[0].fill[1], "url(#w0)", UPDATE_FILL};
	double x = LEFT, y = bottom(svg) + 6;
	int n = svg->layout->last_b + 1 < N_HUES ? svg->layout->last_b + 1 : N_HUES;

	for (int kind = 0; kind < ORR_N_KINDS; kind++)
		if (svg->layout->n_kind[kind]) {
			write_swatch(svg, x, y, fills[kind],
				     kind == ORR_KIND_UPDATE ? UPDATE_FILL : hues[0].fill[1]);
			orr_svg_write_text(svg->file, x + 28, y + 11, "font-size=\"12\"",
					   orr_kind_names[kind]);
			x += 48 + 6.2 * (double)strlen(orr_kind_names[kind]);
		}
	write_swatch(svg, x, y, ROW_FILL, GRID);
	orr_svg_write_text(svg->file, x + 28, y + 11, "font-size=\"12\"",
			   svg->layout->timeline->jobs->park
				   ? "idle; lines under a row: stashes that leave (dark), come back"
				   : "idle");
	x = LEFT + svg->width - 22 * n;
	orr_svg_write_text(svg->file, x - 8, y + 11, "font-size=\"12\" text-anchor=\"end\"",
			   svg->layout->last_b >= N_HUES ? "microbatch modulo 8" : "microbatch");
	for (int hue = 0; hue < n; hue++) {
		write_swatch(svg, x + 22 * hue, y, hues[hue].fill[0], hues[hue].fill[1]);
		orr_svg_write_text(svg->file, x + 22 * hue + 11, y + 11,
				   "font-size=\"11\" text-anchor=\"middle\"", orr_text("%d", hue));
	}
}

/* Of a job: its name, its stage's operators, its start and end to the nanosecond. */
static void write_job_title(const struct svg *svg, const struct orr_members *members,
			    const struct orr_cell *cell)
{
	const struct orr_layout *layout = svg->layout;
	const struct orr_pipeline *p = layout->timeline->jobs->pipeline;
	double unit_ns = (double)layout->unit_ns;
	const char *operators = orr_members_text(128, members, cell->s);

	fprintf(svg->file, "<title>%s, stage %d", orr_layout_label(cell, ORR_LABEL_JOB), cell->s);
	if (p->split)
		fprintf(svg->file, ", part of %s", orr_part_text(p, cell->s));
	if (*operators)
		orr_svg_write_escaped(svg->file, orr_text(" (%s)", operators));
	fprintf(svg->file, ": %.15g to %.15g %s</title>", (double)cell->start_ns / unit_ns,
		(double)cell->end_ns / unit_ns, layout->unit);
}

/* Over everything, and not seen: viewers show them where the mouse is. */
static int write_job_titles(const struct svg *svg, struct orr_error *err)
{
	const struct orr_layout *layout = svg->layout;
	struct orr_members members;
	int code;

	if (layout->n_cells > MOST_TITLES)
		return 0;
	if ((code = orr_members_init(&members, layout->timeline->jobs->pipeline, err)))
		return code;
	fputs("<g fill-opacity=\"0\">\n", svg->file);
	for (int i = 0; i < layout->n_cells; i++) {
		const struct orr_cell *cell = &layout->cells[i];
		int from = tenths(svg, cell->start_ns);
		int width = tenths(svg, cell->end_ns) - from;

		fputs("<path d=\"", svg->file);
		write_box(svg, cell->w, from, width < 10 ? 10 : width);
		fputs("\">", svg->file);
		write_job_title(svg, &members, cell);
		fputs("</path>\n", svg->file);
	}
	fputs("</g>\n", svg->file);
	orr_arrays_free(&members.all);
	return 0;
}

static int write_drawing(const struct svg *svg, const struct orr_recovery *r, struct orr_error *err)
{
	int width = LEFT + svg->width + svg->right + 8, code;
	double end = bottom(svg) + 32, height = end + (r ? ORR_OUTAGE_HEIGHT : 0);

	fprintf(svg->file,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"" INK
		"\">\n",
		width, height, width, height);
	fprintf(svg->file, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
	write_title(svg);
	write_patterns(svg);
	write_rows(svg, TOP, svg->pitch, svg->height);
	if (svg->memory_height > 0)
		write_rows(svg, svg->memory_top, svg->memory_pitch, svg->memory_height);
	write_axis(svg);
	for (int hue = 0; hue < N_HUES; hue++)
		for (int kind = ORR_KIND_F; kind <= ORR_KIND_W; kind++)
			write_cells(svg, hue, (enum orr_kind)kind);
	write_cells(svg, -1, ORR_KIND_UPDATE);
	write_labels(svg);
	if (svg->layout->timeline->jobs->park) {
		write_parked(svg, false);
		write_parked(svg, true);
	}
	if (svg->memory_height > 0 && (code = write_memory(svg, err)))
		return code;
	write_legend(svg);
	if (r)
		orr_outage_svg(svg->file, r, LEFT, end, svg->width);
	if ((code = write_job_titles(svg, err)))
		return code;
	fputs("</svg>\n", svg->file);
	return 0;
}

int orr_diagram_svg(FILE *file, const struct orr_timeline *t, const struct orr_recovery *r,
		    struct orr_error *err)
{
	struct orr_layout layout;
	struct orr_figures *figures = NULL;
	struct svg svg = {.file = file, .layout = &layout};
	int code;

	if (!(code = orr_layout_init(&layout, t, err)) &&
	    !(code = orr_figures_create(&figures, t, err))) {
		svg.figures = figures;
		choose_sizes(&svg);
		if (!(code = write_drawing(&svg, r, err)))
			code = orr_layout_finish(file, "diagram", err);
	}
	orr_figures_destroy(figures);
	orr_arrays_free(&layout.all);
	return code;
}
