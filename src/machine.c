#include "machine.h"

#include <math.h>

struct orr_machine orr_machine_default(int n_workers)
{
	return (struct orr_machine){.n_workers = n_workers, .flops_per_s = 1e10};
}

int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes)
{
	int64_t ns = m->latency_ns;

	if (from == to)
		return 0;
	if (m->bandwidth_bytes_per_s > 0)
		ns += llround((double)bytes / m->bandwidth_bytes_per_s * 1e9);
	return ns;
}
