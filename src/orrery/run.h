#pragma once
/* A run: jobs -> StarPU tasks -> trained parameters and a measured timeline. Every job is a task;
 * our scheduling policy enforces the schedule's placement and order; parameters live on the workers
 * that w_weights names. Built without StarPU, orr_run_create returns ORR_E_UNSUPPORTED.
 *
 * Under mpirun every rank calls the same functions with the same arguments and computes a block of
 * the workers; see orr_ranks_start() below. Call everything but orr_run_stop from one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "orrery.h"
#include "figures.h"

ORR_BEGIN

struct orr_data_columns;
struct orr_dataset;
struct orr_graph;
struct orr_jobs;
struct orr_run;
struct orr_timeline;

/* After a step whose loss or gradient norm is not finite in float32: stop, or skip that step's
 * update in every stage and go on. With SKIP all gradients precede the first update, so schedules
 * without a flush refuse it. */
enum orr_on_nan { ORR_ON_NAN_STOP, ORR_ON_NAN_SKIP };

/* How the learning rate falls after the warm-up. */
enum orr_decay { ORR_DECAY_NONE, ORR_DECAY_COSINE, ORR_DECAY_LINEAR };

struct orr_run_options {
	int batch; /* samples in a minibatch, at least one per microbatch */
	enum orr_optimizer optimizer;
	double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
	/* The rate of step k, from 0: learning_rate * (k + 1) / warmup up to step `warmup`, then
	 * half a cosine or a line from learning_rate to final_rate, reached at step decay_steps. */
	int64_t warmup, decay_steps;
	enum orr_decay decay;
	double final_rate;
	/* Limit of the global norm of a step's gradients, which are scaled down to it; 0: no limit.
	 * All updates wait for all gradients, so schedules without a flush refuse it. */
	double clip;
	bool spare;                   /* no weight decay for biases and parameters of norms */
	enum orr_precision precision; /* of matrix products; that of activations is the graph's */
	uint64_t seed;                /* of the parameters and of the order of samples */
	bool loads; /* orr_run_load comes next: parameters are zeros until then, and not drawn */
	enum orr_on_nan on_nan;
	int prefetch;     /* jobs ahead, in a worker's order, whose parameters are fetched */
	double timeout_s; /* the run fails when no job ends for this long; above 0 */
	/* If activations, gradients and stashes fit in this, they are kept allocated for the next
	 * step, which is faster; else each is freed once it has been read. */
	int64_t keep_bytes;
	/* Under mpirun: the number of workers of each rank, "2,1,1", in the order of the workers;
	 * NULL: as even as possible. Borrowed until orr_run_destroy. */
	const char *ranks_workers;
	enum orr_hardware hardware;
	int streams; /* CUDA streams per device, each a StarPU worker; 0: one */
	/* Device memory of a worker; 0: no limit. Beyond it, data that is not needed soon moves to
	 * main memory. */
	int64_t memory_bytes;
	/* (optional) progress outside of steps, "measuring" or "evaluating": parts done, and all.
	 * Only on rank 0, in the calling thread. */
	void (*tell)(const char *what, int64_t done, int64_t all);
	/* (optional) a device is lost, for this reason, and StarPU is about to end the process.
	 * Called at most once, in one of StarPU's threads. */
	void (*lost)(const char *failure);
};
struct orr_run_options orr_run_options_default(void);

/* The columns of the data that this rank reads, for orr_dataset_read(). The caller frees the array
 * *columns of *n; the graph owns what its elements point to. */
int orr_run_columns(struct orr_data_columns **columns, int *n, const struct orr_jobs *jobs,
		    const struct orr_run_options *options, struct orr_error *err);

/* A step that has ended. */
struct orr_step {
	int64_t step;             /* from 0 */
	int64_t samples;          /* since the start of training, this step included */
	struct orr_scores scores; /* of the minibatch */
	bool skipped;             /* without an update */
	double norm;    /* of its gradients before clipping; NaN: not computed, or skipped */
	double seconds; /* since the end of the previous step, or the start */
};

/* Start StarPU and draw the parameters from the seed: equal seeds give equal parameters, however
 * the graph is cut. *out borrows jobs, whose pipeline has a graph in which every operator computes,
 * and data, which has at least the columns of orr_run_columns. A process has one run at a time.
 * ORR_E_INPUT is returned on every rank alike. */
int orr_run_create(struct orr_run **out, const struct orr_jobs *jobs,
		   const struct orr_dataset *data, const struct orr_run_options *options,
		   struct orr_error *err);
void orr_run_destroy(struct orr_run *run); /* NULL is fine */

/* Train n steps; a schedule without a flush starts empty and is drained at the end. visit (may be
 * NULL) is called after each step, in the calling thread. ORR_E_RUNTIME: the run stalled, and the
 * message says which worker waits for which job. ORR_E_DIVERGED, on every rank alike: a loss or a
 * gradient norm is not finite (the message names the step and the first such operator of the
 * graph), or ORR_MOST_SKIPPED steps in a row were skipped. */
