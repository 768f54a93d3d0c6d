#pragma once
/* The parameters that weight decay leaves alone: biases and what norms learn; and running means. */
#include "codelets/optimizer.h"
#include "runtime/tasks/work.h"

struct orr_spared {
	struct orr_exempt *extents; /* of stage s from first[s] up to first[s + 1] */
	int *first;                 /* [n_stages + 1] */
};

/* none: all decay but running means. */
void orr_spared_init(struct orr_spared *spared, const struct orr_work *work, bool none);
/* Those of stage s. */
const struct orr_exempt *orr_spared_of(const struct orr_spared *spared, int s, int *n);
