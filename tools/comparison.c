#include "comparison.h"

#include <stdlib.h>
#include <string.h>

#include "jitter.h"
#include "orrery/compare.h"
#include "orrery/machine.h"
#include "orrery/parameter_cost.h"
#include "orrery/quantity.h"
#include "orrery/stages.h"

/* ---- text ---- */

#define CELL 40
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
	MEDIAN,
	P95,
	WORST,
	GREEDY_MEDIAN,
	GREEDY_P95,
	GREEDY_WORST,
	NOT_TESTED,
	N_COLUMNS
};

static bool leaves_out(const struct orr_contender *x, const struct orr_untested *untested)
{
	for (int i = 0; i < x->n_untested; i++)
		if (!strcmp(x->untested[i].what, untested->what) &&
		    !strcmp(x->untested[i].why, untested->why))
			return true;
	return false;
}

static bool all_leave_out(const struct orr_comparison *c, const struct orr_untested *untested)
{
	for (int i = 0; i < c->n_fitting; i++)
		if (!leaves_out(&c->contenders[i], untested))
			return false;
	return true;
}

/* What this row does not test, and others do. */
static void fill_not_tested(char cell[CELL], const struct orr_comparison *c,
			    const struct orr_contender *x)
{
	size_t used = 0;

	*cell = '\0';
	for (int i = 0; i < x->n_untested && used < CELL; i++)
		if (!all_leave_out(c, &x->untested[i]))
			used += (size_t)snprintf(cell + used, CELL - used, "%s%s", used ? ", " : "",
						 x->untested[i].what);
}

static void fill_stash(char cell[CELL], const struct orr_comparison *c,
		       const struct orr_contender *x)
{
	char size[CELL / 2];
	size_t used = (size_t)snprintf(cell, CELL, "%d", x->peak_stash);

	if (c->several_cuts)
		used += (size_t)snprintf(cell + used, CELL - used, "/%d", x->n_stages);
	if (c->bytes)
		(void)snprintf(cell + used, CELL - used, " (%s)",
			       orr_size_print(size, sizeof(size), x->peak_stash_bytes));
}

/* A schedule that has no greedy run has a dash in its place. */
static void fill_noise(char row[N_COLUMNS][CELL], const struct orr_comparison *c,
		       const struct orr_contender *x)
{
	const struct orr_noisy *noisy = &x->noisy;
	const int64_t ns[] = {noisy->strict.median_ns, noisy->strict.p95_ns,
			      noisy->strict.worst_ns,  noisy->greedy.median_ns,
			      noisy->greedy.p95_ns,    noisy->greedy.worst_ns};

	for (int i = 0; i < 6 && c->noisy; i++)
		if (i < 3 || noisy->has_greedy)
			jitter_duration(row[MEDIAN + i], CELL, ns[i], c->units);
		else
			(void)snprintf(row[MEDIAN + i], CELL, "-");
}

static void fill_row(char row[N_COLUMNS][CELL], const struct orr_comparison *c,
		     const struct orr_contender *x)
{
	memset(row, 0, N_COLUMNS * sizeof(*row));
	(void)snprintf(row[NAME], CELL, "%c %.36s", x->on_front ? '*' : ' ', x->schedule);
	if (c->several_cuts)
		(void)snprintf(row[STAGES], CELL, "%d", x->n_stages);
	orr_duration_print(row[MAKESPAN], CELL, x->makespan_ns, c->units);
	if (x->period_microbatches)
		orr_duration_print(row[PER_MICROBATCH], CELL, x->period_ns / x->period_microbatches,
				   c->units);
	(void)snprintf(row[BUBBLE], CELL, "%.1f%%", 100 * x->bubble);
	(void)snprintf(row[SPAN_BUBBLE], CELL, "%.1f%%", 100 * x->span_bubble);
	fill_stash(row[STASH], c, x);
	orr_size_print(row[MEMORY], CELL, x->memory_bytes);
	orr_size_print(row[RECEIVED], CELL, x->received_bytes);
	orr_duration_print(row[LOWER_BOUND], CELL, x->lower_bound_ns, c->units);
	if (x->makespan_ns == x->lower_bound_ns)
		(void)snprintf(row[ABOVE], CELL, "reached");
	else if (x->lower_bound_ns)
		(void)snprintf(row[ABOVE], CELL, "+%.1f%%",
			       100 * ((double)x->makespan_ns / (double)x->lower_bound_ns - 1));
	fill_noise(row, c, x);
	fill_not_tested(row[NOT_TESTED], c, x);
}

