#include "simulate/failures.h"

#include <math.h>

#include "base/json.h"
#include "base/quantity.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"

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

/* ---- one of them ---- */

/* "2B3": the job that worker w is in so long after the step began; NULL: none. */
static const char *find_job(const struct orr_timeline *t, int w, int64_t into_ns)
{
	const struct orr_jobs *jobs = t->jobs;
	int64_t first_ns = INT64_MAX;

	for (int j = 0; j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j) && t->start_ns[j] < first_ns)
			first_ns = t->start_ns[j];
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);

		if (orr_jobs_has(jobs, j) && orr_jobs_number_at(jobs, j, w) >= 0 &&
		    t->start_ns[j] - first_ns <= into_ns && into_ns < t->end_ns[j] - first_ns)
			return orr_text("%d%c%d", job.s, orr_pass_letter(job.d), job.b);
	}
	return NULL;
}

void orr_outage_write(FILE *file, const struct orr_recovery *r, const struct orr_timeline *t)
{
	const struct orr_outage *outage = r->of;
	const char *job = find_job(t, (int)outage->w, r->into_ns);
	int n = t->jobs->pipeline->n_workers;
	long long step = (long long)r->done + 1;

	fprintf(file, "\nlost: worker %lld of %d at %s, in step %lld after %s of it, %s%s\n",
		(long long)outage->w, n, orr_time_text(outage->at_ns, outage->units), step,
		orr_time_text(r->into_ns, outage->units), job ? "computing " : "in no job",
		job ? job : "");
	fprintf(file,
		"  goes on    at %s, from %s: %s until the loss is seen and steps run again\n",
		orr_time_text(outage->at_ns + outage->restart_ns, outage->units),
		r->from ? orr_text("step %lld, the newest copy", (long long)r->from)
			: "the beginning",
		orr_time_text(outage->restart_ns, outage->units));
	fprintf(file, "  run twice  %s, and %s of step %lld\n",
		orr_count_text(r->done - r->from, "step"), orr_time_text(r->into_ns, outage->units),
		step);
	fprintf(file, "  caught up  step %lld ends at %s, %s after the loss\n", step,
		orr_time_text(r->next_ns, outage->units),
		orr_time_text(r->next_ns - outage->at_ns, outage->units));
	if (r->fewer)
		fprintf(file,
			"  fewer      %s on %s, of %s, %.2f times %s; on all again at %s, after a "
			"copy and a restart\n",
			orr_count_text(r->fewer, "step"), orr_count_text(n - 1, "worker"),
			orr_time_text(r->fewer_ns, outage->units),
			(double)r->fewer_ns / (double)r->step_ns,
			orr_time_text(r->step_ns, outage->units),
			orr_time_text(r->all_ns, outage->units));
	fprintf(file, "  time lost  %s in all\n", orr_time_text(r->lost_ns, outage->units));
}

json_t *orr_outage_json(const struct orr_recovery *r, const struct orr_timeline *t)
{
	const struct orr_outage *outage = r->of;
	json_t *json = json_pack(
		"{s:I, s:o, s:I, s:o, s:s?, s:I, s:o, s:I, s:o, s:o, s:o}", "worker",
		(json_int_t)outage->w, "at", orr_json_time(outage->at_ns), "step",
		(json_int_t)r->done + 1, "into_step", orr_json_time(r->into_ns), "job",
		find_job(t, (int)outage->w, r->into_ns), "from_step", (json_int_t)r->from,
		"goes_on", orr_json_time(outage->at_ns + outage->restart_ns), "run_twice",
		(json_int_t)(r->done - r->from), "caught_up", orr_json_time(r->next_ns),
		"step_time", orr_json_time(r->step_ns), "time_lost", orr_json_time(r->lost_ns));

	if (r->fewer)
		orr_json_set(&json, "fewer",
			     json_pack("{s:i, s:I, s:o, s:o}", "workers",
				       t->jobs->pipeline->n_workers - 1, "steps",
				       (json_int_t)r->fewer, "step_time",
				       orr_json_time(r->fewer_ns), "all_again",
				       orr_json_time(r->all_ns)));
	return json;
}
