#pragma once
/* The checkpoints of a training: which one it goes on from, when it writes one, and what it says
 * where one cannot be read or written. */
#include <stdbool.h>
#include <stdint.h>
#include "report/training.h"

struct orr_checkpoint;
struct orr_run;
struct progress;
struct session;

struct checkpoints_options {
	const char *folder; /* NULL: no checkpoints */
	int64_t every;      /* steps */
	int keep;           /* the number of them; 0: all */
	bool best;          /* the best of all evaluations is kept, too */
	bool resume;
	int64_t copy_every; /* steps from one in memory to the next; 0: none */
};

/* The folder of the best; valid until the next call. */
const char *checkpoints_best(const struct checkpoints_options *o);

/* Before the run: the folder is there and can be written to; *out is the checkpoint to load, and
 * *best that of the best so far, or NULL. Under mpirun all ranks call it together, with the same
 * outcome. */
int checkpoints_open(struct orr_checkpoint **out, struct orr_checkpoint **best,
		     const struct checkpoints_options *o, struct session *s);

/* Refuse copies that do not fit in the memory of a host: of so many floats of this rank. All ranks
 * call it. */
int checkpoints_check_copies(struct session *s, int64_t n_floats);

/* Evaluations on the test rows while a model trains, and the best of them, whose checkpoint is
 * kept: in the folder "best" of the folder of checkpoints, as a checkpoint like any other. */
struct evaluations {
	int64_t every; /* samples from one to the next; 0: there are none */
	int step_samples;
	const char *best_folder;     /* where the best is kept; borrowed; NULL: it is not */
	struct orr_evaluation *list; /* [n]; owned */
	int n;
	struct orr_evaluation best;
};

struct evaluations_options {
	int64_t every; /* steps or epochs; 0: never */
	bool epochs;
};
void evaluations_init(struct evaluations *e, const struct evaluations_options *o,
		      int64_t epoch_samples, int step_samples, const char *best_folder);

/* Before a training goes on: what the best so far, checkpoint c, is worth. The run loads it, and
 * another one afterwards. rate: of orr_run_load. All ranks. */
int evaluations_resume(struct evaluations *e, struct orr_run *run, const struct orr_checkpoint *c,
		       double *rate, struct orr_error *err);

/* How it ended. */
struct checkpoints_end {
	int unsaved;          /* why there is no checkpoint of the last step: a code, */
	struct orr_error why; /* and the message */
	int64_t saved;        /* the step of the last checkpoint; 0: there is none */
	bool due;             /* one was put off */
	struct orr_training_copies copies;
};

/* Train up to step `end`, counted from the start of training, evaluating and saving as the options
 * say. A checkpoint that cannot be written is reported, and training goes on. SIGINT and SIGTERM
 * stop it on all ranks after the same step, with a checkpoint, and rank 0 says so; s->signal is
 * which. ORR_E_DIVERGED comes to all ranks alike. */
int checkpoints_train(const struct checkpoints_options *o, struct orr_run *run, int64_t end,
		      struct progress *progress, struct evaluations *e, struct checkpoints_end *r,
		      struct session *s);
