#pragma once
/* The updates of a simulation: which there are, what they wait for, and what waits for them.
 * Private to simulate.c. */

#include "orrery/orrery.h"

struct orr_arrays;
struct orr_jobs;
struct orr_timeline;

struct orr_updates {
	const struct orr_jobs *jobs; /* borrowed, as the next */
	const struct orr_timeline *timeline;
	/* those of stage s are numbers first[s] on, r of its owners for every version */
	int *first;      /* [n_stages + 1] */
	int *gradients;  /* [n], at the first owner: weight gradients not yet with them */
	int *incomplete; /* [sets of parameters] stages whose gradients are not all with owners */
	int *running;    /* [n], at the first owner: owners that have not made the version */
	/* Where the owners sum a stage's gradient in buckets. [n] of each owner: gradients that are
	 * not with it; at the first owner: buckets whose sum was asked for, and is not there.
	 * [n * buckets] at the first: owners that have not computed it. */
	int *unmade, *asked, *unsummed, *uncomputed;
	int *sums; /* [n_stages] sets whose sum its next update waits for */
	/* without a flush, the jobs that read the version of u: readers[first_reader[u]] on */
	int *readers, *first_reader;
};

/* Lays out t->updates, and the others in the memory of `all`. */
int orr_updates_init(struct orr_updates *updates, struct orr_arrays *all, struct orr_timeline *t,
		     struct orr_error *err);

/* The update, by the first owner, that job j's gradient goes into. */
int orr_updates_of(const struct orr_updates *updates, int j);
/* The same by the owner that it goes to. */
int orr_updates_at_owner(const struct orr_updates *updates, int j);
/* The update, by the owner that computes j, that makes the version that j reads; -1: none has. */
int orr_updates_read(const struct orr_updates *updates, int j);

/* A stage has all its gradients of a set of parameters: do all of its stages? */
bool orr_updates_complete(struct orr_updates *updates, int set);
/* Update u has ended: have all owners of its stage made its version? */
bool orr_updates_end(struct orr_updates *updates, int u);
/* One more sum of gradients is with the owners of stage s: may they update? */
bool orr_updates_sum(struct orr_updates *updates, int s);
