#include <string.h>

#include "base/max.h"
#include "base/quantity.h"
#include "layout.h"
#include "simulate/failures.h"

/* From the top of the strip; up to five labels of moments stand above the steps. */
enum { HEAD = 12, LABELS = 32, LABEL = 15, STEPS = 104, TALL = 24, COPIES = 130, LEGEND = 146 };
#define ROOM 130    /* beside it, for the label of the last moment */
#define NARROWEST 3 /* steps that are narrower are drawn several in a box */

enum look { ONCE, LOST, AGAIN, COPY, NONE, N_LOOKS };
static const char *const fills[] = {"#c2dfff", "#ffa194", "#f3d76b", "#008b4e", GRID};
static const char *const names[] = {"run once", "lost", "run again", "copy", "no steps"};

struct strip {
	FILE *file;
	const struct orr_recovery *r;
	double left, top, width;
	int64_t from_ns, span_ns;
};
enum phase { BEFORE, FEWER, ALL }; /* the loss; after it, on so many workers */

static double x_of(const struct strip *s, int64_t time_ns)
{
	return s->left + (double)(time_ns - s->from_ns) * s->width / (double)s->span_ns;
}

static void write_box(const struct strip *s, enum look look, double x, double y, double width,
		      double height, const char *title)
{
	fprintf(s->file,
		"<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" fill=\"%s\" "
		"stroke=\"#fff\" stroke-width=\"0.7\"><title>%s%s</title></rect>\n",
		x, s->top + y, width, height, fills[look], names[look], title);
}

/* step: its number, or several; "" for none. */
static void write_span(const struct strip *s, enum look look, bool low, int64_t from_ns,
		       int64_t to_ns, const char *step)
{
	double x = x_of(s, from_ns), width = x_of(s, to_ns) - x, height = low ? TALL / 2 : TALL;
	bool units = s->r->of->units;

	write_box(s, look, x, look == COPY ? COPIES : STEPS + TALL - height, width,
		  look == COPY ? 6 : height,
		  orr_text("%s%s: %s to %s", *step ? ", step " : "", step,
			   orr_time_text(from_ns, units), orr_time_text(to_ns, units)));
	if (look != COPY && 6 * (double)strlen(step) + 4 < width)
		orr_svg_write_text(s->file, x + width / 2, s->top + STEPS + TALL - height / 2 + 3.6,
				   "font-size=\"10\" text-anchor=\"middle\"", step);
}

/* Steps from + 1 to `to` of a training that goes on at on_ns; its last copy ends at end_ns. */
static void write_steps(const struct strip *s, enum phase phase, int64_t on_ns, int64_t from,
			int64_t to, int64_t end_ns)
{
	const struct orr_outage *o = s->r->of;
	const enum look first = phase ? AGAIN : ONCE, then = phase ? ONCE : LOST;
	int64_t step_ns = phase == FEWER ? s->r->fewer_ns : s->r->step_ns, base = phase ? from : 0;
	int64_t edge = smaller(phase ? s->r->done + 1 : s->r->from, to), copied, next;
	double more = NARROWEST * (double)s->span_ns / ((double)step_ns * s->width);

	for (int64_t i = from; i < to; i = next) {
		int64_t ns = on_ns + orr_outage_run_ns(o, step_ns, base, i), then_ns;
		const char *step = orr_text("%lld", (long long)i + 1);

		next = smaller(i + 1 + (int64_t)more, i < edge ? edge : to);
		then_ns = on_ns + orr_outage_run_ns(o, step_ns, base, next);
		if (next > i + 1)
			step = orr_text("%s to %lld", step, (long long)next);
		write_span(s, i < edge ? first : then, phase == FEWER, ns, then_ns, step);
		copied = phase == FEWER && next == to ? next : next / o->every * o->every;
		ns = on_ns + orr_outage_run_ns(o, step_ns, base, copied);
		if (copied > i && ns < end_ns)
			write_span(s, COPY, false, ns, smaller(ns + o->copy_ns, end_ns),
				   orr_text("%lld", (long long)copied));
	}
}

/* The earlier, the higher, so that no line goes through a label that starts at one. */
static void write_moments(const struct strip *s)
{
	const struct orr_outage *o = s->r->of;
	const char *const what[] = {orr_text("worker %lld is lost", (long long)o->w),
				    "steps run again", "caught up", "on all again", "it is back"};
	const int64_t ns[] = {o->at_ns, o->at_ns + o->restart_ns, s->r->next_ns, s->r->all_ns,
			      o->at_ns + o->for_ns};
	int n = o->for_ns ? 5 : 3;

	for (int i = 0, row = 5 - n; i < n; i++, row = 5 - n) {
		double x = x_of(s, ns[i]), y = s->top + LABELS;

		for (int k = 0; k < n; k++)
			row += ns[k] < ns[i] || (ns[k] == ns[i] && k < i);
		y += row * LABEL;
		fprintf(s->file, "<path stroke=\"" QUIET "\" d=\"M%.2f,%.1fV%.1f\"/>\n", x, y - 9,
			s->top + STEPS + TALL / 2.0);
		orr_svg_write_text(s->file, x + 4, y, "font-size=\"12\"",
				   orr_text("%s: %s", what[i], orr_time_text(ns[i], o->units)));
	}
}

static void write_legend(const struct strip *s)
{
	double x = s->left, y = s->top + LEGEND + 11;

	for (int i = 0; i < N_LOOKS; i++) {
		write_box(s, (enum look)i, x, LEGEND, 22, 14, "");
		orr_svg_write_text(s->file, x + 28, y, "font-size=\"12\"", names[i]);
		x += 48 + 6.2 * (double)strlen(names[i]);
	}
	if (s->r->fewer)
		orr_svg_write_text(s->file, x, y, "font-size=\"12\"",
				   "half as high: on one worker fewer");
}

void orr_outage_svg(FILE *file, const struct orr_recovery *r, double left, double top, double width)
{
	const struct orr_outage *o = r->of;
	int64_t first = larger(r->from - 1, 0), to = r->from + r->fewer;
	int64_t last = larger(r->done + 1, to) + 1, again_ns = o->at_ns + o->restart_ns;
	int64_t end_ns = r->all_ns + orr_outage_run_ns(o, r->step_ns, to, last);
	int64_t fewer_ns = again_ns + orr_outage_run_ns(o, r->fewer_ns, r->from, to);
	struct strip s = {
		file, r, left, top, width - ROOM, orr_outage_run_ns(o, r->step_ns, 0, first), 0};

	s.span_ns = end_ns - s.from_ns;
	orr_svg_write_text(file, left, top + HEAD, "font-size=\"13\" font-weight=\"bold\"",
			   orr_text("worker %lld lost: %s lost in all, to scale", (long long)o->w,
				    orr_time_text(r->lost_ns, o->units)));
	write_steps(&s, BEFORE, 0, first, r->done, o->at_ns);
	write_span(&s, LOST, false, o->at_ns - r->into_ns, o->at_ns,
		   orr_text("%lld", (long long)r->done + 1));
	write_span(&s, NONE, false, o->at_ns, again_ns, "");
	write_steps(&s, FEWER, again_ns, r->from, to, fewer_ns + o->copy_ns);
	if (r->fewer)
		write_span(&s, NONE, false, fewer_ns, r->all_ns, "");
	write_steps(&s, ALL, r->all_ns, to, last, end_ns);
	write_moments(&s);
	write_legend(&s);
}
