/* Memory against makespan, or any two columns, as SVG. Schedules at one point share a label; labels
 * are put where there is room, next to their points if possible, and joined to them by a line if
 * not. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "base/arrays.h"
#include "base/json.h"
#include "base/quantity.h"

#define WIDTH 940
#define HEIGHT 600
#define PLOT_LEFT 84
#define PLOT_TOP 76
#define PLOT_RIGHT (WIDTH - 24)
#define PLOT_BOTTOM (HEIGHT - 64)
#define FRONT "#b34638"
#define OTHERS "#2273c3"
#define FONT 12
#define CHARACTER 7.0 /* width of one, with something to spare */
#define LINE 15       /* height of one */
#define LINE_CHARACTERS 30
#define RADIUS 4.5
#define NEAR 16 /* further away a label needs a line to its point */

/* Where ticks stand; logarithmic where values differ by more than a factor of five. */
struct svg_axis {
	double low, high;
	double step; /* of the ticks; 0: they stand at 1, 2 and 5 times powers of ten */
	bool logarithmic;
	enum { NUMBER, TIME, BYTES, RATE, SHARE, NAME } measure; /* TIME: nanoseconds */
	bool units;                                              /* times are */
	json_t *names; /* (of NAME) owned: values are its indices */
	char title[80];
};

struct box {
	double x, y, width, height;
};

struct label {
	char *text; /* owned; lines end with a newline */
	int n_lines;
	double x, y; /* of the point */
	bool on_front, placed;
	struct box box;
};

struct scatter {
	FILE *file;
	struct svg_axis x, y;
	struct label *labels; /* owned; a point each */
	int n_labels;
};

/* ---- axes ---- */

/* Of all values: .low and .high, which begin as NaN. */
static void axis_take(struct svg_axis *axis, double at)
{
	axis->low = at < axis->low || isnan(axis->low) ? at : axis->low;
	axis->high = at > axis->high || isnan(axis->high) ? at : axis->high;
}

/* These low and high (at least 0) with some room, and a round step: 1, 2 or 5 times a power of ten.
 * whole: of whole numbers, so no smaller step than 1. */
static void axis_span(struct svg_axis *axis, bool whole)
{
	double low = axis->low, high = axis->high;
	double room = high > low ? 0.08 * (high - low) : high > 0 ? 0.1 * high : 1, tenth;

	if (axis->measure == NAME) {
		axis->low = -0.5;
		axis->high = high + 0.5;
		axis->step = 1;
		return;
	}
	axis->logarithmic = low > 0 && high > 5 * low;
	axis->low = axis->logarithmic ? low / 1.2 : low - room < 0 ? 0 : low - room;
	axis->high = axis->logarithmic ? high * 1.2 : high + room;
	if (axis->logarithmic)
		return;
	tenth = (axis->high - axis->low) / 7;
	axis->step = pow(10, floor(log10(tenth)));
	if (axis->step * 5 < tenth)
		axis->step *= 10;
	else if (axis->step * 2 < tenth)
		axis->step *= 5;
	else if (axis->step < tenth)
		axis->step *= 2;
	if (whole && axis->step < 1)
		axis->step = 1;
}

static double axis_first(const struct svg_axis *axis)
{
	double power;

	if (!axis->logarithmic)
		return ceil(axis->low / axis->step) * axis->step;
	power = pow(10, floor(log10(axis->low)));
	return power >= axis->low       ? power
	       : 2 * power >= axis->low ? 2 * power
	       : 5 * power >= axis->low ? 5 * power
					: 10 * power;
}

static double axis_next(const struct svg_axis *axis, double at)
{
	double power;

	if (!axis->logarithmic)
		return at + axis->step;
	power = pow(10, floor(log10(at) + 1e-9));
	return at < 1.5 * power ? 2 * power : at < 3 * power ? 5 * power : 10 * power;
}

