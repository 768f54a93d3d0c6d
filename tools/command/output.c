#include "output.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/diagram.h"
#include "report/html.h"
#include "export.h"

int output_check(const struct output_options *o, struct orr_error *err)
{
	int code;

	if ((code = output_check_file("--svg", o->svg, err)) ||
	    (code = export_check(o->csv, o->strict_csv, err)) ||
	    (code = output_check_file("--trace", o->trace, err)) ||
	    (code = output_check_file("--html", o->html, err)))
		return code;
	return o->json ? output_check_json(err) : 0;
}

struct timelines {
	const struct orr_timeline *const *timelines;
	const char *const *names;
	int n;
};

static int write_svg(FILE *file, const void *timeline, struct orr_error *err)
{
	return orr_diagram_svg(file, timeline, err);
}

static int write_trace(FILE *file, const void *all, struct orr_error *err)
{
	const struct timelines *t = all;

	return orr_diagram_trace(file, t->timelines, t->names, t->n, err);
}

static int write_page(FILE *file, const void *page, struct orr_error *err)
{
	return orr_html_write(file, page, err);
}

int output_html(const struct output_options *o, const struct orr_page *page, struct orr_error *err)
{
	return output_file(o->html, write_page, page, err);
}

int output_timelines(const struct output_options *o, const struct orr_timeline *const *timelines,
		     const char *const *names, int n, struct orr_error *err)
{
	const struct timelines all = {timelines, names, n};
	int code;

	if ((code = output_file(o->svg, write_svg, timelines[n - 1], err)) ||
	    (code = export_write(o->csv, timelines[n - 1], err)))
		return code;
	return output_file(o->trace, write_trace, &all, err);
}

int output_json(json_t *json, struct orr_error *err)
{
	int code = 0;

	if (!json)
		return ORR_E_NOMEM;
	if (json_dumpf(json, stdout, JSON_INDENT(2) | OUTPUT_JSON_DIGITS) || printf("\n") < 0 ||
	    fflush(stdout))
		code = orr_fail(err, ORR_E_IO, "standard output could not be written");
	json_decref(json);
	return code;
}

/* mpirun gives rank 0 a terminal of its own, wherever its output goes. */
static bool is_terminal(void)
{
	return isatty(STDOUT_FILENO) && !getenv("OMPI_COMM_WORLD_RANK");
}

int output_columns(void)
{
	struct winsize size = {0};

	if (is_terminal() && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 40)
		return size.ws_col;
	return 100;
}

int output_wants_colour(void)
{
	return is_terminal() && !getenv("NO_COLOR");
}
