#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "base/json.h"
#include "base/max.h"
#include "orrery/machine.h"
#include "simulate/noise.h"
#include "pipeline/parameter_cost.h"
#include "text_table.h"
#include "base/quantity.h"
#include "stages.h"

/* ---- text ---- */

enum {
	NAME,
	STAGES,
	MAKESPAN,
	PER_MICROBATCH,
	BUBBLE,
	SPAN_BUBBLE,
	STASH,
	MEMORY,
	RECEIVED,
	LOWER_BOUND,
	ABOVE,
	GOODPUT,
	CAUGHT_UP,
	FEWER,
	NOISE, /* of each order, each spread */
	NOT_TESTED = NOISE + 6,
	N_COLUMNS
};
_Static_assert(N_COLUMNS <= (int)ORR_MOST_COLUMNS, "a table has no more");
static const char *const orders[] = {"strict", "greedy"};
static const char *const spreads[] = {"median", "p95", "worst"};

/* why NULL: whatever the reason. */
static bool has(const struct orr_untested *u, const char *what, const char *why)
{
	for (int i = 0; i < u->n; i++)
		if (!strcmp(u->list[i].what, what) && (!why || !strcmp(u->list[i].why, why)))
			return true;
	return false;
}

static bool all_leave_out(const struct orr_comparison *c, const char *what, const char *why)
{
	for (int i = 0; i < c->n_fitting; i++)
		if (!has(&c->contenders[i].untested, what, why))
			return false;
	return true;
}

/* What this row does not test, and others do. */
static const char *not_tested_text(const struct orr_comparison *c, const struct orr_untested *u)
{
	const char *text = "";

	for (int i = 0; i < u->n; i++)
		if (!all_leave_out(c, u->list[i].what, u->list[i].why))
			text = orr_text("%s%s%s", text, *text ? ", " : "", u->list[i].what);
	return orr_text("%.39s", text);
}

static const char *stash_text(const struct orr_comparison *c, const struct orr_contender *x)
{
	return orr_text("%d%s%s", x->peak_stash,
			c->several_cuts ? orr_text("/%d", x->n_stages) : "",
			c->bytes ? orr_text(" (%s)", orr_size_text(x->peak_stash_bytes)) : "");
}

static void fill_noise(const char **row, const struct orr_comparison *c,
		       const struct orr_contender *x)
{
	const struct orr_noisy *noisy = &x->noisy;
	const int64_t ns[] = {noisy->strict.median_ns, noisy->strict.p95_ns,
			      noisy->strict.worst_ns,  noisy->greedy.median_ns,
			      noisy->greedy.p95_ns,    noisy->greedy.worst_ns};

	for (int i = 0; i < 6 && c->noisy; i++)
		row[NOISE + i] =
			i < 3 || noisy->has_greedy ? orr_noise_duration(ns[i], c->units) : "-";
}

static void fill_failures(const char **row, const struct orr_compared *of,
			  const struct orr_contender *x)
{
	const struct orr_recovery *r = &x->recovery;
	bool units = of->rows->units;

	row[GOODPUT] = x->copy_every ? orr_text("%.2f%%", 100 * x->goodput) : "-";
	row[CAUGHT_UP] = row[FEWER] = "-";
	if (!r->step_ns)
		return;
	row[CAUGHT_UP] = orr_duration_text(r->next_ns - of->outage->at_ns, units);
	row[FEWER] = orr_duration_text(r->fewer_ns, units);
}

/* A path that is too long keeps its end, by which it is known. */
static const char *name_text(const struct orr_contender *x)
{
	size_t n = strlen(x->schedule);
	const char *at = x->schedule;
	char mark = x->on_front ? '*' : ' ';

	if (n <= 36 || !strchr(at, '/'))
		return orr_text("%c %.36s", mark, at);
	for (at += n - 33; (*at & 0xC0) == 0x80; at++) /* inside of a character */
		;
	return orr_text("%c ...%.33s", mark, at);
}

