#include "simulate/failures.h"

#include <math.h>

#include "base/json.h"
#include "base/quantity.h"

#define N_DRAWN 100000

/* Copies after a number of steps, by each of the ways to find it. */
struct row {
	const char *name;
	int64_t every;
};
#define N_ROWS 4

static int64_t steps_in(int64_t ns, int64_t step_ns)
{
	return ns < step_ns ? 1 : (ns + step_ns / 2) / step_ns;
}

static void fill(struct row rows[N_ROWS], const struct orr_failures *f, int64_t step_ns)
{
	rows[0] = (struct row){"each step", 1};
	rows[1] = (struct row){"best", orr_failures_best(f, step_ns)};
	rows[2] = (struct row){"Young", steps_in(orr_failures_young_ns(f), step_ns)};
	rows[3] = (struct row){"Daly", steps_in(orr_failures_daly_ns(f), step_ns)};
}

void orr_failures_write(FILE *file, const struct orr_failures *f, int64_t step_ns)
{
	struct row rows[N_ROWS];

	fill(rows, f, step_ns);
	fprintf(file,
		"\nfailures: one in %s on average, a copy takes %s, a restart %s; %d drawn\n"
		"  %-9s  %11s  %10s  %8s  %8s\n",
		orr_time_text(f->mtbf_ns, f->units), orr_time_text(f->copy_ns, f->units),
		orr_time_text(f->restart_ns, f->units), N_DRAWN, "copies", "every steps", "time",
		"goodput", "drawn");
	for (const struct row *x = rows; x < rows + N_ROWS; x++)
		fprintf(file, "  %-9s  %11lld  %10s  %7.2f%%  %7.2f%%\n", x->name,
			(long long)x->every, orr_duration_text(x->every * step_ns, f->units),
			100 * orr_failures_goodput(f, step_ns, x->every),
			100 * orr_failures_draw(f, step_ns, x->every, N_DRAWN));
}

/* Elementary functions differ between processors in their last bits. */
static json_t *share(double goodput)
{
	return orr_json_number(round(goodput * 1e6) / 1e6);
}

json_t *orr_failures_json(const struct orr_failures *f, int64_t step_ns)
{
	static const char *const keys[] = {"each_step", "best", "young", "daly"};
	json_t *json = json_pack("{s:o, s:o, s:o, s:i}", "mtbf", orr_json_time(f->mtbf_ns), "copy",
				 orr_json_time(f->copy_ns), "restart", orr_json_time(f->restart_ns),
				 "drawn", N_DRAWN);
	struct row rows[N_ROWS];

	fill(rows, f, step_ns);
	for (int i = 0; i < N_ROWS; i++)
		orr_json_set(
			&json, keys[i],
			json_pack("{s:I, s:o, s:o}", "every", (json_int_t)rows[i].every, "goodput",
				  share(orr_failures_goodput(f, step_ns, rows[i].every)), "drawn",
				  share(orr_failures_draw(f, step_ns, rows[i].every, N_DRAWN))));
	return json;
}
