#pragma once
/* From a user's words to jobs: a model or a plan, a schedule and a machine, each as text, and
 * options. Call in this order:
 *
 *     orr_open_schedule    text -> schedule, or plan
 *     orr_open_graph       source, or the plan's -> graph, split
 *     orr_open_pipeline    graph, machine -> pipeline, with the size of the step
 *     orr_open_jobs        pipeline, schedule -> jobs
 *
 * and orr_try_run(&x.tried) simulates them. */
#include <stdbool.h>
#include <stdint.h>
#include "graph.h"
#include "machine.h"
#include "pipeline.h"
#include "try.h"
#include "orrery.h"
#include "schedule.h"

ORR_BEGIN

struct orr_plan_file;
struct orr_table;

/* A schedule chosen by text (a built-in one by name, a plug-in, a table or a plan), with its
 * parameters set and its module loaded. */
struct orr_choice {
	struct orr_schedule schedule;
	struct orr_value values[ORR_MOST_PARAMETERS]; /* lists are owned */
	void *module;                                 /* of a plug-in, or NULL */
	struct orr_table *table;    /* of a CSV or a plan, which fix every job and the size of the
				       step; or NULL */
	struct orr_plan_file *plan; /* the table's plan, which also fixes the stages; or NULL */
};
/* text: NAME[:key=value,...], or a path: of a plug-in, if it ends in .so, else of a plan or a CSV
 * of torch.distributed.pipelining, by its content. A file without dot or slash in its name is read
 * as a plan unless it is a schedule's name. *choice must not be moved in memory. */
int orr_choice_init(struct orr_choice *choice, const char *text, struct orr_error *err);
/* The same of a plan, under any path. */
int orr_choice_init_plan(struct orr_choice *choice, const char *path, struct orr_error *err);
void orr_choice_fini(struct orr_choice *choice);
/* Set the schedule's list of replicas from a plan's stages, if it has such a parameter and the text
 * did not set it. */
int orr_choice_set_replicas(struct orr_choice *choice, const struct orr_plan_file *plan,
			    struct orr_error *err);

/* Texts are borrowed; NULL: not given. */
struct orr_open_options {
	const char *source;    /* a model's file, a study, or a plan, which names its model */
	const char *schedule;  /* see orr_choice_init(); NULL: none */
	const char *splits;    /* numbers of workers for splits: of all operators, "2", or of
				  encoders and operators by name, "trunk=2,image=4"; with
				  ":copied", copies instead of splits by rows; NULL: the graph's */
	const char *recompute; /* stages, see orr_pipeline_set_recompute() */
	const char *park;      /* stages, see orr_pipeline_set_park() */
	const char *lengths;   /* of microbatches: a list "512,1024" or a file; NULL: all alike */
	const char *microbatch_costs; /* a CSV: stage, microbatch, pass; duration, bytes, stash */
	const char *machine_file;     /* workers and links that replace machine's */
	struct orr_machine machine;   /* n_workers 0: not given */
	bool latency_units;           /* its latency was a plain number */
	int default_workers;          /* if nothing gives their number; 0: one per stage */
	int n_microbatches;           /* 0: not given */
	int n_stages;                 /* 0: not given */
	int replicas;                 /* of the whole pipeline, see orr_pipeline */
	bool first_alone; /* of more than ORR_MOST_SHOWN workers in replicas that are alike, the
			     pipeline is the first alone: see alike there */
	int batch;        /* samples in a minibatch */
	struct orr_study_costs costs; /* of a study */
	struct orr_numerics numerics; /* of training: memory of a parameter */
	enum orr_run_order order;     /* strict or greedy instead of the schedule's own */
	enum orr_sync sync;           /* of asynchronous schedules */
	int accumulate;               /* the same: microbatches per update on each replica */
	int prefetch;                 /* jobs ahead, see struct orr_pipeline; -1: not given */
	int buckets;                  /* of a stage's gradient, see orr_pipeline; 0: not given */
	struct orr_observer observer; /* of a schedule that searches */
	struct {
		bool schedule, flops, batch, optimizer, precision, shard_optimizer, costs;
		bool latency, bandwidth, levels; /* levels: workers by level */
		bool sync, accumulate;
	} given; /* by the user; others are defaults, which a plan may replace */
};
#define ORR_MOST_SHOWN 512
/* 1F1B, 96 samples. */
struct orr_open_options orr_open_options_default(void);

