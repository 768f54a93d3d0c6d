#include "report.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "pipeline/machine_text.h"
#include "orrery/jobs.h"
#include "layout.h"
#include "base/json.h"
#include "pipeline/parameter_cost.h"
#include "parts.h"
#include "base/quantity.h"
#include "stages.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"

/* A column of the table, which has two lines of headings. A count and its bytes share one. */
struct column {
	const char *top, *bottom;
	enum { TIME, SIZE, COUNT } kind;
	size_t value, bytes; /* offsets in struct orr_worker_figures; bytes: the size that belongs
				to a COUNT */
};

#define FIELD(name) offsetof(struct orr_worker_figures, name)
static const struct column columns[] = {
	{"busy", "", TIME, FIELD(busy_ns), 0},
	{"idle", "", TIME, FIELD(idle_ns), 0},
	{"peak", "stash", COUNT, FIELD(peak_stash), FIELD(peak_stash_bytes)},
	{"parameters", "owned", SIZE, FIELD(parameter_bytes), 0},
	{"activations", "received", COUNT, FIELD(recv_activations), FIELD(recv_activation_bytes)},
	{"gradients", "received", COUNT, FIELD(recv_gradients), FIELD(recv_gradient_bytes)},
	{"stashes", "received", COUNT, FIELD(recv_stashes), FIELD(recv_stash_bytes)},
	{"parameters", "received", COUNT, FIELD(recv_parameters), FIELD(recv_parameter_bytes)},
	{"weight gradients", "sent", COUNT, FIELD(sent_weight_gradients),
	 FIELD(sent_weight_gradient_bytes)},
	{"all-reduce", "received", SIZE, FIELD(all_reduce_bytes), 0},
};
#define N_BASIC 3 /* columns that are there even where they are 0, and mean nothing added up */
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))
#define CELL 64

struct table {
	const struct orr_figures *figures;
	bool units;
	bool shown[N_COLUMNS], sized[N_COLUMNS];
	int width[N_COLUMNS];
};

static int64_t read_field(const struct orr_worker_figures *worker, size_t offset)
{
	int64_t value;

	if (offset == FIELD(peak_stash))
		return worker->peak_stash;
	memcpy(&value, (const char *)worker + offset, sizeof(value));
	return value;
}

/* Of worker w, or of all together with w = -1. */
static int64_t figure(const struct table *table, size_t offset, int w)
{
	int64_t sum = 0;

	if (w >= 0)
		return read_field(&table->figures->worker[w], offset);
	for (w = 0; w < table->figures->n_workers; w++)
		sum += read_field(&table->figures->worker[w], offset);
	return sum;
}

static const char *print_cell(const struct table *table, size_t i, int w, char cell[CELL])
{
	const struct column *column = &columns[i];
	int64_t value;
	int n;

	cell[0] = '\0';
	if (w < 0 && i < N_BASIC)
		return cell;
	value = figure(table, column->value, w);
	if (column->kind == TIME)
		return orr_duration_print(cell, CELL, value, table->units);
	if (column->kind == SIZE)
		return orr_size_print(cell, CELL, value);
	n = snprintf(cell, CELL, "%lld", (long long)value);
	if (table->sized[i] && value)
		(void)snprintf(cell + n, CELL - (size_t)n, " (%s)",
			       orr_size_text(figure(table, column->bytes, w)));
	return cell;
}

static const char *bottom(const struct table *table, size_t i)
{
	return columns[i].kind == TIME && table->units ? "units" : columns[i].bottom;
}

/* Columns of zeros are left out, and bytes if no worker has any. */
static void choose_columns(struct table *table)
{
	char cell[CELL];

	for (size_t i = 0; i < N_COLUMNS; i++) {
		table->shown[i] = i < N_BASIC || figure(table, columns[i].value, -1);
		table->sized[i] = columns[i].kind == COUNT && figure(table, columns[i].bytes, -1);
		table->width[i] = (int)strlen(columns[i].top);
		if ((int)strlen(bottom(table, i)) > table->width[i])
			table->width[i] = (int)strlen(bottom(table, i));
		for (int w = -1; w < table->figures->n_workers; w++) {
			int n = (int)strlen(print_cell(table, i, w, cell));

			table->width[i] = n > table->width[i] ? n : table->width[i];
		}
	}
}

