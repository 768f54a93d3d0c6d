/* The jobs in a plan's file, by key:
 *
 *   worker[]  order: ["0F0", "1F0@2"], with @ if another worker owns the parameters;
 *             n: [0, 1], ascending, which also decides between transfers that are requested at one
 *             moment; without it, the place in the order
 *   order     "strict" (the default), "greedy", or "bounded": greedy in the memory of the strict
 *             order
 *   stages[]  in_flight: the cap of F; recompute: B runs F again; park: host, or a worker
 *   stream    asynchronous schedules: period, the growth of n in a round; sync; accumulate
 *   bound     ns: no order within the schedule's limits is shorter; of: the pipeline that this was
 *             proved for */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/json.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"
#include "pipeline/cost.h"
#include "pipeline/microbatches.h"
#include "plan_file.h"
#include "schedule/async.h"
#include "schedule/table.h"
#include "schedule/versions.h"

/* ---- writing ---- */

static json_t *job_json(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	char text[64];
	int n = snprintf(text, sizeof(text), "%d%c%d", job.s, orr_pass_letter(job.d), job.b);

	if (jobs->weights[j] != jobs->compute[j])
		(void)snprintf(text + n, sizeof(text) - (size_t)n, "@%d", jobs->weights[j]);
	return json_string(text);
}

json_t *orr_plan_order_json(const struct orr_jobs *jobs, int w)
{
	json_t *order = json_array(), *n = json_array();

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		if (jobs->compute[j] != w)
			continue; /* of a job on several workers n says its place on the others */
		orr_json_append(&order, job_json(jobs, j));
		orr_json_append(&n, json_integer(jobs->priority[j]));
	}
	return json_pack("{s:o, s:o}", "order", order, "n", n);
}

#define N_ORDERS 3
static const char *const orders[N_ORDERS] = {"strict", "greedy", "bounded"};

static void set_of_stage(json_t **plan, int s, const char *key, json_t *value)
{
	json_t *stage = json_array_get(json_object_get(*plan, "stages"), (size_t)s);

	orr_json_keep(plan, json_object_set_new(stage, key, value));
}

static void set_stages(json_t **plan, const struct orr_jobs *jobs)
{
	for (int s = 0; s < jobs->pipeline->n_stages; s++) {
		int cap = orr_jobs_cap(jobs, s);

		if (cap)
			set_of_stage(plan, s, "in_flight", json_integer(cap));
		set_of_stage(plan, s, "recompute", json_boolean(jobs->recompute[s]));
		if (jobs->park && jobs->park[s])
			set_of_stage(plan, s, "park",
				     jobs->park[s] < 0 ? json_string("host")
						       : json_integer(jobs->park[s] - 1));
	}
}

void orr_plan_rules_json(json_t **plan, const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;
	json_t *stream = json_object_get(*plan, "stream");
	char of[24];

	set_stages(plan, jobs);
	if (jobs->park || p->prefetch != 2) /* which it is where nothing is said */
		orr_json_set(plan, "prefetch", json_integer(p->prefetch));
	if (p->buckets > 1)
		orr_json_set(plan, "buckets", json_integer(p->buckets));
	orr_json_set(plan, "order",
		     json_string(orders[jobs->room ? ORR_ORDER_BOUNDED : jobs->order]));
	if (jobs->async) {
		stream = stream ? json_incref(stream) : json_object();
		orr_json_set(&stream, "period", json_integer(jobs->async->period));
		orr_json_set(&stream, "sync", json_string(orr_sync_name(p->sync)));
		orr_json_set(&stream, "accumulate", json_integer(p->accumulate));
		orr_json_set(plan, "stream", stream);
	}
	orr_pipeline_fingerprint(p, of);
	if (jobs->bound_ns > 0)
		orr_json_set(plan, "bound",
			     json_pack("{s:I, s:s}", "ns", (json_int_t)jobs->bound_ns, "of", of));
}

/* ---- reading ---- */

static int refuse(const struct orr_plan_file *file, struct orr_error *err, const char *what)
{
	return orr_fail(err, ORR_E_INPUT,
			"%s: %s: plan again (`orrery plan -o`, `orrery simulate -o`)", file->path,
			what);
}

struct job {
	int s, b, owner; /* owner -1: the worker that computes it */
	enum orr_pass d;
};

static bool parse_number(int *value, const char **text)
{
	char *end;
	long number = strtol(*text, &end, 10);

	if (**text < '0' || **text > '9' || number < 0 || number > INT32_MAX)
		return false;
	*text = end;
	*value = (int)number;
	return true;
}

