#pragma once
/* The order of one microbatch that holds least. Taking the microbatches one by one in it holds no
 * more, and no order of several holds less, since what it does with one of them would do for that
 * one alone. Private to the search. */
#include <stdbool.h>
#include <stdint.h>
#include "orrery/orrery.h"
#include "timed.h"

struct orr_smallest {
	int64_t *n;     /* [n_stages * ORR_N_PASSES] of the jobs of a microbatch, from 0 on; the
			   caller's */
	int64_t excess; /* stashes, or bytes, that its fullest worker holds above what it may; at
			   most 0: it fits */
	bool exact;     /* fits, or no order has less excess */
};

/* On timed's workers, within its limit and room_bytes. Fills all but n, and what n has room for. */
int orr_smallest_find(struct orr_smallest *out, const struct orr_timed *timed,
		      struct orr_error *err);
