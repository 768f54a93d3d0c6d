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
#include "place.h"

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
	int64_t at = -2, n_split = (int64_t)jobs->pipeline->n_stages *
				   jobs->pipeline->n_microbatches * ORR_N_PASSES;
	int n_keyed = 0, code;

	if (!keyed)
		return orr_no_memory(err, "search");
	for (int64_t i = 0; i < n_split; i++)
		n[i] = -1;
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
	for (int64_t i = 0; i < n_split; i++)
		if (n[i] < 0) /* there is no such job: as F, and then, if anybody looks */
			n[i] = n[i - i % ORR_N_PASSES];
	free(keyed);
	return code;
}

int orr_seeds_lay_out(int64_t *n, bool *serves, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, struct orr_error *err)
{
	struct orr_error why = {""};
	struct orr_try tried;
	int code = orr_try_init(&tried, p, schedule, NULL, &why);

	*serves = false;
	if (code)
		return code == ORR_E_NOMEM ? orr_fail(err, code, "%s", why.msg) : 0;
	if (tried.jobs->order == ORR_ORDER_GREEDY)
		code = orr_try_time(&tried, err);
	if (!code && (*serves = suits(tried.jobs)))
		code = number(n, tried.jobs, tried.timeline, err);
	orr_try_fini(&tried);
	return code;
}

/* The placement with these workers, which get the names of its own; NULL: none. */
static int find_place(struct orr_searched **out, struct orr_searcher *o, int *worker)
{
	int code = orr_place_rename(worker, worker, o->p, o->err);

	*out = NULL;
	for (int i = 0; i < o->n_places && !code && !*out; i++)
		if (orr_searched_is_alike(&o->places[i], worker))
			*out = &o->places[i];
	return code;
}

/* p: the searcher's, or one that is like it. */
static int try_schedule(struct orr_searcher *o, const struct orr_pipeline *p,
			const struct orr_schedule *schedule, const struct orr_value *value,
			bool swept)
{
	struct orr_schedule with = *schedule;
	struct orr_error why = {""};
	struct orr_searched *x;
	bool serves;
	int code;

	if (orr_parameters_count(&with))
		with.data = value;
	if ((with.check && with.check(p, with.data, &why)) || !find_workers(&with, p, o->worker))
		return 0;
	orr_pipeline_settle(p, o->worker, 1);
	/* where a schedule has reached the bound, no other one is shorter */
	if ((code = find_place(&x, o, o->worker)) || !x ||
	    (swept ? !orr_searched_is_open(x)
		   : x->found.start_ns && x->found.start_ns == x->found.bound_ns) ||
	    (code = orr_seeds_lay_out(o->tried, &serves, p, &with, o->err)) || !serves)
		return code;
	return orr_searched_consider(x, p == o->p);
}

/* ---- parameters ---- */

static int64_t most_values(const struct orr_searcher *o, const struct orr_schedule *schedule, int i)
{
	if (schedule->parameters[i].kind == ORR_PARAMETER_STASHES)
		return MOST_MEMORIES;
	return larger(MOST_MEMORIES, SWEPT / o->n_jobs / (schedule->place ? SEARCHED : 1));
}

struct range {
	int64_t first, last;
};

/* The values of a number that can make a difference; of a period, see try_periods(). */
static struct range range_of(const struct orr_searcher *o, const struct orr_parameter *parameter)
{
	struct range range = {(int64_t)parameter->low, (int64_t)parameter->high};

	if (parameter->kind == ORR_PARAMETER_MICROBATCHES)
		range.last = o->p->n_microbatches;
	if (parameter->kind == ORR_PARAMETER_WORKERS)
		range.last = o->p->n_workers;
	if (parameter->kind == ORR_PARAMETER_STASHES)
		range = (struct range){o->least_stashes,
				       o->most_stashes < INT64_MAX ? o->most_stashes : -1};
	range.first = larger(range.first, (int64_t)parameter->low);
	range.last = smaller(range.last, (int64_t)parameter->high);
	return range;
}

/* The value after x, the further on the larger the step: by one where `slope` is 0. */
static int64_t next_value(const struct range *range, int64_t x, int64_t slope)
{
	return x + 1 + (slope ? (x - range->first) * slope / 16 : 0);
}

static int try_range(struct orr_searcher *o, const struct orr_schedule *schedule, int i,
		     struct orr_value *value)
{
	struct range range = range_of(o, &schedule->parameters[i]);
	int64_t most = most_values(o, schedule, i), slope = 0;
	int code = 0;

	for (int64_t n = range.last - range.first + 1; n > most && slope < INT64_C(1) << 20;) {
		slope = slope ? 2 * slope : 1;
		n = 0;
		for (int64_t x = range.first; x <= range.last; x = next_value(&range, x, slope))
			n++;
	}
	for (int64_t x = range.first; x <= range.last && !code; x = next_value(&range, x, slope)) {
		value[i].integer = x;
		code = try_schedule(o, o->p, schedule, value, true);
	}
	if (slope && !code) {
		value[i].integer = range.last;
		code = try_schedule(o, o->p, schedule, value, true);
	}
	return code;
}

