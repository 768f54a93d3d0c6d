#include "svg.h"

#include <string.h>

#include "orrery/figures.h"
#include "layout.h"
#include "base/quantity.h"
#include "orrery/jobs.h"
#include "pipeline/machine_text.h"
#include "orrery/timeline.h"
#include "base/utf8.h"

#define CURVE "#8496b0"

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

double orr_svg_row_top(const struct svg *svg, int w)
{
	return TOP + w * svg->pitch;
}

int orr_svg_tenths(const struct svg *svg, int64_t time_ns)
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

void orr_svg_write_box(const struct svg *svg, int w, int from, int width)
{
	fputc('M', svg->file);
	write_tenths(svg->file, LEFT * 10 + from);
	fprintf(svg->file, ",%.1fh", orr_svg_row_top(svg, w));
	write_tenths(svg->file, width);
	fprintf(svg->file, "v%.1fh-", svg->height);
	write_tenths(svg->file, width);
	fputc('z', svg->file);
}

void orr_svg_write_text(const struct svg *svg, double x, double y, const char *style,
			const char *text)
{
	fprintf(svg->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
	orr_svg_write_escaped(svg->file, text);
	fputs("</text>\n", svg->file);
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
	const struct orr_machine *machine = &svg->layout->timeline->jobs->pipeline->machine;
	char is[ORR_WORKER_TEXT];

	if (!*orr_worker_print(is, sizeof(is), machine, w))
		return;
	fputs("<title>", svg->file);
	orr_svg_write_escaped(svg->file, is + 1);
	fputs("</title>", svg->file);
}

void orr_svg_write_rows(const struct svg *svg, double top, double pitch, double height)
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
	int x = orr_svg_tenths(curve->svg, since > 0 ? since : 0);

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
	char text[64];

	fprintf(svg->file, "<g font-size=\"%.0f\">\n", font);
	for (int w = 0; w < svg->layout->n_workers; w += step) {
		const struct orr_worker_figures *worker = &svg->figures->worker[w];

		(void)snprintf(text, sizeof(text), "%d", worker->peak_stash);
		if (svg->bytes)
			(void)orr_size_print(text, sizeof(text), worker->peak_stash_bytes);
		fprintf(svg->file, "<text x=\"%d\" y=\"%.1f\">%s</text>\n", LEFT + svg->width + 6,
			svg->memory_top + w * svg->memory_pitch + svg->memory_height / 2 +
				font * 0.35,
			text);
	}
	fputs("</g>\n", svg->file);
}

int orr_svg_write_memory(const struct svg *svg, struct orr_error *err)
{
	orr_svg_write_text(svg, LEFT, svg->memory_top - 10, "font-size=\"13\" font-weight=\"bold\"",
			   svg->bytes ? "stash over time" : "stage stashes over time");
	orr_svg_write_text(svg, LEFT + svg->width + 6, svg->memory_top - 10, "font-size=\"12\"",
			   "peak");
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
