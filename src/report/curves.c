#include "orrery/curves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "axis.h"
#include "layout.h"
#include "svg.h"

#define WIDTH 940
#define HEIGHT 520
#define PLOT_LEFT 64
#define PLOT_TOP 64
#define PLOT_RIGHT (WIDTH - 190)
#define PLOT_BOTTOM (HEIGHT - 56)
#define N_BINS 100
#define LINE 16
#define OVER 2.0 /* times the highest start: what is above is cut off */

static const char heading[] = "step,samples,loss\n";

/* Told apart by those who see few colours as well (Okabe and Ito). */
static const char *const colours[ORR_MOST_CURVES] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
						     "#e69f00", "#56b4e9", "#5d4a9c", "#222222"};

/* ---- files ---- */

static int cannot_write(struct orr_error *err)
{
	return orr_fail(err, ORR_E_IO, "losses: the file could not be written");
}

int orr_curve_begin(FILE *file, struct orr_error *err)
{
	return fputs(heading, file) < 0 ? cannot_write(err) : 0;
}

int orr_curve_write(FILE *file, int64_t step, int64_t samples, double loss, struct orr_error *err)
{
	int n = fprintf(file, "%lld,%lld,%.9g\n", (long long)step, (long long)samples, loss);

	return n < 0 ? cannot_write(err) : 0;
}

static int name_curve(struct orr_curve *curve, const char *path, struct orr_error *err)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t length = strlen(base);

	if (length > 4 && !strcmp(base + length - 4, ".csv"))
		length -= 4;
	if (!(curve->name = strndup(base, length)))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its name", path);
	return 0;
}

static int add_line(struct orr_curve *curve, const char *text, int64_t *capacity, const char *path,
		    int64_t line, struct orr_error *err)
{
	long long step;
	double samples, loss;
	int end = 0;

	if (sscanf(text, "%lld,%lf,%lf%n", &step, &samples, &loss, &end) != 3 ||
	    text[end + (int)strspn(text + end, "\r\n")])
		return orr_fail(err, ORR_E_INPUT,
				"%s:%lld: no line 'step,samples,loss' as train --loss writes them",
				path, (long long)line);
	if (curve->n && !(samples > curve->samples[curve->n - 1]))
		return orr_fail(err, ORR_E_INPUT, "%s:%lld: samples do not grow", path,
				(long long)line);
	if (curve->n == *capacity) {
		size_t room = (size_t)(*capacity = *capacity ? 2 * *capacity : 256);
		double *x = realloc(curve->samples, room * sizeof(*x)), *y;

		curve->samples = x ? x : curve->samples;
		y = x ? realloc(curve->loss, room * sizeof(*y)) : NULL;
		curve->loss = y ? y : curve->loss;
		if (!y)
			return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its lines", path);
	}
	curve->samples[curve->n] = samples;
	curve->loss[curve->n++] = loss;
	return 0;
}

int orr_curve_read(struct orr_curve *curve, const char *path, struct orr_error *err)
{
	FILE *file = fopen(path, "r");
	char text[256];
	int64_t capacity = 0, line = 0;
	int code;

	*curve = (struct orr_curve){0};
	if (!file)
		return orr_fail(err, ORR_E_INPUT, "%s: cannot be read: %s", path, strerror(errno));
	code = name_curve(curve, path, err);
	while (!code && fgets(text, sizeof(text), file))
		if (++line > 1 || strcmp(text, heading) != 0)
			code = add_line(curve, text, &capacity, path, line, err);
	if (!code && ferror(file))
		code = orr_fail(err, ORR_E_IO, "%s: cannot be read", path);
	if (!code && !curve->n)
		code = orr_fail(err, ORR_E_INPUT, "%s: has no losses", path);
	(void)fclose(file);
	if (code)
		orr_curve_fini(curve);
	return code;
}

void orr_curve_fini(struct orr_curve *curve)
{
	free(curve->name);
	free(curve->samples);
	free(curve->loss);
	*curve = (struct orr_curve){0};
}

