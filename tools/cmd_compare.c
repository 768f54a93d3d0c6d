/* orrery compare: file -> graph -> pipeline -> every schedule -> one row each. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

#include "command.h"
#include "compare.h"
#include "output.h"
#include "plugin.h"
#include "quantity.h"
#include "work.h"

enum { KEY_SVG = 512 };

struct arguments {
	struct work_options work;
	struct output_options output;
};

static const struct argp_option options[] = {
	{"svg", KEY_SVG, "FILE", 0, "memory against makespan as SVG", 5},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		state->child_inputs[1] = &a->output;
		state->child_inputs[2] = &a->work.timeout_s;
		return 0;
	case KEY_SVG:
		a->output.svg = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- text ---- */

#define CELL 40
#define N_COLUMNS 10

static void fill_row(char row[N_COLUMNS][CELL], const struct orr_comparison *c,
		     const struct orr_contender *x)
{
	char size[CELL / 2];

	(void)snprintf(row[0], CELL, "%c %s", x->on_front ? '*' : ' ', x->schedule);
	orr_duration_print(row[1], CELL, x->makespan_ns, c->units);
	*row[2] = '\0';
	if (x->period_microbatches)
		orr_duration_print(row[2], CELL, x->period_ns / x->period_microbatches, c->units);
	(void)snprintf(row[3], CELL, "%.1f%%", 100 * x->bubble);
	(void)snprintf(row[4], CELL, "%.1f%%", 100 * x->span_bubble);
	(void)snprintf(row[5], CELL, "%d", x->peak_stash);
	if (c->bytes)
		(void)snprintf(row[5], CELL, "%d (%s)", x->peak_stash,
			       orr_size_print(size, sizeof(size), x->peak_stash_bytes));
	orr_size_print(row[6], CELL, x->memory_bytes);
	orr_size_print(row[7], CELL, x->received_bytes);
	orr_duration_print(row[8], CELL, x->lower_bound_ns, c->units);
	*row[9] = '\0';
	if (x->makespan_ns == x->lower_bound_ns)
		(void)snprintf(row[9], CELL, "reached");
	else if (x->lower_bound_ns)
		(void)snprintf(row[9], CELL, "+%.1f%%",
			       100 * ((double)x->makespan_ns / (double)x->lower_bound_ns - 1));
}

/* Columns without a width are left out. */
static void print_row(char row[N_COLUMNS][CELL], const int *width)
{
	printf("%-*s", width[0], row[0]);
	for (int i = 1; i < N_COLUMNS; i++)
		if (width[i])
			printf("  %*s", width[i], row[i]);
	printf("\n");
}

/* Columns that have nothing to say are left out. */
static void print_table(const struct orr_comparison *c)
{
	char heading[2][N_COLUMNS][CELL] = {{"  schedule", "makespan", "per micro-", "bubble",
					     "span", "peak", "memory", "received", "lower",
					     "above"},
					    {"", "", "batch", "", "bubble", "stash", "", "",
					     "bound", "it"}};
	char row[N_COLUMNS][CELL];
	int width[N_COLUMNS] = {0};
	bool memory = false, received = false;

	if (c->units)
		(void)snprintf(heading[1][1], CELL, "units");
	for (int i = -2; i < c->n_fitting; i++) {
		if (i >= 0)
			fill_row(row, c, &c->contenders[i]);
		for (int k = 0; k < N_COLUMNS; k++) {
			int length = (int)strlen(i < 0 ? heading[i + 2][k] : row[k]);

			width[k] = length > width[k] ? length : width[k];
		}
	}
	/* bytes that nobody gave */
	for (int i = 0; i < c->n_fitting; i++) {
		memory = memory ||
			 c->contenders[i].memory_bytes != c->contenders[i].peak_stash_bytes;
		received = received || c->contenders[i].received_bytes;
	}
	width[6] = memory ? width[6] : 0;
	width[7] = received ? width[7] : 0;
	print_row(heading[0], width);
	print_row(heading[1], width);
	for (int i = 0; i < c->n_fitting; i++) {
		fill_row(row, c, &c->contenders[i]);
		print_row(row, width);
	}
	printf("\n*: nothing is both faster and smaller.\n"
	       "per micro-batch: step after step; pipedream does not flush between them.\n"
	       "bubble: 1 - time busy / (workers x makespan); span bubble: of the busiest worker, "
	       "from its\n"
	       "first start to its last end.\n"
	       "peak stash%s: of the worker that needs most.\n%s",
	       memory ? ", memory" : "", received ? "received: by all workers in a step.\n" : "");
}