int orr_run_train(struct orr_run *run, int64_t n,
		  void (*visit)(void *user, const struct orr_step *step), void *user,
		  struct orr_error *err);

/* Begin no further step: soon after one rank calls this, all stop after the same step, and
 * orr_run_train returns 0. Safe in a signal handler. */
void orr_run_stop(struct orr_run *run);
/* Have all ranks stopped for that reason? */
bool orr_run_stopped(const struct orr_run *run);

/* Skipped steps since orr_run_create, and how many of the last steps in a row. */
int64_t orr_run_skipped(const struct orr_run *run);
int orr_run_skipped_last(const struct orr_run *run);
#define ORR_MOST_SKIPPED 10

/* Fill stages[n_stages] of a schedule without a flush; all ranks call it together, and all get the
 * same. */
int orr_run_versions(struct orr_run *run, struct orr_run_versions *stages, struct orr_error *err);

/* Samples in a step: the minibatch; without a flush, the fewest samples after which every stage has
 * whole updates: one microbatch without replicas and accumulation. */
int orr_run_step_samples(const struct orr_jobs *jobs, const struct orr_run_options *options);

/* The measured timeline of the last step, complete only on rank 0; borrowed until the next call of
 * orr_run_train. NULL before the first step. */
const struct orr_timeline *orr_run_timeline(const struct orr_run *run);

/* The scores on the test rows or the training rows, with the parameters as they are, on every rank
 * alike. All ranks call it together. */
int orr_run_evaluate(struct orr_run *run, bool on_test, struct orr_scores *scores,
		     struct orr_error *err);

/* Numbers in a checkpoint: of the stages that this rank saves, with the optimizer's. */
int64_t orr_run_owned_floats(const struct orr_run *run);
/* The number of parameters, and a copy of them in the order of the unsplit graph's operators: on
 * rank 0; elsewhere parameters may be NULL. All ranks call it together. */
int64_t orr_run_n_parameters(const struct orr_run *run);
int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err);

/* The messages that this rank has sent and received since orr_run_create, once all that have been
 * started are through. */
void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic);

/* Peak resident memory of this process during training, less that before parameters were allocated;
 * -1: unknown. */
int64_t orr_run_peak_bytes(const struct orr_run *run);

/* "StarPU 1.3.10, 2 CPU workers", or the reason why there is none. */
const char *orr_run_version(void);

/* The processes that mpirun started: their numbers, messages between them, and the end of all when
 * one fails. Without mpirun, or built without StarPU's MPI, there is one rank, and nothing is sent.
 */

/* Join the other ranks. Does nothing without mpirun, or after a first call. When a rank fails, dies
 * or hangs, say (may be NULL) is called on one rank with a message, and all ranks end. */
int orr_ranks_start(void (*say)(const char *message), struct orr_error *err);
/* Leave, all together, after the last run. */
void orr_ranks_stop(void);
int orr_ranks_count(void);
int orr_ranks_rank(void);

/* Collective: all ranks call these, in the same order. They wait without using the core. */

/* 0 if code is 0 on every rank; else the code and the message of the lowest rank with another, on
 * every rank. */
int orr_ranks_agree(int code, struct orr_error *err);
/* Replace n numbers by their sums over the ranks. */
int orr_ranks_sum(double *numbers, int n, struct orr_error *err);

/* Messages between the threads that call a run; those of one tag arrive in order. Tags below
 * ORR_RANKS_FIRST_TAG belong to the library. orr_ranks_send returns when bytes may be reused,
 * orr_ranks_start_send at once, and orr_ranks_sent waits for all started sends. A receiver passes
 * the number of bytes that was sent. */
enum { ORR_RANKS_CLOCK, ORR_RANKS_FIRST_TAG };
enum { ORR_RANKS_ANY = -1 }; /* receive from whichever rank sends first */
int orr_ranks_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
int orr_ranks_start_send(int to, int tag, const void *bytes, size_t n, struct orr_error *err);
void orr_ranks_sent(void);
int orr_ranks_receive(int from, int tag, void *bytes, size_t n, struct orr_error *err);

/* Collective: nanoseconds to add to this rank's CLOCK_MONOTONIC_RAW to get rank 0's; 0 if the
 * difference is too small to measure, as on one host. */
int orr_ranks_clock(int64_t *offset_ns, struct orr_error *err);

/* This rank cannot go on: rank 0 prints message, and all ranks end with this exit status. Returns
 * only if there is one rank. */
void orr_ranks_fail(int status, const char *message);

/* ---- checkpoints ---- */

