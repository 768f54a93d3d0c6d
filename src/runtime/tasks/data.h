#ifndef ORR_DATA_H
#define ORR_DATA_H
/* The data handles of a run: parameters and what goes with them, and what comes and goes with a
 * microbatch. Part of engine.h. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <starpu.h>
#include "orrery/error.h"

struct orr_nccl;
struct orr_program;
struct orr_run;
struct orr_slot;

/* A buffer for one version of an owner's parameters, in a stream; see versions.h. */
struct orr_version {
	starpu_data_handle_t handle;
	uintptr_t at;
	/* what it has when all that was submitted has run, counted since the stream was last empty;
	 * -1: nothing. The submitting thread's. */
	int64_t number;
	atomic_llong holds; /* what it has, by the tasks that ran */
};

/* The parameters of stage s that worker w owns, and what goes with them. */
struct orr_owned {
	int s, w;
	unsigned node;                                    /* w's memory */
	starpu_data_handle_t parameters, state, gradient; /* NULL in a stage without parameters */
	uintptr_t parameters_at, state_at, gradient_at;
	int *contributors; /* the jobs whose weight gradient flows here, ascending by microbatch */
	int n_contributors;
	bool in_place; /* they add to gradient themselves; else each has a partial of its own */
	int update;    /* its number among the updates of a step, or -1 */
	/* from other ranks, in turn, so that one can come while the other is added; else NULL */
	starpu_data_handle_t incoming[2];
	int64_t n_incoming; /* ever */
	bool rings;         /* it all-reduces with owners on other ranks */
	/* [owners of s] of the gradient's sum; NULL unless it rings */
	starpu_data_handle_t *chunks;
	/* NCCL adds up the gradients of the stage's owners, in one place or several (reduce.c) */
	bool joins;
	starpu_data_handle_t summed, chain; /* NULL: it does not, or is elsewhere */
	starpu_data_handle_t gate;          /* at the stage's first owner */
	/* at the first owner of each rank, where there are several: its gradients are there */
	starpu_data_handle_t ready;
	struct orr_nccl *group;
	int member;
	atomic_llong version; /* steps whose update has finished */
	/* in a stream: as many versions as are held at once, one of which is the latest; parameters
	 * is that one's handle */
	struct orr_version *versions;
	int n_versions, latest;
	int n_held; /* of them that were ever used */
};

/* A handle is registered once and used in every step; what lies behind a temporary one comes with
 * its writer and goes when its last reader has finished. Handles are NULL where this rank has no
 * use for them. */
struct orr_data {
	/* in the order of jobs->owners; what other ranks own has no handles here */
	struct orr_owned *owned;
	int n_owned, n_updates;
	int *owned_of;                    /* [n_jobs] whose parameters the job takes */
	starpu_data_handle_t *activation; /* [n_edges * n_microbatches] */
	starpu_data_handle_t *gradient;   /* likewise */
	starpu_data_handle_t
		*stash; /* [n_stages * n_microbatches]; the inputs where F is recomputed */
	starpu_data_handle_t
		*whole; /* likewise: the stash from B to W where F is recomputed; else NULL */
	starpu_data_handle_t *partial; /* likewise; NULL where gradients add up in place, or the
					  job is computed elsewhere */
	starpu_data_handle_t *token;   /* likewise, cap[s] of them for a stage with a cap */
	starpu_data_handle_t *gate; /* likewise: F waits for a job of another rank, for the cap */
	starpu_data_handle_t *fetched; /* [n_jobs] parameters that come from another rank */
	size_t columns_bytes;          /* of a slot */
	int64_t temporary_bytes; /* of a step: activations, gradients, stashes, partial gradients */
	bool keep;               /* they stay from step to step */
};

/* A block of floats that lives with its owner. */
int orr_data_make_block(starpu_data_handle_t *handle, uintptr_t *at, const struct orr_owned *o,
			int64_t n, struct orr_error *err);
void orr_data_drop_block(starpu_data_handle_t handle, uintptr_t at, const struct orr_owned *o,
			 int64_t n);
int orr_data_init(struct orr_run *run, struct orr_error *err);
void orr_data_fini(struct orr_run *run); /* nothing may be in flight */
/* A temporary whose last reader has been submitted. */
void orr_data_drop(const struct orr_run *run, starpu_data_handle_t handle);
/* In the calling thread and in main memory, wherever the handle lives. */
int orr_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode, float **floats,
		     struct orr_error *err);
void orr_data_release(starpu_data_handle_t handle);
/* Copy the columns that a stage reads of n rows, input after input. */
void orr_data_columns(const struct orr_run *run, const struct orr_program *program,
		      const int64_t *rows, int64_t n, float *to);
/* Copy the columns of the step's rows to where the slot's tasks read them. */
int orr_data_gather(struct orr_run *run, const struct orr_slot *slot, struct orr_error *err);
#endif