/* From 0 to 1 along the axis. */
static double axis_share(const struct svg_axis *axis, double at)
{
	if (axis->logarithmic)
		return log(at / axis->low) / log(axis->high / axis->low);
	return (at - axis->low) / (axis->high - axis->low);
}

static double x_of(const struct scatter *scatter, double at)
{
	return PLOT_LEFT + axis_share(&scatter->x, at) * (PLOT_RIGHT - PLOT_LEFT);
}

static double y_of(const struct scatter *scatter, double at)
{
	return PLOT_BOTTOM - axis_share(&scatter->y, at) * (PLOT_BOTTOM - PLOT_TOP);
}

/* Of memory against makespan. */
static void make_axes(struct scatter *scatter, const struct orr_comparison *c)
{
	scatter->x = (struct svg_axis){NAN, NAN, .measure = TIME, .units = c->units};
	scatter->y = (struct svg_axis){NAN, NAN, .measure = c->bytes ? BYTES : NUMBER};
	for (int i = 0; i < c->n_fitting; i++) {
		axis_take(&scatter->x, (double)c->contenders[i].makespan_ns);
		axis_take(&scatter->y, orr_contender_memory(c, &c->contenders[i]));
	}
	axis_span(&scatter->x, true);
	axis_span(&scatter->y, c->bytes || !c->several_cuts);
	(void)snprintf(scatter->x.title, sizeof(scatter->x.title), "makespan%s",
		       c->units ? ", units" : "");
	(void)snprintf(scatter->y.title, sizeof(scatter->y.title), "%s",
		       c->bytes          ? "memory of the worker that needs most"
		       : c->several_cuts ? "stage stashes / stages of the worker that holds most"
					 : "stage stashes of the worker that holds most");
}

static const char *name_text(const json_t *name)
{
	if (json_is_string(name))
		return orr_text("%s", json_string_value(name));
	return json_is_number(name) ? orr_text("%g", json_number_value(name)) : "";
}

static const char *tick_text(const struct svg_axis *axis, double at)
{
	int64_t whole = (int64_t)(at + 0.5);

	switch (axis->measure) {
	case TIME:
		return orr_duration_text(whole, axis->units);
	case BYTES:
		return orr_size_text(whole);
	case RATE:
		return orr_text("%s/s", orr_size_text(whole));
	case SHARE:
		return orr_text("%g%%", 100 * at);
	case NAME:
		return name_text(json_array_get(axis->names, (size_t)whole));
	case NUMBER:
		break;
	}
	return orr_text("%.6g", at);
}

static void write_axes(const struct scatter *scatter)
{
	FILE *file = scatter->file;
	const struct svg_axis *axis = &scatter->x;

	fprintf(file,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"" ROW_FILL "\"/>\n",
		PLOT_LEFT, PLOT_TOP, PLOT_RIGHT - PLOT_LEFT, PLOT_BOTTOM - PLOT_TOP);
	for (double at = axis_first(axis); at <= axis->high; at = axis_next(axis, at)) {
		double x = x_of(scatter, at);

		fprintf(file, "<path stroke=\"" GRID "\" d=\"M%.1f,%dV%d\"/>\n", x, PLOT_TOP,
			PLOT_BOTTOM);
		orr_svg_write_text(file, x, PLOT_BOTTOM + 18,
				   "class=\"tick\" text-anchor=\"middle\"", tick_text(axis, at));
	}
	axis = &scatter->y;
	for (double at = axis_first(axis); at <= axis->high; at = axis_next(axis, at)) {
		double y = y_of(scatter, at);

		fprintf(file, "<path stroke=\"" GRID "\" d=\"M%d,%.1fH%d\"/>\n", PLOT_LEFT, y,
			PLOT_RIGHT);
		orr_svg_write_text(file, PLOT_LEFT - 8, y + 4, "class=\"tick\" text-anchor=\"end\"",
				   tick_text(axis, at));
	}
	orr_svg_write_text(
		file, (PLOT_LEFT + PLOT_RIGHT) / 2.0, PLOT_BOTTOM + 42,
		"class=\"axis\" text-anchor=\"middle\"",
		orr_text("%s%s", scatter->x.title, scatter->x.logarithmic ? ", logarithmic" : ""));
	orr_svg_write_text(
		file, PLOT_LEFT, PLOT_TOP - 10, "class=\"axis\"",
		orr_text("%s%s", scatter->y.title, scatter->y.logarithmic ? ", logarithmic" : ""));
}

