#pragma once
/* Durations of operators on this machine: alone, or while the whole model runs. Without StarPU and
 * oneDNN both return ORR_E_UNSUPPORTED. */
#include "orrery/run.h"
#include "orrery/orrery.h"

ORR_BEGIN

struct orr_pipeline;

/* Time F, B, W and U of every stage of p, each alone on one core or the first CUDA device, as
 * options->hardware says, with batch / n_microbatches samples, and write the medians into p's
 * stages, and p->profiled. In BF16 weights are rounded as in training, once for an update, which
 * includes it. ORR_E_INPUT: the stages have costs and no operators, or there is no device. */
int orr_run_measure(struct orr_pipeline *p, const struct orr_run_options *options,
		    struct orr_error *err);

/* The result of a profile beside the durations in the stages. */
struct orr_profile {
	int *spread_percent; /* owned; [n_stages] interquartile range of F's durations, in percent
				of their median */
	int64_t overhead_ns; /* median time from the end of a job to the start of the next one on
				its worker, where that waits for nothing else, and on a device
				what a job takes above its operator alone: starting it, and seeing
				that it has ended; operators' own overhead_ns is set to 0 */
	int n_steps;         /* steps that were measured */
};

/* Train a made-up data set with a learning rate of 0 and write the medians over microbatches and
 * steps into operators' stages. operators: one operator a stage, its step set, with the durations
 * of orr_run_measure, which divide a backward into B and W. blocks: the same graph and step, cut
 * into larger stages; they run under 1F1B, and their workers compute the operators one by one, with
 * caches and memory shared as in training. CUDA devices share neither, and a job of one operator is
 * little more than its start: operators keep their durations of orr_run_measure there, and the run
 * tells the overhead. On failure *out owns nothing. */
int orr_run_profile(struct orr_profile *out, struct orr_pipeline *operators,
		    const struct orr_pipeline *blocks, const struct orr_run_options *options,
		    struct orr_error *err);
void orr_profile_fini(struct orr_profile *profile);

ORR_END
