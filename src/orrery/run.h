#ifndef ORR_RUN_H
#define ORR_RUN_H
/* A run: jobs -> StarPU tasks -> trained parameters and a measured timeline. Every job is a task; a
 * scheduling policy of our own enforces the schedule's placement and order; parameters live on the
 * workers that w_weights names. Built without StarPU, orr_run_create returns ORR_E_UNSUPPORTED.
 *
 * Under mpirun every rank calls the same functions with the same arguments and computes a block of
 * the workers; see ranks.h. Except for orr_run_stop, call all of this from one thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "devices.h"
#include "error.h"
#include "numerics.h"

ORR_BEGIN

struct orr_data_columns;
struct orr_dataset;
struct orr_jobs;
struct orr_run;
struct orr_timeline;
struct orr_traffic;

/* After a step whose loss or gradient norm is not finite in float32: stop, or leave out the update
 * of that step in every stage and go on. Skipping waits for all gradients before the first update,
 * so a schedule without a flush cannot. */
enum orr_on_nan { ORR_ON_NAN_STOP, ORR_ON_NAN_SKIP };

/* How the learning rate falls after the warm-up. */
enum orr_decay { ORR_DECAY_NONE, ORR_DECAY_COSINE, ORR_DECAY_LINEAR };

struct orr_run_options {
	int batch; /* samples in a minibatch, at least one per microbatch */
	enum orr_optimizer optimizer;
	double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
	/* The rate of step k, from 0: learning_rate * (k + 1) / warmup up to step `warmup`, then
	 * from learning_rate to final_rate, which step decay_steps would have, by half a cosine or
	 * a line. */
	int64_t warmup, decay_steps;
	enum orr_decay decay;
	double final_rate;
	/* The norm of all gradients of a step together, above which they are scaled down to it; 0:
	 * no limit. All updates wait for all gradients, so a schedule without a flush has none. */
	double clip;
	bool spare; /* weight decay leaves biases and what norms learn as they are */
	enum orr_precision precision; /* of matrix products; the graph says that of activations */
	uint64_t seed;                /* of the parameters and of the order of samples */
	enum orr_on_nan on_nan;
	int prefetch;     /* jobs ahead, in a worker's order, whose parameters are fetched */
	double timeout_s; /* the run fails when no job ends for this long; above 0 */
	/* Activations, gradients and stashes are freed once they have been read. They are kept
	 * allocated for the next step, which is faster, where all of them fit in this. */
	int64_t keep_bytes;
	/* Under mpirun: the number of workers of each rank, "2,1,1", in the order of the workers;
	 * NULL: as even as possible. Borrowed until orr_run_destroy. */
	const char *ranks_workers;
	enum orr_hardware hardware;
	int streams; /* CUDA streams of a device, each a worker of StarPU's; 0: one */
	/* Device memory of a worker, for all that it holds; 0: no limit. Beyond it, data that is
	 * needed late goes to main memory and comes back. */
	int64_t memory_bytes;
	/* (optional) progress of long work outside steps, "measuring" or "evaluating": done of all
	 * parts. On rank 0 alone, in the calling thread. */
	void (*tell)(const char *what, int64_t done, int64_t all);
	/* (optional) a device is lost, for this reason, and StarPU is about to end the process. In
	 * a thread of StarPU's, once at most. */
	void (*lost)(const char *failure);
};
struct orr_run_options orr_run_options_default(void);

/* The columns of the data that this rank reads, in training or to evaluate: the argument of
 * orr_dataset_read. *columns, of *n, is the caller's to free; what it points to is the graph's. */
int orr_run_columns(struct orr_data_columns **columns, int *n, const struct orr_jobs *jobs,
		    const struct orr_run_options *options, struct orr_error *err);

/* What a loss of the graph saw: means over samples. */
struct orr_loss {
	int index;       /* of the loss among the operators of the unsplit graph */
	double weight;   /* in the sum that is trained */
	double loss;     /* without its weight */
	double accuracy; /* NaN: it does not classify */
	double dropped;  /* of the rows' choices of experts; NaN: it sees none */
};

/* What the losses saw together: on rank 0; NaN elsewhere. */
struct orr_scores {
	double loss;     /* their sum, each times its weight */
	double accuracy; /* over all that classify; NaN: none does */
	double dropped;  /* over all that see choices of experts; NaN: none does */
	int n_losses;
	const struct orr_loss *losses; /* in the order of the graph; borrowed, up to the next step
					  or evaluation */
};

/* A step that has ended. */
struct orr_step {
	int64_t step;             /* from 0 */
	int64_t samples;          /* since the start of training, this step included */
	struct orr_scores scores; /* of the minibatch */
	bool skipped;             /* its update was left out */
	double norm; /* of its gradients before clipping; NaN: none was wanted, or it was skipped */
	double seconds; /* since the end of the step before, or the start */
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

/* Begin no further step: all ranks stop after the same one, soon after one of them was asked to,
 * and orr_run_train returns 0. Safe in a signal handler. */
void orr_run_stop(struct orr_run *run);
/* Have all ranks stopped for that reason? */
bool orr_run_stopped(const struct orr_run *run);

/* Steps whose update was left out, since orr_run_create; and those at the end, in a row. */
int64_t orr_run_skipped(const struct orr_run *run);
int orr_run_skipped_last(const struct orr_run *run);
#define ORR_MOST_SKIPPED 10

/* The versions of a stage's parameters in a schedule without a flush (versions.h), as measured
 * since orr_run_create. */
struct orr_run_versions {
	int held; /* most buffers in which one of its owners had versions */
	int64_t least,
		most;    /* updates between the version that F read and the one that its
			    gradient was applied to, once the pipeline is full; -1: it never was */
	int64_t n_read;  /* passes that read parameters */
	int64_t n_wrong; /* of them, those that read another version than versions.h says */
};
/* Fill stages[n_stages]; all ranks call it together, and all get the same. */
int orr_run_versions(struct orr_run *run, struct orr_run_versions *stages, struct orr_error *err);

/* Samples in a step: the minibatch; without a flush, the samples between two points at which every
 * stage has made whole updates, one microbatch where no stage has replicas and gradients do not
 * accumulate. */
int orr_run_step_samples(const struct orr_jobs *jobs, const struct orr_run_options *options);

/* The measured timeline of the last step, complete on rank 0 alone; borrowed until the next call of
 * orr_run_train. NULL before the first step. */
const struct orr_timeline *orr_run_timeline(const struct orr_run *run);

/* The scores on the test rows or the training rows, with the parameters as they are, on every rank
 * alike. All ranks call it together. */
int orr_run_evaluate(struct orr_run *run, bool on_test, struct orr_scores *scores,
		     struct orr_error *err);

/* The number of parameters, and a copy of them in the order of the unsplit graph's operators: on
 * rank 0; elsewhere parameters may be NULL. All ranks call it together. */
int64_t orr_run_n_parameters(const struct orr_run *run);
int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err);

/* The messages that this rank has sent and received since orr_run_create. */
void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic);

/* Peak resident memory of this process while it trained, less that before the parameters were
 * placed; -1: the system does not say. orr_footprint_predict predicts it. */
int64_t orr_run_peak_bytes(const struct orr_run *run);

/* "StarPU 1.3.10, 2 CPU workers", or the reason why there is none. */
const char *orr_run_version(void);

ORR_END
#endif
