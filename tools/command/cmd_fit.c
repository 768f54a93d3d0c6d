/* orrery fit: measured steps, a row each -> pipelines -> the machine whose simulated steps are
 * nearest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "base/arrays.h"
#include "base/input_file.h"
#include "base/json.h"
#include "base/quantity.h"
#include "output.h"
#include "work.h"

#define MOST_COLUMNS 32

/* A row of the table: a step, and the options that say what was measured. */
struct measured {
	int line;
	char name[300]; /* "steps.csv:3" */
	struct orr_opened x;
};

struct table {
	const char *path;
	char *text; /* owned; cells lie in it */
	char *names[MOST_COLUMNS];
	int n_columns, line;
	struct measured *rows;           /* [n] owned, as */
	struct orr_measured_step *steps; /* these */
	int n;
	struct orr_error *err;
};

/* ---- the table ---- */

static int split(const struct table *t, char *line, char **cells, int *n)
{
	*n = orr_input_cells(line, cells, MOST_COLUMNS);
	return *n <= MOST_COLUMNS ? 0
				  : orr_fail(t->err, ORR_E_INPUT, "%s:%d: more than %d columns",
					     t->path, t->line, MOST_COLUMNS);
}

/* Are all links of its machine alike, and its times in seconds? */
static int check_step(const struct orr_opened *x, struct orr_error *err)
{
	if (x->graph->units)
		return orr_fail(err, ORR_E_INPUT,
				"durations are units, and the step was measured in seconds: give "
				"times, such as --costs 1ms,2ms");
	if (x->cluster || x->settled.given.levels)
		return orr_fail(
			err, ORR_E_INPUT,
			"its machine has several kinds of links or workers, and all that are "
			"fitted are alike: give workers as a number, and no machine");
	return 0;
}

/* What a column says that is no option. */
static int read_own(const struct table *t, struct orr_measured_step *step, const char *name,
		    const char *text, bool *is_own)
{
	const char *what = orr_text("%.40s:%d: %.10s", t->path, t->line, name);

	*is_own = true;
	if (!strcmp(name, "seconds"))
		return orr_real_parse(&step->seconds, text, 1e-9, 1e9, what, t->err);
	if (!strcmp(name, "use")) {
		step->apart = !strcmp(text, "check");
		return step->apart || !*text || !strcmp(text, "fit")
			       ? 0
			       : orr_fail(t->err, ORR_E_INPUT,
					  "%s: '%.40s': give fit, or check for a step that is only "
					  "compared",
					  what, text);
	}
	*is_own = !strcmp(name, "note");
	return 0;
}

/* An empty cell is as if the option were not given. */
static int open_row(const struct table *t, struct measured *row, struct orr_measured_step *step,
		    char **cells, int n)
{
	char *names[MOST_COLUMNS], *values[MOST_COLUMNS], *place = row->name;
	struct options o;
	int n_given = 0, code;
	struct orr_error why;
	bool is_own, has_graph = false;

	for (int i = 0; i < n; i++) {
		has_graph = has_graph || (*cells[i] && !strcmp(t->names[i], "graph"));
		if ((code = read_own(t, step, t->names[i], cells[i], &is_own)))
			return code;
		if (is_own || !*cells[i])
			continue;
		names[n_given] = t->names[i];
		values[n_given++] = cells[i];
	}
	(void)snprintf(place, sizeof(row->name), "%.200s:%d", t->path, t->line);
	if (!has_graph)
		return orr_fail(t->err, ORR_E_INPUT, "%s: no graph: name a file or a study", place);
	o = options_with(place, n_given, names, values);
	if (!(code = work_open(&row->x, &o, &why)))
		code = check_step(&row->x, &why);
	return code ? orr_fail(t->err, code, "%s: %s", place, why.msg) : 0;
}

static int read_row(struct table *t, char *line)
{
	char *cells[MOST_COLUMNS];
	struct measured *row;
	int n, code = split(t, line, cells, &n);

	if (code)
		return code;
	if (n != t->n_columns)
		return orr_fail(t->err, ORR_E_INPUT, "%s:%d: %d columns, and the heading has %d",
				t->path, t->line, n, t->n_columns);
	row = &t->rows[t->n];
	row->line = t->line;
	t->steps[t->n] = (struct orr_measured_step){.name = row->name, .opened = &row->x};
	return open_row(t, row, &t->steps[t->n++], cells, n);
}

static int find_column(const struct table *t, const char *name)
{
	int i = 0;

	while (i < t->n_columns && strcmp(t->names[i], name))
		i++;
	return i;
}

