#pragma once
/* What memory makes wait for an earlier microbatch: edges that bounds add to those of the DAG.
 * Private to the bounds. */
#include <stdint.h>
#include "base/arrays.h"
#include "orrery/orrery.h"
#include "timed.h"

/* Pass d of stage `ended` of microbatch i, then lag_ns, then F of stage `started` of microbatch
 * i + apart. */
struct orr_cap {
	int started, ended, apart;
	enum orr_pass d;
	int64_t lag_ns;
	int next_started, next_ended; /* of the same stage; -1: the last */
};

struct orr_caps {
	int *own; /* [n_stages] microbatches whose stash the stage holds at most */
	struct orr_cap *list;
	int n, room;
	int *started, *ended; /* [n_stages] the first of a stage; -1: none */
	struct orr_arrays all;
};

/* By timed's limits. duration: [n_jobs] at least. Where microbatches differ, nothing is capped. */
int orr_caps_init(struct orr_caps *caps, const struct orr_timed *timed, const int64_t *duration,
		  struct orr_error *err);
void orr_caps_fini(struct orr_caps *caps); /* all zeros is fine */