static void write_row(FILE *file, const struct table *table, int w)
{
	char cell[CELL];

	if (w >= 0)
		fprintf(file, "w%-6d", w);
	else
		fprintf(file, "%-7s", "all");
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (table->shown[i])
			fprintf(file, "  %*s", table->width[i], print_cell(table, i, w, cell));
	fputc('\n', file);
}

static void write_table(FILE *file, struct table *table)
{
	bool sums = false;

	choose_columns(table);
	fprintf(file, "%-7s", "worker");
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (table->shown[i])
			fprintf(file, "  %*s", table->width[i], columns[i].top);
	fprintf(file, "\n%-7s", "");
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (table->shown[i]) {
			fprintf(file, "  %*s", table->width[i], bottom(table, i));
			sums = sums || i >= N_BASIC;
		}
	fputc('\n', file);
	for (int w = 0; w < table->figures->n_workers; w++)
		write_row(file, table, w);
	if (sums && table->figures->n_workers > 1)
		write_row(file, table, -1);
}

static const char *plural(int n)
{
	return n == 1 ? "" : "s";
}

/* What the fullest worker needs, and a parameter of it, where there are any. */
static void write_memory(FILE *file, const struct orr_figures *f)
{
	char cost[2 * CELL];
	bool any = false;
	int most = 0;

	for (int w = 0; w < f->n_workers; w++) {
		any = any || f->worker[w].parameter_bytes;
		most = f->worker[w].memory_bytes > f->worker[most].memory_bytes ? w : most;
	}
	if (any)
		fprintf(file, "memory       %s on worker %d, %s\n",
			orr_size_text(f->worker[most].memory_bytes), most,
			orr_parameter_cost_print(cost, sizeof(cost), &f->numerics));
}

/* Where the schedule seeks it. */
static void write_span(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	bool units = t->jobs->pipeline->units;
	int64_t bound_ns = t->jobs->span_bound_ns;
	const char *unit = units ? " units" : "";

	if (!bound_ns)
		return;
	fprintf(file, "span         %s%s, sought in place of the makespan; ",
		orr_duration_text(f->span_ns, units), unit);
	if (f->span_ns == bound_ns)
		fprintf(file,
			"no order on these workers within the limits of %s has a shorter one\n",
			t->jobs->schedule);
	else
		fprintf(file,
			"%.1f%% above %s%s, its lower bound on these workers within the limits of "
			"%s\n",
			100 * ((double)f->span_ns / (double)bound_ns - 1),
			orr_duration_text(bound_ns, units), unit, t->jobs->schedule);
}

static void write_heading(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const char *unit = p->units ? " units" : "";
	const char *within = f->bound_in_limits ? " within the limits of " : "";
	const char *whose = f->bound_in_limits ? t->jobs->schedule : "";
	char profiled[CELL];

	fprintf(file, "%s%s: %d stage%s on %d worker%s, %d microbatch%s\n\n", t->jobs->schedule,
		t->measured ? ", measured" : "", p->n_stages, plural(p->n_stages), p->n_workers,
		plural(p->n_workers), p->n_microbatches, p->n_microbatches == 1 ? "" : "es");
	fprintf(file, "makespan     %s%s\n", orr_duration_text(f->makespan_ns, p->units), unit);
	fprintf(file, "bubble       %.1f%%\nspan bubble  %.1f%%\n", 100 * f->bubble,
		100 * f->span_bubble);
	if (!t->measured)
		write_span(file, t, f);
	fprintf(file, "lower bound  %s%s", orr_duration_text(f->lower_bound_ns, p->units), unit);
	if (f->makespan_ns == f->lower_bound_ns)
		fprintf(file, "; reached: no order of these jobs on these workers%s%s is shorter\n",
			within, whose);
	else if (f->makespan_ns < f->lower_bound_ns) /* a run may be faster than its costs */
		fprintf(file,
			"; the makespan is %.1f%% below it: jobs took less than their costs\n",
			100 * (1 - (double)f->makespan_ns / (double)f->lower_bound_ns));
	else if (f->lower_bound_ns > 0)
		fprintf(file, " on these workers%s%s; the makespan is %.1f%% above it\n", within,
			whose, 100 * ((double)f->makespan_ns / (double)f->lower_bound_ns - 1));
	else
		fputc('\n', file);
	fprintf(file, "throughput   %.3f of at most %.3f\n", f->throughput, f->throughput_bound);
	write_memory(file, f);
	orr_groups_write(file, t->jobs);
	orr_machine_write(file, &p->machine, "machine      ");
	if (p->profiled.hardware && !t->measured)
		fprintf(file, "profiled     %s\n",
			orr_profiled_print(profiled, CELL, &p->profiled));
	fputc('\n', file);
}

