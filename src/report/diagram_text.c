#include "base/max.h"
#include "base/quantity.h"
#include "orrery/jobs.h"
#include "pipeline/machine_text.h"
#include "orrery/timeline.h"
#include "diagram.h"

#include <stdlib.h>
#include <string.h>

#include "layout.h"

#define MIN_COLUMNS 40
#define MAX_COLUMNS 10000
#define MAX_PER_STEP 8 /* columns that the shortest time step gets when there is room */
#define N_HUES 8

/* The fill of a cell by kind, F B W U, so that the passes differ without colour. */
static const char fill[ORR_N_KINDS] = {'-', '=', '~', '+'};

/* Colours of the 256-colour terminal per hue: light for F, dark for B, between for W. */
static const unsigned char hues[N_HUES][3] = {
	{117, 25, 74},   {223, 130, 215}, {157, 28, 71},  {218, 90, 169},
	{229, 100, 184}, {159, 30, 44},   {217, 88, 167}, {183, 54, 134},
};
#define STYLE_IDLE 0
#define STYLE_UPDATE (1 + 3 * N_HUES)

struct canvas {
	FILE *file;
	const struct orr_layout *layout;
	int columns; /* of a line */
	int margin;  /* columns before the drawing */
	int width;   /* columns of the drawing */
	bool colour;
	enum orr_label label; /* of all cells, so that the drawing reads evenly */
	bool labelled;        /* so far, anything was */
	char *row;            /* [width] */
	unsigned char *style; /* [width] 0: idle, 1 + 3 hue + kind, or STYLE_UPDATE */
};

/* With a common time step a whole number of columns wide, equal jobs look equal; without one that
 * fits, every column shows what runs at its middle. */
static int choose_width(const struct orr_layout *layout, int room)
{
	int64_t step = layout->span_ns, n;

	for (int i = 0; i < layout->n_cells && step > 1; i++)
		step = common_divisor(common_divisor(step, layout->cells[i].start_ns),
				      layout->cells[i].end_ns);
	n = step > 0 ? layout->span_ns / step : room;
	if (n == 0 || n > room)
		return room;
	return (int)n * (room / (int)n < MAX_PER_STEP ? room / (int)n : MAX_PER_STEP);
}

static int column_of(const struct canvas *c, int64_t time_ns)
{
	int64_t span = c->layout->span_ns;

	return span ? (int)((double)time_ns * c->width / (double)span + 0.5) : 0;
}

static void start_style(const struct canvas *c, int style)
{
	if (!c->colour)
		return;
	if (style == STYLE_IDLE)
		fprintf(c->file, "\033[0m");
	else if (style == STYLE_UPDATE)
		fprintf(c->file, "\033[0;38;5;231;48;5;240m");
	else
		fprintf(c->file, "\033[0;38;5;%d;48;5;%dm", (style - 1) % 3 == 1 ? 231 : 16,
			hues[(style - 1) / 3][(style - 1) % 3]);
}

/* Without colour a label needs a column after it, which says the pass and ends the cell. */
static int label_gap(const struct canvas *c)
{
	return c->colour ? 0 : 1;
}

/* 2F0 where a worker has several stages, else the microbatch, else its last digit: what fits the
 * kind of job that is shortest on average. */
static void choose_label(struct canvas *c)
{
	const struct orr_layout *layout = c->layout;
	int b = layout->last_b;
	double room =
		layout->span_ns ? layout->shortest_ns * c->width / (double)layout->span_ns : 0;

	room += 1e-9 - label_gap(c);
	if (layout->most_stages > 1 && snprintf(NULL, 0, "%dF%d", layout->last_s, b) <= room)
		c->label = ORR_LABEL_JOB;
	else
		c->label = b < 10 || snprintf(NULL, 0, "%d", b) <= room ? ORR_LABEL_NUMBER
									: ORR_LABEL_DIGIT;
}

static void paint(struct canvas *c, const struct orr_cell *cell)
{
	int from = column_of(c, cell->start_ns), to = column_of(c, cell->end_ns);
	int style = cell->kind == ORR_KIND_UPDATE ? STYLE_UPDATE
						  : 1 + 3 * (cell->b % N_HUES) + (int)cell->kind;
	const char *label = orr_layout_label(cell, c->label);
	int n = (int)strlen(label);

	to = to < c->width ? to : c->width;
	if (from >= to)
		return;
	memset(c->row + from, c->colour ? ' ' : fill[cell->kind], (size_t)(to - from));
	memset(c->style + from, style, (size_t)(to - from));
	if (n + label_gap(c) > to - from)
		return;
	memcpy(c->row + from, label, (size_t)n);
	c->labelled = true;
}