/* What is fitted is no column, and constants are of all rows. */
static int check_column(const struct table *t, int i)
{
	static const char *const others[] = {"latency", "bandwidth", "link", "constants"};
	const char *name = t->names[i];
	bool is_own = !strcmp(name, "graph") || !strcmp(name, "seconds") || !strcmp(name, "use") ||
		      !strcmp(name, "note");

	if (find_column(t, name) < i)
		return orr_fail(t->err, ORR_E_INPUT, "%s:1: column %.40s is there twice", t->path,
				name);
	for (int k = 0; k < 4; k++)
		if (!strcmp(name, others[k]))
			return orr_fail(t->err, ORR_E_INPUT,
					"%s:1: column %s is of all steps: give --%s", t->path, name,
					name);
	return is_own || options_is_column(name) ? 0
						 : orr_fail(t->err, ORR_E_INPUT,
							    "%s:1: column %.40s is no option with "
							    "a value: `orrery fit --help` "
							    "lists them",
							    t->path, name);
}

static int read_heading(struct table *t, char *line)
{
	static const char *const needed[] = {"graph", "seconds"};
	int code = split(t, line, t->names, &t->n_columns);

	for (int i = 0; i < t->n_columns && !code; i++)
		code = check_column(t, i);
	for (int k = 0; k < 2 && !code; k++)
		if (find_column(t, needed[k]) == t->n_columns)
			return orr_fail(t->err, ORR_E_INPUT,
					"%s:1: no column %s: the heading names graph, seconds, and "
					"options of simulate, such as workers",
					t->path, needed[k]);
	return code;
}

static int read_table(struct table *t)
{
	int code = orr_input_read(&t->text, NULL, t->path, "a CSV of measured steps", t->err);
	char *rest = t->text, *line;
	size_t n_lines = 1;
	bool any = false;

	if (!code && !strncmp(rest, "\xEF\xBB\xBF", 3)) /* of a spreadsheet */
		rest += 3;

	for (const char *at = code ? "" : t->text; *at; at++)
		n_lines += *at == '\n';
	if (!code && (!(t->rows = calloc(n_lines, sizeof(*t->rows))) ||
		      !(t->steps = calloc(n_lines, sizeof(*t->steps)))))
		return orr_no_memory(t->err, t->path);
	while (!code && (line = strsep(&rest, "\n"))) {
		t->line++;
		line[strcspn(line, "\r")] = '\0';
		if (t->line == 1)
			code = read_heading(t, line);
		else if (*line)
			code = read_row(t, line);
	}
	for (int i = 0; i < t->n; i++)
		any = any || !t->steps[i].apart;
	if (!code && !any)
		return orr_fail(t->err, ORR_E_INPUT, "%s: no step to fit to%s", t->path,
				t->n ? ": each has use=check" : "");
	return code;
}

static void table_fini(struct table *t)
{
	for (int i = 0; i < t->n; i++)
		orr_opened_fini(&t->rows[i].x);
	free(t->rows);
	free(t->steps);
	free(t->text);
}

/* ---- the report ---- */

static double off(double simulated_s, const struct orr_measured_step *step)
{
	return 100 * (simulated_s / step->seconds - 1);
}

/* The step of which a constant is most, of those that are fitted to. */
static int rests_on(const struct table *t, int c)
{
	int most = -1;

	for (int i = 0; i < t->n; i++)
		if (!t->steps[i].apart &&
		    (most < 0 || t->steps[i].count[c] / t->steps[i].simulated_s >
					 t->steps[most].count[c] / t->steps[most].simulated_s))
			most = i;
	return most;
}

/* "1.53 times what the graphs say", "21.3 us a job", "11.2 GB/s" */
static const char *value_text(int c, double value)
{
	if (c == ORR_CONSTANT_WORK)
		return orr_text("%.4g times what the graph says", value);
	if (c == ORR_CONSTANT_BYTE)
		return value > 0 ? orr_text("%.4g GB/s", 1e-9 / value) : "free";
	return orr_text("%.4g us %s", value * 1e6,
			c == ORR_CONSTANT_LATENCY ? "a transfer" : "a job or an update");
}

/* Mean, median and worst of what the steps are off, of those with this use; left out: as they were.
 */
static void write_summary(const struct table *t, const char *what, bool apart, bool left_out)
{
	double *list = calloc((size_t)t->n, sizeof(*list)), sum = 0, median;
	int n = 0;

	for (int i = 0; list && i < t->n; i++) {
		const struct orr_measured_step *step = &t->steps[i];

		if (step->apart == apart && (!left_out || step->left_out_s > 0)) {
			list[n] = fabs(off(left_out ? step->left_out_s : step->simulated_s, step));
			sum += list[n++];
		}
	}
	if (n) {
		median = output_median(list, n);
		printf("%-28s mean %.2f%%, median %.2f%%, worst %.2f%% of %d\n", what, sum / n,
		       median, list[n - 1], n);
	}
	free(list);
}

