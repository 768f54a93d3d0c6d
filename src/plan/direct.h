#pragma once
/* The cut whose slowest stage is fastest where every two workers have a link of their own: a stage
 * sends what it makes to each stage that reads it, over as many links as the two have pairs of
 * replicas, and gradients come back beside that. What a link carries depends on two stages, so cuts
 * are told apart by which stage made what is still to be read. Private to the planner. */
#include <stdbool.h>
#include "orrery/orrery.h"

struct orr_ideals;

struct orr_direct {
	const struct orr_ideals *ideals;
	int n_workers;
	double bytes_per_s; /* of every link, each way; 0: free */
	bool in_turn;       /* what goes back waits for what goes there */
	bool keeps_room;    /* busy_s depends on left */
	/* seconds per microbatch, without transfers, of what lies between ideals i and j on r
	 * workers, with left for it and all after it; DBL_MAX where it may not be a stage */
	double (*busy_s)(const void *user, int i, int j, int r, int left);
	const void *user;
};

struct orr_direct_stage {
	int from, to, r;
};

/* slowest_s: in, the best known so far; out, the one found. n 0: nothing better; else *stages is
 * the caller's to free. *proven: nothing is better than that, and else the search gave up, after
 * the same number of steps on every run. */
int orr_direct_search(const struct orr_direct *problem, struct orr_direct_stage **stages, int *n,
		      double *slowest_s, bool *proven, struct orr_error *err);
