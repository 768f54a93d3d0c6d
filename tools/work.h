#ifndef ORR_WORK_H
#define ORR_WORK_H
/* What simulate and train share: the way from the options to the jobs. */
#include <stdbool.h>
#include "orrery/choice.h"
#include "orrery/graph.h"
#include "orrery/jobs.h"
#include "orrery/try.h"
#include "orrery/machine.h"
#include "orrery/pipeline.h"
#include "work_options.h"

struct work {
	struct orr_graph *graph;
	struct orr_pipeline *pipeline;
	struct orr_cluster *cluster; /* owned; of --machine, or NULL */
	struct orr_choice choice;
	struct orr_try tried; /* its jobs, by work_init() */
	int *home; /* owned; where the plan has the stages, and another schedule is to run them;
		      else NULL */
	struct orr_plan_file
		*plan; /* owned; where GRAPH is one and --schedule another: its stages */
};

/* graph file -> graph -> pipeline, and the schedule that was chosen, if any. *work is zero; after
 * an error, too, the caller calls work_fini(). Fills in the size of the step where options do not
 * give it: from the schedule's file, or 8 microbatches and default_workers, or with 0 a worker a
 * stage. */
int work_open(struct work *work, struct work_options *options, int default_workers,
	      struct orr_error *err);
/* Another pipeline of the graph that was opened: cut into n_stages, where neither its pins nor a
 * plan say how, with the workers and microbatches of the options. */
int work_cut(struct orr_pipeline **out, const struct work *work, const struct work_options *options,
	     int n_stages, struct orr_error *err);
/* The same as work_open, and the jobs under that schedule. */
int work_init(struct work *work, struct work_options *options, int default_workers,
	      struct orr_error *err);
/* Where the plan, if there is one for as many workers, has the stages: see orr_jobs_create_at();
 * else NULL. The caller's to free. */
int work_homes(int **out, const struct work *work, const struct work_options *options,
	       struct orr_error *err);
/* The machine of --machine, or of a plan where no option says otherwise: its first workers, as many
 * as the options say, or all. *out, NULL where there is none, is the caller's to destroy after
 * whatever has a copy of options->machine. */
int work_read_machine(struct orr_cluster **out, struct work_options *options,
		      const struct orr_plan_file *plan, struct orr_error *err);
/* From here on costs are measured where the jobs run: the speeds of --machine have had their say.
 */
void work_measured(struct work *work);
/* Does a file lay out every job, and with that say how many workers there are? */
bool work_has_table(const struct work *work);
void work_fini(struct work *work);
/* Of a microbatch; the options are settled. */
int64_t work_samples(const struct work_options *options);
/* Refuse fewer samples than microbatches of a model that computes; of a study's costs samples are
 * nothing. */
int work_check_batch(const struct work_options *options, const struct orr_graph *graph,
		     struct orr_error *err);
/* The graph came out of a plan's own text. */
bool work_is_embedded(const struct work *work);

/* A line on standard error where g's costs were profiled for other hardware or another precision
 * than they are wanted for. */
void work_tell_profiled(const struct orr_graph *g, enum orr_hardware hardware,
			enum orr_precision precision);

/* Refuse what was tried and does not fit --memory (figures.h). Where a plan was made for another
 * optimizer or precision, the message says so. */
int work_check_memory(const struct work *work, struct orr_error *err);
#endif
