#pragma once
/* The figures of a timeline: duration, idle time, memory, traffic; and those of a run. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery.h"
#include "timeline.h"

ORR_BEGIN

/* Messages of one rank with the others, by kind. */
struct orr_traffic {
	int64_t sent[ORR_TRANSFER_KINDS], sent_bytes[ORR_TRANSFER_KINDS];
	int64_t received[ORR_TRANSFER_KINDS], received_bytes[ORR_TRANSFER_KINDS];
};

/* Assign consecutive blocks of workers to ranks: of equal size (if not divisible, the first ranks
 * have one more), or of the sizes in text, "2,1,1"; at least one each. rank_of has n_workers
 * elements. */
int orr_ranks_of_workers(int *rank_of, int n_workers, int n_ranks, const char *text,
			 struct orr_error *err);

struct orr_jobs;
struct orr_machine;
struct orr_timeline;

struct orr_worker_figures {
	int64_t busy_ns;                     /* jobs and updates */
	int64_t idle_ns;                     /* makespan - busy */
	int64_t first_start_ns, last_end_ns; /* 0 and 0 for a worker without jobs */
	int peak_stash;                      /* most stage stashes at once */
	int64_t peak_stash_bytes;
	int64_t parameter_bytes; /* that it owns */
	int64_t trained_bytes;   /* of these, trained; also the size of their gradients */
	int64_t optimizer_bytes; /* the optimizer's state for them */
	int64_t rounded_bytes;   /* in BF16, rounded copies of the parameters it computes with */
	int64_t copy_bytes; /* fetched parameters, gradients for other owners, and partial sums, as
			       if the worker were a rank */
	int64_t version_bytes; /* peak of older versions of the parameters, without a flush */
	int64_t memory_bytes;  /* parameters, gradients, optimizer, rounded, copies, versions and
				  peak stash together; not data in transit between stages */
	/* in one step, from other workers; it depends on w_compute and w_weights, not on time */
	int64_t recv_activations, recv_gradients, recv_stashes, recv_parameters; /* counts */
	int64_t recv_activation_bytes, recv_gradient_bytes, recv_stash_bytes, recv_parameter_bytes;
	int64_t parked, parked_bytes; /* stashes that leave in a step and come back */
	int64_t sent_weight_gradients, sent_weight_gradient_bytes; /* to an owner elsewhere */
	int64_t all_reduce_bytes; /* received in rings among r replicas or owners of tied
				     parameters: 2 (r-1)/r of the gradient; all workers together: 2
				     (r-1) */
};

/* Steady-state speed of an asynchronous schedule, exact since simulated until the timeline repeats;
 * and its start-up and drain, which endless training pays once. */
struct orr_steady {
	/* of the given timeline: from the first start until the input stages start their first
	 * backward; and from the end of the last forward at the input to the last end [Narayanan19,
	 * figure 4] */
	int64_t startup_ns, drain_ns;
	/* in between: the microbatches of a period and its duration, including updates and rings
	 * that jobs wait for; 0: the schedule flushes, or did not repeat within the longest
	 * timeline tried */
	int64_t microbatches, period_ns;
};

struct orr_figures {
	int64_t makespan_ns;    /* last end minus first start */
	double bubble;          /* 1 - busy / (n_workers * makespan) */
	double span_bubble;     /* 1 - busiest worker's work / max over workers of (last end - first
				   start): the figure of the zero-bubble papers, whose workers may start
				   staggered */
	int64_t span_ns;        /* that maximum */
	int64_t lower_bound_ns; /* for all orders of these jobs on their workers, even with free
				   links: the critical path, or a worker's work with the shortest
				   path before and after it */
	bool bound_in_limits;   /* lower_bound_ns is the schedule's own, larger bound: for orders
				   within its limits, usually of memory, and on its links */
	double throughput;      /* rho = S*B / (L*W), L in units of the mean forward + backward of a
				   stage [Rahimi25] */
	double throughput_bound; /* what the memory-time argument of [Rahimi25, appendix] proves for
				    the peak stash M of this timeline: M * (work of all stages) /
				    (sum of the stages' shortest lifespans), at most 1; on a uniform
				    chain 2M/(S+1). [Rahimi25] writes M/S, counting a pass as a step
				    in the proof and F + B in the table */
	struct orr_steady steady;     /* if asynchronous, from orr_try_run(); else zeros */
	struct orr_numerics numerics; /* the pipeline's: memory of a parameter */
	int64_t peak_host_bytes;      /* most stash in the memory of all hosts together */
	int n_workers;
	struct orr_worker_figures *worker; /* [n_workers] */
};

/* Refuses a simulated timeline that is shorter than its schedule's bound. */
int orr_figures_create(struct orr_figures **out, const struct orr_timeline *t,
		       struct orr_error *err);
/* The worker that needs most memory, the first of them. */
int orr_figures_fullest(const struct orr_figures *f);
/* Refuse figures above machine->memory_bytes: the message names the worker, the parts of its memory
 * and the cure. */
int orr_figures_check_memory(const struct orr_figures *f, const struct orr_machine *machine,
			     struct orr_error *err);
void orr_figures_destroy(struct orr_figures *f); /* NULL is fine */

/* ---- what a run comes to, as run.h and reports have it ---- */

/* The scores of one loss of the graph: means over samples. */
struct orr_loss {
	int index;       /* of the loss among the operators of the unsplit graph */
	double weight;   /* in the sum that is minimized */
	double loss;     /* without its weight */
	double accuracy; /* NaN: it does not classify */
	double dropped;  /* share of dropped choices of experts; NaN: there are none */
};

/* The scores of all losses, on rank 0; NaN elsewhere. */
struct orr_scores {
	double loss;     /* their sum, each times its weight */
	double accuracy; /* over all that classify; NaN: none does */
	double dropped;  /* over all with choices of experts; NaN: there are none */
	int n_losses;
	const struct orr_loss *losses; /* in the order of the graph; borrowed, up to the next step
					  or evaluation */
};

/* The versions of a stage's parameters in a schedule without a flush (enum orr_sync), as measured
 * since the run began. */
struct orr_run_versions {
	int held; /* the most buffers with versions on one of its owners */
	int64_t least,
		most;    /* updates between the version that F read and the one that its
			    gradient was applied to, once the pipeline is full; -1: it never was */
	int64_t n_read;  /* passes that read parameters */
	int64_t n_wrong; /* of them, those that read a version other than the schedule's */
};

/* What serves a worker of the schedule. */
struct orr_mapping {
	int w, rank;
	int id;        /* StarPU's number of the server; workers with equal numbers share it */
	char name[64]; /* StarPU's name of it */
	int core;   /* the core that runs it or drives its device, hwloc's logical number; or -1 */
	int numa;   /* the NUMA node of the core, or of the device's bus; or -1 */
	int device; /* CUDA's number, or -1 */
	char bus[16]; /* the device's PCI address, or "" */
};

/* What training has copied on this rank from one memory to another, since the run began. */
struct orr_moved {
	char from[32], to[32]; /* StarPU's names: "NUMA 0", "CUDA 0" */
	int64_t n, bytes;      /* copies, and their sizes together */
};

ORR_END
