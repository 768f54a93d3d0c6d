/* What an SVG says where the mouse is: every job's name, its stage's operators, its start and its
 * end. */
#include "svg.h"

#include "orrery/jobs.h"
#include "layout.h"
#include "members.h"
#include "parts.h"
#include "orrery/timeline.h"

#define MOST_TITLES 20000 /* of more jobs none is wide enough to be pointed at */

/* Exact to the nanosecond, in the unit of the axis. */
static void write_times(const struct svg *svg, const struct orr_cell *cell)
{
	const struct orr_layout *layout = svg->layout;
	double unit_ns = (double)layout->unit_ns;

	fprintf(svg->file, ": %.15g to %.15g %s", (double)cell->start_ns / unit_ns,
		(double)cell->end_ns / unit_ns, layout->unit);
}

static void write_title(const struct svg *svg, const struct orr_members *members,
			const struct orr_cell *cell)
{
	const struct orr_pipeline *p = svg->layout->timeline->jobs->pipeline;
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
	write_times(svg, cell);
	fputs("</title>", svg->file);
}

int orr_svg_write_titles(const struct svg *svg, struct orr_error *err)
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
			write_title(svg, &members, cell);
			fputs("</path>\n", svg->file);
		}
	fputs("</g>\n", svg->file);
	orr_members_fini(&members);
	return 0;
}