/* Each thing that any row does not test, with its reason. */
static void write_not_tested(FILE *file, const struct orr_comparison *c)
{
	struct orr_untested all = {0};

	for (int i = 0; i < c->n_fitting; i++) {
		const struct orr_untested *u = &c->contenders[i].untested;

		for (int k = 0; k < u->n; k++)
			if (!has(&all, u->list[k].what, NULL))
				all.list[all.n++] = u->list[k];
	}
	if (all.n)
		fprintf(file, "%s\n", orr_untested_text(&all));
}

static void write_legend(FILE *file, const struct orr_compared *comparison,
			 const struct orr_column *columns)
{
	const struct orr_comparison *c = comparison->rows;

	fprintf(file,
		"\n*: nothing is both faster and smaller.\n"
		"per microbatch: step after step; pipedream does not flush between them.\n"
		"peak stash%s: of the worker that needs most%s.\n%s",
		columns[MEMORY].hidden ? "" : ", memory",
		c->several_cuts ? "; a count of stage stashes / stages of the cut" : "",
		columns[RECEIVED].hidden ? "" : "received: by all workers in a step.\n");
	if (!columns[MEMORY].hidden)
		fprintf(file, "memory: %s.\n", orr_parameter_cost_text(&c->numerics));
	if (comparison->front)
		fprintf(file,
			"auto with a memory: in up to %d of them on a cut, from the least in which "
			"it finds an order to\nenough for as many stashes as any schedule "
			"holds%s%s%s; "
			"those that gain nothing are left out.\n",
			ORR_MOST_FRONT, comparison->within_ns ? ", close to where " : "",
			comparison->within_ns ? comparison->within_by : "",
			comparison->within_ns ? " is decided" : "");
	if (comparison->noise)
		fprintf(file, "%s: of makespans.\n", orr_noise_title(comparison->noise));
	if (comparison->failures)
		fputs("goodput: with the best number of steps between two copies.\n", file);
	if (comparison->outage)
		fprintf(file,
			"caught up: from the loss to the end of the step that it broke off; -: %s"
			"it never flushes.\n",
			columns[FEWER].hidden ? "" : "no step on one worker fewer, or ");
	write_not_tested(file, c);
	fprintf(file, "%s defines the other figures.\n", comparison->defined_by);
}

struct table {
	const struct orr_comparison *comparison;
	struct orr_column columns[N_COLUMNS];
	const struct orr_compared *of;
};

static void fill_row(void *user, int i, const char **row)
{
	struct table *table = user;
	const struct orr_comparison *c = table->comparison;
	const struct orr_contender *x = &c->contenders[i];

	row[NAME] = name_text(x);
	row[STAGES] = orr_text("%d", x->n_stages);
	row[MAKESPAN] = orr_duration_text(x->makespan_ns, c->units);
	if (x->period_microbatches)
		row[PER_MICROBATCH] =
			orr_duration_text(x->period_ns / x->period_microbatches, c->units);
	row[BUBBLE] = orr_text("%.1f%%", 100 * x->bubble);
	row[SPAN_BUBBLE] = orr_text("%.1f%%", 100 * x->span_bubble);
	row[STASH] = stash_text(c, x);
	row[MEMORY] = orr_size_text(x->memory_bytes);
	row[RECEIVED] = orr_size_text(x->received_bytes);
	row[LOWER_BOUND] = orr_duration_text(x->lower_bound_ns, c->units);
	if (x->makespan_ns == x->lower_bound_ns)
		row[ABOVE] = "reached";
	else if (x->lower_bound_ns)
		row[ABOVE] = orr_text(
			"+%.1f%%", 100 * ((double)x->makespan_ns / (double)x->lower_bound_ns - 1));
	fill_noise(row, c, x);
	fill_failures(row, table->of, x);
	row[NOT_TESTED] = not_tested_text(c, &x->untested);
	/* where no bytes were given the memory is the stashes' */
	if (x->memory_bytes != x->peak_stash_bytes)
		table->columns[MEMORY].hidden = false;
	if (x->received_bytes)
		table->columns[RECEIVED].hidden = false;
	if (*row[NOT_TESTED])
		table->columns[NOT_TESTED].hidden = false;
}