/* Columns without a width are left out. */
static void print_row(char row[N_COLUMNS][CELL], const int *width)
{
	printf("%-*s", width[0], row[0]);
	for (int i = 1; i < NOT_TESTED; i++)
		if (width[i])
			printf("  %*s", width[i], row[i]);
	if (*row[NOT_TESTED])
		printf("  %s", row[NOT_TESTED]);
	printf("\n");
}

/* Each thing that any row does not test, with its reason. */
static void print_not_tested(const struct orr_comparison *c)
{
	struct orr_untested all[4 * ORR_MOST_UNTESTED];
	char text[512];
	int n = 0;

	for (int i = 0; i < c->n_fitting; i++)
		for (int k = 0; k < c->contenders[i].n_untested; k++) {
			const struct orr_untested *untested = &c->contenders[i].untested[k];
			bool seen = false;

			for (int j = 0; j < n && !seen; j++)
				seen = !strcmp(all[j].what, untested->what);
			if (!seen && n < (int)(sizeof(all) / sizeof(*all)))
				all[n++] = *untested;
		}
	if (n)
		printf("%s\n", orr_untested_print(text, sizeof(text), all, n));
}

static void print_legend(const struct comparison *comparison, const int *width)
{
	const struct orr_comparison *c = comparison->rows;
	char cost[96], title[JITTER_TITLE];

	printf("\n*: nothing is both faster and smaller.\n"
	       "per micro-batch: step after step; pipedream does not flush between them.\n"
	       "peak stash%s: of the worker that needs most%s.\n%s",
	       width[MEMORY] ? ", memory" : "",
	       c->several_cuts ? "; a count of stage stashes / stages of the cut" : "",
	       width[RECEIVED] ? "received: by all workers in a step.\n" : "");
	if (width[MEMORY])
		printf("memory: %s.\n", orr_parameter_cost_print(cost, sizeof(cost), &c->numerics));
	if (comparison->front)
		printf("auto with a memory: in up to %d of them on a cut, from the least in which "
		       "it finds an order to\nenough for as many stashes as any schedule holds%s; "
		       "those that gain nothing are left out.\n",
		       ORR_MOST_FRONT,
		       comparison->within_ns ? ", close to where --within is decided" : "");
	if (comparison->noise)
		printf("%s: of makespans.\n", jitter_title(title, comparison->noise));
	print_not_tested(c);
	printf("`orrery simulate --help` defines the other figures.\n");
}

/* Columns that have nothing to say are left out. */
static void print_table(const struct comparison *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	char heading[2][N_COLUMNS][CELL] = {
		{"  schedule", "stages", "makespan", "per micro-", "bubble", "span", "peak",
		 "memory", "received", "lower", "above", "strict", "strict", "strict", "greedy",
		 "greedy", "greedy", "not"},
		{"", "", "", "batch", "", "bubble", "stash", "", "", "bound", "it", "median", "p95",
		 "worst", "median", "p95", "worst", "tested"}};
	char row[N_COLUMNS][CELL];
	int width[N_COLUMNS] = {0};
	bool memory = false, received = false, untested = false;

	if (c->units)
		(void)snprintf(heading[1][MAKESPAN], CELL, "units");
	for (int i = -2; i < c->n_fitting; i++) {
		if (i >= 0)
			fill_row(row, c, &c->contenders[i]);
		for (int k = 0; k < N_COLUMNS; k++) {
			int length = (int)strlen(i < 0 ? heading[i + 2][k] : row[k]);

			width[k] = length > width[k] ? length : width[k];
		}
		untested = untested || (i >= 0 && *row[NOT_TESTED]);
	}
	/* bytes that nobody gave */
	for (int i = 0; i < c->n_fitting; i++) {
		memory = memory ||
			 c->contenders[i].memory_bytes != c->contenders[i].peak_stash_bytes;
		received = received || c->contenders[i].received_bytes;
	}
	width[STAGES] = c->several_cuts ? width[STAGES] : 0;
	width[MEMORY] = memory ? width[MEMORY] : 0;
	width[RECEIVED] = received ? width[RECEIVED] : 0;
	for (int k = MEDIAN; k <= GREEDY_WORST; k++)
		width[k] = c->noisy ? width[k] : 0;
	for (int i = 0; i < 2; i++) {
		if (!untested)
			*heading[i][NOT_TESTED] = '\0';
		print_row(heading[i], width);
	}
	for (int i = 0; i < c->n_fitting; i++) {
		fill_row(row, c, &c->contenders[i]);
		print_row(row, width);
	}
	print_legend(comparison, width);
}

