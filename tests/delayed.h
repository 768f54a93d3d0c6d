#pragma once
/* Training with delayed updates as [Narayanan19] section 3.3 writes it: one microbatch after the
 * other, forward through all stages and backward again, in one thread, with every version of the
 * parameters that ever was. Which version a microbatch reads is a formula here: no order of jobs,
 * no schedule, no versions.h, no StarPU.
 *
 * What it has in common with the engine, because bits are compared: the stage programs that
 * src/runtime/devices/compile.c makes and codelets/ computes (orr_program_*, optimizer.h), and
 * the order of the rows (orr_dataset_rows). Those are checked against plain loops by test_program.c
 * and test_kernels.c. */
#include <stdint.h>
#include "../codelets/optimizer.h"

struct orr_dataset;
struct orr_pipeline;

enum delayed_sync { DELAYED_STASHING, DELAYED_VERTICAL, DELAYED_NONE };

struct delayed_options {
	enum delayed_sync sync;
	int accumulate;
	const int *replicas; /* [n_stages] */
	const int *ahead;    /* [n_stages] microbatches on a replica between F and B of one, itself
				included */
	int samples;         /* of a microbatch */
	uint64_t seed;
	struct orr_rule rule;
};

/* The parameters in the order of the operators, after so many microbatches, and the loss of each
 * (its mean; may be NULL). */
void delayed_train(const struct orr_pipeline *p, const struct orr_dataset *data,
		   const struct delayed_options *options, int64_t n_microbatches, float *parameters,
		   double *losses);
