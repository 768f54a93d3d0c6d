#include "seeds.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/jobs.h"
#include "orrery/orrery.h"
#include "orrery/schedule.h"
#include "orrery/try.h"
#include "schedule/parameter_values.h"
#include "base/max.h"
#include "base/sort.h"
#include "orrery/timeline.h"
#include "periodic.h"

#define SWEPT INT64_C(6000000) /* jobs that the values of a parameter may lay out together */
#define SEARCHED 16            /* times fewer, of a schedule that lays out all jobs at once */
#define MOST_MEMORIES 4        /* limits of memory that schedules search orders for */

/* The workers of the stages of microbatch 0; false: one is none. */
static bool find_workers(const struct orr_schedule *schedule, const struct orr_pipeline *p,
			 int *worker)
{
	bool exist = true;

	for (int s = 0; s < p->n_stages; s++) {
		worker[s] = schedule->compute(p, s, 0, ORR_PASS_F, schedule->data);
		exist = exist && worker[s] >= 0 && worker[s] < p->n_workers;
	}
	return exist;
}

/* One worker a stage, which owns it, and B as long as the pipeline says. */
static bool suits(const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++)
		if (jobs->compute[j] != jobs->compute[orr_jobs_at(jobs, j).s * jobs->n_passes] ||
		    jobs->weights[j] != jobs->compute[j])
			return false;
	for (int s = 0; s < p->n_stages; s++)
		if (jobs->recompute[s] != p->stages[s].recompute)
			return false;
	return true;
}

/* A strict order as it is: equal n on different workers stay equal, since transfers that are asked
 * for at one time go by n. A greedy one as it ran. A whole backward becomes B and W, one after the
 * other. */
static int number(int64_t *n, const struct orr_jobs *jobs, const struct orr_timeline *timeline,
		  struct orr_error *err)
{
	bool strict = jobs->order == ORR_ORDER_STRICT;
	struct orr_keyed *keyed = malloc((size_t)jobs->n_jobs * sizeof(*keyed));
	int64_t at = -2;
	int n_keyed = 0, code;

	if (!keyed)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d jobs", jobs->n_jobs);
	for (int w = 0; w < jobs->pipeline->n_workers; w++)
		for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
			int j = jobs->by_worker[i];

			if (jobs->compute[j] == w) /* of a gang once */
				keyed[n_keyed++] = (struct orr_keyed){
					strict ? jobs->priority[j] : timeline->start_ns[j], j};
		}
	code = orr_sort(keyed, n_keyed, err);
	for (int i = 0; !code && i < n_keyed; i++) {
		struct orr_job job = orr_jobs_at(jobs, keyed[i].value);
		int64_t j = ((int64_t)job.b * jobs->pipeline->n_stages + job.s) * ORR_N_PASSES +
			    (int)job.d;

		if (!strict || !i || keyed[i].key != keyed[i - 1].key)
			at += 2;
		n[j] = at;
		if (jobs->n_passes == 2 && job.d == ORR_PASS_B)
			n[j + 1] = at + 1;
	}
	for (int64_t i = 0;
	     i < (int64_t)jobs->pipeline->n_stages * jobs->pipeline->n_microbatches * ORR_N_PASSES;
	     i++)
		if (n[i] < 0) /* there is no such job: as F, and then, if anybody looks */
			n[i] = n[i - i % ORR_N_PASSES];
	free(keyed);
	return code;
}

void orr_seeds_limit(struct orr_seeds *seeds, int64_t bytes)
{
	const struct orr_pipeline *p = seeds->p;
	int64_t least = INT64_MAX, most = 1, all = (int64_t)p->n_stages * p->n_microbatches;

	for (int64_t i = 0; i < all; i++) {
		int64_t stash =
			orr_pipeline_stash_bytes(p, (int)(i % p->n_stages), (int)(i / p->n_stages));

		most = larger(most, stash);
		least = stash > 0 && stash < least ? stash : least;
	}
	if (least == INT64_MAX)
		return;
	seeds->least_stashes = larger(1, smaller(bytes / most, all));
	seeds->most_stashes = larger(1, smaller(bytes / least, all));
}

