#include "simulate/failures.h"

#include <math.h>

#include "base/json.h"
#include "base/quantity.h"

/* Copies after a number of steps, by each of the ways to find it. */
struct row {
	const char *name, *key;
	int64_t every;
	double goodput;
};
#define N_ROWS 4

static int64_t steps_in(int64_t ns, int64_t step_ns)
{
	return ns < step_ns ? 1 : (ns + step_ns / 2) / step_ns;
}

static void fill(struct row rows[N_ROWS], const struct orr_failures *f, int64_t step_ns)
{
	rows[0] = (struct row){"each step", "each_step", 1, 0};
	rows[1] = (struct row){"best", "best", orr_failures_best(f, step_ns), 0};
	rows[2] = (struct row){"Young", "young", steps_in(orr_failures_young_ns(f), step_ns), 0};
	rows[3] = (struct row){"Daly", "daly", steps_in(orr_failures_daly_ns(f), step_ns), 0};
	for (int i = 0; i < N_ROWS; i++)
		rows[i].goodput = orr_failures_goodput(f, step_ns, rows[i].every);
}

void orr_failures_write(FILE *file, const struct orr_failures *f, int64_t step_ns)
{
	struct row rows[N_ROWS];

	fill(rows, f, step_ns);
	fprintf(file,
		"\nfailures: one in %s on average, a copy takes %s, a restart %s\n"
		"  copies     every steps        time   goodput\n",
		orr_time_text(f->mtbf_ns, f->units), orr_time_text(f->copy_ns, f->units),
		orr_time_text(f->restart_ns, f->units));
	for (const struct row *x = rows; x < rows + N_ROWS; x++)
		fprintf(file, "  %-9s  %11lld  %10s  %7.2f%%\n", x->name, (long long)x->every,
			orr_duration_text(x->every * step_ns, f->units), 100 * x->goodput);
}

json_t *orr_failures_json(const struct orr_failures *f, int64_t step_ns)
{
	json_t *json =
		json_pack("{s:o, s:o, s:o}", "mtbf", orr_json_time(f->mtbf_ns), "copy",
			  orr_json_time(f->copy_ns), "restart", orr_json_time(f->restart_ns));
	struct row rows[N_ROWS];

	fill(rows, f, step_ns);
	/* Elementary functions differ between processors in their last bits. */
	for (const struct row *x = rows; x < rows + N_ROWS; x++)
		orr_json_set(&json, x->key,
			     json_pack("{s:I, s:o}", "every", (json_int_t)x->every, "goodput",
				       orr_json_number(round(x->goodput * 1e6) / 1e6)));
	return json;
}
