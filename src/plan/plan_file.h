#pragma once
/* A plan's file, JSON, written and read. plan_jobs.c has the keys of what a worker does. */
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "orrery/orrery.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"

struct orr_graph;
struct orr_jobs;
struct orr_table;

ORR_BEGIN

/* A plan as its file says it. */
struct orr_plan_file {
	char *path;               /* owned */
	json_t *json;             /* owned: all of it but the orders; texts are its own */
	const char *graph, *text; /* text: the graph itself, or NULL: read it */
	const char *fingerprint;
	const json_t *stages;
	const json_t *microbatch_costs; /* NULL: microbatches are alike */
	const char *splits; /* as orr_open_options has them, and then its workers are groups; or
			       NULL */
	int n_workers;      /* that these are; else those of the table */
	int n_stages;
	int64_t samples; /* of a microbatch */
	double bandwidth_bytes_per_s;
	struct orr_numerics numerics; /* that it was made for */
	struct orr_levels levels;     /* n 0: links are alike */
	struct {
		const char *name, *text; /* of a machine file, and all of it; or NULL */
	} machine;
	struct orr_table *table; /* owned */
	/* what `simulate` says besides: */
	int batch; /* samples of a minibatch; 0: samples times microbatches */
	int64_t latency_ns;
	struct orr_link_cost host;
	int prefetch;       /* -1: not said */
	int buckets;        /* 0: not said */
	double flops_per_s; /* 0: not said */
	struct {
		enum orr_sync sync;
		int accumulate; /* 0: it flushes */
	} stream;               /* of an asynchronous schedule */
	struct {
		int64_t ns;
		const char *of; /* NULL: there is none */
	} bound;                /* see orr_plan_file_prove() */
};
/* Is it a file that begins as a plan does, as one object of JSON? Models and schedules do not. */
bool orr_plan_is(const char *path);
int orr_plan_file_read(struct orr_plan_file **out, const char *path, struct orr_error *err);
void orr_plan_file_destroy(struct orr_plan_file *file); /* NULL is fine */
/* The stage of every operator of g, -1 for inputs. Refuses a graph other than the planned one. */
int orr_plan_file_stages(const struct orr_plan_file *file, const struct orr_graph *g, int *stage_of,
			 struct orr_error *err);
/* No order that the schedule could give was shorter than a bound that the file has: the table says
 * so from here on, if it was proved for such a pipeline as p. */
void orr_plan_file_prove(struct orr_plan_file *file, const struct orr_pipeline *p);
/* The worker of every microbatch of every stage, see orr_jobs_create_at(); the caller's to free. */
int orr_plan_file_homes(int **out, const struct orr_plan_file *file, int n_microbatches,
			struct orr_error *err);
/* How many workers the plan gives stage s. */
int orr_plan_file_replicas(const struct orr_plan_file *file, int s);
/* Parts of a plan's JSON (base/json.h). The graph as DOT, in a string: a new reference, NULL where
 * there is no memory. */
json_t *orr_graph_text_json(const struct orr_graph *g, struct orr_error *err);
/* Set where links or workers differ. */
void orr_machine_json(json_t **plan, const struct orr_machine *machine);
/* "microbatch_costs" of a plan's JSON, where p's microbatches differ.
 * And back: into a pipeline of the plan's stages whose step is set; microbatches beyond the plan's
 * are its first ones again. Refuses costs that are not those of such a pipeline. */
void orr_microbatches_json(json_t **plan, const struct orr_pipeline *p);
int orr_plan_file_microbatches(const struct orr_plan_file *file, struct orr_pipeline *p,
			       struct orr_error *err);

/* Of a worker: its jobs in the order of n, and n. New reference. */
json_t *orr_plan_order_json(const struct orr_jobs *jobs, int w);
/* Into a plan's object, whose `stages` are there: whether the order is strict, what it holds
 * besides for each stage, the period of an asynchronous schedule, and a bound that the schedule has
 * proved. */
void orr_plan_rules_json(json_t **plan, const struct orr_jobs *jobs);

/* Fill file->table, and the file's entries on an asynchronous schedule, from all that. Every job
 * exactly once. */
int orr_plan_jobs_read(struct orr_plan_file *file, int n_microbatches, struct orr_error *err);

ORR_END
