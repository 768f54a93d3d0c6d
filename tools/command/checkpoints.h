#pragma once
/* The checkpoints of a training: which one it goes on from, when it writes one, and what it says
 * where one cannot be read or written. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"

struct evaluations;
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
};

/* The folder of the best; valid until the next call. */
const char *checkpoints_best(const struct checkpoints_options *o);

/* Before the run: the folder is there and can be written to; *out is the checkpoint to load, and
 * *best that of the best so far, or NULL. Under mpirun all ranks call it together, with the same
 * outcome. */
int checkpoints_open(struct orr_checkpoint **out, struct orr_checkpoint **best,
		     const struct checkpoints_options *o, struct session *s);

/* How it ended. */
struct checkpoints_end {
	int unsaved;          /* why there is no checkpoint of the last step: a code, */
	struct orr_error why; /* and the message */
	int64_t saved;        /* the step of the last checkpoint; 0: there is none */
	bool due;             /* one was put off */
};

/* Train up to step `end`, counted from the start of training, evaluating and saving as the options
 * say. A
 * checkpoint that cannot be written is reported, and training goes on. SIGINT and SIGTERM stop it
 * on all ranks after the same step, with a checkpoint, and rank 0 says so; s->signal is which.
 * ORR_E_DIVERGED comes to all ranks alike. */
int checkpoints_train(const struct checkpoints_options *o, struct orr_run *run, int64_t end,
		      struct progress *progress, struct evaluations *e, struct checkpoints_end *r,
		      struct session *s);
/* Refuse an end without a checkpoint of the last step. */
int checkpoints_check(const struct checkpoints_end *r, struct orr_error *err);
