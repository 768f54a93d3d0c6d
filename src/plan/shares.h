#pragma once
/* Microbatches shared by workers that differ. Private to the planner. */
#include <stdint.h>

struct orr_machine;

/* What workers that differ share: a microbatch of work_s, by speed, and an mth of an update, which
 * each does; start_s of either are as long on every worker. */
struct orr_share {
	double work_s, start_s, update_s, update_start_s;
	int n_microbatches;
};

/* Workers that share, joined one by one, each in a time that does not grow with their number. */
struct orr_sharing {
	const struct orr_machine *machine;
	const int *workers;
	int n;
	int64_t memory_bytes; /* the least of them; 0: they have no limit */
	double rate, updates; /* sums over the workers */
	double free_update_s; /* of the first one on which the work takes no time; -1: on none */
};

struct orr_sharing orr_sharing_of(const struct orr_machine *machine, const int *workers);
/* The next worker. */
void orr_sharing_join(struct orr_sharing *gang, const struct orr_share *share);
/* parts: an update of each worker is one of so many parts of the share's. */
double orr_sharing_each_s(const struct orr_sharing *gang, const struct orr_share *share, int parts);