/* Columns that have nothing to say are left out. */
static void write_table(FILE *file, const struct orr_compared *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	const struct orr_outage *outage = comparison->outage;
	struct table table = {
		c,
		{[NAME] = {.heading = {"  schedule", ""}},
		 [STAGES] = {{"stages", ""}, .hidden = !c->several_cuts},
		 [MAKESPAN] = {.heading = {"makespan", c->units ? "units" : ""}},
		 [PER_MICROBATCH] = {.heading = {"per micro-", "batch"}},
		 [BUBBLE] = {.heading = {"bubble", ""}},
		 [SPAN_BUBBLE] = {.heading = {"span", "bubble"}},
		 [STASH] = {.heading = {"peak", "stash"}},
		 [MEMORY] = {{"memory", ""}, .hidden = true},
		 [RECEIVED] = {{"received", ""}, .hidden = true},
		 [LOWER_BOUND] = {.heading = {"lower", "bound"}},
		 [ABOVE] = {.heading = {"above", "it"}},
		 [GOODPUT] = {{"goodput", ""}, .hidden = !comparison->failures},
		 [CAUGHT_UP] = {{"caught", "up"}, .hidden = !outage},
		 [FEWER] = {{"step on", "1 fewer"}, .hidden = !outage || !outage->for_ns},
		 [NOT_TESTED] = {{"not", "tested"}, .left = true, .hidden = true}},
		comparison};
	const struct orr_rows rows = {table.columns, N_COLUMNS, c->n_fitting, 0, fill_row, &table};

	for (int i = 0; i < 6; i++)
		table.columns[NOISE + i] =
			(struct orr_column){{orders[i / 3], spreads[i % 3]}, .hidden = !c->noisy};
	orr_rows_write(file, &rows);
	write_legend(file, comparison, table.columns);
}

static void write_within(FILE *file, const struct orr_compared *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	const struct orr_contender *x = orr_comparison_within(c, comparison->within_ns);

	fprintf(file, "\nwithin %s: ", orr_time_text(comparison->within_ns, c->units));
	if (!x) {
		fputs("nothing\n", file);
		return;
	}
	fprintf(file, "%s on the worker that needs most, %s, %s\n",
		c->bytes ? orr_size_text(x->memory_bytes)
			 : orr_count_text(x->peak_stash, "stage stash"),
		orr_time_text(x->makespan_ns, c->units), orr_contender_text(c, x));
}

void orr_compared_write(FILE *file, const struct orr_compared *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	const struct orr_contender *first = c->contenders + c->n_fitting,
				   *end = c->contenders + c->n;
	int width = 0;

	fprintf(file, "%s\n\n", comparison->title);
	if (c->n_fitting)
		write_table(file, comparison);
	if (comparison->within_ns)
		write_within(file, comparison);
	for (const struct orr_contender *x = first; x < end; x++)
		width = (int)larger(width, (int64_t)strlen(orr_contender_text(c, x)));
	if (width)
		fprintf(file, "%sThese do not fit:\n", c->n_fitting ? "\n" : "");
	for (const struct orr_contender *x = first; x < end; x++)
		fprintf(file, "  %-*s  %s\n", width, orr_contender_text(c, x), x->reason);
}

/* ---- JSON ---- */

static void set_failures(json_t **json, const struct orr_contender *x,
			 const struct orr_compared *of)
{
	const struct orr_recovery *r = &x->recovery;

	if (of->failures) { /* rounded as orr_failures_json() does */
		double goodput = round(x->goodput * 1e6) / 1e6;

		orr_json_set(json, "copy_every",
			     x->copy_every ? json_integer(x->copy_every) : json_null());
		orr_json_set(json, "goodput", x->copy_every ? json_real(goodput) : json_null());
	}
	if (of->outage)
		orr_json_set(json, "caught_up_after",
			     r->step_ns ? orr_json_time(r->next_ns - of->outage->at_ns)
					: json_null());
	if (of->outage && of->outage->for_ns)
		orr_json_set(json, "step_on_fewer",
			     r->step_ns ? orr_json_time(r->fewer_ns) : json_null());
}

