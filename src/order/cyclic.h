#pragma once
/* An order that repeats: every worker has a list of the jobs of a few microbatches, and runs it
 * again and again with the next ones. What it takes is seen in a few repetitions, so a search on
 * lists looks at far more orders than one on all jobs, and what it improves is better in each.
 * Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "orrery/pipeline.h"
#include "timed.h"

struct orr_again {
	int kind; /* s * ORR_N_PASSES + d */
	int b; /* its microbatch in repetition 0, which need not exist: k more in each one after it
		*/
};

struct orr_cyclic {
	const struct orr_pipeline *p;
	struct orr_pipeline few; /* the same step with few microbatches */
	struct orr_timed *timed; /* those, with the limits of the whole step */
	int k;                   /* microbatches of a repetition */
	int n;                   /* of all lists */
	int *first;              /* [n_workers + 1] */
	struct orr_again *list;  /* [n] w's from first[w] on */
	int *place;              /* [k * n_kinds] in the list, from 0, of a kind and b mod k */
	struct orr_arrays all;
};

/* Repetitions of k microbatches as they are in the middle of an order, which is timed: of
 * microbatches that are alike, on one worker a stage. They need not fit the memory. n 0: by slow
 * links nothing repeats. After an error, too, orr_cyclic_fini() frees what there is. */
int orr_cyclic_init(struct orr_cyclic *c, const struct orr_timed *timed, int k,
		    struct orr_error *err);
void orr_cyclic_fini(struct orr_cyclic *c);

/* Place in its worker's list of a job of timed. */
int orr_cyclic_place(const struct orr_cyclic *c, int j);
/* Take what is at place `from` of w's list past `steps` others, to earlier ones where that is
 * negative, as far as jobs that wait for each other allow. How far it came. */
int orr_cyclic_shift(struct orr_cyclic *c, int w, int from, int steps);
/* Lists have changed: timed's order follows; w -1: that of all workers. */
void orr_cyclic_run(struct orr_cyclic *c, int w);
/* Take lists that were kept, and run them. */
void orr_cyclic_take(struct orr_cyclic *c, const struct orr_again *list);
/* What the whole step takes by timed's starts, about. */
int64_t orr_cyclic_estimate(const struct orr_cyclic *c);
/* The whole step: n of every job. */
void orr_cyclic_number(const struct orr_cyclic *c, int64_t *n);