/* "12F3", "12F3@1" */
static bool parse_job(const char *text, struct job *job)
{
	job->owner = -1;
	if (!parse_number(&job->s, &text) || !*text || !strchr("FBW", *text))
		return false;
	job->d = *text == 'F' ? ORR_PASS_F : *text == 'B' ? ORR_PASS_B : ORR_PASS_W;
	text++;
	if (!parse_number(&job->b, &text))
		return false;
	return !*text || (*text++ == '@' && parse_number(&job->owner, &text) && !*text);
}

/* n of a job, or its place where the file has none. */
static int read_n(int64_t *n, const struct orr_plan_file *file, int w, const json_t *numbers,
		  size_t i, struct orr_error *err)
{
	const json_t *item = json_array_get(numbers, i),
		     *before = i ? json_array_get(numbers, i - 1) : NULL;

	*n = (int64_t)i;
	if (!item) /* no n, or fewer: then read_orders() refuses the job, or the list */
		return 0;
	if (!json_is_integer(item) ||
	    (before && json_integer_value(item) <= json_integer_value(before)))
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: worker %d, n %zu: give ascending numbers, or take n out of the file",
			file->path, w, i);
	*n = json_integer_value(item);
	return 0;
}

/* Every job exactly once; a table's compute holds the worker + 1 until then. */
static int read_worker(struct orr_plan_file *file, int w, const json_t *order,
		       const json_t *numbers, struct orr_error *err)
{
	struct orr_table *t = file->table;
	json_t *item;
	size_t i;

	json_array_foreach(order, i, item)
	{
		const char *text = json_string_value(item);
		struct job job;
		int j, code;

		if (!text || !parse_job(text, &job) || job.s >= t->n_stages ||
		    job.b >= t->n_microbatches || (int)job.d >= orr_table_n_passes(t) ||
		    job.owner >= t->n_workers)
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: worker %d, job %zu: '%.20s' is no job of %d stages and %d "
				"microbatches: write such as 0F0",
				file->path, w, i, text ? text : "", t->n_stages, t->n_microbatches);
		j = orr_table_index(t, job.s, job.b, job.d);
		if (t->compute[j])
			return orr_fail(
				err, ORR_E_INPUT,
				"%s: worker %d: %s is there twice, on worker %d too: take one out",
				file->path, w, text, t->compute[j] - 1);
		t->compute[j] = w + 1;
		if (t->weights)
			t->weights[j] = job.owner < 0 ? w : job.owner;
		if ((code = read_n(&t->priority[j], file, w, numbers, i, err)))
			return code;
	}
	return 0;
}

static bool have_letter(const json_t *workers, char letter)
{
	json_t *worker, *item;
	size_t w, i;

	json_array_foreach(workers, w, worker)
	{
		const json_t *order = json_object_get(worker, "order");

		json_array_foreach(order, i, item)
		{
			if (json_is_string(item) && strchr(json_string_value(item), letter))
				return true;
		}
	}
	return false;
}

/* Every job is there. Then compute is the worker, or -1. */
static int check_orders(const struct orr_plan_file *file, struct orr_error *err)
{
	struct orr_table *t = file->table;
	int n_passes = orr_table_n_passes(t), n = orr_table_n_jobs(t), j = orr_table_missing(t);

	if (j < n)
		return orr_fail(
			err, ORR_E_INPUT, "%s: no worker has job %d%c%d: put it into an order",
			file->path, j / n_passes % t->n_stages,
			orr_pass_letter((enum orr_pass)(j % n_passes)), j / n_passes / t->n_stages);
	for (j = 0; j < n; j++)
		t->compute[j]--;
	return 0;
}

static int read_orders(struct orr_plan_file *file, const json_t *workers, int n_microbatches,
		       struct orr_error *err)
{
	bool split = have_letter(workers, 'W');
	struct orr_table *t;
	int code;
	json_t *worker;
	size_t w;

	if ((code = orr_table_create(&file->table, file->path, file->n_stages,
				     (int)json_array_size(workers), n_microbatches, split, err)))
		return code;
	t = file->table;
	if (have_letter(workers, '@') &&
	    !(t->weights = calloc((size_t)orr_table_n_jobs(t), sizeof(*t->weights))))
		return orr_no_memory(err, file->path);
	json_array_foreach(workers, w, worker)
	{
		const json_t *order = json_object_get(worker, "order"),
			     *n = json_object_get(worker, "n");

		if (!json_is_array(order))
			return refuse(file, err, "a worker without an order");
		if (n && !json_is_array(n))
			return refuse(file, err, "n: no list");
		if ((code = read_worker(file, (int)w, order, n, err)))
			return code;
	}
	if ((code = check_orders(file, err)))
		return code;
	json_array_foreach(workers, w, worker)
	{
		const json_t *n = json_object_get(worker, "n");

		if (n && json_array_size(n) != json_array_size(json_object_get(worker, "order")))
			return refuse(file, err, "n: no list as long as its worker's order");
	}
	return 0;
}

