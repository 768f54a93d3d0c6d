#pragma once
/* How a training goes, on standard error: a bar on a terminal, ten plain lines elsewhere. */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/schedule.h"
#include "output_file.h"

struct orr_run;
struct orr_scores;
struct orr_step;
struct orr_timeline;
struct session;

/* Timelines that are kept: of the last steps. */
#define PROGRESS_KEPT 15

/* The losses of a training for its page: of every step, or of a long training of every second,
 * fourth, ... step, so that a page never has more than a screen can show, and of evaluations. */
struct history {
	bool wanted;    /* else nothing is kept */
	json_t *losses; /* owned: {"step", "loss"}, and "test_loss" where there is one */
	int64_t every;  /* steps from one to the next */
};

struct progress {
	const struct orr_run *run;     /* borrowed */
	struct session *session;       /* borrowed; the launcher hears of every step */
	const struct orr_graph *graph; /* borrowed */
	struct orr_timeline *kept[PROGRESS_KEPT];
	double kept_seconds[PROGRESS_KEPT];
	int64_t first, n_steps,
		n_done;  /* first: steps that a checkpoint brought; not counted in the others */
	double *seconds; /* of every step */
	bool terminal;
	bool silent;                 /* not rank 0: nothing is shown or kept */
	double loss;                 /* running mean of those that were not left out */
	int64_t n_seen;              /* steps that were not left out */
	struct output_stream losses; /* where every step's loss goes, if anywhere */
	bool norms;                  /* steps tell the norm of their gradients, */
	bool evaluates;              /* and some how the model does on the test rows */
	int64_t open_row;            /* the step of the row that has not ended; 0: none */
	int64_t written;             /* the last step whose row another process has written */
	bool losses_failed;
	struct history history; /* of losses, for the page, where it is wanted */
};

/* n_steps: from the start of training. */
int progress_init(struct progress *p, const struct orr_run *run, const struct orr_graph *graph,
		  int64_t n_steps, struct session *session, struct orr_error *err);
/* Also write every step's loss to the file at path, as CSV: step and samples, both from the start
 * of training and this step included, and the loss; of several losses, their sum and then each,
 * without its weight; where gradients are clipped, their norm before; where there are evaluations,
 * test loss and accuracy in the rows of their steps. Skipped steps have no row. NULL: no file.
 * memory: a folder that outlives this process, or NULL; again: another process, which has died,
 * began the file, whose rows stay, and none is written twice. */
int progress_write(struct progress *p, const char *path, const char *memory, bool again,
		   struct orr_error *err);
/* The row of the last step is whole: its evaluation, if any, was told. */
void progress_settle(struct progress *p);
void progress_visit(void *progress, const struct orr_step *step);
/* The test rows after a step: the lowest loss so far? */
void progress_evaluated(struct progress *p, int64_t step, int64_t samples,
			const struct orr_scores *scores, bool best);
/* Fails where the losses could not be written. */
int progress_end(struct progress *p, struct orr_error *err);
/* Of the steps' seconds; the first tenth warms up and does not count. */
double progress_median(const struct progress *p);
/* The timeline of an ordinary step: of the last ones, that with the median time. Borrowed; NULL
 * when no memory was there for it. */
const struct orr_timeline *progress_timeline(const struct progress *p);
void progress_fini(struct progress *p);

/* Any command: a line with the verb and what it is doing after 2, 4, 8, .. seconds, unless others
 * have come. verb, what and which (a name) are borrowed until the next call; NULL: not said. */
void progress_start(const char *verb);
void progress_doing(const char *what, const char *which);

/* What else takes a while, once it has taken a second: run.h's tell. */
void progress_tell(const char *what, int64_t done, int64_t all);
/* And a search that has taken a second: the best so far and its bound; units: of the study. */
struct orr_observer progress_search(bool units);
void progress_search_end(void);
