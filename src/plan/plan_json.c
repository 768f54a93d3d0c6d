/* Plans as JSON: written by `plan`, read by simulate and train. */
#include "orrery/plan.h"
#include "plan_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orrery/figures.h"
#include "orrery/graph.h"
#include "advice.h"
#include "base/input_file.h"
#include "base/json.h"
#include "orrery/jobs.h"
#include "pipeline/parameter_cost.h"
#include "order/periodic.h"
#include "orrery/pipeline.h"
#include "schedule/table.h"

/* ---- writing ---- */

static json_t *stage_json(const struct orr_plan *plan, int s)
{
	json_t *operators = json_array();

	for (int i = 0; i < plan->graph->n_operators; i++)
		if (plan->pipeline->stage_of[i] == s)
			orr_json_append(&operators, json_string(plan->graph->operators[i].name));
	return json_pack("{s:o, s:o, s:f, s:f, s:f}", "operators", operators, "workers",
			 orr_json_integers(plan->workers + plan->first[s], plan->replicas[s]),
			 "compute_seconds", plan->costs[s].compute_s, "communication_seconds",
			 plan->costs[s].communication_s, "link_seconds", plan->costs[s].link_s);
}

static json_t *worker_json(const struct orr_plan *plan, int w)
{
	const struct orr_worker_figures *f = &plan->tried.figures->worker[w];
	json_t *json = json_pack(
		"{s:f, s:f, s:i, s:I, s:I, s:I, s:I}", "busy", (double)f->busy_ns / 1e9, "idle",
		(double)f->idle_ns / 1e9, "peak_stash", f->peak_stash, "peak_stash_bytes",
		(json_int_t)f->peak_stash_bytes, "parameter_bytes", (json_int_t)f->parameter_bytes,
		"optimizer_bytes", (json_int_t)f->optimizer_bytes, "memory_bytes",
		(json_int_t)f->memory_bytes);

	orr_json_update(&json, orr_plan_order_json(plan->tried.jobs, w));
	return json;
}

void orr_machine_json(json_t **plan, const struct orr_machine *machine)
{
	const struct orr_levels *levels = &machine->levels;
	json_t *list;

	if (machine->cluster)
		orr_json_update(plan, json_pack("{s:s, s:s}", "machine", machine->cluster->name,
						"machine_text", machine->cluster->text));
	else if (machine->host.bytes_per_s > 0)
		orr_json_set(plan, "host",
			     json_pack("{s:f, s:f}", "bandwidth", machine->host.bytes_per_s,
				       "latency", (double)machine->host.latency_ns / 1e9));
	if (machine->cluster || !levels->n)
		return;
	list = json_array();
	for (int l = 0; l < levels->n; l++)
		orr_json_append(&list, json_pack("{s:i, s:f, s:f}", "workers", levels->workers[l],
						 "bandwidth", levels->bytes_per_s[l], "latency",
						 (double)levels->latency_ns[l] / 1e9));
	orr_json_set(plan, "levels", list);
}

static json_t *world_json(const struct orr_plan_world *world)
{
	if (!world->fits)
		return json_null();
	return json_pack("{s:i, s:f, s:f, s:I, s:i}", "stages", world->n_stages, "slowest_stage",
			 world->slowest_s, "makespan", (double)world->makespan_ns / 1e9,
			 "memory_bytes", (json_int_t)world->memory_bytes, "peak_stash",
			 world->peak_stash);
}

static json_t *periods_json(const struct orr_plan *plan, struct orr_error *err)
{
	struct orr_star_point *points;
	json_t *json = json_array();
	int n;

	if (orr_plan_periods(plan, &points, &n, err))
		n = 0;
	for (int i = 0; i < n; i++)
		orr_json_append(&json, json_pack("{s:f, s:i, s:I}", "period",
						 (double)points[i].period_ns / 1e9, "in_flight",
						 points[i].in_flight, "stash_bytes",
						 (json_int_t)points[i].stash_bytes));
	free(points);
	return json;
}

