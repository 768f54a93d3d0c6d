#pragma once
/* Evaluations on the test rows while a model trains, and the best of them, whose checkpoint is
 * kept: in the folder "best" of the folder of checkpoints, as a checkpoint like any other. */
#include <stdbool.h>
#include <stdint.h>
#include "report/training.h"

struct orr_checkpoint;
struct orr_run;
struct progress;
struct session;

struct evaluations {
	int64_t every; /* samples from one to the next; 0: there are none */
	int step_samples;
	const char *best_folder;     /* where the best is kept; borrowed; NULL: it is not */
	struct orr_evaluation *list; /* [n]; owned */
	int n, room;
	struct orr_evaluation best;
};

struct evaluations_options {
	int64_t every; /* steps or epochs; 0: never */
	bool epochs;
};
void evaluations_init(struct evaluations *e, const struct evaluations_options *o,
		      int64_t epoch_samples, int step_samples, const char *best_folder);
void evaluations_fini(struct evaluations *e);

/* The first step after this one, and up to `end`, which is evaluated; `end` where none is. */
int64_t evaluations_next(const struct evaluations *e, int64_t step, int64_t end);
bool evaluations_is_due(const struct evaluations *e, int64_t step, int64_t end);
/* Evaluate the run, tell it, and keep a checkpoint of it where it is the best. All ranks. */
int evaluations_take(struct evaluations *e, struct orr_run *run, struct progress *progress,
		     struct session *s);
/* Before a training goes on: what the best so far, checkpoint c, is worth. The run loads it, and
 * another one afterwards. rate: of orr_run_load. All ranks. */
int evaluations_resume(struct evaluations *e, struct orr_run *run, const struct orr_checkpoint *c,
		       double *rate, struct orr_error *err);
