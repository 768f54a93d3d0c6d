#include "orrery/machine.h"

#include <math.h>
#include <string.h>

#include "orrery/quantity.h"

static void drop_single(struct orr_levels *levels)
{
	int n = 0;

	for (int l = 0; l < levels->n; l++) {
		if (levels->workers[l] == 1 && (n || l + 1 < levels->n))
			continue;
		levels->workers[n] = levels->workers[l];
		levels->bytes_per_s[n++] = levels->bytes_per_s[l];
	}
	levels->n = n;
}

int orr_levels_parse(struct orr_levels *levels, const char *workers, const char *links,
		     struct orr_error *err)
{
	const char *of = workers, *at = links;
	int n_links = 0, total = 1, code;
	char part[64];

	*levels = (struct orr_levels){0};
	while (of) {
		int64_t count = 0;

		if (levels->n == ORR_MOST_LEVELS)
			return orr_fail(
				err, ORR_E_INPUT,
				"[workers] %.40s: give at most %d levels, innermost first, such as "
				"4x2",
				workers, ORR_MOST_LEVELS);
		if (!*of || *of == 'x')
			return orr_fail(
				err, ORR_E_INPUT,
				"[workers] %.40s: a number is missing beside an x: say 4, or 4x2 "
				"for 2 groups of 4",
				*workers ? workers : "''");
		if ((code = orr_count_next(&count, &of, 'x', 1, 4096, "[workers]", err)))
			return code;
		total *= (int)count;
		if (total > 4096)
			return orr_fail(err, ORR_E_INPUT, "[workers] %.40s: at most 4096 in all",
					workers);
		levels->workers[levels->n++] = (int)count;
	}
	for (; at && n_links < levels->n; n_links++) {
		size_t length = strcspn(at, ",");

		if (length >= sizeof(part))
			break;
		memcpy(part, at, length);
		part[length] = '\0';
		if ((code = orr_rate_parse(&levels->bytes_per_s[n_links], part, "[link]", err)))
			return code;
		at = at[length] ? at + length + 1 : NULL;
	}
	if (!links || (!at && n_links == levels->n)) {
		drop_single(levels);
		return 0;
	}
	return orr_fail(
		err, ORR_E_INPUT,
		"[link] %.60s: [workers] %.40s has %d level%s: give as many links, innermost "
		"first",
		links, workers, levels->n, levels->n == 1 ? "" : "s");
}

int orr_levels_workers(const struct orr_levels *levels)
{
	int n = 1;

	for (int l = 0; l < levels->n; l++)
		n *= levels->workers[l];
	return n;
}

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
