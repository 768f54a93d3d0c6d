#pragma once
/* What jobs of a simulation have of other owners, in the places that there are for it
 * (schedule/places.h): the parameters that they read, and their gradients on the way to the owner,
 * which adds them up in the order of microbatches. Private to simulate.c. */

#include "orrery/orrery.h"
#include "schedule/places.h"

struct orr_jobs;

struct orr_arrays;

/* By enum orr_place and by job. NULL, all of it: nothing is of another owner. */
struct orr_foreign {
	int *before[ORR_N_PLACES]; /* the job whose place it takes, as of orr_places_find() */
	int *after[ORR_N_PLACES];  /* the job that takes its place; -1: none does */
	int *unsent; /* things that the gradient waits for before it is sent: its job, and its place
			at the owner */
	int *unadded; /* the same before it is added: it comes, and the one before has been added */
	int *added_next; /* the job whose gradient its owner adds after it; -1: none */
};

/* In the memory of `all`. */
int orr_foreign_init(struct orr_foreign *x, struct orr_arrays *all, const struct orr_jobs *jobs,
		     struct orr_error *err);

/* How many places job j waits for before it starts: that of its gradient, and its parameters. */
int orr_foreign_waits(const struct orr_foreign *x, int j);
/* The job that takes the place after j; -1: none. */
int orr_foreign_after(const struct orr_foreign *x, enum orr_place place, int j);
