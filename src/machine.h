#ifndef ORR_MACHINE_H
#define ORR_MACHINE_H
/* A machine: how many workers, how much memory each has, and what a transfer between two of them costs. */
#include <stdint.h>

struct orr_machine {
	int n_workers;
	int64_t memory_bytes;         /* per worker; 0: no limit */
	int64_t latency_ns;           /* per transfer */
	double bandwidth_bytes_per_s; /* per link, one between any two workers; 0: infinite */
	double flops_per_s;           /* charged for operators that nobody has measured */
};

/* What costs nothing: no limit, free links, and 10 GFLOP/s for what was not measured. */
struct orr_machine orr_machine_default(int n_workers);

/* How long bytes take from one worker to another; 0 on the same worker. The link is busy meanwhile. */
int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes);
#endif
