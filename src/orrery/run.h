#ifndef ORR_RUN_H
#define ORR_RUN_H
/* A run: jobs -> StarPU tasks -> parameters and a measured timeline. One task per job; a StarPU
 * scheduling policy of our own enforces w_compute and the order of n; parameters live where
 * w_weights says. Built without StarPU, orr_run_create returns ORR_E_UNSUPPORTED.
 *
 * Under mpirun every rank calls the same functions with the same arguments; each has a block of the
 * workers. See ranks.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "numerics.h"
#include "error.h"

struct orr_dataset;
struct orr_jobs;
struct orr_run;
struct orr_timeline;

/* What serves the workers: CUDA devices where there are any, else CPU cores; or one of them. */
enum orr_hardware { ORR_HARDWARE_AUTO, ORR_HARDWARE_CPU, ORR_HARDWARE_CUDA };

/* What is done in a step whose loss, or the norm of whose gradient, is not finite in float32:
 * training stops, or the step's update is left out, of every stage, and training goes on. For that
 * all gradients are waited for before the first update; a stream, which never waits, does not serve
 * it. */
enum orr_on_nan { ORR_ON_NAN_STOP, ORR_ON_NAN_SKIP };

struct orr_run_options {
	int batch; /* samples in a minibatch, at least one per microbatch */
	enum orr_optimizer optimizer;
	double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
	enum orr_precision precision; /* of the matrix products */
	uint64_t seed;                /* of the parameters and of the shuffling */
	enum orr_on_nan on_nan;
	int prefetch;     /* parameters of so many jobs ahead along a worker's order */
	double timeout_s; /* without progress for so long, the run stops with a report */
	/* Activations, gradients and stashes of a step are freed as soon as they have been read;
	 * but kept for the next step, which is faster, where all of them together take no more than
	 * this. */
	int64_t keep_bytes;
	/* Under mpirun: how many workers each rank has, "2,1,1", in the order of the workers; NULL:
	 * as evenly as can be. */
	const char *ranks_workers;
	enum orr_hardware hardware;
	int streams; /* of a CUDA device, each a worker of StarPU's; 0: one */
	/* Of a worker on a CUDA device, with all that it has there; 0: no limit. What a step needs
	 * only later goes to main memory when it is reached, and comes back. */
	int64_t memory_bytes;
	/* (optional) What takes a while and is no step, "measuring" or "evaluating": so much of all
	 * is done. On rank 0 alone, in the calling thread. */
	void (*tell)(const char *what, int64_t done, int64_t all);
	/* (tests) what comes from another rank arrives so much later */
	int link_delay_us;
	/* (tests) sleep up to so many microseconds in every job, drawn from delay_seed */
	int delay_us;
	uint64_t delay_seed;
	/* (tests) cores count as devices, and stages with one owner, too, take the way of those
	 * that NCCL adds up */
	bool reduce_alone;
	/* (tests) NULL: our scheduling policy; "pinned": StarPU's workerorder instead; else the
	 * name of a policy of StarPU's, which places and orders as it likes */
	const char *policy;
};
struct orr_run_options orr_run_options_default(void);

/* The columns of the data that this rank reads: those of the stages that it runs forward, in
 * training or to evaluate. *columns, of *n, is the caller's to free (orr_dataset_read_columns). */
int orr_run_columns(int64_t **columns, int64_t *n, const struct orr_jobs *jobs,
		    const struct orr_run_options *options, struct orr_error *err);

struct orr_step {
	int64_t step;    /* from 0 */
	int64_t samples; /* seen since the start of training, with this step */
	double loss;     /* mean over the minibatch, however it is cut; on rank 0 alone */
	double accuracy; /* of the minibatch, NaN where no operator classifies; on rank 0 alone */
	bool skipped;    /* its update was left out */
	double seconds;  /* from the end of the step before (or the start) to the end of this one */
};

/* Start StarPU (once per process at a time), place the parameters and draw them from the seed;
 * equal seeds give equal parameters however the graph is cut. *out borrows jobs and data, which has
 * the columns of orr_run_columns at least; jobs->pipeline must have come from a graph whose
 * operators all compute. ORR_E_INPUT comes to every rank alike. */
int orr_run_create(struct orr_run **out, const struct orr_jobs *jobs,
		   const struct orr_dataset *data, const struct orr_run_options *options,
		   struct orr_error *err);
void orr_run_destroy(struct orr_run *run); /* NULL is fine */