/* ---- the drawing ---- */

struct point {
	double x, y;
};

/* A curve as it is drawn. */
struct stroke {
	struct point points[N_BINS];
	int n;
	bool diverged; /* ends where the loss is finite for the last time */
	double label;  /* y of its name */
};

struct plot {
	struct svg svg;
	struct svg_axis samples, loss;
	const struct orr_curve *curves;
	struct stroke strokes[ORR_MOST_CURVES];
	int n;
};

static double x_of(const struct plot *plot, double samples)
{
	return PLOT_LEFT + svg_axis_share(&plot->samples, samples) * (PLOT_RIGHT - PLOT_LEFT);
}

static double y_of(const struct plot *plot, double loss)
{
	double y = PLOT_BOTTOM - svg_axis_share(&plot->loss, loss) * (PLOT_BOTTOM - PLOT_TOP);

	return y < PLOT_TOP ? PLOT_TOP : y > PLOT_BOTTOM ? PLOT_BOTTOM : y;
}

/* One point, the mean, for what lies within a hundredth of the drawing. */
static void make_stroke(struct stroke *stroke, const struct orr_curve *curve, double last)
{
	int bin = -1, in_bin = 0;

	for (int64_t i = 0; i < curve->n && !stroke->diverged; i++) {
		int at = (int)ceil(curve->samples[i] / last * N_BINS) - 1;
		struct point *p;

		stroke->diverged = !isfinite(curve->loss[i]);
		if (stroke->diverged)
			break;
		at = at < 0 ? 0 : at < N_BINS ? at : N_BINS - 1;
		if (at != bin) {
			bin = at;
			in_bin = 0;
			stroke->n++;
		}
		p = &stroke->points[stroke->n - 1];
		p->x = (p->x * in_bin + curve->samples[i]) / (in_bin + 1);
		p->y = (p->y * in_bin + curve->loss[i]) / (in_bin + 1);
		in_bin++;
	}
}

static void make_plot(struct plot *plot)
{
	double last = 0, low = INFINITY, high = 0, start = 0;

	for (int k = 0; k < plot->n; k++)
		last = fmax(last, plot->curves[k].samples[plot->curves[k].n - 1]);
	for (int k = 0; k < plot->n; k++) {
		struct stroke *stroke = &plot->strokes[k];

		make_stroke(stroke, &plot->curves[k], last);
		start = stroke->n ? fmax(start, stroke->points[0].y) : start;
		for (int i = 0; i < stroke->n; i++) {
			low = fmin(low, stroke->points[i].y);
			high = fmax(high, stroke->points[i].y);
		}
	}
	plot->samples = svg_axis_make(0, last, true);
	plot->samples.high = last;
	plot->loss = svg_axis_make(fmax(isfinite(low) ? low : 0, 0),
				   start > 0 ? fmin(high, OVER * start) : high, false);
}

static void write_axes(const struct plot *plot)
{
	FILE *file = plot->svg.file;
	const struct svg_axis *axis = &plot->samples;
	char text[64];

	fprintf(file,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"" ROW_FILL "\"/>\n",
		PLOT_LEFT, PLOT_TOP, PLOT_RIGHT - PLOT_LEFT, PLOT_BOTTOM - PLOT_TOP);
	for (double at = svg_axis_first(axis); at <= axis->high; at = svg_axis_next(axis, at)) {
		fprintf(file, "<path stroke=\"" GRID "\" d=\"M%.1f,%dV%d\"/>\n", x_of(plot, at),
			PLOT_TOP, PLOT_BOTTOM);
		(void)snprintf(text, sizeof(text), "%.0f", at);
		svg_write_text(&plot->svg, x_of(plot, at), PLOT_BOTTOM + 18,
			       "class=\"tick\" text-anchor=\"middle\"", text);
	}
	axis = &plot->loss;
	for (double at = svg_axis_first(axis); at <= axis->high; at = svg_axis_next(axis, at)) {
		fprintf(file, "<path stroke=\"" GRID "\" d=\"M%d,%.1fH%d\"/>\n", PLOT_LEFT,
			y_of(plot, at), PLOT_RIGHT);
		(void)snprintf(text, sizeof(text), "%.4g", at);
		svg_write_text(&plot->svg, PLOT_LEFT - 8, y_of(plot, at) + 4,
			       "class=\"tick\" text-anchor=\"end\"", text);
	}
	svg_write_text(&plot->svg, (PLOT_LEFT + PLOT_RIGHT) / 2.0, PLOT_BOTTOM + 40,
		       "class=\"axis\" text-anchor=\"middle\"", "samples seen");
	svg_write_text(&plot->svg, PLOT_LEFT, PLOT_TOP - 10, "class=\"axis\"",
		       axis->logarithmic ? "training loss, logarithmic" : "training loss");
}