static int read_stages(struct orr_plan_file *file, struct orr_error *err)
{
	struct orr_table *t = file->table;
	json_t *stage;
	size_t s, n = (size_t)file->n_stages;

	json_array_foreach(file->stages, s, stage)
	{
		const json_t *cap = json_object_get(stage, "in_flight"),
			     *again = json_object_get(stage, "recompute"),
			     *park = json_object_get(stage, "park");
		bool host = json_is_string(park) && !strcmp(json_string_value(park), "host");

		if (cap && !orr_json_counts(cap, 1, INT32_MAX))
			return refuse(file, err, "in_flight: a number from 1 on");
		if (again && !json_is_boolean(again))
			return refuse(file, err, "recompute: true or false");
		if (park && !host && !orr_json_counts(park, 0, INT32_MAX - 1))
			return refuse(file, err, "park: host, or the number of a worker");
		if ((cap && !t->cap && !(t->cap = calloc(n, sizeof(*t->cap)))) ||
		    (json_is_true(again) && !t->recompute &&
		     !(t->recompute = calloc(n, sizeof(*t->recompute)))) ||
		    (park && !t->park && !(t->park = calloc(n, sizeof(*t->park)))))
			return orr_no_memory(err, file->path);
		if (cap)
			t->cap[s] = (int)json_integer_value(cap);
		if (json_is_true(again))
			t->recompute[s] = true;
		if (park)
			t->park[s] = host ? ORR_HOST : (int)json_integer_value(park) + 1;
	}
	return 0;
}

/* So that n of any microbatch can be counted. */
#define MOST_N (INT64_C(1) << 60)

static int read_stream(struct orr_plan_file *file, const json_t *stream, struct orr_error *err)
{
	const json_t *period = json_object_get(stream, "period"),
		     *accumulate = json_object_get(stream, "accumulate");
	const char *sync = json_string_value(json_object_get(stream, "sync"));
	struct orr_table *t = file->table;

	if (!orr_json_counts(period, 1, MOST_N))
		return refuse(file, err, "stream, period: a number from 1 on");
	for (int j = 0; j < orr_table_n_jobs(t); j++)
		if (t->priority[j] < -MOST_N || t->priority[j] > MOST_N)
			return refuse(file, err, "stream: n no more than 2^60");
	if (t->weights)
		return refuse(file, err, "stream: parameters are where they are computed with");
	if (!orr_json_counts(accumulate, 1, 1 << 20))
		return refuse(file, err, "stream, accumulate: a number from 1 on");
	if (!sync || orr_sync_parse(&file->stream.sync, sync, NULL))
		return refuse(file, err, "stream, sync: stashing, vertical or none");
	t->period = json_integer_value(period);
	file->stream.accumulate = (int)json_integer_value(accumulate);
	return 0;
}

/* What was proved; orr_plan_file_prove() says whether it holds. */
static int read_bound(struct orr_plan_file *file, const json_t *bound, struct orr_error *err)
{
	const char *of = json_string_value(json_object_get(bound, "of"));
	const json_t *ns = json_object_get(bound, "ns");

	if (!of || strlen(of) != 16 || !orr_json_counts(ns, 1, INT64_MAX))
		return refuse(file, err, "bound: ns, a number from 1 on, and of");
	if (file->table->period)
		return refuse(file, err, "bound: not beside stream");
	file->bound.ns = json_integer_value(ns);
	file->bound.of = of;
	return 0;
}

int orr_plan_jobs_read(struct orr_plan_file *file, int n_microbatches, struct orr_error *err)
{
	const json_t *json = file->json, *stream = json_object_get(json, "stream"),
		     *bound = json_object_get(json, "bound");
	const char *order = json_string_value(json_object_get(json, "order"));
	int code = read_orders(file, json_object_get(json, "worker"), n_microbatches, err);
	bool known = false;

	if (code || (code = read_stages(file, err)))
		return code;
	for (int i = 0; order && i < N_ORDERS; i++)
		if (!strcmp(order, orders[i])) {
			file->table->order = (enum orr_order)i;
			known = true;
		}
	if (json_object_get(json, "order") && !known)
		return refuse(file, err, "order: strict, greedy or bounded");
	if (stream && (code = read_stream(file, stream, err)))
		return code;
	return bound ? read_bound(file, bound, err) : 0;
}

void orr_plan_file_prove(struct orr_plan_file *file, const struct orr_pipeline *p)
{
	char of[24];

	orr_pipeline_fingerprint(p, of);
	file->table->bound_ns = file->bound.of && !strcmp(of, file->bound.of) ? file->bound.ns : 0;
}

/* ---- microbatches that differ: "microbatch_costs" has one object each, with the numbers of every
 * stage, every edge and every output that several stages read, in the order of the pipeline ---- */

enum { N_COSTS = 7, N_OLD_COSTS = 5, N_SIZES = 2 }; /* old: before operators recomputed */