json_t *orr_graph_text_json(const struct orr_graph *g, struct orr_error *err)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);
	json_t *json = NULL;
	int code = file ? orr_graph_write_dot(g, file, err) : ORR_E_NOMEM;

	if (file && fclose(file))
		code = ORR_E_NOMEM;
	if (!code)
		json = json_string(text);
	free(text);
	return json;
}

/* What is known of stages that need not be neighbours. */
static void set_pieces(json_t **json, const struct orr_plan *plan)
{
	if (plan->options.pieces || plan->world == ORR_WORLD_PIECES)
		orr_json_update(json, json_pack("{s:o, s:f, s:b}", "pieces",
						world_json(&plan->worlds[ORR_WORLD_PIECES]),
						"pieces_bound", plan->slowest.pieces_bound_s,
						"proven", plan->slowest.proven));
}

/* What the plan is the best for, both counts of links, and what is known of all placements. */
static void set_sought(json_t **json, const struct orr_plan *plan)
{
	const struct orr_plan_sought *sought = &plan->sought;

	orr_json_update(json,
			json_pack("{s:s, s:s, s:f, s:f, s:f}", "sought",
				  plan->options.by_makespan ? "shortest step" : "best throughput",
				  "transfers", plan->options.added ? "added" : "overlapped",
				  "slowest_stage_overlapped", plan->slowest.overlapped_s,
				  "slowest_stage_bound", plan->slowest.least_s,
				  "slowest_stage_added", plan->slowest.added_s));
	if (sought->from_ns)
		orr_json_set(json, "restarts", json_integer(sought->restarts));
	if (sought->n_placements)
		orr_json_update(json, json_pack("{s:i, s:b, s:f}", "placements",
						sought->n_placements, "all_placements",
						sought->all_placements, "lower_bound_anywhere",
						(double)sought->anywhere_ns / 1e9));
}

json_t *orr_plan_json(const struct orr_plan *plan, bool embed, struct orr_error *err)
{
	json_t *stages = json_array(), *workers = json_array(), *json;
	const struct orr_profiled *profiled = &plan->graph->profiled;
	char fingerprint[24];
	int n_idle = 0;

	orr_graph_fingerprint(plan->graph, fingerprint);
	for (int s = 0; s < plan->pipeline->n_stages; s++)
		orr_json_append(&stages, stage_json(plan, s));
	for (int w = 0; w < plan->pipeline->n_workers; w++) {
		orr_json_append(&workers, worker_json(plan, w));
		n_idle += plan->tried.jobs->first[w + 1] == plan->tried.jobs->first[w];
	}
	json = json_pack("{s:s, s:s, s:I, s:i, s:i, s:o, s:f, s:b, s:f, s:s, s:f, s:f, s:i, s:i, "
			 "s:b, s:b, s:o, s:o, s:f, s:f, s:f, s:o}",
			 "graph", plan->graph->name, "fingerprint", fingerprint, "samples",
			 (json_int_t)plan->options.samples, "microbatches",
			 plan->pipeline->n_microbatches, "workers", plan->pipeline->n_workers,
			 "stages", stages, "slowest_stage", plan->slowest_s, "slowest_stage_proven",
			 plan->slowest.fastest, "one_worker", plan->one_worker_s, "schedule",
			 plan->tried.jobs->n_passes == 3   ? "search"
			 : plan->world == ORR_WORLD_PIECES ? "pieces"
			 : plan->world == ORR_WORLD_DAG    ? "side by side"
							   : "chain",
			 "makespan", (double)plan->tried.figures->makespan_ns / 1e9, "lower_bound",
			 (double)plan->tried.figures->lower_bound_ns / 1e9, "in_flight",
			 plan->in_flight, "idle_workers", n_idle, "coarse", plan->coarse,
			 "flattened", plan->flattened, "chain",
			 world_json(&plan->worlds[ORR_WORLD_CHAIN]), "side_by_side",
			 world_json(&plan->worlds[ORR_WORLD_DAG]), "bandwidth",
			 plan->pipeline->machine.bandwidth_bytes_per_s, "latency",
			 (double)plan->pipeline->machine.latency_ns / 1e9, "flops",
			 plan->options.flops_per_s, "worker", workers);
	set_pieces(&json, plan);
	set_sought(&json, plan);
	if (profiled->hardware) /* what the costs are for */
		orr_json_set(&json, "profiled", json_string(orr_profiled_text(profiled)));
	orr_machine_json(&json, &plan->pipeline->machine);
	orr_microbatches_json(&json, plan->pipeline);
	orr_json_set(&json, "periods", periods_json(plan, err));
	orr_parameter_cost_json(&json, &plan->options.numerics);
	if (embed)
		orr_json_set(&json, "text", orr_graph_text_json(plan->graph, err));
	return orr_json_check(json, "plan: no memory for its JSON", err);
}

