#include "failures.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"

#define LONGEST_NS INT64_C(1000000000000000000) /* products with it can still be counted */

int orr_failures_parse(struct orr_failures *f, const char *text, const char *what,
		       struct orr_error *err)
{
	const char *const keys[] = {"", "copy=", "restart="};
	int64_t *const values[] = {&f->mtbf_ns, &f->copy_ns, &f->restart_ns};
	bool units[3] = {false};
	char part[64];

	for (int i = 0; i < 3; i++) {
		size_t key = strlen(keys[i]), n = strcspn(text, i ? "," : ":");

		if (strncmp(text, keys[i], key) || n - key >= sizeof(part))
			break;
		(void)snprintf(part, sizeof(part), "%.*s", (int)(n - key), text + key);
		if (orr_duration_parse(values[i], &units[i], part, what, err))
			return ORR_E_INPUT;
		if ((!*values[i] && i < 2) || *values[i] > LONGEST_NS || units[i] != units[0])
			break;
		text += n + (i < 2 && text[n]);
		if (i == 2 && !*text) {
			f->units = units[0];
			return 0;
		}
	}
	return orr_fail(
		err, ORR_E_INPUT,
		"%s: write the mean time between failures, that of a copy, above 0, and of "
		"a restart, up to 1e9 s, all with or all without units: 3h:copy=2s,restart=30s",
		what);
}

/* One failure in so long on average: its expected time is M e^(R/M) (e^((T+C)/M) - 1) for T of use.
 */
double orr_failures_goodput(const struct orr_failures *f, int64_t step_ns, int64_t every)
{
	double mean = (double)f->mtbf_ns, use = (double)step_ns * (double)every / mean;

	return use / (exp((double)f->restart_ns / mean) * expm1(use + (double)f->copy_ns / mean));
}

/* The expectation rises while x < 1 - e^-(x + c), for x of use and c of a copy in terms of the
 * mean: its own differences are lost in rounding where steps are short, and it is 0 after long
 * restarts. */
int64_t orr_failures_best(const struct orr_failures *f, int64_t step_ns)
{
	double mean = (double)f->mtbf_ns, copy = (double)f->copy_ns / mean;
	double step = (double)step_ns / mean, all;
	int64_t low = 1, high = f->mtbf_ns / step_ns + 1; /* longer than the mean is never best */

	while (low < high) {
		int64_t k = low + (high - low) / 2;
		double use = step * (double)k;

		if (use < -expm1(-(use + copy)))
			low = k + 1;
		else
			high = k;
	}
	/* the first behind the top, or the last before it */
	all = step * (double)low + copy;
	return low > 1 && 1 - 1 / (double)low >= exp(-step) * expm1(step - all) / expm1(-all)
		       ? low - 1
		       : low;
}

int64_t orr_failures_young_ns(const struct orr_failures *f)
{
	return (int64_t)sqrt(2 * (double)f->copy_ns * (double)f->mtbf_ns);
}

int64_t orr_failures_daly_ns(const struct orr_failures *f)
{
	double copy = (double)f->copy_ns, mean = (double)f->mtbf_ns, part = copy / (2 * mean);

	return part >= 1
		       ? f->mtbf_ns
		       : (int64_t)(sqrt(2 * copy * mean) * (1 + sqrt(part) / 3 + part / 9) - copy);
}
