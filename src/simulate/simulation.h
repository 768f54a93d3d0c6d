#pragma once
/* The state of a simulation, for its parts: the clock, jobs and workers (simulate.c); gradients,
 * their sums and updates (updates.c); places for what is of other owners (foreign.c). */
#include "base/arrays.h"
#include "base/heap.h"
#include "network.h"
#include "schedule/places.h"

enum orr_event {
	ORR_EVENT_END,  /* what runs on worker `id` ends, or has computed a bucket, if it is due */
	ORR_EVENT_FREE, /* transfer `id` has left its links, if nothing has come between */
	ORR_EVENT_ARRIVAL, /* transfer `id` arrives */
	ORR_EVENT_UPDATE   /* update `id` has all gradients */
};
#define ORR_EVENTS 4

struct orr_worker {  /* a worker */
	int running; /* a job, n_jobs + an update, or -1; a job on several workers on all of them */
	/* of what runs, on the first of its workers: thousandths of ns that are left, as of
	 * since_ns, and how many of them it does in a ns */
	orr_wide left;
	int64_t since_ns, due_ns;
	int pace;
	int bucket; /* of the gradient, that it computes next; the last, when it ends */
	int next;   /* STRICT: place in by_worker */
	bool touched;
	struct orr_heap ready; /* GREEDY: jobs */
	struct orr_heap updates;
};

/* What jobs have of other owners, in the places that there are for it (schedule/places.h): the
 * parameters that they read, and their gradients on the way to the owner, which adds them up in the
 * order of microbatches. By enum orr_place and by job. NULL, all of it: nothing is of another
 * owner. */
struct orr_foreign {
	int *before[ORR_N_PLACES]; /* the job whose place it takes, as of orr_places_find() */
	int *after[ORR_N_PLACES];  /* the job that takes its place; -1: none does */
	int *unsent; /* things that the gradient waits for before it is sent: its job, and its place
			at the owner */
	int *unadded; /* the same before it is added: it comes, and the one before has been added */
	int *added_next; /* the job whose gradient its owner adds after it; -1: none */
};

/* Which updates there are, what they wait for, and what waits for them. */
struct orr_updates {
	/* those of stage s are numbers first[s] on, r of its owners for every version */
	int *first; /* [n_stages + 1] */
	struct orr_awaited {
		/* at the first owner: weight gradients not yet with them, owners that have not made
		 * the version, and where they sum the gradient in buckets, of which it was asked
		 * for how many, and the sums that are not there */
		int gradients, running, asked, unsummed;
		int unmade; /* in buckets, of each owner: gradients that are not with it */
	} * of;             /* [n] */
	int *uncomputed;    /* [n * buckets] at the first owner: owners that have not computed it */
	int *incomplete; /* [sets of parameters] stages whose gradients are not all with owners */
	int *sums;       /* [n_stages] sets whose sum its next update waits for */
};

struct orr_simulation {
	const struct orr_jobs *jobs;
	struct orr_timeline *timeline;
	struct orr_failure failure;
	struct orr_network network;
	bool with_updates;
	bool keeps_updates; /* they take time: the timeline has them */
	int64_t now;
	struct orr_heap events;
	int *waits; /* [n_jobs] things that a job still waits for */
	struct orr_foreign foreign;
	struct orr_updates updates;
	struct orr_worker *workers;
	int *touched_workers, n_touched_workers;
	/* [n_stages * n_workers] where stages gather: Bs of it that have yet to add to the
	 * worker's sum of gradients */
	int *unsummed;
	int *around; /* room for predecessors and successors */
	struct orr_arrays all;
};

void orr_simulation_push(struct orr_simulation *sim, int64_t time, enum orr_event event, int id);
/* Of transfers asked for at one instant the consumer of lowest n comes first, and what has no
 * consumer last. */
void orr_simulation_request(struct orr_simulation *sim, struct orr_transfer transfer);
/* At the end of the instant worker w, or those of job j, may be able to start something. */
void orr_simulation_touch_worker(struct orr_simulation *sim, int w);
void orr_simulation_touch(struct orr_simulation *sim, int j);
/* GREEDY: j may start as soon as its workers are free. */
void orr_simulation_ready(struct orr_simulation *sim, int j);
/* One thing less for job j to wait for. */
void orr_simulation_deliver(struct orr_simulation *sim, int j);

/* ---- foreign.c ---- */

int orr_foreign_init(struct orr_simulation *sim);
/* How many places job j waits for before it starts: that of its gradient, and its parameters. */
int orr_foreign_waits(const struct orr_foreign *x, int j);
/* The job that takes the place after j; -1: none. */
int orr_foreign_after(const struct orr_foreign *x, enum orr_place place, int j);

/* ---- updates.c ---- */

/* Lays out the timeline's updates as well. */
int orr_updates_init(struct orr_simulation *sim);
/* The update, by the owner that computes j, that makes the version that j reads; -1: none has. */
int orr_updates_read(const struct orr_simulation *sim, int j);

/* Job j, which makes a gradient, has ended. */
void orr_updates_gradient(struct orr_simulation *sim, int j);
/* Update u has ended. */
void orr_updates_end(struct orr_simulation *sim, int u);
/* A gradient is with its owner, or a ring has ended. */
void orr_updates_arrive(struct orr_simulation *sim, const struct orr_transfer *transfer);

/* The bucket that job j makes first: of a stage that its owners sum, the last of one of them makes
 * them one after the other. */
int orr_updates_first_bucket(const struct orr_simulation *sim, int j);
/* Job j has computed a bucket, from 1 on. */
void orr_updates_bucket(struct orr_simulation *sim, int j, int bucket);
