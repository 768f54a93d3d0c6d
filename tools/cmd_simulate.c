/* orrery simulate: file -> graph -> pipeline -> jobs -> timeline -> report. */
#include <argp.h>
#include <stdio.h>

#include "command.h"
#include "drawing/diagram.h"
#include "figures.h"
#include "output.h"
#include "plugin.h"
#include "report.h"
#include "simulate.h"
#include "timeline.h"
#include "work.h"

struct arguments {
	struct work_options work;
	struct output_options output;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	(void)arg;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &a->work;
	state->child_inputs[1] = &a->output;
	state->child_inputs[2] = &a->work.timeout_s;
	return 0;
}

static int print(const struct arguments *a, const struct orr_timeline *t,
		 const struct orr_figures *f, struct orr_error *err)
{
	int code;

	if (a->output.json)
		return output_json(orr_report_json(t, f, err), err);
	if ((code = orr_diagram_text(stdout, t, output_columns(), output_wants_colour(), err)))
		return code;
	printf("\n");
	return orr_report_write(stdout, t, f, err);
}

int cmd_simulate(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&work_argp, 0, NULL, 0}, {&output_argp, 0, NULL, 0}, {&plugin_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		NULL,     parse, "GRAPH", "Simulate a schedule exactly: its timeline and figures.",
		children, NULL,  NULL};
	struct arguments a = {.work = work_options_default()};
	struct orr_timeline *timeline = NULL;
	struct orr_figures *figures = NULL;
	struct work work = {0};
	struct orr_error err = {""};
	int code;

	command_parse(&argp, argc, argv, &a);
	if ((code = output_check(&a.output, &err)) || (code = work_init(&work, &a.work, 0, &err)) ||
	    (code = orr_simulate(&timeline, work.jobs, &a.work.machine, &err)) ||
	    (code = orr_timeline_check(timeline, &err)) ||
	    (code = orr_figures_create(&figures, timeline, &err)) ||
	    (code = orr_steady_find(&figures->steady, timeline, &a.work.machine, &err)) ||
	    (code = orr_figures_check_memory(figures, &a.work.machine, &err)) ||
	    (code = print(&a, timeline, figures, &err)))
		goto out;
	code = output_timelines(&a.output, (const struct orr_timeline *const[]){timeline},
				(const char *const[]){work.jobs->schedule}, 1, &err);
out:
	orr_figures_destroy(figures);
	orr_timeline_destroy(timeline);
	work_fini(&work);
	return command_end(code, &err);
}