static void print_memory(char cell[CELL], const struct orr_comparison *c,
			 const struct orr_contender *x)
{
	if (c->bytes)
		orr_size_print(cell, CELL, x->memory_bytes);
	else
		(void)snprintf(cell, CELL, "%d stage stash%s", x->peak_stash,
			       x->peak_stash == 1 ? "" : "es");
}

static void print_within(const struct comparison *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	const struct orr_contender *x = orr_comparison_within(c, comparison->within_ns);
	char name[ORR_CONTENDER_NAME], within[CELL], makespan[CELL], memory[CELL];
	const char *unit = c->units ? " units" : "";

	orr_duration_print(within, CELL, comparison->within_ns, c->units);
	if (!x) {
		printf("\nwithin %s%s: nothing\n", within, unit);
		return;
	}
	orr_duration_print(makespan, CELL, x->makespan_ns, c->units);
	print_memory(memory, c, x);
	printf("\nwithin %s%s: %s on the worker that needs most, %s%s, %s\n", within, unit, memory,
	       makespan, unit, orr_contender_print(name, c, x));
}

void comparison_print(const struct comparison *comparison)
{
	const struct orr_comparison *c = comparison->rows;
	char name[ORR_CONTENDER_NAME];
	int width = 0;

	printf("%s\n\n", comparison->title);
	if (c->n_fitting)
		print_table(comparison);
	if (comparison->within_ns)
		print_within(comparison);
	for (int i = c->n_fitting; i < c->n; i++) {
		int length = (int)strlen(orr_contender_print(name, c, &c->contenders[i]));

		width = length > width ? length : width;
	}
	if (width)
		printf("%sThese do not fit:\n", c->n_fitting ? "\n" : "");
	for (int i = c->n_fitting; i < c->n; i++)
		printf("  %-*s  %s\n", width, orr_contender_print(name, c, &c->contenders[i]),
		       c->contenders[i].reason);
}

/* ---- JSON ---- */

/* Of a microbatch, step after step; false: it was not found. */
static bool find_period(double *seconds, const struct orr_contender *x)
{
	if (!x->period_microbatches)
		return false;
	*seconds = (double)x->period_ns / 1e9 / (double)x->period_microbatches;
	return true;
}

static int add_figures(json_t *json, const struct orr_contender *x, const struct comparison *of,
		       struct orr_error *err)
{
	double period;
	json_t *figures = json_pack(
		"{s:f, s:f, s:f, s:f, s:i, s:I, s:I, s:I, s:b, s:o}", "makespan",
		(double)x->makespan_ns / 1e9, "bubble", x->bubble, "span_bubble", x->span_bubble,
		"lower_bound", (double)x->lower_bound_ns / 1e9, "peak_stash", x->peak_stash,
		"peak_stash_bytes", (json_int_t)x->peak_stash_bytes, "memory_bytes",
		(json_int_t)x->memory_bytes, "received_bytes", (json_int_t)x->received_bytes,
		"on_front", x->on_front, "per_microbatch",
		find_period(&period, x) ? json_real(period) : json_null());
	int failed = !figures || json_object_update(json, figures);

	json_decref(figures);
	return failed ||
	       (of->noise && json_object_set_new(json, "noise", jitter_spreads_json(&x->noisy))) ||
	       orr_untested_report(json, x->untested, x->n_untested, err);
}

/* null: no limit. */
static json_t *limit_json(double limit, bool whole)
{
	return limit <= 0 ? json_null()
	       : whole    ? json_integer((json_int_t)limit)
			  : json_real(limit);
}