static const char *print_range(char cell[CELL], int least, int most)
{
	if (least == most)
		(void)snprintf(cell, CELL, "%d", most);
	else
		(void)snprintf(cell, CELL, "%d to %d", least, most);
	return cell;
}

/* Of an asynchronous schedule: its steady state and the versions of its parameters. */
static void write_stream(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const struct orr_versions *v = t->jobs->versions;
	const struct orr_steady *steady = &f->steady;
	const char *unit = p->units ? " units" : "";
	char cell[CELL];

	if (!t->measured)
		fprintf(file, "\nstart-up     %s%s\n",
			orr_duration_text(steady->startup_ns, p->units), unit);
	if (steady->microbatches)
		fprintf(file, "steady       %s%s for %lld microbatch%s, without end\n",
			orr_duration_text(steady->period_ns, p->units), unit,
			(long long)steady->microbatches, steady->microbatches == 1 ? "" : "es");
	if (!t->measured)
		fprintf(file, "drain        %s%s\n", orr_duration_text(steady->drain_ns, p->units),
			unit);
	fprintf(file, "\nversions of the parameters, %s:\n", orr_sync_name(p->sync));
	fprintf(file, "%-7s  replicas  microbatches  staleness  versions  memory\n", "stage");
	fprintf(file, "%-7s              an update                 held\n", "");
	for (int s = 0; s < p->n_stages; s++) {
		int least, most;

		if (v->every[s] == ORR_NEVER)
			continue;
		orr_versions_steady(v, s, &least, &most);
		fprintf(file, "s%-6d  %8d  %12d  %9s  %8d  %s\n", s,
			t->jobs->first_owner[s + 1] - t->jobs->first_owner[s], v->every[s],
			print_range(cell, least, most), v->peak[s],
			orr_size_text(v->peak[s] * p->stages[s].parameter_bytes));
	}
}

int orr_report_write(FILE *file, const struct orr_timeline *t, const struct orr_figures *f,
		     const char *defined_by, struct orr_error *err)
{
	struct table table = {.figures = f, .units = t->jobs->pipeline->units};
	int code;

	write_heading(file, t, f);
	write_table(file, &table);
	fputc('\n', file);
	if ((code = orr_stages_write(file, t->jobs, err)))
		return code;
	if (t->jobs->async)
		write_stream(file, t, f);
	if (defined_by)
		fprintf(file, "\n%s\n", defined_by);
	return orr_layout_finish(file, "report", err);
}

static json_t *worker_json(const struct orr_worker_figures *worker)
{
	static const struct {
		const char *key;
		size_t value;
		bool time;
	} keys[] = {
		{"busy", FIELD(busy_ns), true},
		{"idle", FIELD(idle_ns), true},
		{"first_start", FIELD(first_start_ns), true},
		{"last_end", FIELD(last_end_ns), true},
		{"peak_stash", FIELD(peak_stash), false},
		{"peak_stash_bytes", FIELD(peak_stash_bytes), false},
		{"parameter_bytes", FIELD(parameter_bytes), false},
		{"optimizer_bytes", FIELD(optimizer_bytes), false},
		{"rounded_bytes", FIELD(rounded_bytes), false},
		{"copy_bytes", FIELD(copy_bytes), false},
		{"version_bytes", FIELD(version_bytes), false},
		{"memory_bytes", FIELD(memory_bytes), false},
		{"recv_activations", FIELD(recv_activations), false},
		{"recv_gradients", FIELD(recv_gradients), false},
		{"recv_stashes", FIELD(recv_stashes), false},
		{"recv_parameters", FIELD(recv_parameters), false},
		{"recv_activation_bytes", FIELD(recv_activation_bytes), false},
		{"recv_gradient_bytes", FIELD(recv_gradient_bytes), false},
		{"recv_stash_bytes", FIELD(recv_stash_bytes), false},
		{"recv_parameter_bytes", FIELD(recv_parameter_bytes), false},
		{"sent_weight_gradients", FIELD(sent_weight_gradients), false},
		{"sent_weight_gradient_bytes", FIELD(sent_weight_gradient_bytes), false},
		{"all_reduce_bytes", FIELD(all_reduce_bytes), false},
	};
	json_t *object = json_object();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int64_t value = read_field(worker, keys[i].value);

		orr_json_set(&object, keys[i].key,
			     keys[i].time ? orr_json_time(value) : json_integer(value));
	}
	return object;
}