/* ---- labels ---- */

/* Append a name, in a new line where the last one is full. */
static int add_name(struct label *label, const char *name, struct orr_error *err)
{
	char *before = label->text;
	const char *newline = before ? strrchr(before, '\n') : NULL;
	size_t last = before ? strlen(newline ? newline + 1 : before) : 0;
	bool full = last + strlen(name) + 2 > LINE_CHARACTERS;

	if (asprintf(&label->text, "%s%s%s", before ? before : "",
		     !before ? ""
		     : full  ? ",\n"
			     : ", ",
		     name) < 0) {
		label->text = before;
		return orr_fail(err, ORR_E_NOMEM, "scatter: no memory for a label");
	}
	label->n_lines += !before || full;
	free(before);
	return 0;
}

static int make_labels(struct scatter *scatter, const struct orr_comparison *c,
		       struct orr_error *err)
{
	int code;

	if (!(scatter->labels = calloc((size_t)c->n_fitting + 1, sizeof(*scatter->labels))))
		return orr_fail(err, ORR_E_NOMEM, "scatter: no memory for %d labels", c->n_fitting);
	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i];
		double at_x = x_of(scatter, (double)x->makespan_ns);
		double at_y = y_of(scatter, orr_contender_memory(c, x));
		int k = 0;

		/* within a point's radius it is one point */
		while (k < scatter->n_labels &&
		       hypot(scatter->labels[k].x - at_x, scatter->labels[k].y - at_y) >= RADIUS)
			k++;
		if (k == scatter->n_labels) {
			scatter->n_labels++;
			scatter->labels[k] = (struct label){.x = at_x, .y = at_y};
		}
		scatter->labels[k].on_front = scatter->labels[k].on_front || x->on_front;
		if ((code = add_name(&scatter->labels[k], orr_contender_text(c, x), err)))
			return code;
	}
	return 0;
}

static bool overlap(const struct box *a, const struct box *b)
{
	return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height &&
	       b->y < a->y + a->height;
}

/* Inside the plot, on no point and on no label before it. */
static bool is_free(const struct scatter *scatter, const struct box *box)
{
	if (box->x < PLOT_LEFT + 2 || box->y < PLOT_TOP + 2 ||
	    box->x + box->width > PLOT_RIGHT - 2 || box->y + box->height > PLOT_BOTTOM - 2)
		return false;
	for (int i = 0; i < scatter->n_labels; i++) {
		const struct label *label = &scatter->labels[i];
		struct box point = {label->x - RADIUS - 1, label->y - RADIUS - 1, 2 * RADIUS + 2,
				    2 * RADIUS + 2};

		if (overlap(box, &point) || (label->placed && overlap(box, &label->box)))
			return false;
	}
	return true;
}

/* The nearest place of growing circles, to the right first. */
static void place_label(const struct scatter *scatter, struct label *label)
{
	double widest = 0;

	for (const char *line = label->text; *line;
	     line += strcspn(line, "\n"), line += *line == '\n')
		widest =
			(double)strcspn(line, "\n") > widest ? (double)strcspn(line, "\n") : widest;
	label->box = (struct box){0, 0, widest * CHARACTER, label->n_lines * LINE};
	for (double far = RADIUS + 4; far < WIDTH; far += 5)
		for (int turn = 0; turn < 24; turn++) {
			int twelfths = (turn % 2 ? -1 : 1) * ((turn + 1) / 2);
			double angle = twelfths * acos(-1) / 12;
			double x = label->x + far * cos(angle), y = label->y - far * sin(angle);

			/* the box's nearest point lies there: its left edge right of the point, and
			 * so on */
			label->box.x = x - label->box.width * (1 - cos(angle)) / 2;
			label->box.y = y - label->box.height * (1 + sin(angle)) / 2;
			label->placed = is_free(scatter, &label->box);
			if (label->placed)
				return;
		}
}

