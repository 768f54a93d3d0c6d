/* Memory against makespan, as SVG. Schedules at one point share a label; labels are put where there
 * is room, next to their points if possible, and joined to them by a line if not. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
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
	enum { NUMBER, TIME, BYTES } measure; /* TIME: nanoseconds */
	bool units;                           /* times are */
	const char *title;
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
	scatter->x.title = c->units ? "makespan, units" : "makespan";
	scatter->y.title = c->bytes ? "memory of the worker that needs most"
			   : c->several_cuts
				   ? "stage stashes / stages of the worker that holds most"
				   : "stage stashes of the worker that holds most";
}

static const char *tick_text(const struct svg_axis *axis, double at)
{
	int64_t whole = (int64_t)(at + 0.5);

	return axis->measure == TIME    ? orr_duration_text(whole, axis->units)
	       : axis->measure == BYTES ? orr_size_text(whole)
					: orr_text("%.6g", at);
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
	for (int i = 0; i < scatter.n_labels; i++)
		free(scatter.labels[i].text);
	free(scatter.labels);
	return code;
}