static json_t *stage_json(const struct orr_jobs *jobs, int s)
{
	const struct orr_versions *v = jobs->versions;
	int least, most;

	orr_versions_steady(v, s, &least, &most);
	return json_pack("{s:i, s:o, s:[i, i], s:I, s:i, s:I}", "replicas",
			 jobs->first_owner[s + 1] - jobs->first_owner[s], "update_of",
			 v->every[s] == ORR_NEVER ? json_null() : json_integer(v->every[s]),
			 "staleness", least, most, "steady_from",
			 (json_int_t)orr_versions_full(v, s), "versions", v->peak[s],
			 "version_bytes",
			 v->peak[s] * (json_int_t)jobs->pipeline->stages[s].parameter_bytes);
}

static json_t *stream_json(const struct orr_timeline *t, const struct orr_figures *f)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const struct orr_steady *steady = &f->steady;
	json_t *stages = json_array();

	for (int s = 0; s < p->n_stages; s++)
		orr_json_append(&stages, stage_json(t->jobs, s));
	if (t->measured)
		return json_pack("{s:s, s:i, s:o}", "sync", orr_sync_name(p->sync), "accumulate",
				 p->accumulate, "stage", stages);
	return json_pack("{s:s, s:i, s:o, s:o, s:I, s:o, s:o}", "sync", orr_sync_name(p->sync),
			 "accumulate", p->accumulate, "startup", orr_json_time(steady->startup_ns),
			 "drain", orr_json_time(steady->drain_ns), "steady_microbatches",
			 (json_int_t)steady->microbatches, "steady",
			 steady->microbatches ? orr_json_time(steady->period_ns) : json_null(),
			 "stage", stages);
}

json_t *orr_report_json(const struct orr_timeline *t, const struct orr_figures *f,
			struct orr_error *err)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	json_t *workers = json_array(), *stages = orr_stages_json(t->jobs, err), *report;
	const bool listed = stages; /* else err says why */
	char profiled[CELL];

	for (int w = 0; w < f->n_workers; w++)
		orr_json_append(&workers, worker_json(&f->worker[w]));
	orr_json_keep(&workers, orr_workers_json(workers, &p->machine));
	report = json_pack(
		"{s:s, s:s?, s:s, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}",
		"schedule", t->jobs->schedule, "model", p->graph ? p->graph->name : NULL, "unit",
		orr_stages_unit(p), "stages", stages, "workers", p->n_workers, "microbatches",
		p->n_microbatches, "makespan", orr_json_time(f->makespan_ns), "bubble",
		orr_json_number(f->bubble), "span_bubble", orr_json_number(f->span_bubble), "span",
		orr_json_time(f->span_ns), "lower_bound", orr_json_time(f->lower_bound_ns),
		"lower_bound_over",
		f->bound_in_limits ? "orders on this placement within the schedule's limits"
				   : "orders on this placement",
		"throughput", orr_json_number(f->throughput), "throughput_bound",
		orr_json_number(f->throughput_bound), "worker", workers);
	orr_json_keep(&report, orr_parameter_cost_json(report, &f->numerics));
	if (p->n_tied)
		orr_json_set(&report, "tied", orr_tied_json(t->jobs));
	if (p->machine.cluster)
		orr_json_set(&report, "machine", json_string(p->machine.cluster->name));
	if (p->profiled.hardware && !t->measured) /* what the costs are for */
		orr_json_set(&report, "profiled",
			     json_string(orr_profiled_print(profiled, CELL, &p->profiled)));
	if (t->jobs->groups)
		orr_json_set(&report, "split", orr_groups_json(t->jobs));
	if (t->jobs->span_bound_ns)
		orr_json_set(&report, "span_lower_bound", orr_json_time(t->jobs->span_bound_ns));
	if (t->jobs->async)
		orr_json_set(&report, "stream", stream_json(t, f));
	if (!report && listed)
		(void)orr_fail(err, ORR_E_NOMEM, "report: no memory for the figures of %d workers",
			       f->n_workers);
	return report;
}
