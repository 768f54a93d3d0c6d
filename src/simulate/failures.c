#include "failures.h"

#include <math.h>
#include <string.h>

#include "base/quantity.h"
#include "orrery/figures.h"
#include "orrery/pipeline.h"

#define LONGEST_NS INT64_C(1000000000000000000) /* products with it can still be counted */

enum { EVERY = 3, N_KEYS = 5 };

/* "T:copy=T,restart=T", and of n values more the keys that are there, in any order. 1: it is not
 * written so. */
static int parse(int64_t *const *values, int n, bool *units, const char *text, const char *what,
		 struct orr_error *err)
{
	static const char *const keys[N_KEYS] = {"", "copy=", "restart=", "every=", "for="};
	bool seen[N_KEYS] = {false};
	char part[64];

	for (int i = 0; i < n;) {
		size_t key = strlen(keys[i]), length = strcspn(text, i ? "," : ":");
		bool plain = false;
		int code;

		if (seen[i] || length - key >= sizeof(part))
			return 1;
		seen[i] = true;
		(void)snprintf(part, sizeof(part), "%.*s", (int)(length - key), text + key);
		code = i == EVERY ? orr_count_parse(values[i], part, 1, LONGEST_NS, what, err)
				  : orr_duration_parse(values[i], &plain, part, what, err);
		if (code)
			return code;
		if (*values[i] > LONGEST_NS || (i && i != EVERY && plain != *units))
			return 1;
		*units = i ? *units : plain;
		text += length + (text[length] && text[length + 1]); /* one at the end stays */
		for (i = 1; i < n && strncmp(text, keys[i], strlen(keys[i]));)
			i++;
	}
	return *text || !seen[1] || !seen[2];
}

int orr_failures_parse(struct orr_failures *f, const char *text, const char *what,
		       struct orr_error *err)
{
	int64_t *const values[] = {&f->mtbf_ns, &f->copy_ns, &f->restart_ns};
	int code = parse(values, EVERY, &f->units, text, what, err);

	if (code < 0 || (!code && f->mtbf_ns && f->copy_ns))
		return code;
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

/* ---- one of them ---- */

int orr_outage_parse(struct orr_outage *outage, const char *text, const char *what,
		     struct orr_error *err)
{
	int64_t *const values[N_KEYS] = {&outage->at_ns, &outage->copy_ns, &outage->restart_ns,
					 &outage->every, &outage->for_ns};
	const char *at = strchr(text, '@');
	char worker[16];
	int code = 1;

	*outage = (struct orr_outage){.every = 1};
	if (at && at - text < (int)sizeof(worker)) {
		(void)snprintf(worker, sizeof(worker), "%.*s", (int)(at - text), text);
		if ((code = orr_count_parse(&outage->w, worker, 0, INT32_MAX, what, err)))
			return code;
		code = parse(values, N_KEYS, &outage->units, at + 1, what, err);
	}
	if (code == 1)
		return orr_fail(err, ORR_E_INPUT,
				"%s: write the worker, when it is lost, and the times of a copy "
				"and of a restart, up to 1e9 s, all with or all without units: "
				"2@1.5s:copy=2s,restart=5s, then every=10 and for=30s as needed",
				what);
	if (!code && strstr(at, "for=") && outage->for_ns <= outage->restart_ns)
		return orr_fail(err, ORR_E_INPUT,
				"%s: for= ends before the restart does, so all workers are there "
				"when steps are run again: leave it out",
				what);
	return code;
}

int orr_outage_step(int64_t *step_ns, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, enum orr_run_order order,
		    struct orr_error *err)
{
	struct orr_try tried;
	int code;

	if (!(code = orr_try_init_in(&tried, p, schedule, NULL, order, err)) &&
	    !(code = orr_try_run(&tried, err)) &&
	    !(code = orr_figures_check_memory(tried.figures, &p->machine, err)))
		*step_ns = tried.figures->makespan_ns;
	orr_try_fini(&tried);
	return code;
}

/* What a step beside a copy takes more. */
static int64_t wait_ns(const struct orr_outage *outage, int64_t step_ns)
{
	return outage->copy_ns > step_ns ? outage->copy_ns - step_ns : 0;
}

int64_t orr_outage_run_ns(const struct orr_outage *outage, int64_t step_ns, int64_t a, int64_t b)
{
	return b > a ? (b - a) * step_ns + ((b - 1) / outage->every - a / outage->every) *
						   wait_ns(outage, step_ns)
		     : 0;
}

/* Steps that end in so long, from step 0. */
static int64_t count_steps(const struct orr_outage *outage, int64_t step_ns, int64_t ns)
{
	int64_t period_ns = outage->every * step_ns + wait_ns(outage, step_ns);
	int64_t rest = ns % period_ns / step_ns;

	return ns / period_ns * outage->every + (rest < outage->every ? rest : outage->every);
}

int orr_outage_follow(struct orr_recovery *r, const struct orr_outage *outage, int64_t step_ns,
		      int64_t fewer_ns, struct orr_error *err)
{
	int64_t longest = step_ns > fewer_ns ? step_ns : fewer_ns, again_ns, to;

	if (longest > LONGEST_NS || outage->every > LONGEST_NS / longest)
		return orr_fail(err, ORR_E_INPUT,
				"[lose]: every= steps take longer than 1e9 s: give fewer");
	*r = (struct orr_recovery){
		.of = outage, .step_ns = step_ns, .fewer_ns = outage->for_ns ? fewer_ns : 0};
	r->done = count_steps(outage, step_ns, outage->at_ns);
	r->into_ns = outage->at_ns - orr_outage_run_ns(outage, step_ns, 0, r->done);
	r->from = r->done / outage->every * outage->every;
	if (r->from && r->from == r->done && r->into_ns < outage->copy_ns) /* not yet counted */
		r->from -= outage->every;
	r->all_ns = again_ns = outage->at_ns + outage->restart_ns;
	if (outage->for_ns) { /* as if from step 0, where a copy was, too */
		r->fewer =
			count_steps(outage, fewer_ns, outage->for_ns - outage->restart_ns - 1) + 1;
		r->all_ns += orr_outage_run_ns(outage, fewer_ns, 0, r->fewer) + outage->copy_ns +
			     outage->restart_ns;
	}
	if (r->fewer > LONGEST_NS / step_ns)
		return orr_fail(err, ORR_E_INPUT,
				"[lose]: for= has more steps than can be counted: make it shorter");
	to = r->from + r->fewer;
	r->next_ns = r->done < to
			     ? again_ns + orr_outage_run_ns(outage, fewer_ns, r->from, r->done + 1)
			     : r->all_ns + orr_outage_run_ns(outage, step_ns, to, r->done + 1);
	r->lost_ns = r->all_ns + orr_outage_run_ns(outage, step_ns, to, to + 1) -
		     orr_outage_run_ns(outage, step_ns, 0, to + 1);
	return 0;
}