int orr_seeds_rename(int *alike, const int *worker, const struct orr_pipeline *p,
		     struct orr_error *err)
{
	int *name = calloc((size_t)p->n_workers, sizeof(*name)), n = 0; /* + 1 */
	bool named = orr_pipeline_has_gangs(p); /* by the model: then they differ */

	if (!name)
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d workers", p->n_workers);
	for (int s = 0; s < p->n_stages; s++) {
		int w = worker[s];

		if (!name[w])
			name[w] = named || p->machine.cluster ? w + 1 : ++n;
		alike[s] = name[w] - 1;
	}
	free(name);
	return 0;
}

int orr_seeds_add(const struct orr_seeds *seeds, const struct orr_jobs *jobs,
		  const struct orr_timeline *timeline, struct orr_error *err)
{
	const struct orr_pipeline *p = seeds->p;
	size_t n_jobs = (size_t)p->n_stages * (size_t)p->n_microbatches * ORR_N_PASSES;
	int64_t *n = malloc(n_jobs * sizeof(*n));
	int *worker = malloc((size_t)p->n_stages * sizeof(*worker)), code = 0;

	if (!n || !worker) {
		code = orr_fail(err, ORR_E_NOMEM, "search: no memory for %zu jobs", n_jobs);
		goto out;
	}
	if (!suits(jobs))
		goto out;
	for (size_t i = 0; i < n_jobs; i++)
		n[i] = -1;
	for (int s = 0; s < p->n_stages; s++)
		worker[s] = jobs->compute[s * jobs->n_passes];
	if (!(code = orr_seeds_rename(worker, worker, p, err)) &&
	    !(code = number(n, jobs, timeline, err)))
		code = seeds->visit(seeds->user, worker, n);
out:
	free(n);
	free(worker);
	return code;
}

int orr_seeds_lay_out(const struct orr_seeds *seeds, const struct orr_schedule *schedule,
		      struct orr_error *err)
{
	struct orr_error why = {""};
	struct orr_try tried;
	int code = orr_try_init(&tried, seeds->p, schedule, NULL, &why);

	if (code)
		return code == ORR_E_NOMEM ? orr_fail(err, code, "%s", why.msg) : 0;
	if (tried.jobs->order == ORR_ORDER_GREEDY)
		code = orr_try_time(&tried, err);
	if (!code)
		code = orr_seeds_add(seeds, tried.jobs, tried.timeline, err);
	orr_try_fini(&tried);
	return code;
}

static int try_schedule(const struct orr_seeds *seeds, const struct orr_schedule *schedule,
			const struct orr_value *value, struct orr_error *err)
{
	const struct orr_pipeline *p = seeds->p;
	struct orr_schedule with = *schedule;
	struct orr_error why = {""};
	int *worker, code = 0;

	if (orr_parameters_count(&with))
		with.data = value;
	if (with.check && with.check(p, with.data, &why))
		return 0;
	if (!(worker = malloc((size_t)p->n_stages * sizeof(*worker))))
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d stages", p->n_stages);
	if (find_workers(&with, p, worker) && (orr_pipeline_settle(p, worker, 1), true) &&
	    !(code = orr_seeds_rename(worker, worker, p, err)) &&
	    seeds->wanted(seeds->user, worker))
		code = orr_seeds_lay_out(seeds, &with, err);
	free(worker);
	return code;
}

/* ---- parameters ---- */

/* Not a search itself, and not asynchronous: the strength of those is no makespan. */
static bool is_seed(const struct orr_schedule *schedule)
{
	return schedule->compute && !schedule->asynchronous;
}

