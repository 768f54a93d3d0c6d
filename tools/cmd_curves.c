/* orrery curves: the losses of several trainings, side by side. */
#include <argp.h>

#include "command.h"
#include "orrery/curves.h"
#include "output.h"

enum { KEY_SVG = 512, KEY_TITLE };

struct arguments {
	const char *paths[ORR_MOST_CURVES], *svg, *title;
	int n;
};

static const struct argp_option options[] = {
	{"svg", KEY_SVG, "FILE", 0, "where the drawing goes; - is standard output (losses.svg)", 0},
	{"title", KEY_TITLE, "TEXT", 0, "above it", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	struct orr_error err;

	switch (key) {
	case KEY_SVG:
		a->svg = arg;
		return 0;
	case KEY_TITLE:
		a->title = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (a->n == ORR_MOST_CURVES)
			command_refuse(
				(orr_fail(&err, ORR_E_INPUT, "curves: %d at most", ORR_MOST_CURVES),
				 &err));
		a->paths[a->n++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->n)
			command_refuse((orr_fail(&err, ORR_E_INPUT,
						 "curves: name the files that `orrery train "
						 "--loss FILE` wrote"),
					&err));
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct drawing {
	struct orr_curve curves[ORR_MOST_CURVES];
	int n;
	const char *title;
};

static int write_drawing(FILE *file, const void *what, struct orr_error *err)
{
	const struct drawing *d = what;

	return orr_curves_svg(file, d->curves, d->n, d->title, err);
}

int cmd_curves(int argc, char **argv)
{
	static const struct argp argp = {options,
					 parse,
					 "LOSSES.csv...",
					 "Draw the losses of trainings, as `orrery train --loss "
					 "FILE` writes them, side by side.",
					 NULL,
					 NULL,
					 NULL};
	struct arguments a = {.svg = "losses.svg", .title = "Training loss"};
	struct drawing drawing = {.n = 0};
	struct orr_error err = {""};
	int code;

	command_parse(&argp, argc, argv, &a);
	drawing.title = a.title;
	code = output_check_file("--svg", a.svg, &err);
	while (!code && drawing.n < a.n)
		if (!(code = output_keep(a.paths[drawing.n], &err)) &&
		    !(code = orr_curve_read(&drawing.curves[drawing.n], a.paths[drawing.n], &err)))
			drawing.n++;
	if (!code)
		code = output_file(a.svg, write_drawing, &drawing, &err);
	while (drawing.n > 0)
		orr_curve_fini(&drawing.curves[--drawing.n]);
	return command_end(code, &err);
}
