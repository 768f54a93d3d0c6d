#include "orrery/machine.h"

#include <math.h>

struct orr_machine orr_machine_default(int n_workers)
{
	return (struct orr_machine){.n_workers = n_workers, .flops_per_s = 1e10};
}

/* Of the innermost level that joins the two. */
static double rate_between(const struct orr_machine *m, int from, int to)
{
	for (int l = 0; l + 1 < m->levels.n; l++) {
		from /= m->levels.workers[l];
		to /= m->levels.workers[l];
		if (from == to)
			return m->levels.bytes_per_s[l];
	}
	return m->levels.n ? m->levels.bytes_per_s[m->levels.n - 1] : m->bandwidth_bytes_per_s;
}

int64_t orr_machine_transfer_ns(const struct orr_machine *m, int from, int to, int64_t bytes)
{
	double rate = rate_between(m, from, to);
	int64_t ns = m->latency_ns;

	if (from == to)
		return 0;
	if (rate > 0)
		ns += llround((double)bytes / rate * 1e9);
	return ns;
}

int64_t orr_machine_ring_ns(const struct orr_machine *m, const int *workers, int k, int64_t bytes)
{
	double steps = 2.0 * (k - 1), slowest = 0; /* seconds a byte */

	if (k < 2)
		return 0;
	for (int i = 0; i < k; i++) {
		double rate = rate_between(m, workers[i], workers[(i + 1) % k]);

		if (rate > 0)
			slowest = fmax(slowest, 1 / rate);
	}
	return 2 * (k - 1) * m->latency_ns + llround(steps / k * (double)bytes * slowest * 1e9);
}
