#ifndef ORR_RESULT_H
#define ORR_RESULT_H
/* What a run comes to, as run.h and reports have it. */
#include <stdint.h>
#include "orrery.h"

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

#endif