static void set_figures(json_t **json, const struct orr_contender *x, const struct orr_compared *of)
{
	double n = (double)x->period_microbatches;

	orr_json_update(json,
			json_pack("{s:o, s:f, s:f, s:o, s:i, s:I, s:I, s:I, s:b, s:o}", "makespan",
				  orr_json_time(x->makespan_ns), "bubble", x->bubble, "span_bubble",
				  x->span_bubble, "lower_bound", orr_json_time(x->lower_bound_ns),
				  "peak_stash", x->peak_stash, "peak_stash_bytes",
				  (json_int_t)x->peak_stash_bytes, "memory_bytes",
				  (json_int_t)x->memory_bytes, "received_bytes",
				  (json_int_t)x->received_bytes, "on_front", x->on_front,
				  "per_microbatch", /* null: it was not found */
				  orr_json_number((double)x->period_ns / 1e9 / n)));
	if (of->noise)
		orr_json_set(json, "noise", orr_noisy_json(&x->noisy));
	set_failures(json, x, of);
	orr_untested_json(json, &x->untested);
}

/* null: no limit. */
static json_t *limit_json(int64_t bytes)
{
	return bytes > 0 ? json_integer(bytes) : json_null();
}

/* The number of the cut that row i was tried on, -1 for none; cut[] has those before it. */
static int find_cut(int *cut, int i, json_t *report, const struct orr_comparison *c,
		    struct orr_error *err)
{
	const struct orr_pipeline *pipeline = c->contenders[i].pipeline;
	json_t *stages;

	cut[i] = -1;
	if (!pipeline)
		return 0;
	for (int k = 0; k < i; k++)
		if (c->contenders[k].pipeline == pipeline) {
			cut[i] = cut[k];
			return 0;
		}
	if ((stages = orr_stages_cut_json(pipeline, err)))
		cut[i] = orr_json_index(json_object_get(report, "cuts"),
					json_pack("{s:o}", "stages", stages));
	return cut[i] < 0 ? ORR_E_NOMEM : 0;
}

/* own: see own_json() */
static int add_row(json_t *report, const struct orr_contender *x, const struct orr_compared *of,
		   const json_t *own, int cut)
{
	int64_t limit_bytes = x->limit_bytes ? x->limit_bytes : of->limit_bytes;
	json_t *json = json_pack("{s:s, s:o, s:o, s:i, s:o}", "schedule", x->schedule, "stages",
				 x->pipeline ? json_integer(x->n_stages) : json_null(), "cut",
				 x->pipeline ? json_integer(cut) : json_null(), "microbatches",
				 of->n_microbatches, "memory", limit_json(limit_bytes));

	if (x->reason)
		orr_json_set(&json, "reason", json_string(x->reason));
	else
		set_figures(&json, x, of);
	orr_json_update(&json, json_deep_copy(own));
	return json_array_append_new(json_object_get(report, x->reason ? "refused" : "schedules"),
				     json);
}

/* Of the front of a table, the number of the row that holds least in time; null where there is
 * none. */
static int add_within(json_t *report, const struct orr_compared *table)
{
	const struct orr_contender *x = orr_comparison_within(table->rows, table->within_ns);
	json_int_t row = (json_int_t)json_array_size(json_object_get(report, "schedules")) -
			 table->rows->n_fitting;

	return json_array_append_new(
		json_object_get(json_object_get(report, "front"), "least_within"),
		x ? json_integer(row + (x - table->rows->contenders)) : json_null());
}