static int64_t most_values(const struct orr_seeds *seeds, const struct orr_schedule *schedule,
			   int i)
{
	const struct orr_pipeline *p = seeds->p;
	int64_t n_jobs = (int64_t)p->n_stages * p->n_microbatches * ORR_N_PASSES;

	if (schedule->parameters[i].kind == ORR_PARAMETER_STASHES)
		return MOST_MEMORIES;
	return larger(MOST_MEMORIES, SWEPT / n_jobs / (schedule->place ? SEARCHED : 1));
}

struct range {
	int64_t first, last;
};

/* The values of a number that can make a difference; of a period, see try_periods(). */
static struct range range_of(const struct orr_seeds *seeds, const struct orr_parameter *parameter)
{
	struct range range = {(int64_t)parameter->low, (int64_t)parameter->high};

	if (parameter->kind == ORR_PARAMETER_MICROBATCHES)
		range.last = seeds->p->n_microbatches;
	if (parameter->kind == ORR_PARAMETER_WORKERS)
		range.last = seeds->p->n_workers;
	if (parameter->kind == ORR_PARAMETER_STASHES)
		range = (struct range){seeds->least_stashes,
				       seeds->most_stashes ? seeds->most_stashes : -1};
	range.first = larger(range.first, (int64_t)parameter->low);
	range.last = smaller(range.last, (int64_t)parameter->high);
	return range;
}

/* The value after x, the further on the larger the step: by one where `slope` is 0. */
static int64_t next_value(const struct range *range, int64_t x, int64_t slope)
{
	return x + 1 + (slope ? (x - range->first) * slope / 16 : 0);
}

static int try_range(const struct orr_seeds *seeds, const struct orr_schedule *schedule, int i,
		     struct orr_value *value, struct orr_error *err)
{
	struct range range = range_of(seeds, &schedule->parameters[i]);
	int64_t most = most_values(seeds, schedule, i), slope = 0;
	int code = 0;

	for (int64_t n = range.last - range.first + 1; n > most && slope < INT64_C(1) << 20;) {
		slope = slope ? 2 * slope : 1;
		n = 0;
		for (int64_t x = range.first; x <= range.last; x = next_value(&range, x, slope))
			n++;
	}
	for (int64_t x = range.first; x <= range.last && !code; x = next_value(&range, x, slope)) {
		value[i].integer = x;
		code = try_schedule(seeds, schedule, value, err);
	}
	if (slope && !code) {
		value[i].integer = range.last;
		code = try_schedule(seeds, schedule, value, err);
	}
	return code;
}

/* Between two periods at which 1F1B* changes, it is the same order. */
static int try_periods(const struct orr_seeds *seeds, const struct orr_schedule *schedule, int i,
		       struct orr_value *value, struct orr_error *err)
{
	struct orr_star_point *points = NULL;
	int n = 0, step, code;

	if (!orr_star_serves(seeds->p))
		return 0;
	if ((code = orr_star_points(&points, &n, seeds->p, err)))
		return code;
	step = (int)((n - 1) / most_values(seeds, schedule, i)) + 1;
	for (int k = n - 1; k >= 0 && !code; k -= step) { /* the smallest is the default */
		value[i] = (struct orr_value){.ns = points[k].period_ns, .units = seeds->p->units};
		code = try_schedule(seeds, schedule, value, err);
	}
	free(points);
	return code;
}

/* The values of parameter i alone that can make a difference; of words, see sweep(). */
static int try_values(const struct orr_seeds *seeds, const struct orr_schedule *schedule, int i,
		      struct orr_value *value, struct orr_error *err)
{
	enum orr_parameter_kind kind = schedule->parameters[i].kind;
	struct orr_value otherwise = value[i];
	int code = 0;

	if (kind == ORR_PARAMETER_DURATION)
		code = try_periods(seeds, schedule, i, value, err);
	else if (kind != ORR_PARAMETER_WORD && kind != ORR_PARAMETER_REAL &&
		 kind != ORR_PARAMETER_SIZE && kind != ORR_PARAMETER_LIST)
		code = try_range(seeds, schedule, i, value, err);
	value[i] = otherwise;
	return code;
}

