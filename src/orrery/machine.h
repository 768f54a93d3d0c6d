#ifndef ORR_MACHINE_H
#define ORR_MACHINE_H
/* A machine: the number of workers, the memory of each, and the cost of a transfer between two. */
#include <stdint.h>
#include "error.h"

ORR_BEGIN

#define ORR_MOST_LEVELS 4

/* Links by level: level 0 joins workers[0] workers by links of bytes_per_s[0], level 1 joins
 * workers[1] of those groups, and so on. */
struct orr_levels {
	int n;
	int workers[ORR_MOST_LEVELS];
	double bytes_per_s[ORR_MOST_LEVELS]; /* 0: free */
};

/* "4x4" and "10GB/s,1.25GB/s", NULL: free links. Refuses links that do not match the levels. Levels
 * of one worker have no links and are dropped. */
int orr_levels_parse(struct orr_levels *levels, const char *workers, const char *links,
		     struct orr_error *err);
int orr_levels_workers(const struct orr_levels *levels);

struct orr_machine {
	int n_workers;
	int64_t memory_bytes;         /* per worker; 0: no limit */
	int64_t latency_ns;           /* per transfer */
	double bandwidth_bytes_per_s; /* per link, one between any two workers; 0: infinite; the
					 slowest, where they differ: */
	struct orr_levels levels;     /* (optional) then these; n 0: they do not */
	double flops_per_s;           /* charged for operators without measured costs */
};

/* No memory limit, free links, and 10 GFLOP/s for operators without measured costs. */
struct orr_machine orr_machine_default(int n_workers);

/* Duration of a transfer, for which the link is busy; 0 within a worker. */
int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes);

/* Duration of a ring all-reduce of bytes over k workers: 2 (k - 1) steps, in each of which every
 * worker sends 1/k of the bytes to the next, at the speed of the slowest link. 0 for one worker. */
int64_t orr_machine_ring_ns(const struct orr_machine *m, const int *workers, int k, int64_t bytes);

ORR_END
#endif