/* What holds for all rows of a table, and lists for them. */
static json_t *common_json(const struct orr_compared *table, const char *graph)
{
	const struct orr_machine *machine = table->machine;
	double rate = machine->bandwidth_bytes_per_s;
	json_t *json = json_pack(
		"{s:s, s:s, s:s, s:i, s:s?, s:[], s:o, s:o, s:[], s:[], s:[], s:[]}", "graph",
		graph, "model", graph, "unit", table->rows->units ? "units" : "seconds", "workers",
		machine->n_workers, "machine", machine->cluster ? machine->cluster->name : NULL,
		"memory", "bandwidth", rate > 0 ? json_real(rate) : json_null(), "latency",
		orr_json_time(machine->latency_ns), "microbatches", "cuts", "schedules", "refused");

	if (table->noise)
		orr_json_set(&json, "noise", orr_noise_json(table->noise));
	orr_parameter_cost_json(&json, &table->rows->numerics);
	return json;
}

/* Each row's: the axes, and what else is not the report's; but no objects, of which those of the
 * axes tell all. */
static json_t *own_json(const json_t *report, const struct orr_compared *table, const char *graph)
{
	json_t *own = common_json(table, graph), *value;
	const char *name;
	void *next;

	json_object_foreach_safe(own, next, name, value)
	{
		if (json_object_get(report, name) || json_is_object(value))
			(void)json_object_del(own, name);
	}
	orr_json_update(&own, json_deep_copy(table->axes));
	return own;
}

static int add_table(json_t *report, const struct orr_compared *table, const char *graph,
		     struct orr_error *err)
{
	json_t *own = own_json(report, table, graph);
	const struct orr_comparison *c = table->rows;
	int *cut = calloc((size_t)c->n, sizeof(*cut)), code = 0;

	if (!cut || !own ||
	    orr_json_index(json_object_get(report, "microbatches"),
			   json_integer(table->n_microbatches)) < 0 ||
	    orr_json_index(json_object_get(report, "memory"), limit_json(table->limit_bytes)) < 0)
		code = ORR_E_NOMEM;
	for (int i = 0; i < c->n && !code; i++)
		if (!(code = find_cut(cut, i, report, c, err)))
			code = add_row(report, &c->contenders[i], table, own, cut[i]);
	if (!code && table->within_ns)
		code = add_within(report, table);
	json_decref(own);
	free(cut);
	return code;
}

json_t *orr_compared_json(const struct orr_compared *tables, int n, const char *graph,
			  struct orr_error *err)
{
	json_t *json = common_json(&tables[0], graph), *axes = json_array(), *other, *value;
	const char *name;
	int code;

	for (int t = 1; t < n; t++) { /* each row has its own */
		other = common_json(&tables[t], graph);
		json_object_foreach(other, name, value)
		{
			if (!json_equal(json_object_get(json, name), value))
				(void)json_object_del(json, name);
		}
		json_decref(other);
	}
	json_object_foreach((json_t *)tables[0].axes, name, value)
	{
		(void)json_object_del(json, name); /* equal or not */
		orr_json_append(&axes, json_string(name));
	}
	if (json_object_size(tables[0].axes))
		orr_json_set(&json, "axes", json_incref(axes));
	json_decref(axes);
	if (tables[0].front)
		orr_json_set(
			&json, "front",
			json_pack("{s:i, s:o, s:[]}", "most_memories", ORR_MOST_FRONT,
				  "within", /* null, too, where it is an axis */
				  tables[0].within_ns && !json_object_get(tables[0].axes, "within")
					  ? orr_json_time(tables[0].within_ns)
					  : json_null(),
				  "least_within"));
	code = json ? 0 : ORR_E_NOMEM;
	(void)orr_fail(err, ORR_E_NOMEM, "compare: no memory for the report");
	for (int t = 0; t < n && !code; t++)
		code = add_table(json, &tables[t], graph, err);
	orr_json_keep(&json, code);
	return json;
}

/* ---- CSV ---- */