/* Every combination of words of the parameters from i on, each with every value of one other
 * parameter at a time. */
static int sweep(const struct orr_seeds *seeds, const struct orr_schedule *schedule, int i,
		 struct orr_value *value, struct orr_error *err)
{
	int n = orr_parameters_count(schedule), code = 0;

	while (i < n && schedule->parameters[i].kind != ORR_PARAMETER_WORD)
		i++;
	if (i < n) {
		int64_t otherwise = value[i].integer;

		value[i].integer = 0;
		for (const char *at = schedule->parameters[i].words; at && !code;
		     value[i].integer++) {
			code = sweep(seeds, schedule, i + 1, value, err);
			at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL;
		}
		value[i].integer = otherwise;
		return code;
	}
	code = try_schedule(seeds, schedule, value, err);
	for (i = 0; i < n && !code; i++)
		code = try_values(seeds, schedule, i, value, err);
	return code;
}

int orr_seeds_named(const struct orr_seeds *seeds, struct orr_error *err)
{
	struct orr_value value[ORR_MOST_PARAMETERS];
	int code = 0;

	for (int i = 0; !code && seeds->schedules && seeds->schedules[i]; i++) {
		orr_parameters_default(value, seeds->schedules[i]);
		if (is_seed(seeds->schedules[i]))
			code = try_schedule(seeds, seeds->schedules[i], value, err);
	}
	return code;
}

/* Do all passes take as long as each other? */
static bool is_even(const struct orr_pipeline *p)
{
	int64_t ns = orr_pipeline_duration_ns(p, 0, ORR_PASS_F, true);

	for (int i = 0; i < p->n_stages * ORR_N_PASSES; i++) {
		int s = i / ORR_N_PASSES;
		enum orr_pass d = (enum orr_pass)(i % ORR_N_PASSES);

		if (orr_pipeline_has_pass(p, s, d, true) &&
		    orr_pipeline_duration_ns(p, s, d, true) != ns)
			return false;
	}
	return true;
}

int orr_seeds_evened(const struct orr_seeds *seeds, struct orr_error *err)
{
	struct orr_pipeline even = *seeds->p;
	struct orr_seeds of = *seeds;
	struct orr_value value[ORR_MOST_PARAMETERS];
	int code = 0;

	if (is_even(seeds->p) || even.machine.cluster)
		return 0;
	if (!(even.stages = calloc((size_t)even.n_stages, sizeof(*even.stages))))
		return orr_fail(err, ORR_E_NOMEM, "search: no memory for %d stages", even.n_stages);
	for (int s = 0; s < even.n_stages; s++) {
		even.stages[s] = seeds->p->stages[s];
		even.stages[s].forward_ns = even.stages[s].backward_ns = ORR_UNIT_NS;
		even.stages[s].weight_ns = even.stages[s].update_ns = ORR_UNIT_NS;
	}
	even.has_weight = true;
	even.overhead_ns = 0;
	even.microbatches = NULL;
	even.machine = orr_machine_default(even.n_workers);
	of.p = &even;
	for (int i = 0; !code && of.schedules && of.schedules[i]; i++) {
		orr_parameters_default(value, of.schedules[i]);
		if (is_seed(of.schedules[i]) && of.schedules[i]->place)
			code = try_schedule(&of, of.schedules[i], value, err);
	}
	free(even.stages);
	return code;
}

int orr_seeds_swept(const struct orr_seeds *seeds, struct orr_error *err)
{
	struct orr_value value[ORR_MOST_PARAMETERS];
	int code = 0;

	for (int i = 0; !code && seeds->schedules && seeds->schedules[i]; i++)
		if (orr_parameters_default(value, seeds->schedules[i]) > 0 &&
		    is_seed(seeds->schedules[i]))
			code = sweep(seeds, seeds->schedules[i], 0, value, err);
	return code;
}
