/* orrery simulate: file -> graph -> pipeline -> jobs -> timeline -> report. */
#include <argp.h>
#include <stdio.h>

#include "command.h"
#include "drawing/diagram.h"
#include "figures.h"
#include "output.h"
#include "report.h"
#include "simulate.h"
#include "timeline.h"
#include "work.h"

enum { KEY_JSON = 512, KEY_SVG, KEY_CSV, KEY_TRACE };

struct arguments {
	struct work_options work;
	bool json;
	const char *svg, *csv, *trace;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Output:", 4},
	{"json", KEY_JSON, NULL, 0, "one JSON object on standard output, and nothing else", 4},
	{"svg", KEY_SVG, "FILE", 0, "the timeline as SVG", 4},
	{"csv", KEY_CSV, "FILE", 0,
	 "the schedule as PyTorch's CSV, which --schedule FILE.csv reads", 4},
	{"trace", KEY_TRACE, "FILE", 0, "the timeline as Chrome trace JSON, for Perfetto", 4},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		return 0;
	case KEY_JSON:
		a->json = true;
		return 0;
	case KEY_SVG:
		a->svg = arg;
		return 0;
	case KEY_CSV:
		a->csv = arg;
		return 0;
	case KEY_TRACE:
		a->trace = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print(const struct arguments *a, const struct orr_timeline *t,
		 const struct orr_figures *f, struct orr_error *err)
{
	json_t *json;
	int code;

	if (!a->json) {
		if ((code = orr_diagram_text(stdout, t, output_columns(), output_wants_colour(),
					     err)))
			return code;
		printf("\n");
		return orr_report_write(stdout, t, f, err);
	}
	if (!(json = orr_report_json(t, f, err)))
		return ORR_E_NOMEM;
	code = json_dumpf(json, stdout, JSON_INDENT(2)) || printf("\n") < 0 || fflush(stdout)
		       ? orr_fail(err, ORR_E_IO, "standard output could not be written")
		       : 0;
	json_decref(json);
	return code;
}

int cmd_simulate(int argc, char **argv)
{
	static const struct argp_child children[] = {{&work_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		options,  parse, "GRAPH", "Simulate a schedule exactly: its timeline and figures.",
		children, NULL,  NULL};
	struct arguments a = {.work = work_options_default()};
	struct orr_timeline *timeline = NULL;
	struct orr_figures *figures = NULL;
	struct work work = {0};
	struct orr_error err = {""};
	int code;

	command_parse(&argp, argc, argv, &a);
	if ((code = output_check(a.svg, &err)) || (code = output_check(a.csv, &err)) ||
	    (code = output_check(a.trace, &err)) || (code = work_init(&work, &a.work, 0, &err)) ||
	    (code = orr_simulate(&timeline, work.jobs, &a.work.machine, &err)) ||
	    (code = orr_timeline_check(timeline, &err)) ||
	    (code = orr_figures_create(&figures, timeline, &err)) ||
	    (code = orr_figures_check_memory(figures, &a.work.machine, &err)) ||
	    (code = print(&a, timeline, figures, &err)) ||
	    (code = output_svg(a.svg, timeline, &err)) ||
	    (code = output_csv(a.csv, timeline, &err)))
		goto out;
	code = output_trace(a.trace, (const struct orr_timeline *const[]){timeline},
			    (const char *const[]){work.jobs->schedule}, 1, &err);
out:
	orr_figures_destroy(figures);
	orr_timeline_destroy(timeline);
	work_fini(&work);
	return command_end(code, &err);
}