/* Columns for the workers' numbers and, where they differ, names and speeds. */
static int choose_margin(const struct orr_layout *layout)
{
	const struct orr_machine *m = &layout->timeline->jobs->pipeline->machine;
	int most = 0;

	for (int w = 0; w < layout->n_workers; w++)
		most = (int)larger(most, (int64_t)strlen(orr_worker_text(m, w)));
	return 3 + snprintf(NULL, 0, "%d", layout->n_workers - 1) + most;
}

static void write_row(struct canvas *c, int w)
{
	const struct orr_layout *layout = c->layout;
	int style = STYLE_IDLE;

	memset(c->row, '.', (size_t)c->width);
	memset(c->style, STYLE_IDLE, (size_t)c->width);
	for (int i = layout->first[w]; i < layout->first[w + 1]; i++)
		paint(c, &layout->cells[i]);
	fprintf(c->file, "%-*s", c->margin, orr_layout_worker(layout->timeline, w));
	for (int x = 0; x < c->width; x++) {
		if (c->style[x] != style)
			start_style(c, style = c->style[x]);
		fputc(c->row[x], c->file);
	}
	if (style != STYLE_IDLE)
		start_style(c, STYLE_IDLE);
	fputc('\n', c->file);
}

/* |0        |10       |20: a bar stands at the start of its column. */
static void write_axis(struct canvas *c)
{
	const struct orr_layout *layout = c->layout;
	int64_t tick = orr_layout_tick_ns(layout, c->width < 20 ? 1 : c->width / 10);
	int at = 0;

	fprintf(c->file, "%*s", c->margin, "");
	for (int64_t time = 0; time <= layout->span_ns; time += tick) {
		const char *label = orr_layout_tick_text(layout, time);
		int column = column_of(c, time), n = (int)strlen(label) + 1;

		if ((at && column <= at) || column + n > c->columns - c->margin)
			continue;
		fprintf(c->file, "%*s|%s", column - at, "", label);
		at = column + n;
	}
	fputc('\n', c->file);
}

/* Items are kept whole; a line that is full is broken. */
static void write_item(struct canvas *c, int *at, const char *key, int style, const char *text)
{
	int n = (int)(strlen(key) + strlen(text)) + 1;

	if (*at && *at + 3 + n > c->columns) {
		fputc('\n', c->file);
		*at = 0;
	}
	fprintf(c->file, "%*s", *at ? 3 : 0, "");
	*at += n + (*at ? 3 : 0);
	if (style != STYLE_IDLE)
		start_style(c, style);
	fputs(key, c->file);
	if (style != STYLE_IDLE)
		start_style(c, STYLE_IDLE);
	fprintf(c->file, " %s", text);
}

static void write_legend(struct canvas *c)
{
	static const char *const label_names[] = {"stage 2, microbatch 0", "microbatch",
						  "last digit of the microbatch"};
	int at = 0;
	char key[3] = "0?";

	write_item(c, &at, "time", STYLE_IDLE, orr_text("in %s", c->layout->unit));
	for (int kind = 0; kind < ORR_N_KINDS; kind++) {
		int style = kind == ORR_KIND_UPDATE ? STYLE_UPDATE : 1 + kind;

		if (!c->layout->n_kind[kind])
			continue;
		key[0] = key[1] = ' ';
		if (c->labelled)
			key[0] = kind == ORR_KIND_UPDATE ? 'U' : '0';
		else if (!c->colour)
			key[0] = fill[kind];
		if (!c->colour)
			key[1] = fill[kind];
		write_item(c, &at, key, style, orr_kind_names[kind]);
	}
	write_item(c, &at, ".", STYLE_IDLE, "idle");
	if (c->labelled)
		write_item(c, &at, c->label == ORR_LABEL_JOB ? "2F0" : "0, 1, 2", STYLE_IDLE,
			   label_names[c->label]);
	fputc('\n', c->file);
}

int orr_diagram_text(FILE *file, const struct orr_timeline *t, int columns, bool colour,
		     struct orr_error *err)
{
	struct orr_layout layout;
	struct canvas c = {.file = file, .layout = &layout, .columns = columns, .colour = colour};
	int code;

	if (columns < MIN_COLUMNS || columns > MAX_COLUMNS)
		return orr_fail(err, ORR_E_INPUT, "diagram: %d columns; it takes %d to %d", columns,
				MIN_COLUMNS, MAX_COLUMNS);
	if ((code = orr_layout_init(&layout, t, err)))
		return code;
	c.margin = choose_margin(&layout);
	c.width = choose_width(&layout, columns - c.margin);
	orr_arrays_make(&layout.all, c.row, c.width);
	orr_arrays_make(&layout.all, c.style, c.width);
	if ((code = orr_arrays_check(&layout.all, "diagram", err)))
		return code;
	choose_label(&c);
	for (int w = 0; w < layout.n_workers; w++)
		write_row(&c, w);
	write_axis(&c);
	write_legend(&c);
	code = orr_layout_finish(file, "diagram", err);
	orr_arrays_free(&layout.all);
	return code;
}