static json_t *microbatch_json(const struct orr_pipeline *p, int b)
{
	const struct orr_microbatches *x = p->microbatches;
	json_t *stages = json_array(), *edges = json_array(), *outputs = json_array();

	for (int s = 0; s < p->n_stages; s++) {
		const struct orr_cost *c = &x->costs[b * p->n_stages + s];

		orr_json_append(&stages,
				json_pack("[IIIIIII]", (json_int_t)c->forward_ns,
					  (json_int_t)c->backward_ns, (json_int_t)c->weight_ns,
					  (json_int_t)c->stash_bytes, (json_int_t)c->input_bytes,
					  (json_int_t)c->again_bytes,
					  (json_int_t)c->again_all_bytes));
	}
	for (int e = 0; e < p->n_edges; e++)
		orr_json_append(&edges,
				json_pack("[II]", (json_int_t)x->bytes[b * p->n_edges + e],
					  (json_int_t)x->gradient_bytes[b * p->n_edges + e]));
	for (int i = 0; i < p->n_outputs; i++)
		orr_json_append(&outputs,
				json_pack("[I]", (json_int_t)x->outputs[b * p->n_outputs + i]));
	return json_pack("{s:o, s:o, s:o}", "stages", stages, "edges", edges, "outputs", outputs);
}

void orr_microbatches_json(json_t **plan, const struct orr_pipeline *p)
{
	json_t *list;

	if (!p->microbatches)
		return;
	list = json_array();
	for (int b = 0; b < p->microbatches->n; b++)
		orr_json_append(&list, microbatch_json(p, b));
	orr_json_set(plan, "microbatch_costs", list);
}

/* Row i of a list as n numbers that are not negative, and small enough for sums of them. */
static bool read_row(const json_t *list, int i, int n, int64_t *numbers)
{
	const json_t *row = json_array_get(list, (size_t)i);

	for (int k = 0; k < n; k++) {
		const json_t *cell = json_array_get(row, (size_t)k);

		numbers[k] = json_integer_value(cell);
		if (!orr_json_counts(cell, 0, INT64_C(1) << 60))
			return false;
	}
	return true;
}

static bool read_microbatch(struct orr_pipeline *p, int b, const json_t *from)
{
	const json_t *stages = json_object_get(from, "stages"),
		     *edges = json_object_get(from, "edges"),
		     *outputs = json_object_get(from, "outputs");
	struct orr_microbatches *x = p->microbatches;
	int64_t n[N_COSTS] = {0};

	if (json_array_size(stages) != (size_t)p->n_stages ||
	    json_array_size(edges) != (size_t)p->n_edges ||
	    json_array_size(outputs) != (size_t)p->n_outputs) /* of none: may be absent */
		return false;
	for (int s = 0; s < p->n_stages; s++) {
		bool old = json_array_size(json_array_get(stages, (size_t)s)) == N_OLD_COSTS;

		if (!read_row(stages, s, old ? N_OLD_COSTS : N_COSTS, n))
			return false;
		x->costs[b * p->n_stages + s] =
			(struct orr_cost){n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
	}
	for (int e = 0; e < p->n_edges; e++) {
		if (!read_row(edges, e, N_SIZES, n))
			return false;
		x->bytes[b * p->n_edges + e] = n[0];
		x->gradient_bytes[b * p->n_edges + e] = n[1];
	}
	for (int i = 0; i < p->n_outputs; i++)
		if (!read_row(outputs, i, 1, &x->outputs[b * p->n_outputs + i]))
			return false;
	return true;
}

int orr_plan_file_microbatches(const struct orr_plan_file *file, struct orr_pipeline *p,
			       struct orr_error *err)
{
	size_t n = json_array_size(file->microbatch_costs);
	int code;

	if (!file->microbatch_costs)
		return 0;
	if (p->split)
		return orr_fail(err, ORR_E_INPUT,
				"%s: its microbatches differ in what they cost on a stage, and the "
				"graph is split into parts of stages: take no split",
				file->path);
	if (n < 1 || n > 1000000)
		return orr_fail(err, ORR_E_INPUT,
				"%s: microbatch_costs: a list with every microbatch is wanted: "
				"make the plan anew",
				file->path);
	if ((code = orr_microbatches_create(p, p->n_microbatches, err)))
		return code;
	for (int b = 0; b < p->n_microbatches; b++)
		if (!read_microbatch(p, b, json_array_get(file->microbatch_costs, (size_t)b % n)))
			return orr_fail(err, ORR_E_INPUT,
					"%s: microbatch_costs: microbatch %zu has not the costs of "
					"%d stages and the sizes of %d edges: make the plan anew",
					file->path, (size_t)b % n, p->n_stages, p->n_edges);
	orr_microbatches_settle(p);
	return 0;
}
