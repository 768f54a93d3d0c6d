#pragma once
/* The work of a step, and this rank's share of it: jobs, the programs that compute them, and the
 * rank of every worker. Complete before StarPU starts, and constant from then on.
 *
 * Each rank submits its own jobs, and the messages that belong to them, in an order which is part
 * of one order of all jobs. */
#include "base/arrays.h"
#include "codelets/program.h"
#include "orrery/orrery.h"
#include "orrery/jobs.h"
#include "orrery/pipeline.h"

/* The first failure of the thread that makes a run and submits its tasks: after it nothing more is
 * made, submitted, sent or waited for, so that what does need not look, and it is returned in the
 * end. */
struct orr_fault {
	int code;
	struct orr_error err;
};
/* The code, and the message as *err. */
int orr_fault_tell(const struct orr_fault *fault, struct orr_error *err);

struct orr_work {
	struct orr_arrays *arrays; /* owned: of all parts of the run, until orr_work_fini */
	struct orr_fault *fault;
	const struct orr_jobs *jobs; /* borrowed */
	const struct orr_pipeline *pipeline;
	struct orr_program **programs; /* [n_stages] */
	int batch;                     /* samples of a minibatch */
	int *losses;                   /* [n_losses] operators */
	int n_losses;
	int rank, n_ranks;
	int *rank_of;  /* [n_workers] */
	int *sequence; /* [n_sequence] jobs that are computed here, or read parameters owned here */
	int n_sequence;
	int *n_readers; /* [n_stages] jobs that read parameters owned here, of a stage that is
			   trained */
	/* [n_stages * n_passes] of the jobs of a stage and pass that are computed here the one that
	 * is submitted first, and last; -1: none is */
	int *first_of, *last_of;
	/* [n_outputs * n_microbatches] the same of jobs that read an output of several readers */
	int *first_reader, *last_reader;
	int n_updates; /* of a stage in a step or round, at most; 1 with a flush */
	int window;    /* steps in flight: the next one is submitted while this one runs */
};

/* ranks_workers as in orr_run_options. */
int orr_work_init(struct orr_work *work, const struct orr_jobs *jobs, int batch, int rank,
		  int n_ranks, const char *ranks_workers, struct orr_error *err);
void orr_work_fini(struct orr_work *work);

/* Has something failed? An array of the run that is NULL becomes the fault. */
static inline bool orr_work_fails(const struct orr_work *work)
{
	struct orr_fault *fault = work->fault;

	if (work->arrays->failed && !fault->code)
		fault->code = orr_no_memory(&fault->err, "run");
	return fault->code;
}

/* Samples in microbatch b, and those of the minibatch before it. */
int orr_work_samples(const struct orr_work *work, int b);
int orr_work_first_sample(const struct orr_work *work, int b);

/* Does F of s and b wait, for the cap on microbatches in flight, for a job of another rank? */
bool orr_work_gates(const struct orr_work *work, int s, int b);

/* Is worker w of this rank? */
static inline bool orr_work_has(const struct orr_work *work, int w)
{
	return work->rank_of[w] == work->rank;
}
/* Is job j computed here? */
static inline bool orr_work_computes(const struct orr_work *work, int j)
{
	return orr_work_has(work, work->jobs->compute[j]);
}
/* The rank that does. */
static inline int orr_work_rank(const struct orr_work *work, int j)
{
	return work->rank_of[work->jobs->compute[j]];
}
static inline int64_t orr_work_n_parameters(const struct orr_work *work, int s)
{
	return work->programs[s]->n_parameters;
}
/* Those that have a gradient, state and updates: the first ones. */
static inline int64_t orr_work_n_trained(const struct orr_work *work, int s)
{
	return work->programs[s]->n_trained;
}
/* Does job j read parameters? */
static inline bool orr_work_reads(const struct orr_work *work, int j)
{
	return orr_work_n_parameters(work, orr_jobs_at(work->jobs, j).s) > 0;
}
/* Does it make a gradient of them? */
static inline bool orr_work_makes_gradient(const struct orr_work *work, int j)
{
	return orr_jobs_makes_gradient(work->jobs, j) &&
	       orr_work_n_trained(work, orr_jobs_at(work->jobs, j).s) > 0;
}
/* Is job j, computed here, the last of its stage and pass to be submitted? */
static inline bool orr_work_is_last(const struct orr_work *work, int j)
{
	return work->last_of[j % (work->pipeline->n_stages * work->jobs->n_passes)] == j;
}
/* Where an output of several readers, by its number, is in first_reader and last_reader. */
static inline int64_t orr_work_output_at(const struct orr_work *work, int number, int b)
{
	return (int64_t)(number - work->pipeline->n_edges) * work->pipeline->n_microbatches + b;
}
/* Microbatches whose activations F of stage s reads. */
static inline int orr_work_n_read(const struct orr_work *work, int s)
{
	return work->pipeline->stages[s].gather ? work->pipeline->n_microbatches : 1;
}
/* Has stage s a backward? Else F keeps nothing. */
static inline bool orr_work_has_backward(const struct orr_work *work, int s)
{
	return orr_jobs_last_pass(work->jobs, s) != ORR_PASS_F;
}
/* Is it two jobs, B and W? */
static inline bool orr_work_splits(const struct orr_work *work, int s)
{
	return orr_jobs_first_backward(work->jobs, s) != orr_jobs_last_pass(work->jobs, s);
}
/* Does B leave W all that it reads in one piece? It does where W is elsewhere, since no more of the
 * stash than that moves, and where F is recomputed, since no more of it stays. */
static inline bool orr_work_packs(const struct orr_work *work, int s, int b)
{
	const struct orr_jobs *jobs = work->jobs;

	return jobs->recompute[s] ||
	       (orr_work_splits(work, s) &&
		jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_B)] !=
			jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_W)]);
}
/* Owners of stage s: first_owner[s] and those after it, one per replica. */
static inline int orr_work_replicas(const struct orr_work *work, int s)
{
	return work->jobs->first_owner[s + 1] - work->jobs->first_owner[s];
}
/* Does operator k share what it trains with the first of its set, in an earlier stage, and are both
 * owned here, each by one owner, and k's at the end of what its stage trains? Then it is updated by
 * a copy, and no optimizer's state is kept for it. */
bool orr_work_is_copied(const struct orr_work *work, int k);
/* Floats of what stage s trains, the first ones, for which an owner here keeps that state where it
 * keeps all. */
int64_t orr_work_n_kept(const struct orr_work *work, int s);
/* Gradients of operators that share parameters, of every owner one each. */
int orr_work_n_ties(const struct orr_work *work);
/* Are they on more than one rank? */
bool orr_work_is_spread(const struct orr_work *work, int s);
/* The index of a stage and a microbatch in arrays of them. */
static inline int orr_work_at(const struct orr_work *work, int s, int b)
{
	return s * work->pipeline->n_microbatches + b;
}
/* That of a loss and a microbatch. */
static inline int orr_work_loss_at(const struct orr_work *work, int l, int b)
{
	return b * work->n_losses + l;
}
/* That of an edge, or of an output with several readers, and a microbatch. */
static inline int64_t orr_work_edge_at(const struct orr_work *work, int e, int b)
{
	return (int64_t)e * work->pipeline->n_microbatches + b;
}