/* ---- reading ---- */

static int refuse(const struct orr_plan_file *file, struct orr_error *err, const char *what)
{
	return orr_fail(err, ORR_E_INPUT, "%s: %s: plan again (`orrery plan -o`)", file->path,
			what);
}

/* NULL: it says nothing of this, or no text. */
static const char *text_of(const struct orr_plan_file *file, const char *key)
{
	return json_string_value(json_object_get(file->json, key));
}

/* A stage's jobs are on the workers that it says it has. */
static int check_stage(const struct orr_plan_file *file, int s, int *stage_of,
		       struct orr_error *err)
{
	const struct orr_table *t = file->table;
	const json_t *stage = json_array_get(file->stages, (size_t)s),
		     *workers = json_object_get(stage, "workers"), *item;
	size_t i;

	if (!json_is_array(json_object_get(stage, "operators")))
		return refuse(file, err, "a stage without operators");
	if (!json_array_size(workers))
		return refuse(file, err, "a stage without workers");
	json_array_foreach(workers, i, item)
	{
		json_int_t w = json_is_integer(item) ? json_integer_value(item) : -1;

		if (w < 0 || w >= t->n_workers || stage_of[w] == s + 1)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: stage %d, workers: give every one once, as a number below %d",
				file->path, s, t->n_workers);
		stage_of[w] = s + 1;
	}
	for (int b = 0; b < t->n_microbatches; b++)
		for (int d = 0; d < orr_table_n_passes(t); d++) {
			int w = t->compute[orr_table_index(t, s, b, (enum orr_pass)d)];

			if (w >= 0 && stage_of[w] != s + 1)
				return orr_fail(err, ORR_E_INPUT,
						"%s: worker %d has job %d%c%d, and is not of the "
						"workers of stage %d: change one of them",
						file->path, w, s, orr_pass_letter((enum orr_pass)d),
						b, s);
		}
	return 0;
}

static int check_stages(const struct orr_plan_file *file, struct orr_error *err)
{
	int *stage_of = calloc((size_t)file->table->n_workers, sizeof(*stage_of)),
	    code = 0; /* + 1 */

	if (!stage_of)
		return orr_no_memory(err, file->path);
	for (int s = 0; s < file->n_stages && !code; s++)
		code = check_stage(file, s, stage_of, err);
	free(stage_of);
	return code;
}

/* Where workers differ. The file of the machine is not read again, nor written over. */
static int read_machine(struct orr_plan_file *file, struct orr_error *err)
{
	if (!json_object_get(file->json, "machine_text"))
		return 0;
	file->machine.name = text_of(file, "machine");
	file->machine.text = text_of(file, "machine_text");
	return file->machine.name && file->machine.text
		       ? orr_input_name(file->machine.name, err)
		       : refuse(file, err, "machine_text: no text of a machine with a name");
}

