#ifndef ORR_OPEN_H
#define ORR_OPEN_H
/* From what a user says to jobs: a model or a plan, a schedule and a machine, each as text, and
 * what is said beside them. In this order:
 *
 *     orr_open_schedule    text -> schedule, or plan
 *     orr_open_graph       source, or the plan's -> graph, split
 *     orr_open_pipeline    graph, machine -> pipeline, with the size of the step
 *     orr_open_jobs        pipeline, schedule -> jobs
 *
 * and orr_try_run(&x.tried) simulates them. */
#include <stdbool.h>
#include "choice.h"
#include "graph.h"
#include "machine.h"
#include "pipeline.h"
#include "try.h"

ORR_BEGIN

struct orr_plan_file;
struct orr_table;

/* Texts are borrowed, and NULL where nothing is said. */
struct orr_open_options {
	const char *source;    /* a model's file, a study, or a plan, which names its model */
	const char *schedule;  /* see choice.h; NULL: none */
	const char *splits;    /* see rewrite.h; NULL: what the graph says */
	const char *recompute; /* which stages, see orr_pipeline_set_recompute() */
	const char *lengths;   /* of microbatches: a list "512,1024" or a file; NULL: all alike */
	const char *microbatch_costs; /* a file, see microbatches.h */
	const char *machine_file;     /* has workers and links in place of machine's */
	struct orr_machine machine;   /* n_workers 0: not said */
	bool latency_units;           /* its latency was a plain number */
	int default_workers;          /* where nothing says how many; 0: one a stage */
	int n_microbatches;           /* 0: not said */
	int n_stages;                 /* 0: not said */
	int batch;                    /* samples in a minibatch */
	struct orr_study_costs costs; /* of a study */
	struct orr_numerics numerics; /* of training: memory of a parameter */
	enum orr_run_order order;     /* in which the schedule is run */
	enum orr_sync sync;           /* asynchronous schedules, as is: */
	int accumulate;               /* microbatches on each replica in an update */
	const char *versions;         /* "[sync]" or "[accumulate]", where one is said */
	struct orr_observer observer; /* of a schedule that searches */
	struct {
		bool schedule, flops, batch, optimizer, precision, shard_optimizer, costs;
		bool latency, bandwidth, levels; /* levels: workers by level */
	} given; /* said; else they are defaults, and a plan may say otherwise */
};
/* 1F1B, 96 samples. */
struct orr_open_options orr_open_options_default(void);

struct orr_opened {
	struct orr_open_options settled; /* what was said, and the rest from a plan, the schedule's
					    file or the defaults: the machine and the size of the
					    step once there is a pipeline */
	struct orr_plan_file *plan; /* owned; where the source is one and another schedule is said:
				       its stages; else NULL */
	struct orr_choice choice;
	struct orr_graph *graph;       /* owned */
	struct orr_cluster *cluster;   /* owned; of a machine file, or NULL */
	struct orr_pipeline *pipeline; /* owned */
	int *home;                     /* owned; see orr_opened_homes() */
	struct orr_try tried;          /* its jobs */
};

/* *x must not be moved from here on; after an error, here and below, orr_opened_fini() frees what
 * there is. */
int orr_open_schedule(struct orr_opened *x, const struct orr_open_options *options,
		      struct orr_error *err);
int orr_open_graph(struct orr_opened *x, struct orr_error *err);
int orr_open_pipeline(struct orr_opened *x, struct orr_error *err);
int orr_open_jobs(struct orr_opened *x, struct orr_error *err);
void orr_opened_fini(struct orr_opened *x); /* all zeros is fine */

/* The plan that the stages are of, and what lays out every job: borrowed; NULL: there is none. */
const struct orr_plan_file *orr_opened_plan(const struct orr_opened *x);
const struct orr_table *orr_opened_table(const struct orr_opened *x);
/* Another pipeline of the graph, of what is settled now: cut into n_stages, where neither its pins
 * nor a plan say how. */
int orr_opened_cut(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
		   struct orr_error *err);
/* Where the plan, if there is one for as many workers, has the stages: see orr_jobs_create_at();
 * else NULL. The caller's to free. */
int orr_opened_homes(int **out, const struct orr_opened *x, struct orr_error *err);
/* The graph came out of a plan's own text. */
bool orr_opened_is_embedded(const struct orr_opened *x);
/* Refuse what was tried and does not fit the machine's memory (figures.h). Where a plan was made
 * for another optimizer or precision, the message says so. */
int orr_opened_check_memory(const struct orr_opened *x, struct orr_error *err);

/* The machine of a file, or of a plan that has one where no file is said: its first workers, as
 * many as *machine has, or all. *out, NULL where there is none, is the caller's to destroy after
 * whatever has a copy of *machine. */
int orr_open_machine(struct orr_cluster **out, struct orr_machine *machine,
		     const struct orr_open_options *options, const struct orr_plan_file *plan,
		     struct orr_error *err);
/* options->lengths, if any, into g. */
int orr_open_lengths(struct orr_graph *g, const struct orr_open_options *options,
		     struct orr_error *err);
/* Refuse fewer samples than microbatches of a model that computes; a study has none. */
int orr_open_check_batch(const struct orr_open_options *options, const struct orr_graph *g,
			 struct orr_error *err);
/* Samples of a microbatch. */
static inline int64_t orr_open_samples(const struct orr_open_options *options)
{
	return ((int64_t)options->batch + options->n_microbatches - 1) / options->n_microbatches;
}

ORR_END
#endif
