#pragma once
/* The data handles of a run: parameters and what belongs to them, and the tensors of a microbatch.
 * A handle is registered once and used in every step; the memory of a temporary one is allocated by
 * its writer and freed after its last reader. Handles are NULL where this rank has no use for
 * them. */
#include <stdatomic.h>
#include <starpu.h>
#include "codelets/optimizer.h"
#include "orrery/run.h"
#include "handles.h"
#include "policy.h"

/* A version of an owner's parameters, in a schedule without a flush; versions.h. */
struct orr_version {
	starpu_data_handle_t handle;
	/* the version in it once all submitted tasks have run, from 0 where the pipeline was last
	 * empty; -1: none. The submitting thread's. */
	int64_t number;
	atomic_llong holds; /* the version in it, by the tasks that have run */
};

/* The parameters of stage s that worker w owns. */
struct orr_owned {
	int s, w;
	unsigned node; /* w's memory */
	/* on that node; NULL: not here, or of a stage without parameters, and the last two where it
	 * is not trained. Of the parameters, their latest version (run/version_buffers.h). */
	starpu_data_handle_t parameters, state, gradient;
	/* its replicas and it each keep the state of a part of what is trained */
	bool sharded;
	/* it keeps no state of some: it is sharded, or they are copied (orr_work_is_copied) */
	bool partial;
	struct orr_extent part; /* that of its state: all, unless it is partial */
	int *contributors; /* the jobs whose weight gradient flows here, ascending by microbatch */
	int n_contributors;
	bool in_place; /* they add to gradient themselves; else each has a partial of its own */
	/* and one StarPU worker runs them in their order, in the gradient's own memory */
	bool in_order;
	int update;           /* its number among the updates of a step, or -1 */
	atomic_llong version; /* steps whose update has finished */
};

struct orr_data {
	const struct orr_work *work; /* borrowed */
	struct orr_handles handles;  /* of all parts of the run */
	int n_state;                 /* floats of the optimizer's state, per parameter */
	/* in the order of jobs->owners; what other ranks own has no handles here */
	struct orr_owned *owned;
	int n_owned, n_updates;
	int *owned_of; /* [n_jobs] whose parameters the job takes */
	/* [n_edges * n_microbatches], and of activations behind them outputs with several readers,
	 * which no edge carries then; NULL: nothing moves there, or none flows back */
	starpu_data_handle_t *activation, *gradient;
	/* [n_stages * n_microbatches] */
	starpu_data_handle_t *stash;   /* the inputs alone where F is recomputed; NULL without a
					  backward */
	starpu_data_handle_t *left;    /* what B leaves for W, where that is a job of its own */
	starpu_data_handle_t *partial; /* NULL where gradients add up in place, or the job is
					  computed elsewhere */
	starpu_data_handle_t *token;   /* cap[s] of them for a stage with a cap */
	starpu_data_handle_t *gate;    /* where orr_work_gates */
	starpu_data_handle_t *ended;   /* [n_jobs] of a job that others wait for to have room */
	starpu_data_handle_t *fetched; /* [n_jobs] parameters that come from another rank */
	/* of a step: activations, gradients, stashes, partial gradients; they stay allocated from
	 * step to step where all are at most keep_bytes */
	int64_t temporary_bytes, keep_bytes;
};

/* Floats of the optimizer's state that owner o keeps. */
static inline int64_t orr_data_n_state(const struct orr_data *data, const struct orr_owned *o)
{
	return (o->part.end - o->part.first) * data->n_state;
}

/* StarPU has started. A failure is the work's fault. */
void orr_data_init(struct orr_data *data, const struct orr_work *work,
		   const struct orr_policy *policy, const struct orr_run_options *options);

/* Another block of n floats at owner o. */
void orr_data_make_block(struct orr_data *data, starpu_data_handle_t *handle,
			 const struct orr_owned *o, int64_t n);
/* Another temporary, of n floats. */
void orr_data_make_temporary(struct orr_data *data, starpu_data_handle_t *handle, int64_t n);
/* n zeros, only to be read. */
void orr_data_make_zeros(struct orr_data *data, starpu_data_handle_t *handle, int64_t n);
/* The last reader of a temporary, which may be NULL, has been submitted. */
void orr_data_drop(const struct orr_data *data, starpu_data_handle_t handle);

/* In the calling thread and in main memory, wherever the handle lives. */
int orr_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode, float **floats,
		     struct orr_error *err);
void orr_data_release(starpu_data_handle_t handle);

/* What main memory has been given or shown of what owners keep goes to their own memory, and its
 * copies go. Nothing is in flight. */
int orr_data_settle(const struct orr_data *data, struct orr_error *err);