/* Between two periods at which 1F1B* changes, it is the same order. */
static int try_periods(struct orr_searcher *o, const struct orr_schedule *schedule, int i,
		       struct orr_value *value)
{
	struct orr_star_point *points = NULL;
	int n = 0, step, code;

	if (!orr_star_serves(o->p))
		return 0;
	if ((code = orr_star_points(&points, &n, o->p, o->err)))
		return code;
	step = (int)((n - 1) / most_values(o, schedule, i)) + 1;
	for (int k = n - 1; k >= 0 && !code; k -= step) { /* the smallest is the default */
		value[i] = (struct orr_value){.ns = points[k].period_ns, .units = o->p->units};
		code = try_schedule(o, o->p, schedule, value, true);
	}
	free(points);
	return code;
}

/* The values of parameter i alone that can make a difference; of words, see sweep(). */
static int try_values(struct orr_searcher *o, const struct orr_schedule *schedule, int i,
		      struct orr_value *value)
{
	enum orr_parameter_kind kind = schedule->parameters[i].kind;
	struct orr_value otherwise = value[i];
	int code = 0;

	if (kind == ORR_PARAMETER_DURATION)
		code = try_periods(o, schedule, i, value);
	else if (kind != ORR_PARAMETER_WORD && kind != ORR_PARAMETER_REAL &&
		 kind != ORR_PARAMETER_SIZE && kind != ORR_PARAMETER_LIST)
		code = try_range(o, schedule, i, value);
	value[i] = otherwise;
	return code;
}

/* Every combination of words of the parameters from i on, each with every value of one other
 * parameter at a time. */
static int sweep(struct orr_searcher *o, const struct orr_schedule *schedule, int i,
		 struct orr_value *value)
{
	int n = orr_parameters_count(schedule), code = 0;

	while (i < n && schedule->parameters[i].kind != ORR_PARAMETER_WORD)
		i++;
	if (i < n) {
		int64_t otherwise = value[i].integer;

		value[i].integer = 0;
		for (const char *at = schedule->parameters[i].words; at && !code;
		     value[i].integer++) {
			code = sweep(o, schedule, i + 1, value);
			at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL;
		}
		value[i].integer = otherwise;
		return code;
	}
	code = try_schedule(o, o->p, schedule, value, true);
	for (i = 0; i < n && !code; i++)
		code = try_values(o, schedule, i, value);
	return code;
}

/* As they are, or with other values of their parameters; on a pipeline that is like the searcher's
 * those that lay out a whole step by its durations. */
static int try_all(struct orr_searcher *o, const struct orr_pipeline *p, bool swept)
{
	const struct orr_schedule *const *schedules = o->options->schedules;
	struct orr_value value[ORR_MOST_PARAMETERS];
	int code = 0;

	for (int i = 0; !code && schedules && schedules[i]; i++) {
		int n = orr_parameters_default(value, schedules[i]);

		/* a search itself is none; the strength of what never flushes is no makespan */
		if (!schedules[i]->compute || schedules[i]->asynchronous ||
		    (p == o->p ? swept && !n : !schedules[i]->place))
			continue;
		code = swept && p == o->p ? sweep(o, schedules[i], 0, value)
					  : try_schedule(o, p, schedules[i], value, swept);
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

/* As if every pass took as long as any other one: what is written for such passes is often better
 * so. */
static int try_even(struct orr_searcher *o)
{
	struct orr_pipeline even = *o->p;
	int code;

	if (is_even(&even) || even.machine.cluster)
		return 0;
	if (!(even.stages = calloc((size_t)even.n_stages, sizeof(*even.stages))))
		return orr_no_memory(o->err, "search");
	for (int s = 0; s < even.n_stages; s++) {
		even.stages[s] = o->p->stages[s];
		even.stages[s].forward_ns = even.stages[s].backward_ns = ORR_UNIT_NS;
		even.stages[s].weight_ns = even.stages[s].update_ns = ORR_UNIT_NS;
	}
	even.has_weight = true;
	even.overhead_ns = 0;
	even.microbatches = NULL;
	even.machine = orr_machine_default(even.n_workers);
	code = try_all(o, &even, true);
	free(even.stages);
	return code;
}

/* The order to start from, if one is given. */
static int try_timeline(struct orr_searcher *o)
{
	const struct orr_timeline *from = o->options->from;
	struct orr_searched *x;
	int code;

	if (!from || !suits(from->jobs))
		return 0;
	for (int s = 0; s < o->p->n_stages; s++)
		o->worker[s] = from->jobs->compute[s * from->jobs->n_passes];
	if ((code = find_place(&x, o, o->worker)) || !x ||
	    (code = number(o->tried, from->jobs, from, o->err)))
		return code;
	return orr_searched_consider(x, true);
}

int orr_seeds_named(struct orr_searcher *o)
{
	int code = try_all(o, o->p, false);

	return code ? code : try_timeline(o);
}

int orr_seeds_swept(struct orr_searcher *o)
{
	int code = try_even(o);

	for (int i = 0; i < o->n_places && !code; i++)
		if (orr_searched_is_open(&o->places[i]))
			return try_all(o, o->p, true);
	return code;
}
