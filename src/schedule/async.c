#include "async.h"

#include <stdlib.h>

#include "base/max.h"
#include "base/sort.h"
#include "orrery/jobs.h"

static int refuse(const struct orr_jobs *jobs, int j, const char *why, struct orr_error *err)
{
	struct orr_job job = orr_jobs_at(jobs, j);

	return orr_fail(err, ORR_E_INPUT, "schedule %s: job %d%c%d %s", jobs->schedule, job.s,
			orr_pass_letter(job.d), job.b, why);
}

/* The next round, as the schedule says it, is this one a period later. */
static int check_period(const struct orr_async *async, const struct orr_jobs *jobs,
			const struct orr_schedule *schedule, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	if (async->period <= 0)
		return refuse(jobs, 0,
			      "does not come later in the next round: without a flush, priority() "
			      "grows with b, also beyond [microbatches]",
			      err);
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int b = job.b + p->n_microbatches, w;
		int64_t n;

		if (!orr_jobs_has(jobs, j))
			continue;
		n = schedule->priority(p, job.s, b, job.d, schedule->data);
		w = schedule->compute(p, job.s, b, job.d, schedule->data);
		if (n - jobs->priority[j] != async->period)
			return refuse(jobs, j,
				      "comes later in the next round by another number than 0F0: "
				      "without a flush, priority() is periodic in [microbatches]",
				      err);
		if (w != schedule->compute(p, job.s, job.b, job.d, schedule->data))
			return refuse(jobs, j,
				      "is on another worker in the next round: [microbatches] must "
				      "be a multiple of every stage's replicas",
				      err);
		if (job.b > 0 &&
		    n - schedule->priority(p, job.s, b - 1, job.d, schedule->data) <= 0)
			return refuse(jobs, j,
				      "overtakes the microbatch before it: without a flush, "
				      "priority() grows with b",
				      err);
	}
	return 0;
}

/* Within a microbatch; between two of them n grows with b. */
static int check_dependencies(const struct orr_jobs *jobs, struct orr_error *err)
{
	int *around = calloc(orr_jobs_most_around(jobs), sizeof(*around));
	int code = 0;

	if (!around)
		return orr_no_memory(err, "async");
	for (int j = 0; !code && j < jobs->n_jobs; j++) {
		int n = orr_jobs_predecessors(jobs, j, around);

		for (int i = 0; !code && i < n; i++)
			if (jobs->priority[around[i]] >= jobs->priority[j])
				code = refuse(jobs, j,
					      "has no larger n than what it waits for: without a "
					      "flush, n orders the jobs of all workers",
					      err);
	}
	free(around);
	return code;
}

/* Is no job of another round on the same worker, as n of both is modulo the period? last:
 * [n_workers] zeros, 1 + the place of the job before. */
static int check_distinct(const struct orr_jobs *jobs, const struct orr_keyed *keyed, int n,
			  int *last, struct orr_error *err)
{
	for (int i = 0; i < n; i++)
		for (int j = keyed[i].value, k = 0; k < orr_jobs_n_at(jobs, j); k++) {
			int *before = &last[orr_jobs_worker(jobs, j, k)];

			if (*before && keyed[*before - 1].key == keyed[i].key)
				return refuse(jobs, j,
					      "has the priority of another round's job on its "
					      "worker: make priority() distinct on each worker",
					      err);
			*before = i + 1;
		}
	return 0;
}

/* Sort the jobs by their n modulo the period: the order of every wave. */
static int lay_out(struct orr_async *async, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct orr_arrays all = {0};
	struct orr_keyed *keyed = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*keyed));
	int *last = orr_arrays_add(&all, (size_t)jobs->pipeline->n_workers, sizeof(*last));
	int64_t first = jobs->priority[0];
	int n_keyed = 0, code = orr_arrays_check(&all, "async", err);

	if (code)
		return code;
	for (int j = 0; j < jobs->n_jobs; j++) /* where one does not exist, F has its place */
		first = smaller(first, jobs->priority[j]);
	for (int j = 0; j < jobs->n_jobs; j++) {
		int64_t n = jobs->priority[j] - first;

		/* so that microbatches and versions in flight can be counted in an int */
		if (n / async->period >= INT32_MAX / jobs->pipeline->n_microbatches - 1) {
			code = refuse(jobs, j,
				      "comes too many rounds after the first job of its "
				      "microbatch: bring priority() of the passes closer together",
				      err);
			goto out;
		}
		async->lag[j] = (int)(n / async->period);
		if (orr_jobs_has(jobs, j))
			keyed[n_keyed++] = (struct orr_keyed){n % async->period, j};
		async->n_waves = (int)larger(async->n_waves, async->lag[j] + 1);
	}
	if ((code = orr_sort(keyed, n_keyed, err)) ||
	    (code = check_distinct(jobs, keyed, n_keyed, last, err)))
		goto out;
	for (int i = 0; i < n_keyed; i++)
		async->order[i] = keyed[i].value;
out:
	orr_arrays_free(&all);
	return code;
}

int orr_async_create(struct orr_async **out, const struct orr_jobs *jobs,
		     const struct orr_schedule *schedule, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_async *async = NULL;
	int code;

	if (!schedule->priority || !schedule->compute || schedule->weights || schedule->place ||
	    schedule->order != ORR_ORDER_STRICT)
		return orr_fail(err, ORR_E_INPUT,
				"schedule %s: without a flush it needs compute(), priority() and "
				"strict order, and no weights() or place()",
				schedule->name);
	if (!(async = calloc(1, sizeof(*async))))
		return orr_no_memory(err, "async");
	orr_arrays_make(&async->all, async->order, jobs->n_jobs);
	orr_arrays_make(&async->all, async->lag, jobs->n_jobs);
	async->period = schedule->priority(p, 0, p->n_microbatches, ORR_PASS_F, schedule->data) -
			jobs->priority[0];
	if ((code = orr_arrays_check(&async->all, "async", err)) ||
	    (code = check_period(async, jobs, schedule, err)) ||
	    (code = check_dependencies(jobs, err)) || (code = lay_out(async, jobs, err)))
		goto out;
	*out = async;
	async = NULL;
out:
	orr_async_destroy(async);
	return code;
}

int64_t orr_async_before(const struct orr_jobs *jobs, int s, enum orr_pass d, int64_t n)
{
	int low = 0, high = jobs->pipeline->n_microbatches;
	int64_t from = n - jobs->priority[orr_jobs_index(jobs, s, 0, d)];
	int64_t period = jobs->async->period, round = floor_of(from, period);

	/* that of microbatch 0 in this round is not after n, and in the next one it is */
	while (low < high) {
		int b = (low + high) / 2;

		if (jobs->priority[orr_jobs_index(jobs, s, b, d)] + round * period < n)
			low = b + 1;
		else
			high = b;
	}
	return round * jobs->pipeline->n_microbatches + low;
}

void orr_async_destroy(struct orr_async *async)
{
	if (!async)
		return;
	orr_arrays_free(&async->all);
	free(async);
}
