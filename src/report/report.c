#include "report.h"

#include <stddef.h>
#include <string.h>

#include "compare.h"
#include "orrery/figures.h"
#include "orrery/graph.h"
#include "pipeline/machine_text.h"
#include "orrery/jobs.h"
#include "layout.h"
#include "base/json.h"
#include "pipeline/parameter_cost.h"
#include "plan/plan_file.h"
#include "text_table.h"
#include "base/quantity.h"
#include "parts.h"
#include "stages.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"

#define FIELD(name) offsetof(struct orr_worker_figures, name)

/* What is said of a worker: its key in JSON, and its column of the table, where it has one. */
static const struct field {
	const char *key;
	enum { TIME, SIZE, COUNT } kind;
	size_t value;             /* offset */
	const char *top, *bottom; /* of the column; NULL: it has none */
	size_t bytes;             /* offset of the size that a count shares its column with */
} fields[] = {
	{"busy", TIME, FIELD(busy_ns), "busy", "", 0},
	{"idle", TIME, FIELD(idle_ns), "idle", "", 0},
	{"first_start", TIME, FIELD(first_start_ns), NULL, NULL, 0},
	{"last_end", TIME, FIELD(last_end_ns), NULL, NULL, 0},
	{"peak_stash", COUNT, FIELD(peak_stash), "peak", "stash", FIELD(peak_stash_bytes)},
	{"peak_stash_bytes", SIZE, FIELD(peak_stash_bytes), NULL, NULL, 0},
	{"parameter_bytes", SIZE, FIELD(parameter_bytes), "parameters", "owned", 0},
	{"optimizer_bytes", SIZE, FIELD(optimizer_bytes), NULL, NULL, 0},
	{"rounded_bytes", SIZE, FIELD(rounded_bytes), NULL, NULL, 0},
	{"copy_bytes", SIZE, FIELD(copy_bytes), NULL, NULL, 0},
	{"version_bytes", SIZE, FIELD(version_bytes), NULL, NULL, 0},
	{"memory_bytes", SIZE, FIELD(memory_bytes), NULL, NULL, 0},
	{"recv_activations", COUNT, FIELD(recv_activations), "activations", "received",
	 FIELD(recv_activation_bytes)},
	{"recv_gradients", COUNT, FIELD(recv_gradients), "gradients", "received",
	 FIELD(recv_gradient_bytes)},
	{"recv_stashes", COUNT, FIELD(recv_stashes), "stashes", "received",
	 FIELD(recv_stash_bytes)},
	{"recv_parameters", COUNT, FIELD(recv_parameters), "parameters", "received",
	 FIELD(recv_parameter_bytes)},
	{"parked", COUNT, FIELD(parked), "stashes", "parked", FIELD(parked_bytes)},
	{"parked_bytes", SIZE, FIELD(parked_bytes), NULL, NULL, 0},
	{"recv_activation_bytes", SIZE, FIELD(recv_activation_bytes), NULL, NULL, 0},
	{"recv_gradient_bytes", SIZE, FIELD(recv_gradient_bytes), NULL, NULL, 0},
	{"recv_stash_bytes", SIZE, FIELD(recv_stash_bytes), NULL, NULL, 0},
	{"recv_parameter_bytes", SIZE, FIELD(recv_parameter_bytes), NULL, NULL, 0},
	{"sent_weight_gradients", COUNT, FIELD(sent_weight_gradients), "weight gradients", "sent",
	 FIELD(sent_weight_gradient_bytes)},
	{"sent_weight_gradient_bytes", SIZE, FIELD(sent_weight_gradient_bytes), NULL, NULL, 0},
	{"all_reduce_bytes", SIZE, FIELD(all_reduce_bytes), "all-reduce", "received", 0},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
#define N_BASIC 3 /* columns that are there even where they are 0, and mean nothing added up */

static int64_t read_field(const struct orr_worker_figures *worker, size_t offset)
{
	int64_t value;

	if (offset == FIELD(peak_stash))
		return worker->peak_stash;
	memcpy(&value, (const char *)worker + offset, sizeof(value));
	return value;
}

struct table {
	const struct orr_figures *figures;
	const struct orr_pipeline *pipeline;
	const struct field *shown[N_FIELDS]; /* in columns */
	bool sized[N_FIELDS];                /* some worker has bytes */
	int n_shown;
};

/* Of worker w, or, where there is none, of all together. */
static int64_t figure(const struct table *table, size_t offset, int w)
{
	const struct orr_figures *f = table->figures;
	int64_t sum = 0;

	if (w < f->n_workers)
		return read_field(&f->worker[w], offset);
	for (w = 0; w < f->n_workers; w++)
		sum += read_field(&f->worker[w], offset);
	return sum * table->pipeline->alike;
}

static const char *cell_text(const struct table *table, int i, int w)
{
	const struct field *field = table->shown[i];
	int64_t value = figure(table, field->value, w);

	if (w == table->figures->n_workers && i < N_BASIC)
		return "";
	if (field->kind == TIME)
		return orr_duration_text(value, table->pipeline->units);
	if (field->kind == SIZE)
		return orr_size_text(value);
	return table->sized[i] && value ? orr_text("%lld (%s)", (long long)value,
						   orr_size_text(figure(table, field->bytes, w)))
					: orr_text("%lld", (long long)value);
}

static void fill_row(void *user, int w, const char **cells)
{
	const struct table *table = user;

	cells[0] = w < table->figures->n_workers ? orr_text("w%d", w) : "all";
	for (int i = 0; i < table->n_shown; i++)
		cells[i + 1] = cell_text(table, i, w);
}

/* Columns of zeros are left out, and bytes if no worker has any. */
static void write_table(FILE *file, const struct orr_figures *f, const struct orr_pipeline *p)
{
	struct table table = {.figures = f, .pipeline = p};
	struct orr_column columns[N_FIELDS + 1] = {{.heading = {"worker", ""}, .width = 7}};
	struct orr_rows rows = {columns, 1, f->n_workers, 0, fill_row, &table};

	for (const struct field *field = fields; field < fields + N_FIELDS; field++) {
		int i = table.n_shown;

		if (!field->top || (i >= N_BASIC && !figure(&table, field->value, f->n_workers)))
			continue;
		table.shown[table.n_shown++] = field;
		table.sized[i] = field->kind == COUNT && figure(&table, field->bytes, f->n_workers);
		columns[rows.n_columns].heading[0] = field->top;
		columns[rows.n_columns++].heading[1] =
			field->kind == TIME && p->units ? "units" : field->bottom;
	}
	rows.n += table.n_shown > N_BASIC && f->n_workers > 1; /* the sums */
	orr_rows_write(file, &rows);
}

/* What the fullest worker needs, and a parameter of it, where there are any. */
static void write_memory(FILE *file, const struct orr_figures *f, int alike)
{
	int most = orr_figures_fullest(f);
	bool any = false;

	for (int w = 0; w < f->n_workers; w++)
		any = any || f->worker[w].parameter_bytes;
	if (any)
		fprintf(file, "memory       %s on worker %d, %s\n",
			orr_size_text(f->worker[most].memory_bytes), most,
			orr_parameter_cost_text(&f->numerics));
	if (f->peak_host_bytes)
		fprintf(file, "host         %s of stashes at most, in the memory of all hosts\n",
			orr_size_text(f->peak_host_bytes * alike));
}

static double percent_above(int64_t ns, int64_t bound_ns)
{
	return 100 * ((double)ns / (double)bound_ns - 1);
}

/* Where the schedule seeks it. */
static void write_span(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	bool units = t->jobs->pipeline->units, met = f->span_ns == t->jobs->span_bound_ns;
	int64_t bound_ns = t->jobs->span_bound_ns;

	if (!bound_ns)
		return;
	fprintf(file, "span         %s, sought in place of the makespan; ",
		orr_time_text(f->span_ns, units));
	if (!met)
		fprintf(file, "%.1f%% above %s, its lower bound",
			percent_above(f->span_ns, bound_ns), orr_time_text(bound_ns, units));
	fprintf(file, "%s on these workers within the limits of %s%s\n", met ? "no order" : "",
		t->jobs->schedule, met ? " has a shorter one" : "");
}

/* How many of the step's sums over owners went which way; all 0 on a machine of rings. */
static void count_sums(int count[ORR_ALL_REDUCES], const struct orr_timeline *t)
{
	const struct orr_cluster *c = t->jobs->pipeline->machine.cluster;

	memset(count, 0, ORR_ALL_REDUCES * sizeof(*count));
	for (int i = 0; c && c->all_reduce && i < t->n_transfers; i++)
		count[t->transfers[i].all_reduce] +=
			t->transfers[i].kind == ORR_TRANSFER_ALL_REDUCE;
}

static void write_sums(FILE *file, const struct orr_timeline *t)
{
	int count[ORR_ALL_REDUCES], n = 0;

	count_sums(count, t);
	for (int i = 0; i < ORR_ALL_REDUCES; i++)
		if (count[i])
			fprintf(file, "%s%d %s", n++ ? ", " : "all-reduce   ", count[i],
				orr_all_reduce_name((enum orr_all_reduce)i));
	if (n)
		fputc('\n', file);
}

static json_t *sums_json(const struct orr_timeline *t)
{
	int count[ORR_ALL_REDUCES];
	json_t *object = json_object();

	count_sums(count, t);
	for (int i = 0; i < ORR_ALL_REDUCES; i++)
		orr_json_set(&object, orr_all_reduce_name((enum orr_all_reduce)i),
			     json_integer(count[i]));
	return object;
}

static void write_heading(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const char *within = f->bound_in_limits ? " within the limits of " : "";
	const char *whose = f->bound_in_limits ? t->jobs->schedule : "";
	int r = p->replicas * p->alike;

	fprintf(file, "%s%s: %s on %s, %s\n\n", t->jobs->schedule, t->measured ? ", measured" : "",
		orr_count_text(p->n_stages, "stage"),
		orr_count_text(p->n_workers * p->alike, "worker"),
		orr_count_text((int64_t)p->n_microbatches * p->alike, "microbatch"));
	fprintf(file, "makespan     %s\n", orr_time_text(f->makespan_ns, p->units));
	fprintf(file, "bubble       %.1f%%\nspan bubble  %.1f%%\n", 100 * f->bubble,
		100 * f->span_bubble);
	if (!t->measured)
		write_span(file, t, f);
	fprintf(file, "lower bound  %s", orr_time_text(f->lower_bound_ns, p->units));
	if (f->makespan_ns == f->lower_bound_ns)
		fprintf(file, "; reached: no order of these jobs on these workers%s%s is shorter\n",
			within, whose);
	else if (f->makespan_ns < f->lower_bound_ns) /* a run may be faster than its costs */
		fprintf(file,
			"; the makespan is %.1f%% below it: jobs took less than their costs\n",
			-percent_above(f->makespan_ns, f->lower_bound_ns));
	else if (f->lower_bound_ns > 0)
		fprintf(file, " on these workers%s%s; the makespan is %.1f%% above it\n", within,
			whose, percent_above(f->makespan_ns, f->lower_bound_ns));
	else
		fputc('\n', file);
	fprintf(file, "throughput   %.3f of at most %.3f\n", f->throughput, f->throughput_bound);
	write_memory(file, f, p->alike);
	if (r > 1)
		fprintf(file, "replicas     %d, each on %s with %s%s\n", r,
			orr_count_text(p->n_workers / p->replicas, "worker"),
			orr_count_text(p->n_microbatches / p->replicas, "microbatch"),
			p->alike > 1 ? "; all alike: this is the first" : "");
	orr_groups_write(file, t->jobs);
	orr_machine_write(file, &p->machine, "machine      ");
	write_sums(file, t);
	if (p->profiled.hardware && !t->measured)
		fprintf(file, "profiled     %s\n", orr_profiled_text(&p->profiled));
	fputc('\n', file);
}

/* Of an asynchronous schedule: its steady state and the versions of its parameters. */
static void write_stream(FILE *file, const struct orr_timeline *t, const struct orr_figures *f)
{
	const struct orr_pipeline *p = t->jobs->pipeline;
	const struct orr_versions *v = t->jobs->versions;
	const struct orr_steady *steady = &f->steady;

	if (!t->measured)
		fprintf(file, "\nstart-up     %s\n", orr_time_text(steady->startup_ns, p->units));
	if (steady->microbatches)
		fprintf(file, "steady       %s for %s, without end\n",
			orr_time_text(steady->period_ns, p->units),
			orr_count_text(steady->microbatches, "microbatch"));
	if (!t->measured)
		fprintf(file, "drain        %s\n", orr_time_text(steady->drain_ns, p->units));
	fprintf(file, "\nversions of the parameters, %s:\n", orr_sync_name(p->sync));
	fprintf(file, "%-7s  replicas  microbatches  staleness  versions  memory\n", "stage");
	fprintf(file, "%-7s              an update                 held\n", "");
	for (int s = 0; s < p->n_stages; s++) {
		if (v->every[s] == ORR_NEVER)
			continue;
		fprintf(file, "s%-6d  %8d  %12d  %9s  %8d  %s\n", s,
			t->jobs->first_owner[s + 1] - t->jobs->first_owner[s], v->every[s],
			v->least[s] == v->most[s] ? orr_text("%d", v->most[s])
						  : orr_text("%d to %d", v->least[s], v->most[s]),
			v->peak[s], orr_size_text(v->peak[s] * p->stages[s].parameter_bytes));
	}
}

int orr_report_write(FILE *file, const struct orr_timeline *t, const struct orr_figures *f,
		     const char *defined_by, struct orr_error *err)
{
	int code;

	write_heading(file, t, f);
	write_table(file, f, t->jobs->pipeline);
	fputc('\n', file);
	if ((code = orr_stages_write(file, t->jobs, err)))
		return code;
	if (t->jobs->async)
		write_stream(file, t, f);
	if (defined_by)
		fprintf(file, "\n%s\n", defined_by);
	return orr_layout_finish(file, "report", err);
}

static json_t *worker_json(const struct orr_figures *f, const struct orr_machine *machine, int w,
			   bool parks)
{
	json_t *object = json_object();

	for (const struct field *field = fields; field < fields + N_FIELDS; field++) {
		int64_t value = read_field(&f->worker[w], field->value);

		if (!parks && strstr(field->key, "parked"))
			continue;
		orr_json_set(&object, field->key,
			     field->kind == TIME ? orr_json_time(value) : json_integer(value));
	}
	orr_worker_json(&object, machine, w);
	return object;
}

static json_t *stage_json(const struct orr_jobs *jobs, int s)
{
	const struct orr_versions *v = jobs->versions;

	return json_pack("{s:i, s:o, s:[i, i], s:I, s:i, s:I}", "replicas",
			 jobs->first_owner[s + 1] - jobs->first_owner[s], "update_of",
			 v->every[s] == ORR_NEVER ? json_null() : json_integer(v->every[s]),
			 "staleness", v->least[s], v->most[s], "steady_from",
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

	for (int w = 0; w < f->n_workers; w++)
		orr_json_append(&workers, worker_json(f, &p->machine, w, t->jobs->park));
	report = json_pack(
		"{s:s, s:s?, s:s, s:o, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o}",
		"schedule", t->jobs->schedule, "model", p->graph ? p->graph->name : NULL, "unit",
		orr_stages_unit(p), "stages", stages, "workers", p->n_workers * p->alike,
		"microbatches", (json_int_t)p->n_microbatches * p->alike, "makespan",
		orr_json_time(f->makespan_ns), "bubble", orr_json_number(f->bubble), "span_bubble",
		orr_json_number(f->span_bubble), "span", orr_json_time(f->span_ns), "lower_bound",
		orr_json_time(f->lower_bound_ns), "lower_bound_over",
		f->bound_in_limits ? "orders on this placement within the schedule's limits"
				   : "orders on this placement",
		"throughput", orr_json_number(f->throughput), "throughput_bound",
		orr_json_number(f->throughput_bound), "worker", workers);
	orr_parameter_cost_json(&report, &f->numerics);
	if (p->n_tied)
		orr_json_set(&report, "tied", orr_tied_json(t->jobs));
	if (p->machine.cluster)
		orr_json_set(&report, "machine", json_string(p->machine.cluster->name));
	if (p->machine.cluster && p->machine.cluster->all_reduce)
		orr_json_set(&report, "all_reduce", sums_json(t));
	if (p->profiled.hardware && !t->measured) /* what the costs are for */
		orr_json_set(&report, "profiled", json_string(orr_profiled_text(&p->profiled)));
	if (p->replicas * p->alike > 1)
		orr_json_set(&report, "replicas", json_integer(p->replicas * p->alike));
	if (p->alike > 1)
		orr_json_set(&report, "alike", json_integer(p->alike));
	if (t->jobs->groups)
		orr_json_set(&report, "split", orr_groups_json(t->jobs));
	if (t->jobs->span_bound_ns)
		orr_json_set(&report, "span_lower_bound", orr_json_time(t->jobs->span_bound_ns));
	if (t->jobs->park)
		orr_json_set(&report, "peak_host_bytes",
			     json_integer(f->peak_host_bytes * p->alike));
	if (t->jobs->async)
		orr_json_set(&report, "stream", stream_json(t, f));
	if (!report && listed)
		(void)orr_no_memory(err, "report");
	return report;
}

/* ---- as a plan ---- */

static json_t *duration_json(const struct orr_pipeline *p, int s, enum orr_pass d, bool split)
{
	if (!orr_pipeline_has_pass(p, s, d, split))
		return json_null();
	return orr_json_time(orr_pipeline_duration_ns(p, s, d, split));
}

/* What a policy sees of its pipeline and a plan does not say otherwise: durations of B with and
 * without W in it, null for a pass that a stage has not. */
static json_t *pipeline_json(const struct orr_pipeline *p)
{
	json_t *stages = json_array(), *edges = json_array();

	for (int s = 0; s < p->n_stages; s++)
		orr_json_append(&stages,
				json_pack("{s:i, s:I, s:o, s:o, s:o}", "depth", p->stages[s].depth,
					  "stash_bytes", (json_int_t)p->stages[s].stash_bytes,
					  "whole", duration_json(p, s, ORR_PASS_B, false),
					  "backward", duration_json(p, s, ORR_PASS_B, true),
					  "weight", duration_json(p, s, ORR_PASS_W, true)));
	for (const struct orr_edge *e = p->edges; e < p->edges + p->n_edges; e++)
		orr_json_append(&edges,
				json_pack("[i, i, I, I]", e->from, e->to, (json_int_t)e->bytes,
					  (json_int_t)e->gradient_bytes));
	return json_pack("{s:o, s:o}", "stages", stages, "edges", edges);
}

json_t *orr_replay_json(const struct orr_timeline *t, const struct orr_figures *f, int batch,
			int64_t samples, bool embed, struct orr_error *err)
{
	const struct orr_graph *g = t->jobs->pipeline->graph;
	const struct orr_machine *machine = &t->jobs->pipeline->machine;
	json_t *plan = orr_report_json(t, f, err);
	char fingerprint[24];

	if (!plan)
		return NULL;
	orr_graph_fingerprint(g, fingerprint);
	orr_json_update(&plan,
			json_pack("{s:s, s:s}", "graph", g->name, "fingerprint", fingerprint));
	if (embed)
		orr_json_set(&plan, "text", orr_graph_text_json(g, err));
	orr_json_update(&plan,
			json_pack("{s:o, s:f, s:f}", "latency", orr_json_time(machine->latency_ns),
				  "bandwidth", machine->bandwidth_bytes_per_s, "flops",
				  machine->flops_per_s));
	orr_machine_json(&plan, machine);
	orr_json_update(&plan,
			json_pack("{s:I, s:i}", "samples", (json_int_t)samples, "batch", batch));
	orr_plan_rules_json(&plan, t->jobs);
	orr_json_set(&plan, "pipeline", pipeline_json(t->jobs->pipeline));
	orr_microbatches_json(&plan, t->jobs->pipeline);
	for (int w = 0; w < t->jobs->pipeline->n_workers; w++)
		orr_json_keep(&plan,
			      json_object_update_new(
				      json_array_get(json_object_get(plan, "worker"), (size_t)w),
				      orr_plan_order_json(t->jobs, w)));
	return orr_json_check(plan, "plan: no memory for its JSON", err);
}

/* Names of what is one figure; none twice. */
static void add_scalars(json_t **columns, const json_t *object)
{
	json_t *value;
	const char *name;

	json_object_foreach((json_t *)object, name, value)
	{
		if (!json_is_object(value) && !json_is_array(value) &&
		    orr_json_index(*columns, json_string(name)) < 0)
			orr_json_keep(columns, -1);
	}
}

int orr_report_csv(FILE *file, const json_t *report, struct orr_error *err)
{
	const json_t *workers = json_object_get(report, "worker");
	json_t *columns = json_array(), *noise = json_object_get(report, "noise"), *row;
	size_t w;

	orr_json_append(&columns, json_string("worker"));
	add_scalars(&columns, report);
	add_scalars(&columns, json_array_get(workers, 0));
	if (noise)
		orr_csv_add_noise(&columns);
	if (!columns)
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for the CSV of figures");
	orr_csv_write_line(file, report, NULL, columns);
	json_array_foreach(workers, w, row)
	{
		json_t *own = json_copy(row);

		orr_json_set(&own, "worker", json_integer((json_int_t)w));
		if (noise)
			orr_json_set(&own, "noise", json_incref(noise));
		orr_csv_write_line(file, report, own, columns);
		json_decref(own);
	}
	json_decref(columns);
	return ferror(file) ? orr_fail(err, ORR_E_IO, "simulate: the CSV could not be written") : 0;
}
