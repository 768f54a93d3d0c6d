#include "output.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/diagram.h"
#include "report/html.h"
#include "report/report.h"
#include "export.h"

int output_check(const struct output_options *o, struct orr_error *err)
{
	int code;

	if ((code = output_check_file("--svg", o->svg, err)) ||
	    (code = export_check(o->csv, err)) ||
	    (code = output_check_file("--figures", o->figures, err)) ||
	    (code = output_check_file("--trace", o->trace, err)) ||
	    (code = output_check_file("--html", o->html, err)))
		return code;
	return o->json ? output_check_json(err) : 0;
}

int output_figures(const struct output_options *o, const json_t *report, struct orr_error *err)
{
	struct output_stream s;
	int code = 0;

	if (o->figures && !(code = output_begin(&s, o->figures, err)))
		code = output_end(&s, orr_report_csv(s.file, report, err), err);
	return code;
}

int output_html(const struct output_options *o, const struct orr_page *page, struct orr_error *err)
{
	struct output_stream s;
	int code = 0;

	if (o->html && !(code = output_begin(&s, o->html, err)))
		code = output_end(&s, orr_html_write(s.file, page, err), err);
	return code;
}

int output_timelines(const struct output_options *o, const struct orr_timeline *const *timelines,
		     const char *const *names, int n, const struct orr_recovery *loss,
		     struct orr_error *err)
{
	struct output_stream s;
	int code = 0;

	if (o->svg && !(code = output_begin(&s, o->svg, err)))
		code = output_end(&s, orr_diagram_svg(s.file, timelines[n - 1], loss, err), err);
	if (!code)
		code = export_write(o->csv, timelines[n - 1], err);
	if (!code && o->trace && !(code = output_begin(&s, o->trace, err)))
		code = output_end(&s, orr_diagram_trace(s.file, timelines, names, n, err), err);
	return code;
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

static int compare_numbers(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

double output_median(double *numbers, int64_t n)
{
	qsort(numbers, (size_t)n, sizeof(*numbers), compare_numbers);
	return (numbers[(n - 1) / 2] + numbers[n / 2]) / 2;
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