/* Checkpoints: the state of a training, one folder per saved step. orr_run_save()
 * writes one and orr_run_load() resumes from one.
 *
 *   FOLDER/step-00000120/shard-0.safetensors    the tensors of one owner, and so on
 *   FOLDER/step-00000120/manifest.json          what they are of, their sizes and checksums
 *
 * A checkpoint is written under another name, .step-00000120.tmp, and is renamed once it is fully
 * on disk, so a checkpoint under its own name is whole, whenever the process dies.
 *
 * FOLDER may be reached through symbolic links. Links inside it are never followed: removing a step
 * that is a link removes the link alone, and a link in place of a step, shard, manifest or lock to
 * be read is refused. FOLDER/best is a folder of its own, inside that one: never a link either. */
struct orr_checkpoint; /* an open checkpoint: complete, with the right checksums, and every number
			  finite */

/* Create the folder if it is missing and lock it against other processes until this one ends.
 * ORR_E_INPUT: another process holds the lock. */
int orr_checkpoint_lock(const char *folder, struct orr_error *err);

/* Create the folder if it is missing, remove unfinished checkpoints, and set *newest to the newest
 * step there, whole or not, or to -1. */
int orr_checkpoint_prepare(const char *folder, int64_t *newest, struct orr_error *err);

/* The newest step up to `last` that looks whole from outside; -1: there is none. report (may be
 * NULL) gets a line for each damaged one that is skipped. */
int orr_checkpoint_find(const char *folder, int64_t last, int64_t *step,
			void (*report)(const char *line), struct orr_error *err);
/* Open it. Of n_parts processes each reads its part of the shards through; where that fails in one,
 * all go on to the step before. */
int orr_checkpoint_open(struct orr_checkpoint **out, const char *folder, int64_t step, int part,
			int n_parts, struct orr_error *err);
void orr_checkpoint_close(struct orr_checkpoint *c); /* NULL is fine */
int64_t orr_checkpoint_step(const struct orr_checkpoint *c);

/* Write a model's weights, in the order of orr_run_parameters, as one safetensors file; the tensors
 * are named as in checkpoints. ORR_E_DIVERGED: a number is not finite. */
int orr_weights_write(FILE *file, const struct orr_graph *g, const float *parameters,
		      struct orr_error *err);

/* The state of a run between two steps, saved as a checkpoint and loaded again: the number of steps
 * trained, the parameters, and the optimizer's tensors. The order of samples follows from seed and
 * step. Tensors are named after operators (trunk.1.weight, trunk.1.bias, norm.gain,
 * trunk.1.weight.momentum, .first_moment, .second_moment) of the unsplit graph, so a run with
 * another cut, split, schedule or number of workers can go on from it.
 *
 * Collective: under mpirun all ranks call these together, with the same arguments, and all get the
 * same result. Each rank writes a shard of what it owns, and reads what it owns from any shard. */

/* Steps since the start of training, those before a checkpoint included. */
int64_t orr_run_step(const struct orr_run *run);

/* Save a checkpoint of this step in folder, then remove all but the newest keep ones (0: none). A
 * failure leaves the run and older checkpoints as they were. */
int orr_run_save(struct orr_run *run, const char *folder, int keep, struct orr_error *err);

/* Begin a copy of this step's state in folder, in memory, and return: a thread of the lowest
 * priority writes it as a checkpoint while the next step runs, whose updates wait for it. The set
 * before stays until this one is whole on all ranks, and the next one is written over it. Where
 * ranks do not see one folder, each rank's part also goes to the folder of the next host. What is
 * on devices, or in parts on several ranks, is written before it returns. The copy before has been
 * waited for, or is. */
int orr_run_copy(struct orr_run *run, const char *folder, struct orr_error *err);
/* Wait until the copy that was begun is whole; *copied (may be NULL): which one, zeros where there
 * was none. A failure leaves the run, and the set before, as they were. */
struct orr_copy_made {
	int64_t step, n_bytes; /* of all ranks, on rank 0 */
	int64_t ns;            /* from its begin until it was whole */
};
int orr_run_copied(struct orr_run *run, struct orr_copy_made *copied, struct orr_error *err);

/* Before the first step, replace the weights drawn from the seed by those of a safetensors file, by
 * the names above. ORR_E_INPUT: a tensor has another shape, is missing, or is not the model's; with
 * `partly`, the last two are allowed, and text[size] becomes a line about them, or "". For
 * operators that share parameters, those of one suffice. Each rank reads what it owns. */
int orr_run_begin(struct orr_run *run, const char *path, bool partly, char *text, size_t size,
		  struct orr_error *err);

/* Resume from checkpoint c, borrowed for the call. ORR_E_INPUT: it is of another graph, data set,
 * batch, seed or optimizer, and the run is unchanged; after any other failure only orr_run_destroy
 * may follow. rate NULL: the learning rate and its course must be the same; else they may differ,
 * and *rate becomes the checkpoint's. */
int orr_run_load(struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		 struct orr_error *err);

ORR_END
