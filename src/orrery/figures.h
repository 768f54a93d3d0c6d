#ifndef ORR_FIGURES_H
#define ORR_FIGURES_H
/* The figures of a timeline: duration, idle time, memory, traffic. Exact. */
#include <stdbool.h>
#include <stdint.h>
#include "numerics.h"
#include "error.h"

ORR_BEGIN

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
	int64_t trained_bytes;   /* those of them that are trained: their gradients take as much */
	int64_t optimizer_bytes; /* the optimizer's state for them */
	int64_t rounded_bytes;   /* in BF16, the parameters that it computes with */
	int64_t copy_bytes; /* fetched parameters, gradients for other owners, and partial sums: as
			       footprint.h with the worker as a rank of its own */
	int64_t version_bytes; /* peak of older versions of the parameters, without a flush */
	int64_t memory_bytes;  /* parameters, gradients, optimizer, rounded, copies, versions and
				  peak stash together; not data in transit between stages */
	/* in one step, from other workers; w_compute and w_weights decide it, not time */
	int64_t recv_activations, recv_gradients, recv_stashes, recv_parameters; /* counts */
	int64_t recv_activation_bytes, recv_gradient_bytes, recv_stash_bytes, recv_parameter_bytes;
	int64_t sent_weight_gradients, sent_weight_gradient_bytes; /* to an owner elsewhere */
	int64_t all_reduce_bytes; /* received in rings among replicas, and among the r owners of
				     tied parameters: 2 (r-1)/r of the gradient, over all workers
				     2 (r-1) of it */
};

/* Steady-state speed of an asynchronous schedule: simulated until the timeline repeats, so the
 * figure is exact. Start-up and drain, which endless training pays once, are given beside it. */
struct orr_steady {
	/* of the given timeline: from the first start until the input stages start their first
	 * backward; and from the end of the last forward at the input to the last end [Narayanan19,
	 * figure 4] */
	int64_t startup_ns, drain_ns;
	/* in between, period after period: the microbatches of a period and its duration, with the
	 * updates and rings that jobs wait for; 0: the schedule flushes, or did not repeat within
	 * the longest timeline tried */
	int64_t microbatches, period_ns;
};

struct orr_figures {
	int64_t makespan_ns;    /* last end minus first start */
	double bubble;          /* 1 - busy / (n_workers * makespan) */
	double span_bubble;     /* 1 - busiest worker's work / max over workers of (last end - first
				   start): the figure of the zero-bubble papers, whose workers may start
				   staggered */
	int64_t span_ns;        /* that maximum */
	int64_t lower_bound_ns; /* no order of these jobs on their workers can be shorter, even with
				   free links: the critical path, or a worker's work with what comes
				   before and after it */
	bool bound_in_limits;   /* lower_bound_ns is the schedule's own, larger bound: for orders
				   within its limits, usually of memory, and on its links */
	double throughput;      /* rho = S*B / (L*W), L in units of the mean forward + backward of a
				   stage [Rahimi25] */
	double throughput_bound; /* what the memory-time argument of [Rahimi25, appendix] proves for
				    the peak stash M of this timeline: M * (work of all stages) /
				    (sum of the stages' shortest lifespans), at most 1; on a uniform
				    chain 2M/(S+1). [Rahimi25] writes M/S, counting a pass as a step
				    in the proof and F + B in the table */
	struct orr_steady steady;     /* without a flush, if orr_try_run() made them; else zeros */
	struct orr_numerics numerics; /* the pipeline's: memory of a parameter */
	int n_workers;
	struct orr_worker_figures *worker; /* [n_workers] */
};

/* Refuses a simulated timeline that is shorter than the bound that its schedule gives. */
int orr_figures_create(struct orr_figures **out, const struct orr_timeline *t,
		       struct orr_error *err);
/* Refuse figures above machine->memory_bytes: the message names the worker, the parts of its memory
 * and the cure. */
int orr_figures_check_memory(const struct orr_figures *f, const struct orr_machine *machine,
			     struct orr_error *err);
void orr_figures_destroy(struct orr_figures *f); /* NULL is fine */

ORR_END
#endif
