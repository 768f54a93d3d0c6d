#pragma once
/* A timeline: worker, start and end of every job. Simulated or measured: one type for both, so that
 * report, drawing and checker have one input. */
#include <stdbool.h>
#include <stdint.h>
#include "machine.h"
#include "orrery.h"

ORR_BEGIN

/* Kinds of transfers between workers. */
enum orr_transfer_kind {
	ORR_TRANSFER_ACTIVATION,      /* to stage s, forward */
	ORR_TRANSFER_GRADIENT,        /* to stage s, backward */
	ORR_TRANSFER_STASH,           /* of stage s, from where F ran to where B runs */
	ORR_TRANSFER_PARAMETER,       /* of stage s, from its owner to where a pass runs */
	ORR_TRANSFER_WEIGHT_GRADIENT, /* of stage s, from where it was computed to its owner */
	ORR_TRANSFER_ALL_REDUCE,      /* of stage s or of tied parameters, a ring over all owners */
	ORR_TRANSFER_PARK             /* of stage s, to where its stash is parked, or back */
};
#define ORR_TRANSFER_KINDS 7

const char *orr_transfer_name(enum orr_transfer_kind kind); /* "weight_gradient" */

struct orr_jobs;

struct orr_transfer {
	enum orr_transfer_kind kind;
	int producer, consumer;  /* jobs; producer -1: parameters; consumer -1: the update. A ring's
				    producer: the last job, by number, whose gradient is in it. Of a
				    parked stash, those of orr_jobs_parked() */
	enum orr_ring_part ring; /* of a ring */
	enum orr_all_reduce all_reduce; /* of a ring: how it goes, AUTO never */
	int set;       /* of a ring: a stage, or tied parameters, see jobs->first_owner */
	int from, to;  /* workers, or ORR_HOST; of a ring: its first two owners in all
			  replicas */
	int64_t bytes; /* of a ring: the gradient of one owner */
	int64_t start_ns, end_ns;
};

/* U(s, owner): one step of the optimizer on one owner's parameters of a stage. version: the version
 * it creates, counted from the start of the round; 1 with a flush. */
struct orr_update {
	int s, w, version;
	int64_t start_ns, end_ns;
};

struct orr_timeline {
	const struct orr_jobs *jobs; /* borrowed: must outlive it */
	int64_t *start_ns, *end_ns;  /* [n_jobs]; -1: never ran */
	struct orr_update
		*updates; /* if they take time: orr_jobs_n_updates() per stage and owner */
	int n_updates;
	struct orr_transfer *transfers; /* in the order of the requests; none with free links */
	int n_transfers;
	bool measured;
};

/* An empty timeline. */
int orr_timeline_create(struct orr_timeline **out, const struct orr_jobs *jobs,
			struct orr_error *err);
void orr_timeline_destroy(struct orr_timeline *t); /* NULL is fine */
/* A copy, of the same jobs. */
int orr_timeline_copy(struct orr_timeline **out, const struct orr_timeline *t,
		      struct orr_error *err);

/* Every job once, no overlap on a worker, no job before its predecessors, updates after their last
 * gradient, in STRICT every worker in the order of n, and memory back to zero. */
int orr_timeline_check(const struct orr_timeline *t, struct orr_error *err);

/* The end of the last all-gather of updated parameters, on worker w (-1: any); INT64_MIN: none. */
int64_t orr_timeline_gathered(const struct orr_timeline *t, int w);
/* From the first start of a job to the last end of a job or an update, or of parameters that it
 * sends. */
int64_t orr_timeline_makespan(const struct orr_timeline *t);
/* The same of a worker, the longest of all. */
int64_t orr_timeline_span(const struct orr_timeline *t);

/* Write the mean durations of passes and updates into the stages of p, the pipeline of t's jobs,
 * and as its overhead the mean time from the end of a job to the start of the next one on its
 * worker, if that waits for nothing else. */
struct orr_pipeline;
int orr_timeline_costs(const struct orr_timeline *t, struct orr_pipeline *p, struct orr_error *err);

/* Stash on worker w over time, in the order of time, one point per change: for the peak and for the
 * memory curve of the drawings. At equal times, releases come before allocations. A stash is on F's
 * worker until B starts, then on B's; if F is recomputed, its bytes grow when B starts; parked, it
 * is at both ends of the transfer while it moves. w ORR_HOST: in the memory of all hosts. Calls
 * visit(user, time_ns, stashes, bytes). */
int orr_timeline_stash(const struct orr_timeline *t, int w,
		       void (*visit)(void *user, int64_t time_ns, int stashes, int64_t bytes),
		       void *user, struct orr_error *err);

ORR_END