static void write_report(const struct table *t, const struct orr_fit *fit)
{
	printf("%s: %d steps, %d of them fitted to\n\n", t->path, t->n, fit->n_fitted);
	for (int c = 0; c < ORR_CONSTANTS; c++) {
		const struct orr_measured_step *most = &t->steps[rests_on(t, c)];

		printf("%-10s %s", orr_constant_name(c), value_text(c, fit->value[c]));
		if (fit->asked[c] && fit->value[c] > 0)
			printf(", +- %s, at most %.3g%% of a step (line %d)",
			       isnan(fit->error[c])
				       ? "unknown"
				       : orr_text("%.2g%%", 100 * fit->error[c] / fit->value[c]),
			       100 * most->count[c] * fit->value[c] / most->simulated_s,
			       t->rows[rests_on(t, c)].line);
		printf("%s\n", fit->asked[c] ? "" : " (not fitted)");
	}
	printf("\nline   measured  simulated     off  left out\n");
	for (int i = 0; i < t->n; i++) {
		const struct orr_measured_step *step = &t->steps[i];

		printf("%4d %8.4g s %8.4g s %+6.2f%%", t->rows[i].line, step->seconds,
		       step->simulated_s, off(step->simulated_s, step));
		if (step->left_out_s > 0)
			printf("   %+6.2f%%", off(step->left_out_s, step));
		printf("%s\n", step->apart ? "  (not fitted to)" : "");
	}
	printf("\n");
	write_summary(t, "fitted to:", false, false);
	write_summary(t, "each left out of its fit:", false, true);
	write_summary(t, "not fitted to:", true, false);
}

static json_t *report_json(const struct table *t, const struct orr_fit *fit)
{
	json_t *constants = json_object(), *steps = json_array();

	for (int c = 0; c < ORR_CONSTANTS; c++)
		orr_json_set(&constants, orr_constant_name(c),
			     json_pack("{s:f, s:o, s:b, s:i}", "value", fit->value[c], "error",
				       orr_json_number(fit->error[c]), "fitted", fit->asked[c],
				       "line", t->rows[rests_on(t, c)].line));
	for (int i = 0; i < t->n; i++) {
		const struct orr_measured_step *step = &t->steps[i];

		orr_json_append(
			&steps,
			json_pack("{s:i, s:f, s:f, s:o, s:b}", "line", t->rows[i].line, "seconds",
				  step->seconds, "simulated", step->simulated_s, "left_out",
				  step->left_out_s > 0 ? json_real(step->left_out_s) : json_null(),
				  "fitted", !step->apart));
	}
	return json_pack("{s:s, s:i, s:o, s:o}", "measured", t->path, "fitted_to", fit->n_fitted,
			 "constants", constants, "steps", steps);
}

static int write_machine(const char *path, const struct table *t, const struct orr_fit *fit,
			 struct orr_error *err)
{
	struct output_stream s;
	int n = 1, code;
	char *text;

	for (int i = 0; i < t->n; i++)
		if (t->rows[i].x.pipeline->n_workers > n)
			n = t->rows[i].x.pipeline->n_workers;
	if (!(text = orr_fit_machine(fit, n)))
		return orr_no_memory(err, "fit");
	if (!(code = output_begin(&s, path, err))) {
		fputs(text, s.file);
		code = output_end(&s, 0, err);
	}
	free(text);
	return code;
}

int cmd_fit(int argc, char **argv)
{
	const struct options a = options_read(
		VERB_FIT, "MEASURED.csv",
		"The constants of a machine with which simulated steps are nearest to measured "
		"ones. A row of the CSV is a step: graph, seconds, and a column for each option "
		"that "
		"differs, such as workers; use=check: not fitted to. What a step is off if it was "
		"left out says how well others are met.",
		argc, argv);
	struct orr_error err = {""};
	struct table t = {.path = a.open.source, .err = &err};
	struct orr_fit fit = a.fit;
	int code;

	fit.value[ORR_CONSTANT_WORK] = 1;
	fit.value[ORR_CONSTANT_LATENCY] = (double)a.open.machine.latency_ns / 1e9;
	if (a.open.machine.bandwidth_bytes_per_s > 0)
		fit.value[ORR_CONSTANT_BYTE] = 1 / a.open.machine.bandwidth_bytes_per_s;
	if (!(code = output_check_file("-o", a.out, &err)) && !(code = read_table(&t)) &&
	    !(code = orr_fit(&fit, t.steps, t.n, &err))) {
		if (a.output.json)
			code = output_json(orr_json_check(report_json(&t, &fit),
							  "fit: no memory for the report", &err),
					   &err);
		else
			write_report(&t, &fit);
	}
	if (!code && a.out)
		code = write_machine(a.out, &t, &fit, &err);
	table_fini(&t);
	return command_end(code, &err);
}
