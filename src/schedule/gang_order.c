#include "gang_order.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/max.h"
#include "base/sort.h"
#include "gathers.h"
#include "orrery/schedule.h"

int orr_gangs_order(int64_t *n, const struct orr_jobs *jobs, struct orr_error *err)
{
	struct orr_arrays all = {0};
	int *order = orr_arrays_add(&all, (size_t)jobs->n_jobs, sizeof(*order));
	int *around = orr_arrays_add(&all, orr_jobs_most_around(jobs) + 1, sizeof(*around));
	int code = orr_arrays_check(&all, "jobs", err);

	if (code || (code = orr_jobs_sequence(jobs, order, err)))
		goto out;
	for (int j = 0; j < jobs->n_jobs; j++)
		n[j] = 0; /* its start */
	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = order[i], n_after = orr_jobs_successors(jobs, j, around);
		int next = jobs->order == ORR_ORDER_STRICT && orr_jobs_has(jobs, j)
				   ? orr_jobs_beside(jobs, j, 0, 1)
				   : -1;

		if (next >= 0)
			around[n_after++] = next;
		for (int k = 0; k < n_after; k++)
			n[around[k]] = larger(n[around[k]], n[j] + jobs->duration_ns[j]);
	}
	code = orr_rank(n, order, jobs->n_jobs, err);
out:
	orr_arrays_free(&all);
	return code;
}

void orr_jobs_settle(const struct orr_jobs *jobs, int *worker)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int b = 0; b < p->n_microbatches; b++)
		for (int d = 0; d < jobs->n_passes; d++)
			orr_pipeline_settle(p,
					    worker + orr_jobs_index(jobs, 0, b, (enum orr_pass)d),
					    jobs->n_passes);
}

int orr_gangs_settle(struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n = (size_t)jobs->n_jobs, n_listed = 0;

	for (int s = 0; s < p->n_stages; s++) {
		int n_at = orr_pipeline_n_at(p, s);

		jobs->most_at = (int)larger(jobs->most_at, n_at);
		n_listed += n / (size_t)p->n_stages * (size_t)n_at;
	}
	free(jobs->by_worker);
	free(jobs->position);
	jobs->by_worker = calloc(n_listed, sizeof(*jobs->by_worker));
	jobs->position = calloc(n * (size_t)jobs->most_at, sizeof(*jobs->position));
	if (!jobs->by_worker || !jobs->position)
		return orr_no_memory(err, "jobs");
	orr_jobs_settle(jobs, jobs->compute);
	if (jobs->weights != jobs->compute)
		orr_jobs_settle(jobs, jobs->weights);
	return 0;
}

void orr_stages_leading(bool *leads, const struct orr_pipeline *p, int t)
{
	memset(leads, 0, (size_t)p->n_stages * sizeof(*leads));
	leads[t] = true;
	for (int s = t; s >= 0; s--)
		for (int i = 0; leads[s] && i < p->stages[s].n_in; i++)
			if (!p->edges[p->stages[s].in[i]].detached)
				leads[orr_stage_before(p, s, i)] = true;
}

/* Stage t gathers. */
static int check_upstream(const struct orr_jobs *jobs, int t, bool *marked, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	orr_stages_leading(marked, p, t);
	for (int s = 0; s < t; s++)
		if (marked[s] && jobs->cap[s] && jobs->cap[s] < p->n_microbatches)
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s deadlocks: stage %d gathers the minibatch "
					"(gather=), and stage %d before it may have %d of the %d "
					"microbatches in flight (in_flight()): take at most %d "
					"([microbatches]), or a schedule without such a cap: gpipe "
					"or auto",
					jobs->schedule, t, s, jobs->cap[s], p->n_microbatches,
					jobs->cap[s]);
	return 0;
}

int orr_gathers_check(const struct orr_jobs *jobs, const struct orr_schedule *schedule,
		      struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	bool *marked = calloc((size_t)p->n_stages, sizeof(*marked));
	int code = marked ? 0 : orr_no_memory(err, "jobs");

	for (int s = 0; s < p->n_stages && !code; s++) {
		if (!p->stages[s].gather)
			continue;
		if (schedule->asynchronous)
			code = orr_fail(err, ORR_E_INPUT,
					"schedule %s: stage %d gathers the minibatch (gather=), "
					"and without a flush there is none: take a schedule that "
					"flushes",
					schedule->name, s);
		else if (jobs->cap)
			code = check_upstream(jobs, s, marked, err);
	}
	free(marked);
	return code;
}

int orr_gathers_check_trained(const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int first = orr_jobs_index(jobs, job.s, 0, job.d);

		if (p->stages[job.s].gather && job.d != ORR_PASS_W && orr_jobs_has(jobs, j) &&
		    jobs->compute[j] != jobs->compute[first])
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s: workers %d and %d both compute stage %d, "
					"which gathers the minibatch (gather=), and train has one "
					"worker for it: take gpipe or auto%s",
					jobs->schedule, jobs->compute[first], jobs->compute[j],
					job.s, p->replicas > 1 ? ", without [replicas]" : "");
	}
	return 0;
}
