#pragma once
/* From what losses saw to the scores that are told. */
#include "orrery/run.h"
#include "runtime/tasks/slots.h"

struct orr_scoring {
	const struct orr_work *work;
	struct orr_metrics *sums; /* [n_losses] over the samples that are scored; owned */
	struct orr_loss *losses;  /* [n_losses] what scores lend; owned */
};

void orr_scoring_init(struct orr_scoring *x, const struct orr_work *work);

/* From the sums over n samples. */
struct orr_scores orr_scores_of(struct orr_scoring *x, int64_t n);
/* Of the microbatches from `first` up to before `end` of a slot, n samples, on rank 0; NaN
 * elsewhere. */
struct orr_scores orr_scores_of_slot(struct orr_scoring *x, const struct orr_slot *slot, int first,
				     int end, int64_t n);