static int read_levels(struct orr_plan_file *file, struct orr_error *err)
{
	const json_t *json = json_object_get(file->json, "levels");
	int64_t n_workers = 1;
	json_t *item;
	size_t l;

	if (json && (!json_is_array(json) || json_array_size(json) > ORR_MOST_LEVELS))
		return refuse(file, err, "levels: no list of at most 4");
	json_array_foreach(json, l, item)
	{
		json_int_t workers = json_integer_value(json_object_get(item, "workers"));
		const json_t *bandwidth = json_object_get(item, "bandwidth"),
			     *latency = json_object_get(item, "latency");
		double latency_s = json_number_value(latency);

		if (latency && (!json_is_number(latency) || !(latency_s >= 0 && latency_s < 9e9)))
			return refuse(file, err, "levels: latency: no seconds");
		if (workers < 1 || workers > 4096 || !json_is_number(bandwidth) ||
		    json_number_value(bandwidth) < 0)
			return refuse(file, err, "levels: each has workers and a bandwidth");
		file->levels.workers[l] = (int)workers;
		file->levels.bytes_per_s[l] = json_number_value(bandwidth);
		file->levels.latency_ns[l] = llround(latency_s * 1e9);
		n_workers *= workers;
	}
	file->levels.n = (int)json_array_size(json);
	return !json || n_workers == file->n_workers
		       ? 0
		       : refuse(file, err, "levels: of another number of workers");
}

/* Of a plan of groups of workers. */
static int read_split(struct orr_plan_file *file, struct orr_error *err)
{
	const json_t *n = json_object_get(file->json, "workers");

	file->n_workers = file->table->n_workers;
	if (!json_object_get(file->json, "split"))
		return 0;
	if (!(file->splits = text_of(file, "split")) ||
	    !orr_json_counts(n, file->table->n_workers, 1000000))
		return refuse(file, err, "split: no text, or fewer workers than groups");
	file->n_workers = (int)json_integer_value(n);
	return 0;
}

/* What simulate's options were, where the file says it. */
static int read_options(struct orr_plan_file *file, struct orr_error *err)
{
	const json_t *json = file->json, *latency = json_object_get(json, "latency"),
		     *flops = json_object_get(json, "flops");
	const json_t *batch = json_object_get(json, "batch"), *host = json_object_get(json, "host"),
		     *ahead = json_object_get(json, "prefetch"),
		     *buckets = json_object_get(json, "buckets"),
		     *bandwidth = json_object_get(host, "bandwidth");
	double host_s = json_number_value(json_object_get(host, "latency"));
	double latency_s = json_number_value(latency), flops_per_s = json_number_value(flops);
	json_int_t n = json_integer_value(batch), m = file->table->n_microbatches;

	file->host.bytes_per_s = json_number_value(bandwidth);

	if (latency && (!json_is_number(latency) || !(latency_s >= 0 && latency_s < 9e9)))
		return refuse(file, err, "latency: no seconds");
	if (flops && (!json_is_number(flops) || !(flops_per_s >= 1 && flops_per_s <= 1e24)))
		return refuse(file, err, "flops: no FLOP per second");
	if (batch && (!orr_json_counts(batch, 1, 1 << 30) || (n + m - 1) / m != file->samples))
		return refuse(file, err, "batch: not that of its samples and microbatches");
	if (host && (!json_is_number(bandwidth) || !(file->host.bytes_per_s > 0) ||
		     !(host_s >= 0 && host_s < 9e9)))
		return refuse(file, err, "host: its bandwidth and latency");
	if (ahead && !orr_json_counts(ahead, 0, 1000))
		return refuse(file, err, "prefetch: a number up to 1000");
	if (buckets && !orr_json_counts(buckets, 1, 1 << 16))
		return refuse(file, err, "buckets: a number from 1 to 65536");
	file->host.latency_ns = llround(host_s * 1e9);
	file->prefetch = ahead ? (int)json_integer_value(ahead) : -1;
	file->buckets = (int)json_integer_value(buckets);
	file->latency_ns = llround(latency_s * 1e9);
	file->flops_per_s = flops_per_s;
	file->batch = (int)n;
	return 0;
}

