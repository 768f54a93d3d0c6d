#pragma once
/* The CPU cores and CUDA devices that serve the workers of a run. */
#include "orrery/orrery.h"
#include "orrery/figures.h"

ORR_BEGIN

struct orr_run;

/* The number of CUDA devices that a run can use in this process. 0: none, and why, of size bytes,
 * gets the reason in a few words; -1: this build is for CPU cores alone, and why gets what it
 * lacks. why may be NULL. */
int orr_run_devices(char *why, size_t size);

/* What computes on a CPU core, chosen by what the processor can do. */
struct orr_core {
	char library[32];     /* of products: "oneDNN 2.6.3" */
	const char *products; /* its instructions: "AVX-512 with bfloat16" */
	const char *loops;    /* those of everything else: "AVX-512" */
	bool slow;            /* an x86 processor without AVX2, or one that is told so */
	bool bf16;            /* it multiplies bfloat16; if not, BF16 is no faster than FP32 */
};
/* False: this build has no kernels. */
bool orr_run_core(struct orr_core *core);

/* What serves the workers: all ranks call it together. places[n_workers] is the caller's; rank 0
 * gets all of them, another rank those of its own workers. */
int orr_run_mapping(struct orr_run *run, struct orr_mapping *places, struct orr_error *err);

/* Fill moved[most] of this rank, in the order of the memories; returns the number of entries. */
int orr_run_moved(const struct orr_run *run, struct orr_moved *moved, int most);

ORR_END