/* Train n steps; a stream begins empty and has been drained at the end. visit (may be NULL) is
 * called after each, in the calling thread. ORR_E_RUNTIME: the run stopped, the message says which
 * worker waits for what. ORR_E_DIVERGED, on every rank alike: a loss or the norm of a gradient is
 * not finite, and the message says in which step and of which operator, the first in the graph; or
 * ORR_MOST_SKIPPED steps in a row were left out. */
int orr_run_train(struct orr_run *run, int64_t n,
		  void (*visit)(void *user, const struct orr_step *step), void *user,
		  struct orr_error *err);

/* Begin no further step; all ranks stop after the same one (orr_run_step), soon after one of them
 * was told, and orr_run_train returns 0. May be called in a signal's handler. */
void orr_run_stop(struct orr_run *run);
/* Have all ranks stopped so? */
bool orr_run_stopped(const struct orr_run *run);
/* Steps whose update was left out, since orr_run_create. */
int64_t orr_run_skipped(const struct orr_run *run);
/* Of them, the last ones in a row, up to the last step that was trained. */
int orr_run_skipped_last(const struct orr_run *run);
/* When so many are left out in a row, training has diverged. */
#define ORR_MOST_SKIPPED 10

/* What the tasks of a stream (schedule.h) have found of stage s's versions since orr_run_create. */
struct orr_run_versions {
	int held; /* buffers in which its owners had versions, of the one with most */
	int64_t least,
		most;    /* updates between the version that F read and the one that its gradient
			    was applied to, once the pipeline is full; -1: it never was */
	int64_t n_read;  /* passes that read parameters, and of them those that did not read the */
	int64_t n_wrong; /* version that versions.h says */
};
/* [n_stages]; all ranks call it, and all get the same. */
int orr_run_versions(struct orr_run *run, struct orr_run_versions *stages, struct orr_error *err);

/* Samples in a step: the minibatch; in a stream of the microbatches in which every stage updates a
 * whole number of times, one where no stage has replicas and --accumulate is 1. */
int orr_run_step_samples(const struct orr_jobs *jobs, const struct orr_run_options *options);

/* The measured timeline of the last step that was trained; borrowed. NULL before the first. Whole
 * on rank 0 alone. */
const struct orr_timeline *orr_run_timeline(const struct orr_run *run);

/* Loss and accuracy on the test rows (or the training rows), with the parameters as they are. */
int orr_run_evaluate(struct orr_run *run, bool on_test, double *loss, double *accuracy,
		     struct orr_error *err);

/* How many floats the graph's parameters have, and a copy of them in the order of the operators; on
 * rank 0 alone, elsewhere parameters may be NULL. */
int64_t orr_run_n_parameters(const struct orr_run *run);
int orr_run_parameters(struct orr_run *run, float *parameters, struct orr_error *err);

/* What this rank has really sent to others and received, since orr_run_create. */
struct orr_traffic;
void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic);

/* The most memory of this process that was resident while it trained, less what was before the
 * parameters were placed; -1 where the system does not say. orr_footprint_predict foretells it. */
int64_t orr_run_peak_bytes(const struct orr_run *run);

/* CUDA devices that a run can use here. 0: why, of size bytes, says in a few words what is missing;
 * -1: this build is for CPU cores alone, and why says what it lacks. */
int orr_run_devices(char *why, size_t size);

/* Where a worker of the schedule runs. */
struct orr_place {
	int w, rank;
	int id;        /* StarPU's number of what serves it; equal numbers of a rank share it */
	char name[64]; /* what StarPU calls that */
	int core;      /* that runs it, or drives its device; hwloc's logical number; -1: unknown */
	int numa;      /* the NUMA node of the core, or the one that the device hangs on; or -1 */
	int device;    /* CUDA's number, or -1 */
	char bus[16];  /* the device's PCI address, or "" */
};
/* All ranks call it; places[n_workers] are filled in on rank 0, on others those of their own. */
int orr_run_places(struct orr_run *run, struct orr_place *places, struct orr_error *err);

/* What training has moved on this rank from one memory to another, since orr_run_create. */
struct orr_moved {
	char from[32], to[32]; /* what StarPU calls them: "NUMA 0", "CUDA 0" */
	int64_t n, bytes;
};
/* At most so many, in the order of the memories; how many there are. */
int orr_run_moved(const struct orr_run *run, struct orr_moved *moved, int most);

/* Time every stage's F, B, W and U alone on one core (median of several, fewer where they take
 * long) and write the durations into the pipeline's stages, so that the simulator predicts this
 * machine. */
struct orr_pipeline;
int orr_run_measure(struct orr_pipeline *p, const struct orr_run_options *options,
		    struct orr_error *err);

/* "StarPU 1.3.10, 2 CPU workers", or why there is none. */
const char *orr_run_version(void);
#endif
