#pragma once
/* The messages of a job: what it takes from jobs of other ranks, and what it has for them. */
#include "messages.h"
#include "runtime/tasks/data.h"
#include "schedule/places.h"

/* Tags of messages: the kinds of transfers, and besides */
enum {
	ORR_TAG_LEFT = ORR_TRANSFER_KINDS, /* what B leaves for W, where that is elsewhere */
	ORR_TAG_ENDED,                     /* no data: B leaves nothing, and W waits for it */
	ORR_TAG_GATE,                      /* no data: orders jobs */
	ORR_TAG_READY,                     /* no data: orders rings */
	ORR_TAG_TIED                       /* gradients of shared parameters */
};
#define ORR_TAGS (ORR_TRANSFER_KINDS + 5)

/* What a job leaves for another, which may be on another rank. */
struct orr_handover {
	int tag;
	int64_t at, floats; /* its number among those of the tag */
	int from, to;       /* jobs */
	int sender, taker;  /* the jobs that it goes and comes with: the same, unless one gathers */
};

/* All that begins at (s,b), or, of what orders jobs, ends there. Pure; ends with what visit returns
 * that is not 0. */
int orr_cross_visit(const struct orr_work *work, int s, int b,
		    int (*visit)(void *user, const struct orr_handover *h), void *user);

/* A message of a job to one on another rank, or from one. */
struct orr_crossing {
	int tag, other, reader; /* the other's rank; the job that takes it */
	int64_t at;
	int next; /* of the job at hand, or -1 */
};

/* Weight gradients that come to an owner take these handles in turn. */
struct orr_incoming {
	starpu_data_handle_t handles[ORR_N_COMING]; /* NULL: all are made here */
	int64_t n;                                  /* ever */
};

struct orr_cross {
	const struct orr_work *work; /* borrowed */
	struct orr_data *data;       /* borrowed */
	/* [n_jobs] the credit that a job takes for parameters, and for a weight gradient for
	 * others; NULL: none. A worker has `prefetch` + 1 of each. */
	starpu_data_handle_t *arriving, *leaving;
	struct orr_incoming *incoming; /* [n_owned] */
	int most_owners;               /* of a stage */
	/* [n_microbatches * (2 * n_edges + 3 * n_stages and the readers of outputs)] of those, and
	 * the first that a job takes and sends, [n_jobs], or -1 */
	struct orr_crossing *crossings;
	int n_crossings, *takes, *sends;
	int64_t step;                        /* or round, that is being submitted: for priorities */
	int64_t first_tag[ORR_TAGS], n_tags; /* of a slot */
};

void orr_cross_init(struct orr_cross *cross, struct orr_data *data, int prefetch);

/* What job j, computed here, takes from other ranks; before it is submitted. slot: the number of
 * its slot. */
void orr_cross_receive(struct orr_cross *cross, int slot, int j);
/* What it has for other ranks; after it was submitted. */
void orr_cross_send(struct orr_cross *cross, int slot, int j);
/* The parameters for job j, computed elsewhere, which are owned here. */
void orr_cross_serve(struct orr_cross *cross, int slot, int j);
/* The partial gradient of job j for its owner, which is here: made here, or received. */
starpu_data_handle_t orr_cross_partial(struct orr_cross *cross, int slot, int j);

/* A message that job `reader` takes, in the step that is being submitted, goes before those of
 * later jobs of its worker; -1: after all of the step's, as a gradient for an update may. */
int orr_cross_priority(const struct orr_cross *cross, int reader);

/* A message of the slot's step, without priority, to or from rank `other`; at: its number among
 * those of the tag. */
void orr_cross_pass(const struct orr_cross *cross, int slot, int tag, int64_t at,
		    starpu_data_handle_t handle, int other, bool sends);

/* (fits.c) MPI counts the bytes of a message in an int: what crosses between ranks must stay below
 * 2 GiB a piece. Is a message of this number of floats, `what` of stage s, too large? Then the
 * error says so, and the cure. */
int orr_fits(int64_t floats, const char *what, int s, const char *cure, struct orr_error *err);
/* All that jobs send to jobs and owners of other ranks. Every rank finds the same. */
int orr_fits_check(const struct orr_work *work, struct orr_error *err);