/* Where it is in the array, at the end if it was not there; takes the reference. -1: no memory. */
static int find_or_append(json_t *array, json_t *value)
{
	int n = (int)json_array_size(array), i = 0;

	while (i < n && !json_equal(json_array_get(array, (size_t)i), value))
		i++;
	if (i < n)
		json_decref(value);
	else if (json_array_append_new(array, value))
		return -1;
	return i;
}

/* What the rows are of, each once; and the rows. within: of each table. */
struct lists {
	json_t *microbatches, *memories, *cuts, *fitting, *refused, *within;
};

/* The number of the cut that row i was tried on, -1 for none; cut[] has those before it. */
static int find_cut(int *cut, int i, const struct lists *lists, const struct orr_comparison *c,
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
		cut[i] = find_or_append(lists->cuts, json_pack("{s:o}", "stages", stages));
	return cut[i] < 0 ? ORR_E_NOMEM : 0;
}

/* Memory that x had to fit. */
static int64_t limit_of(const struct orr_contender *x, const struct comparison *of)
{
	return x->limit_bytes ? x->limit_bytes : of->limit_bytes;
}

static int add_row(const struct lists *lists, const struct orr_contender *x,
		   const struct comparison *of, int cut, struct orr_error *err)
{
	json_t *json =
		json_pack("{s:s, s:o, s:o, s:i, s:o}", "schedule", x->schedule, "stages",
			  x->pipeline ? json_integer(x->n_stages) : json_null(), "cut",
			  x->pipeline ? json_integer(cut) : json_null(), "microbatches",
			  of->n_microbatches, "memory", limit_json((double)limit_of(x, of), true));

	if (json && (x->reason ? json_object_set_new(json, "reason", json_string(x->reason))
			       : add_figures(json, x, of, err))) {
		json_decref(json);
		return ORR_E_NOMEM;
	}
	return json_array_append_new(x->reason ? lists->refused : lists->fitting, json);
}

/* The number of its row; null where there is none. */
static int add_within(const struct lists *lists, const struct comparison *table)
{
	const struct orr_contender *x = orr_comparison_within(table->rows, table->within_ns);
	json_int_t row = (json_int_t)json_array_size(lists->fitting) - table->rows->n_fitting;

	return json_array_append_new(
		lists->within, x ? json_integer(row + (x - table->rows->contenders)) : json_null());
}

static int add_table(const struct lists *lists, const struct comparison *table,
		     struct orr_error *err)
{
	const struct orr_comparison *c = table->rows;
	int *cut = calloc((size_t)c->n, sizeof(*cut)), code = 0;

	if (!cut || find_or_append(lists->microbatches, json_integer(table->n_microbatches)) < 0 ||
	    find_or_append(lists->memories, limit_json((double)table->limit_bytes, true)) < 0)
		code = ORR_E_NOMEM;
	for (int i = 0; i < c->n && !code; i++)
		if (!(code = find_cut(cut, i, lists, c, err)))
			code = add_row(lists, &c->contenders[i], table, cut[i], err);
	if (!code && table->within_ns)
		code = add_within(lists, table);
	free(cut);
	return code;
}

/* How it was found; with a makespan, the rows that hold least within it. */
static json_t *front_json(const struct comparison *table, const struct lists *lists)
{
	return json_pack("{s:i, s:o, s:O}", "most_memories", ORR_MOST_FRONT, "within",
			 table->within_ns ? json_real((double)table->within_ns / 1e9) : json_null(),
			 "least_within", lists->within);
}

/* What holds for all rows. */
static json_t *common_json(const struct lists *lists, const struct comparison *table,
			   const char *graph, const struct orr_machine *machine)
{
	json_t *json = json_pack(
		"{s:s, s:s, s:s, s:i, s:s?, s:O, s:o, s:f, s:O, s:O, s:O, s:O}", "graph", graph,
		"model", graph, "unit", table->rows->units ? "units" : "seconds", "workers",
		machine->n_workers, "machine", machine->cluster ? machine->cluster->name : NULL,
		"memory", lists->memories, "bandwidth",
		limit_json(machine->bandwidth_bytes_per_s, false), "latency",
		(double)machine->latency_ns / 1e9, "microbatches", lists->microbatches, "cuts",
		lists->cuts, "schedules", lists->fitting, "refused", lists->refused);

	if (json &&
	    ((table->front && json_object_set_new(json, "front", front_json(table, lists))) ||
	     (table->noise && json_object_set_new(json, "noise", jitter_json(table->noise))) ||
	     orr_parameter_cost_json(json, &table->rows->numerics))) {
		json_decref(json);
		return NULL;
	}
	return json;
}