/* Keys of the JSON object of a row, or else of the report. */
static const char *const figures[] = {
	"schedule",         "stages",         "workers",        "microbatches", "memory",
	"makespan",         "per_microbatch", "bubble",         "span_bubble",  "peak_stash",
	"peak_stash_bytes", "memory_bytes",   "received_bytes", "lower_bound",  "on_front",
	"not_tested",       "reason"};
enum { N_FIGURES = sizeof(figures) / sizeof(*figures) };

void orr_csv_write_text(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++)
		fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', file);
}

static void write_cell(FILE *file, const json_t *value, int digits)
{
	const char *list = "";
	const json_t *text;
	size_t i;

	if (json_is_integer(value))
		fprintf(file, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		fprintf(file, "%.*g", digits, json_real_value(value));
	else if (json_is_boolean(value))
		fprintf(file, "%d", json_is_true(value));
	else if (json_is_string(value))
		orr_csv_write_text(file, json_string_value(value));
	else if (json_is_array(value)) {
		json_array_foreach(value, i, text)
		{
			list = orr_text("%s%s%s", list, i ? ", " : "", json_string_value(text));
		}
		orr_csv_write_text(file, list);
	}
}

void orr_csv_add_noise(json_t **columns)
{
	for (int i = 0; i < 6; i++)
		orr_json_append(columns, json_sprintf("%s_%s", orders[i / 3], spreads[i % 3]));
}

static const char *const of_failures[] = {"goodput", "copy_every", "caught_up_after",
					  "step_on_fewer"};

static json_t *columns_of(const struct orr_compared *table)
{
	json_t *names = json_array(), *value;
	const char *name;

	for (int i = 0; i < N_FIGURES; i++)
		orr_json_append(&names, json_string(figures[i]));
	json_object_foreach((json_t *)table->axes, name, value)
	{
		if (orr_json_index(names, json_string(name)) < 0)
			orr_json_keep(&names, -1);
	}
	if (table->noise)
		orr_csv_add_noise(&names);
	for (int i = table->failures ? 0 : 2; i < (table->outage ? 4 : 2); i++)
		orr_json_append(&names, json_string(of_failures[i]));
	return names;
}

/* Of a row, or else of all of them; NULL: it is not there. */
static const json_t *find_cell(const json_t *report, const json_t *row, const char *name)
{
	const json_t *own = json_object_get(row, name), *noise = json_object_get(row, "noise");

	for (int i = 0; i < 2 && !own; i++)
		if (!strncmp(name, orders[i], strlen(orders[i])) && strchr(name, '_'))
			own = json_object_get(json_object_get(noise, orders[i]),
					      strchr(name, '_') + 1);
	return own ? own : json_object_get(report, name);
}

void orr_csv_write_line(FILE *file, const json_t *report, const json_t *row, const json_t *columns)
{
	const json_t *column;
	const char *name;
	size_t i;

	json_array_foreach(columns, i, column)
	{
		name = json_string_value(column);
		fputs(i ? "," : "", file);
		if (row)
			write_cell(file, find_cell(report, row, name),
				   strstr(name, "bubble") ? 6 : 12);
		else
			fputs(name, file);
	}
	fputc('\n', file);
}

int orr_compared_csv(FILE *file, const json_t *report, const struct orr_compared *tables, int n,
		     struct orr_error *err)
{
	const json_t *rows[] = {json_object_get(report, "refused"),
				json_object_get(report, "schedules")};
	json_t *columns = columns_of(tables);
	size_t at[] = {0, 0};

	if (!columns)
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory for the CSV");
	orr_csv_write_line(file, report, NULL, columns);
	for (int t = 0; t < n; t++)
		for (int i = 0; i < tables[t].rows->n; i++) {
			bool fits = i < tables[t].rows->n_fitting;

			orr_csv_write_line(file, report, json_array_get(rows[fits], at[fits]++),
					   columns);
		}
	json_decref(columns);
	return ferror(file) ? orr_fail(err, ORR_E_IO, "compare: the CSV could not be written") : 0;
}