static double between(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

static void write_line(const struct scatter *scatter, const struct label *label)
{
	const struct box *box = &label->box;
	double x = between(label->x, box->x, box->x + box->width);
	double y = between(label->y, box->y, box->y + box->height);

	if (hypot(x - label->x, y - label->y) > NEAR)
		fprintf(scatter->file,
			"<path stroke=\"" QUIET
			"\" stroke-width=\"0.6\" d=\"M%.1f,%.1fL%.1f,%.1f\"/>\n",
			label->x, label->y, x, y);
}

static void write_label(const struct scatter *scatter, const struct label *label)
{
	int n = 0;

	for (const char *at = label->text; *at; at += *at == '\n') {
		size_t length = strcspn(at, "\n");

		orr_svg_write_text(scatter->file, label->box.x, label->box.y + n++ * LINE + FONT,
				   label->on_front ? "class=\"label front\"" : "class=\"label\"",
				   orr_text("%.*s", (int)length, at));
		at += length;
	}
}

/* ---- the figure ---- */

/* Right and down from each schedule of the front to the next: nothing lies below. */
static void write_front(const struct scatter *scatter, const struct orr_comparison *c)
{
	int n = 0;

	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_contender *x = &c->contenders[i];

		if (!x->on_front)
			continue;
		fprintf(scatter->file, n++ ? "H%.1fV%.1f" : "<path class=\"front\" d=\"M%.1f,%.1f",
			x_of(scatter, (double)x->makespan_ns),
			y_of(scatter, orr_contender_memory(c, x)));
	}
	if (n)
		fprintf(scatter->file, "\"/>\n");
}

static void write_points(const struct scatter *scatter)
{
	for (int i = 0; i < scatter->n_labels; i++)
		write_line(scatter, &scatter->labels[i]);
	for (int i = 0; i < scatter->n_labels; i++)
		fprintf(scatter->file,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" stroke=\"%s\" fill=\"%s\"/>\n",
			scatter->labels[i].x, scatter->labels[i].y, RADIUS,
			scatter->labels[i].on_front ? FRONT : OTHERS,
			scatter->labels[i].on_front ? FRONT : "#fff");
	for (int i = 0; i < scatter->n_labels; i++)
		write_label(scatter, &scatter->labels[i]);
}