/* Of older plans, AdamW in FP32. */
static int read_numerics(struct orr_plan_file *file, struct orr_error *err)
{
	const char *optimizer = text_of(file, "optimizer"), *precision = text_of(file, "precision");
	const json_t *shard = json_object_get(file->json, "shard_optimizer");
	struct orr_error why;

	if ((!optimizer && json_object_get(file->json, "optimizer")) ||
	    (!precision && json_object_get(file->json, "precision")))
		return refuse(file, err, "optimizer, precision: no names");
	if (shard && !json_is_boolean(shard))
		return refuse(file, err, "shard_optimizer: neither true nor false");
	file->numerics.shard_optimizer = json_is_true(shard);
	if ((optimizer &&
	     orr_optimizer_parse(&file->numerics.optimizer, optimizer, "optimizer", &why)) ||
	    (precision &&
	     orr_precision_parse(&file->numerics.precision, precision, "precision", &why)))
		return refuse(file, err, why.msg);
	return 0;
}

static int read_plan(struct orr_plan_file *file, struct orr_error *err)
{
	const json_t *workers = json_object_get(file->json, "worker"),
		     *samples = json_object_get(file->json, "samples"),
		     *bandwidth = json_object_get(file->json, "bandwidth");
	json_int_t microbatches = json_integer_value(json_object_get(file->json, "microbatches"));
	int code;

	file->graph = text_of(file, "graph");
	file->text = text_of(file, "text");
	file->fingerprint = text_of(file, "fingerprint");
	file->stages = json_object_get(file->json, "stages");
	file->microbatch_costs = json_object_get(file->json, "microbatch_costs");
	if (!json_array_size(file->stages) || json_array_size(file->stages) > 1000000)
		return refuse(file, err, "no stages in it");
	if (!json_array_size(workers) || json_array_size(workers) > 1000000)
		return refuse(file, err, "no workers in it");
	if (!file->graph || !file->fingerprint || strlen(file->fingerprint) != 16)
		return refuse(file, err, "it does not say which graph it is for");
	if (microbatches < 1 ||
	    microbatches > INT32_MAX / 3 / (json_int_t)json_array_size(file->stages))
		return refuse(file, err, "microbatches out of range");
	if (!orr_json_counts(samples, 1, INT32_MAX))
		return refuse(file, err, "samples: no number of samples of a microbatch");
	if (!json_is_number(bandwidth) || json_number_value(bandwidth) < 0)
		return refuse(file, err, "bandwidth: no bytes per second (0: free links)");
	if (!file->text && json_object_get(file->json, "text"))
		return refuse(file, err, "text: no graph");
	file->n_stages = (int)json_array_size(file->stages);
	file->samples = json_integer_value(samples);
	file->bandwidth_bytes_per_s = json_number_value(bandwidth);
	if ((code = read_numerics(file, err)) ||
	    (code = orr_plan_jobs_read(file, (int)microbatches, err)) ||
	    (code = read_split(file, err)) || (code = read_options(file, err)) ||
	    (code = check_stages(file, err)) || (code = read_machine(file, err)))
		return code;
	(void)json_object_del(file->json, "worker"); /* the most of it, which the table has */
	return read_levels(file, err);
}

bool orr_plan_is(const char *path)
{
	char text[256];
	int64_t n_bytes;
	size_t at = 0;
	ssize_t n;
	int fd;

	if (orr_input_open(&fd, &n_bytes, path, "", NULL))
		return false;
	n = pread(fd, text, sizeof(text) - 1, 0);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	at = strspn(text, " \t\r\n");
	return text[at] == '{';
}

