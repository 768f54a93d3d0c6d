#ifndef ORR_PROFILE_H
#define ORR_PROFILE_H
/* What operators take while a model runs: every worker busy, caches as full and memory as wanted as
 * they will be, and between two jobs what the engine takes. */
#include <stdint.h>
#include "run.h"

struct orr_profile {
	int *spread_percent; /* owned; [n_stages] of F: what the middle half of its times spans, of
				the median */
	int64_t overhead_ns; /* from the end of a job to the start of the next, where nothing else
				was waited for: the median; also in the pipeline */
	int n_steps;         /* that were measured */
};

/* operators: a stage an operator, its step set, with the times of orr_run_measure, which tell the
 * two halves of a backward apart. blocks: the same graph cut into larger stages, its step the same:
 * 1F1B runs them on its workers, job by job of the operators. Medians over microbatches and steps
 * go into the operators' stages. The data is made up, and parameters stay. */
int orr_run_profile(struct orr_profile *out, struct orr_pipeline *operators,
		    const struct orr_pipeline *blocks, const struct orr_run_options *options,
		    struct orr_error *err);
void orr_profile_fini(struct orr_profile *profile);
#endif