static void write_head(FILE *file, const char *title, const char *below)
{
	fprintf(file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 "
		"0 %d %d\" "
		"font-family=\"Helvetica,Arial,sans-serif\" fill=\"" INK
		"\">\n<style>.tick{font-size:11px}"
		".axis{font-size:12px;fill:" QUIET
		"}.label{font-size:%dpx;paint-order:stroke;stroke:#fff;"
		"stroke-width:3px;stroke-linejoin:round}text.front{fill:" FRONT ";font-weight:bold}"
		"path.front{fill:none;stroke:" FRONT
		";stroke-width:1.5;stroke-dasharray:5 3}</style>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, FONT, WIDTH, HEIGHT);
	orr_svg_write_text(file, PLOT_LEFT, 28, "font-size=\"17\" font-weight=\"bold\"", title);
	orr_svg_write_text(file, PLOT_LEFT, 48, "class=\"axis\"", below);
}

static void free_labels(struct scatter *scatter)
{
	for (int i = 0; scatter->labels && i < scatter->n_labels; i++)
		free(scatter->labels[i].text);
	free(scatter->labels);
}

int orr_comparison_svg(FILE *file, const struct orr_comparison *c, const char *title,
		       struct orr_error *err)
{
	struct scatter scatter = {.file = file};
	int code;

	make_axes(&scatter, c);
	if ((code = make_labels(&scatter, c, err)))
		goto out;
	for (int front = 1; front >= 0; front--) /* which has the best places */
		for (int i = 0; i < scatter.n_labels; i++)
			if (scatter.labels[i].on_front == front)
				place_label(&scatter, &scatter.labels[i]);
	write_head(file, title,
		   c->n_fitting ? "filled: nothing is both faster and smaller"
				: "no schedule fits");
	if (c->n_fitting) {
		write_axes(&scatter);
		write_front(&scatter, c);
		write_points(&scatter);
	}
	fputs("</svg>\n", file);
	code = orr_layout_finish(file, "scatter", err);
out:
	free_labels(&scatter);
	return code;
}

/* ---- any column against any other ---- */

struct point {
	double x, y;
	int line; /* of those that share a label */
};

static int compare_points(const void *a, const void *b)
{
	const struct point *p = a, *q = b;

	if (p->line != q->line)
		return p->line < q->line ? -1 : 1;
	if (p->x != q->x)
		return p->x < q->x ? -1 : 1;
	return (p->y > q->y) - (p->y < q->y);
}

/* As the page shows it, see cell() in page/sections.js. */
static void axis_name(struct svg_axis *axis, const char *name, bool units)
{
	static const char *const times[] = {"makespan", "per_microbatch", "lower_bound", "latency"};
	size_t length = strlen(name);

	*axis = (struct svg_axis){NAN, NAN, .names = json_array(), .units = units};
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
		if (!strcmp(name, times[i]))
			axis->measure = TIME;
	if (!strncmp(name, "strict_", 7) || !strncmp(name, "greedy_", 7))
		axis->measure = TIME;
	else if (!strcmp(name, "memory") || (length > 6 && !strcmp(name + length - 6, "_bytes")))
		axis->measure = BYTES;
	else if (strstr(name, "bubble"))
		axis->measure = SHARE;
	else if (!strcmp(name, "bandwidth"))
		axis->measure = RATE;
	(void)snprintf(axis->title, sizeof(axis->title), "%.60s%s", name,
		       axis->measure == TIME && units ? ", units" : "");
}

/* NaN: it has no such figure. */
static double value_of(struct svg_axis *axis, const json_t *cell)
{
	if (axis->measure == NAME)
		return orr_json_index(axis->names, json_incref((json_t *)cell));
	if (json_is_number(cell))
		return json_number_value(cell) * (axis->measure == TIME ? 1e9 : 1);
	return json_is_boolean(cell) ? json_is_true(cell) : NAN;
}

/* "1f1b, workers 8, stages 16": what a row has beside x and y. */
static json_t *line_of(const json_t *report, const json_t *row, const struct orr_compared *table,
		       const char *const columns[2])
{
	static const char *const lists[] = {"microbatches", "memory", "stages"};
	bool listed[] = {json_array_size(json_object_get(report, lists[0])) > 1,
			 json_array_size(json_object_get(report, lists[1])) > 1,
			 table->rows->several_cuts};
	json_t *names = json_pack("[s]", "schedule"), *value;
	const char *name;
	char text[256] = "";
	size_t i;

	json_object_foreach((json_t *)table->axes, name, value)
	{
		(void)orr_json_index(names, json_string(name));
	}
	for (int k = 0; k < 3; k++)
		if (listed[k])
			(void)orr_json_index(names, json_string(lists[k]));
	json_array_foreach(names, i, value)
	{
		name = json_string_value(value);
		if (strcmp(name, columns[0]) && strcmp(name, columns[1]))
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s%s",
				       *text ? ", " : "", i ? name : "", i ? " " : "",
				       name_text(json_object_get(row, name)));
	}
	json_decref(names);
	return json_string(text);
}