json_t *comparison_json(const struct comparison *tables, int n, const char *graph,
			const struct orr_machine *machine, struct orr_error *err)
{
	struct lists lists = {json_array(), json_array(), json_array(),
			      json_array(), json_array(), json_array()};
	json_t *json = NULL;
	int code = 0;

	(void)orr_fail(err, ORR_E_NOMEM, "compare: no memory for the report");
	for (int t = 0; t < n && !code; t++)
		code = add_table(&lists, &tables[t], err);
	if (!code)
		json = common_json(&lists, &tables[0], graph, machine);
	json_decref(lists.microbatches);
	json_decref(lists.memories);
	json_decref(lists.cuts);
	json_decref(lists.fitting);
	json_decref(lists.refused);
	json_decref(lists.within);
	return json;
}

/* ---- CSV ---- */

static void write_text(FILE *file, const char *text)
{
	fputc('"', file);
	for (; text && *text; text++)
		fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', file);
}

static void write_noise(FILE *file, const struct orr_noisy *noisy)
{
	const struct orr_spread *spreads[] = {&noisy->strict, &noisy->greedy};

	for (int i = 0; i < 2; i++)
		if (i && !noisy->has_greedy)
			fputs(",,,", file);
		else
			fprintf(file, ",%.12g,%.12g,%.12g", (double)spreads[i]->median_ns / 1e9,
				(double)spreads[i]->p95_ns / 1e9,
				(double)spreads[i]->worst_ns / 1e9);
}

static void write_row(FILE *file, const struct orr_contender *x, const struct comparison *of,
		      int n_workers)
{
	double period;

	write_text(file, x->schedule);
	if (x->n_stages)
		fprintf(file, ",%d,%d,%d,", x->n_stages, n_workers, of->n_microbatches);
	else
		fprintf(file, ",,%d,%d,", n_workers, of->n_microbatches);
	if (limit_of(x, of) > 0)
		fprintf(file, "%lld", (long long)limit_of(x, of));
	fputc(',', file);
	if (x->reason) {
		fputs(",,,,,,,,,,,", file);
		write_text(file, x->reason);
		fputs(of->noise ? ",,,,,,\n" : "\n", file);
		return;
	}
	fprintf(file, "%.12g,", (double)x->makespan_ns / 1e9);
	if (find_period(&period, x))
		fprintf(file, "%.12g", period);
	fprintf(file, ",%.6g,%.6g,%d,%lld,%lld,%lld,%.12g,%d,\"", x->bubble, x->span_bubble,
		x->peak_stash, (long long)x->peak_stash_bytes, (long long)x->memory_bytes,
		(long long)x->received_bytes, (double)x->lower_bound_ns / 1e9, x->on_front);
	for (int i = 0; i < x->n_untested; i++)
		fprintf(file, "%s%s", i ? ", " : "", x->untested[i].what);
	fputs("\",", file);
	if (of->noise)
		write_noise(file, &x->noisy);
	fputc('\n', file);
}

int comparison_write_csv(FILE *file, const void *what, struct orr_error *err)
{
	const struct comparison_csv *csv = what;

	fputs("schedule,stages,workers,microbatches,memory,makespan,per_microbatch,bubble,span_"
	      "bubble,"
	      "peak_stash,peak_stash_bytes,memory_bytes,received_bytes,lower_bound,on_front,"
	      "not_tested,reason",
	      file);
	fputs(csv->n && csv->tables[0].noise
		      ? ",strict_median,strict_p95,strict_worst,greedy_median,greedy_p95,"
			"greedy_worst\n"
		      : "\n",
	      file);
	for (int t = 0; t < csv->n; t++)
		for (int i = 0; i < csv->tables[t].rows->n; i++)
			write_row(file, &csv->tables[t].rows->contenders[i], &csv->tables[t],
				  csv->n_workers);
	return ferror(file) ? orr_fail(err, ORR_E_IO, "compare: the CSV could not be written") : 0;
}