struct orr_opened {
	struct orr_open_options settled; /* the options, completed from a plan, the schedule's file
					    or defaults; machine and size of the step once there is
					    a pipeline */
	struct orr_plan_file *plan;      /* owned; if the source is a plan, used only for its stages
					    since another schedule is given; else NULL */
	struct orr_choice choice;
	struct orr_graph *graph;       /* owned */
	struct orr_cluster *cluster;   /* owned; of a machine file, or NULL */
	struct orr_pipeline *pipeline; /* owned */
	int *home;                     /* owned; see orr_opened_homes() */
	struct orr_try tried;          /* its jobs */
};

/* *x must not be moved from here on; after an error, here and below, call orr_opened_fini(). */
int orr_open_schedule(struct orr_opened *x, const struct orr_open_options *options,
		      struct orr_error *err);
int orr_open_graph(struct orr_opened *x, struct orr_error *err);
int orr_open_pipeline(struct orr_opened *x, struct orr_error *err);
int orr_open_jobs(struct orr_opened *x, struct orr_error *err);
void orr_opened_fini(struct orr_opened *x); /* all zeros is fine */

/* The plan with the stages, and the table with every job: borrowed; NULL: none. */
const struct orr_plan_file *orr_opened_plan(const struct orr_opened *x);
const struct orr_table *orr_opened_table(const struct orr_opened *x);
/* Another pipeline of the graph with the settled options, cut into n_stages unless pins or a plan
 * fix the stages. */
int orr_opened_cut(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
		   struct orr_error *err);
/* The plan's workers, if it is for the same number, see orr_jobs_create_at(); else NULL. The caller
 * frees it. */
int orr_opened_homes(int **out, const struct orr_opened *x, struct orr_error *err);
/* Is the graph from a plan's own text? */
bool orr_opened_is_embedded(const struct orr_opened *x);
/* Refuse x->tried if it does not fit the machine's memory (figures.h). If a plan was made for
 * another optimizer or precision, the message says so. */
int orr_opened_check_memory(const struct orr_opened *x, struct orr_error *err);

/* The machine of a file or else of a plan: its first machine->n_workers workers, or all. The caller
 * destroys *out (NULL: neither has one) after all copies of *machine. */
int orr_open_machine(struct orr_cluster **out, struct orr_machine *machine,
		     const struct orr_open_options *options, const struct orr_plan_file *plan,
		     struct orr_error *err);
/* Set g's lengths from options->lengths, if given. */
int orr_open_lengths(struct orr_graph *g, const struct orr_open_options *options,
		     struct orr_error *err);
/* Refuse fewer samples than microbatches, for a model that computes. */
int orr_open_check_batch(const struct orr_open_options *options, const struct orr_graph *g,
			 struct orr_error *err);
/* Samples of a microbatch. */
static inline int64_t orr_open_samples(const struct orr_open_options *options)
{
	return ((int64_t)options->batch + options->n_microbatches - 1) / options->n_microbatches;
}

/* ---- the built-in schedules and their names ---- */

/* The built-in schedules, in the order in which they are listed; NULL at the end. */
extern const struct orr_schedule *const *const orr_schedules;
/* Names used elsewhere: an alias, and the built-in schedule with the parameters that match it. Ends
 * with NULLs. */
struct orr_schedule_alias {
	const char *alias, *means;
};
extern const struct orr_schedule_alias *const orr_schedule_aliases;
/* Find a schedule by its name or an alias; case, - and _ do not count. *parameters: those of the
 * alias, or NULL. Refuses an unknown name and suggests a near one. */
int orr_schedule_find(const struct orr_schedule **out, const char **parameters, const char *text,
		      struct orr_error *err);

ORR_END
