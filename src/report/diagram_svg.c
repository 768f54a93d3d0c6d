#include "diagram.h"

#include <string.h>

#include "orrery/figures.h"
#include "orrery/jobs.h"
#include "layout.h"
#include "parts.h"
#include "base/max.h"
#include "base/quantity.h"
#include "stages.h"
#include "svg.h"
#include "orrery/timeline.h"

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
#define MIN_WIDTH 900
#define MAX_WIDTH 1800
#define WIDTH_PER_CELL 22 /* half as much again where a label needs the stage */
#define MAX_CELLS 150000  /* more are snapped to a coarser grid, where they merge */
#define CHARACTER 0.63    /* width of a digit, in font sizes */
#define MIN_FONT 5.5
#define MOST_TITLES 20000 /* of more jobs none is wide enough to be pointed at */

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
	char title[256], text[512];

	(void)snprintf(title, sizeof(title), "%s%s: %s on %s, %s", t->jobs->schedule,
		       t->measured ? ", measured" : "", orr_count_text(p->n_stages, "stage"),
		       orr_count_text(p->n_workers, "worker"),
		       orr_count_text(p->n_microbatches, "microbatch"));
	(void)snprintf(text, sizeof(text),
		       "makespan %s, lower bound %s, bubble %.1f%%, span bubble %.1f%%",
		       orr_time_text(f->makespan_ns, p->units),
		       orr_time_text(f->lower_bound_ns, p->units), 100 * f->bubble,
		       100 * f->span_bubble);
	orr_svg_write_text(svg, LEFT, 28, "font-size=\"17\" font-weight=\"bold\"", title);
	orr_svg_write_text(svg, LEFT, 49, "font-size=\"13\" fill=\"" QUIET "\"", text);
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
	double rows = TOP + layout->n_workers * svg->pitch;
	double end = svg->memory_height > 0 ? bottom(svg) - 12 : rows;
	char label[64], text[32];

	fprintf(svg->file, "<path stroke=\"" GRID "\" fill=\"none\" d=\"");
	for (int64_t time = 0; time <= layout->span_ns; time += tick) {
		double x = LEFT + orr_svg_tenths(svg, time) / 10.0;

		fprintf(svg->file, "M%.1f,%dV%.1f", x, TOP - 4, rows + 4);
		if (svg->memory_height > 0)
			fprintf(svg->file, "M%.1f,%.1fV%.1f", x, svg->memory_top - 4, end);
	}
	fputs("\"/>\n<g font-size=\"12\" text-anchor=\"middle\">\n", svg->file);
	for (int64_t time = 0; time <= layout->span_ns; time += tick)
		fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			LEFT + orr_svg_tenths(svg, time) / 10.0, rows + 18,
			orr_layout_tick_print(layout, label, sizeof(label), time));
	fputs("</g>\n", svg->file);
	(void)snprintf(text, sizeof(text), "time (%s)", layout->unit);
	orr_svg_write_text(svg, LEFT + svg->width, rows + 34,
			   "font-size=\"12\" text-anchor=\"end\"", text);
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

	for (int w = 0; w < layout->n_workers; w++)
		for (int i = layout->first[w]; i < layout->first[w + 1]; i++) {
			const struct orr_cell *cell = &layout->cells[i];
			int from = orr_svg_tenths(svg, cell->start_ns);
			int width = orr_svg_tenths(svg, cell->end_ns) - from;

			if (kind == ORR_KIND_UPDATE && width < 10) /* to be seen at all */
				width = 10;
			if (cell->kind != kind || width <= 0 ||
			    (hue >= 0 && cell->b % N_HUES != hue))
				continue;
			if (!started)
				start_cells(svg, hue, kind);
			started = true;
			orr_svg_write_box(svg, w, from, width);
		}
	if (started)
		fputs("\"/>\n", svg->file);
}