int orr_plan_file_read(struct orr_plan_file **out, const char *path, struct orr_error *err)
{
	struct orr_plan_file *file = calloc(1, sizeof(*file));
	json_error_t why;
	char *text = NULL;
	size_t length;
	int code;

	if (!file || !(file->path = strdup(path))) {
		code = orr_no_memory(err, path);
		goto out;
	}
	if ((code = orr_input_read(&text, &length, path, "a plan", err)))
		goto out;
	if (!(file->json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why))) {
		code = orr_fail(err, ORR_E_INPUT, "%s:%d: no plan: %.160s", path, why.line,
				why.text);
		goto out;
	}
	if ((code = read_plan(file, err)))
		goto out;
	*out = file;
	file = NULL;
out:
	free(text);
	orr_plan_file_destroy(file);
	return code;
}

void orr_plan_file_destroy(struct orr_plan_file *file)
{
	if (!file)
		return;
	orr_table_destroy(file->table);
	json_decref(file->json);
	free(file->path);
	free(file);
}

static int find_operator(const struct orr_graph *g, const char *name)
{
	for (int i = 0; name && i < g->n_operators; i++)
		if (!strcmp(g->operators[i].name, name))
			return i;
	return -1;
}

int orr_plan_file_stages(const struct orr_plan_file *file, const struct orr_graph *g, int *stage_of,
			 struct orr_error *err)
{
	char fingerprint[24];
	json_t *stage, *name;
	size_t s, k;

	orr_graph_fingerprint(g, fingerprint);
	if (strcmp(fingerprint, file->fingerprint))
		return orr_fail(err, ORR_E_INPUT,
				"%s: %s is not the graph that was planned, or changed since, or "
				"was planned by an older version: plan again (`orrery plan`)",
				file->path, g->name);
	for (int i = 0; i < g->n_operators; i++)
		stage_of[i] = -1;
	json_array_foreach(file->stages, s, stage)
	{
		const json_t *operators = json_object_get(stage, "operators");

		json_array_foreach(operators, k, name)
		{
			int i = find_operator(g, json_string_value(name));

			if (i < 0 || stage_of[i] >= 0)
				return orr_fail(err, ORR_E_INPUT,
						"%s: stage %zu: operator '%.60s' is %s: give every "
						"operator one stage",
						file->path, s,
						json_is_string(name) ? json_string_value(name) : "",
						i < 0 ? "none of the graph's" : "there twice");
			stage_of[i] = (int)s;
		}
	}
	for (int i = 0; i < g->n_operators; i++)
		if (stage_of[i] < 0 && !orr_operator_is_input(&g->operators[i]))
			return orr_fail(err, ORR_E_INPUT,
					"%s: operator %s has no stage: give it one", file->path,
					g->operators[i].name);
	return 0;
}

int orr_plan_file_replicas(const struct orr_plan_file *file, int s)
{
	return (int)json_array_size(
		json_object_get(json_array_get(file->stages, (size_t)s), "workers"));
}

int orr_plan_file_homes(int **out, const struct orr_plan_file *file, int n_microbatches,
			struct orr_error *err)
{
	int *home = calloc((size_t)file->n_stages * (size_t)n_microbatches, sizeof(*home));

	if (!home)
		return orr_no_memory(err, file->path);
	for (int s = 0; s < file->n_stages; s++) {
		const json_t *workers =
			json_object_get(json_array_get(file->stages, (size_t)s), "workers");
		const struct orr_table *t = file->table;
		size_t n = json_array_size(workers);

		/* workers that differ do not take turns */
		for (int b = 0; b < n_microbatches; b++)
			home[b * file->n_stages + s] =
				file->machine.text
					? t->compute[orr_table_index(t, s, b % t->n_microbatches,
								     ORR_PASS_F)]
					: (int)json_integer_value(
						  json_array_get(workers, (size_t)b % n));
	}
	*out = home;
	return 0;
}