/* Names stand where the curves end, pushed apart from the top down. */
static void place_labels(struct plot *plot)
{
	double next = PLOT_TOP + LINE / 2.0;
	bool placed[ORR_MOST_CURVES] = {false};

	for (int i = 0; i < plot->n; i++) {
		int top = -1;
		double highest = INFINITY;

		for (int k = 0; k < plot->n; k++) {
			const struct stroke *s = &plot->strokes[k];
			double y = s->n ? y_of(plot, s->points[s->n - 1].y) : PLOT_TOP;

			if (!placed[k] && y < highest) {
				highest = y;
				top = k;
			}
		}
		/* the ones below need their room too */
		highest = fmin(highest, PLOT_BOTTOM - (plot->n - 1 - i) * LINE);
		plot->strokes[top].label = fmax(highest, next);
		next = plot->strokes[top].label + LINE;
		placed[top] = true;
	}
}

static void write_stroke(const struct plot *plot, int k)
{
	const struct stroke *stroke = &plot->strokes[k];
	FILE *file = plot->svg.file;
	char text[192], style[96];

	if (stroke->n)
		fprintf(file, "<path class=\"curve\" stroke=\"%s\" d=\"", colours[k]);
	for (int i = 0; i < stroke->n; i++)
		fprintf(file, "%s%.1f,%.1f", i ? "L" : "M", x_of(plot, stroke->points[i].x),
			y_of(plot, stroke->points[i].y));
	if (stroke->n == 1)
		fprintf(file, "h0.1");
	if (stroke->n)
		fprintf(file, "\"/>\n");
	if (stroke->diverged)
		(void)snprintf(text, sizeof(text), "%.120s: diverged", plot->curves[k].name);
	else
		(void)snprintf(text, sizeof(text), "%.120s: %.3g", plot->curves[k].name,
			       stroke->points[stroke->n - 1].y);
	(void)snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\"", colours[k]);
	svg_write_text(&plot->svg, PLOT_RIGHT + 10, stroke->label + 4, style, text);
}

int orr_curves_svg(FILE *file, const struct orr_curve *curves, int n, const char *title,
		   struct orr_error *err)
{
	struct plot plot = {.svg = {.file = file}, .curves = curves, .n = n};

	make_plot(&plot);
	place_labels(&plot);
	fprintf(file,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 "
		"0 %d %d\" font-family=\"Helvetica,Arial,sans-serif\" fill=\"" INK
		"\">\n<style>.tick{font-size:11px}.axis{font-size:12px;fill:" QUIET
		"}.name{font-size:13px;font-weight:bold}.curve{fill:none;stroke-width:1.8;"
		"stroke-linejoin:round;stroke-linecap:round}</style>\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
	svg_write_text(&plot.svg, PLOT_LEFT, 28, "font-size=\"17\" font-weight=\"bold\"", title);
	write_axes(&plot);
	for (int k = 0; k < n; k++)
		write_stroke(&plot, k);
	fputs("</svg>\n", file);
	return orr_layout_finish(file, "curves", err);
}