/* points: room for all rows. Returns their number; -1: no memory. */
static int find_points(struct point *points, struct scatter *scatter, json_t *lines,
		       const json_t *report, const struct orr_compared *table, const char *x,
		       const char *y)
{
	const char *const names[] = {x, y};
	struct svg_axis *const axes[] = {&scatter->x, &scatter->y};
	const json_t *rows = json_object_get(report, "schedules"), *row;
	double at[2];
	size_t i;
	int n = 0;

	for (int k = 0; k < 2; k++) {
		axis_name(axes[k], names[k], table->rows->units);
		json_array_foreach(rows, i, row)
		{
			if (json_is_string(orr_compared_cell(report, row, names[k])))
				axes[k]->measure = NAME;
		}
	}
	json_array_foreach(rows, i, row)
	{
		for (int k = 0; k < 2; k++)
			at[k] = value_of(axes[k], orr_compared_cell(report, row, names[k]));
		if (isnan(at[0]) || isnan(at[1]))
			continue;
		points[n] = (struct point){
			at[0], at[1], orr_json_index(lines, line_of(report, row, table, names))};
		if (points[n++].line < 0 || at[0] < 0 || at[1] < 0)
			return -1;
		axis_take(&scatter->x, at[0]);
		axis_take(&scatter->y, at[1]);
	}
	for (int k = 0; k < 2 && n; k++)
		axis_span(axes[k], axes[k]->measure != SHARE);
	qsort(points, (size_t)n, sizeof(*points), compare_points);
	return n;
}

/* A line goes through its points, and has its label at the last. */
static int write_lines(struct scatter *scatter, const struct point *points, int n,
		       const json_t *lines, struct orr_error *err)
{
	struct label *label;
	int code = 0;

	for (int i = 0; i < n && !code; i++) {
		bool first = !i || points[i - 1].line != points[i].line;
		double x = x_of(scatter, points[i].x), y = y_of(scatter, points[i].y);

		fprintf(scatter->file,
			first ? "<path fill=\"none\" stroke=\"" OTHERS "\" d=\"M%.1f,%.1f"
			      : "L%.1f,%.1f",
			x, y);
		if (i + 1 < n && points[i + 1].line == points[i].line)
			continue;
		fputs("\"/>\n", scatter->file);
		label = &scatter->labels[scatter->n_labels++];
		*label = (struct label){.x = x, .y = y};
		code = add_name(label,
				json_string_value(json_array_get(lines, (size_t)points[i].line)),
				err);
	}
	for (int i = 0; i < n; i++)
		fprintf(scatter->file,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"" OTHERS "\"/>\n",
			x_of(scatter, points[i].x), y_of(scatter, points[i].y));
	for (int i = 0; i < scatter->n_labels && !code; i++)
		place_label(scatter, &scatter->labels[i]);
	return code;
}

int orr_compared_svg(FILE *file, const json_t *report, const struct orr_compared *table,
		     const char *x, const char *y, struct orr_error *err)
{
	size_t n_rows = json_array_size(json_object_get(report, "schedules"));
	struct scatter scatter = {.file = file};
	struct orr_arrays all = {0};
	struct point *points = orr_arrays_add(&all, n_rows + 1, sizeof(*points));
	json_t *lines = json_array();
	int code = orr_arrays_check(&all, "scatter", err), n = 0;

	scatter.labels = calloc(n_rows + 1, sizeof(*scatter.labels));
	if (!code && (!lines || !scatter.labels ||
		      (n = find_points(points, &scatter, lines, report, table, x, y)) < 0))
		code = orr_fail(err, ORR_E_NOMEM, "scatter: no memory for %zu rows", n_rows);
	if (!code) {
		write_head(file, json_string_value(json_object_get(report, "graph")),
			   n        ? orr_text("%s against %s", y, x)
			   : n_rows ? "no row has both"
				    : "no schedule fits");
		if (n) {
			write_axes(&scatter);
			code = write_lines(&scatter, points, n, lines, err);
			write_points(&scatter);
		}
		fputs("</svg>\n", file);
	}
	if (!code)
		code = orr_layout_finish(file, "scatter", err);
	json_decref(lines);
	json_decref(scatter.x.names);
	json_decref(scatter.y.names);
	free_labels(&scatter);
	orr_arrays_free(&all);
	return code;
}