static int print_text(const struct orr_comparison *c, const char *title, struct orr_error *err)
{
	int width = 0;

	printf("%s\n\n", title);
	if (c->n_fitting)
		print_table(c);
	for (int i = c->n_fitting; i < c->n; i++)
		width = (int)strlen(c->contenders[i].schedule) > width
				? (int)strlen(c->contenders[i].schedule)
				: width;
	if (width)
		printf("\nThese do not fit:\n");
	for (int i = c->n_fitting; i < c->n; i++)
		printf("  %-*s  %s\n", width, c->contenders[i].schedule, c->contenders[i].reason);
	return fflush(stdout) ? orr_fail(err, ORR_E_IO, "standard output could not be written") : 0;
}

/* ---- JSON ---- */

static json_t *contender_json(const struct orr_contender *x)
{
	if (x->reason)
		return json_pack("{s:s, s:s}", "schedule", x->schedule, "reason", x->reason);
	return json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:I, s:I, s:I, s:b, s:o}",
			 "schedule", x->schedule, "makespan", (double)x->makespan_ns / 1e9, "bubble", x->bubble,
			 "span_bubble", x->span_bubble, "lower_bound",
			 (double)x->lower_bound_ns / 1e9, "peak_stash", x->peak_stash,
			 "peak_stash_bytes", (json_int_t)x->peak_stash_bytes, "memory_bytes",
			 (json_int_t)x->memory_bytes, "received_bytes",
			 (json_int_t)x->received_bytes, "on_front", x->on_front, "per_microbatch",
			 x->period_microbatches ? json_real((double)x->period_ns / 1e9 /
							    (double)x->period_microbatches)
						: json_null());
}

static int print_json(const struct orr_comparison *c, const struct orr_pipeline *p,
		      struct orr_error *err)
{
	json_t *fitting = json_array(), *refused = json_array(), *json = NULL;
	int code = 0;

	for (int i = 0; i < c->n; i++)
		if (json_array_append_new(i < c->n_fitting ? fitting : refused,
					  contender_json(&c->contenders[i]))) {
			code = ORR_E_NOMEM;
			goto out;
		}
	json = json_pack("{s:i, s:i, s:i, s:O, s:O}", "stages", p->n_stages, "workers",
			 p->n_workers, "microbatches", p->n_microbatches, "schedules", fitting,
			 "refused", refused);
	code = json ? 0 : ORR_E_NOMEM;
out:
	json_decref(fitting);
	json_decref(refused);
	if (code)
		return orr_fail(err, code, "compare: no memory for the report");
	return output_json(json, err);
}

struct scatter {
	const struct orr_comparison *comparison;
	const char *title;
};

static int write_scatter(FILE *file, const void *what, struct orr_error *err)
{
	const struct scatter *s = what;

	return orr_comparison_svg(file, s->comparison, s->title, err);
}

int cmd_compare(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&work_argp, 0, NULL, 0}, {&output_json_argp, 0, NULL, 0}, {&plugin_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"GRAPH",
		"Simulate every schedule that fits the workers and "
		"the memory, side by side; --schedule adds one of your own.",
		children,
		NULL,
		NULL};
	struct arguments a = {.work = work_options_default()};
	struct orr_comparison *comparison = NULL;
	struct work work = {0};
	struct orr_error err = {""};
	char title[256];
	int code;

	a.work.schedule = NULL;
	command_parse(&argp, argc, argv, &a);
	if ((code = output_check(&a.output, &err)) ||
	    (code = work_open(&work, &a.work, 0, &err)) ||
	    (code = orr_compare(&comparison, work.pipeline, &a.work.machine,
				a.work.schedule ? &work.choice.schedule : NULL, &err)))
		goto out;
	(void)snprintf(title, sizeof(title), "%.160s: %d stage%s on %d worker%s, %d microbatch%s",
		       a.work.source, work.pipeline->n_stages,
		       work.pipeline->n_stages == 1 ? "" : "s", work.pipeline->n_workers,
		       work.pipeline->n_workers == 1 ? "" : "s", work.pipeline->n_microbatches,
		       work.pipeline->n_microbatches == 1 ? "" : "es");
	if ((code = a.output.json ? print_json(comparison, work.pipeline, &err)
			   : print_text(comparison, title, &err)))
		goto out;
	code = output_file(a.output.svg, write_scatter, &(struct scatter){comparison, title}, &err);
out:
	orr_comparison_destroy(comparison);
	work_fini(&work);
	return command_end(code, &err);
}