static void write_labels(const struct svg *svg)
{
	const struct orr_layout *layout = svg->layout;
	double down = svg->height / 2 + svg->font * 0.36;
	char label[64];

	if (svg->font <= 0)
		return;
	fprintf(svg->file, "<g font-size=\"%.1f\" text-anchor=\"middle\">\n", svg->font);
	for (int w = 0; w < layout->n_workers; w++)
		for (int i = layout->first[w]; i < layout->first[w + 1]; i++) {
			const struct orr_cell *cell = &layout->cells[i];
			double from = orr_svg_tenths(svg, cell->start_ns) / 10.0;
			double to = orr_svg_tenths(svg, cell->end_ns) / 10.0;
			const char *ink = NULL;

			if (cell->kind == ORR_KIND_UPDATE)
				ink = "#fff";
			else if (cell->kind == ORR_KIND_B)
				ink = hues[cell->b % N_HUES].on_dark;
			if (svg->whole)
				(void)orr_cell_print(label, sizeof(label), cell);
			else if (cell->kind == ORR_KIND_UPDATE)
				(void)snprintf(label, sizeof(label), "U");
			else
				(void)snprintf(label, sizeof(label), "%d", cell->b);
			if ((double)strlen(label) * svg->font * CHARACTER > to - from - 2)
				continue;
			fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\"", LEFT + (from + to) / 2,
				orr_svg_row_top(svg, w) + down);
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
	char text[16];

	for (int kind = 0; kind < ORR_N_KINDS; kind++)
		if (svg->layout->n_kind[kind]) {
			write_swatch(svg, x, y, fills[kind],
				     kind == ORR_KIND_UPDATE ? UPDATE_FILL : hues[0].fill[1]);
			orr_svg_write_text(svg, x + 28, y + 11, "font-size=\"12\"",
					   orr_kind_names[kind]);
			x += 48 + 6.2 * (double)strlen(orr_kind_names[kind]);
		}
	write_swatch(svg, x, y, ROW_FILL, GRID);
	orr_svg_write_text(svg, x + 28, y + 11, "font-size=\"12\"", "idle");
	x = LEFT + svg->width - 22 * n;
	orr_svg_write_text(svg, x - 8, y + 11, "font-size=\"12\" text-anchor=\"end\"",
			   svg->layout->last_b >= N_HUES ? "microbatch modulo 8" : "microbatch");
	for (int hue = 0; hue < n; hue++) {
		write_swatch(svg, x + 22 * hue, y, hues[hue].fill[0], hues[hue].fill[1]);
		(void)snprintf(text, sizeof(text), "%d", hue);
		orr_svg_write_text(svg, x + 22 * hue + 11, y + 11,
				   "font-size=\"11\" text-anchor=\"middle\"", text);
	}
}

/* Of a job: its name, its stage's operators, its start and end to the nanosecond. */
static void write_job_title(const struct svg *svg, const struct orr_members *members,
			    const struct orr_cell *cell)
{
	const struct orr_layout *layout = svg->layout;
	const struct orr_pipeline *p = layout->timeline->jobs->pipeline;
	double unit_ns = (double)layout->unit_ns;
	char name[64], operators[128], part[96];

	orr_members_print(operators, sizeof(operators), members, cell->s);
	fprintf(svg->file, "<title>%s, stage %d", orr_cell_print(name, sizeof(name), cell),
		cell->s);
	if (p->split)
		fprintf(svg->file, ", part of %s", orr_part_print(part, sizeof(part), p, cell->s));
	if (*operators) {
		fputs(" (", svg->file);
		orr_svg_write_escaped(svg->file, operators);
		fputc(')', svg->file);
	}
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
	for (int w = 0; w < layout->n_workers; w++)
		for (int i = layout->first[w]; i < layout->first[w + 1]; i++) {
			const struct orr_cell *cell = &layout->cells[i];
			int from = orr_svg_tenths(svg, cell->start_ns);
			int width = orr_svg_tenths(svg, cell->end_ns) - from;

			fputs("<path d=\"", svg->file);
			orr_svg_write_box(svg, w, from, width < 10 ? 10 : width);
			fputs("\">", svg->file);
			write_job_title(svg, &members, cell);
			fputs("</path>\n", svg->file);
		}
	fputs("</g>\n", svg->file);
	orr_members_fini(&members);
	return 0;
}

static int write_drawing(const struct svg *svg, struct orr_error *err)
{
	int width = LEFT + svg->width + svg->right + 8, code;
	double height = bottom(svg) + 32;

	fprintf(svg->file,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"viewBox=\"0 0 %d %.0f\" font-family=\"Helvetica, Arial, sans-serif\" fill=\"" INK
		"\">\n",
		width, height, width, height);
	fprintf(svg->file, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
	write_title(svg);
	write_patterns(svg);
	orr_svg_write_rows(svg, TOP, svg->pitch, svg->height);
	if (svg->memory_height > 0)
		orr_svg_write_rows(svg, svg->memory_top, svg->memory_pitch, svg->memory_height);
	write_axis(svg);
	for (int hue = 0; hue < N_HUES; hue++)
		for (int kind = ORR_KIND_F; kind <= ORR_KIND_W; kind++)
			write_cells(svg, hue, (enum orr_kind)kind);
	write_cells(svg, -1, ORR_KIND_UPDATE);
	write_labels(svg);
	if (svg->memory_height > 0 && (code = orr_svg_write_memory(svg, err)))
		return code;
	write_legend(svg);
	if ((code = write_job_titles(svg, err)))
		return code;
	fputs("</svg>\n", svg->file);
	return 0;
}

int orr_diagram_svg(FILE *file, const struct orr_timeline *t, struct orr_error *err)
{
	struct orr_layout *layout = NULL;
	struct orr_figures *figures = NULL;
	struct svg svg = {.file = file};
	int code;

	if ((code = orr_layout_create(&layout, t, err)) ||
	    (code = orr_figures_create(&figures, t, err)))
		goto out;
	svg.layout = layout;
	svg.figures = figures;
	choose_sizes(&svg);
	if (!(code = write_drawing(&svg, err)))
		code = orr_layout_finish(file, "diagram", err);
out:
	orr_figures_destroy(figures);
	orr_layout_destroy(layout);
	return code;
}
