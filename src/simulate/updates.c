#include "updates.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "orrery/jobs.h"
#include "orrery/timeline.h"
#include "schedule/versions.h"

int orr_updates_of(const struct orr_updates *updates, int j)
{
	const struct orr_jobs *jobs = updates->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	int r = jobs->first_owner[job.s + 1] - jobs->first_owner[job.s];

	return updates->first[job.s] +
	       (jobs->versions ? job.b / jobs->versions->every[job.s] * r : 0);
}

/* Worker w among the owners of stage s. */
static int number_of(const struct orr_jobs *jobs, int s, int w)
{
	int first = jobs->first_owner[s], i = 0;

	while (jobs->owners[first + i] != w)
		i++;
	return i;
}

int orr_updates_at_owner(const struct orr_updates *updates, int j)
{
	const struct orr_jobs *jobs = updates->jobs;

	return orr_updates_of(updates, j) +
	       number_of(jobs, orr_jobs_at(jobs, j).s, jobs->weights[j]);
}

int orr_updates_read(const struct orr_updates *updates, int j)
{
	const struct orr_jobs *jobs = updates->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	int r = jobs->first_owner[job.s + 1] - jobs->first_owner[job.s];
	int64_t version =
		jobs->versions ? orr_versions_read(jobs->versions, job.s, job.b, job.d) : 0;

	if (!version || !orr_jobs_has(jobs, j))
		return -1;
	return updates->first[job.s] + (int)(version - 1) * r +
	       number_of(jobs, job.s, jobs->compute[j]);
}

/* Without a flush: jobs by the update that they wait for. */
static void find_readers(struct orr_updates *x, int n_updates)
{
	int n_jobs = x->jobs->n_jobs;

	for (int j = 0; j < n_jobs; j++) {
		int u = orr_updates_read(x, j);

		if (u >= 0)
			x->first_reader[u + 2]++;
	}
	for (int u = 1; u <= n_updates; u++)
		x->first_reader[u + 1] += x->first_reader[u];
	for (int j = 0; j < n_jobs; j++) {
		int u = orr_updates_read(x, j);

		if (u >= 0)
			x->readers[x->first_reader[u + 1]++] = j;
	}
}

/* Every set that is trained is summed up, when all of its stages have their gradients. */
static void count_sums(struct orr_updates *x)
{
	const struct orr_pipeline *p = x->jobs->pipeline;

	for (int s = 0; s < p->n_stages; s++)
		x->sums[s] = x->incomplete[s] = 1;
	for (int t = 0; t < p->n_tied; t++)
		for (int i = 0; i < p->tied[t].n_stages && !p->tied[t].frozen; i++) {
			x->incomplete[p->n_stages + t]++;
			x->sums[p->tied[t].stages[i]]++;
		}
}

bool orr_updates_complete(struct orr_updates *updates, int set)
{
	if (--updates->incomplete[set])
		return false;
	updates->incomplete[set] = 1; /* of a stage's own, for its next version */
	return true;
}

bool orr_updates_end(struct orr_updates *updates, int u)
{
	const struct orr_update *at = &updates->timeline->updates[u];
	const int *first = &updates->jobs->first_owner[at->s];

	return !--updates->running[updates->first[at->s] +
				   (at->version - 1) * (first[1] - first[0])];
}

bool orr_updates_sum(struct orr_updates *updates, int s)
{
	if (--updates->sums[s])
		return false;
	updates->sums[s] = 1;
	return true;
}

static void lay_out(struct orr_updates *x, struct orr_timeline *t)
{
	const struct orr_jobs *jobs = x->jobs;

	for (int s = 0, u = 0; s < jobs->pipeline->n_stages; s++)
		for (int i = 0; i < orr_jobs_n_updates(jobs, s); i++) {
			x->gradients[u] =
				jobs->pipeline->n_microbatches / orr_jobs_n_updates(jobs, s);
			x->running[u] = jobs->first_owner[s + 1] - jobs->first_owner[s];
			x->unsummed[u] = jobs->pipeline->buckets;
			for (int k = 0; k < jobs->pipeline->buckets; k++)
				x->uncomputed[u * jobs->pipeline->buckets + k] = x->running[u];
			for (int k = jobs->first_owner[s]; k < jobs->first_owner[s + 1]; k++)
				t->updates[u++] =
					(struct orr_update){s, jobs->owners[k], i + 1, -1, -1};
		}
}

int orr_updates_init(struct orr_updates *x, struct orr_arrays *all, struct orr_timeline *t,
		     struct orr_error *err)
{
	const struct orr_jobs *jobs = t->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int n = 0;

	x->jobs = jobs;
	x->timeline = t;
	x->first = orr_arrays_add(all, (size_t)p->n_stages + 1, sizeof(*x->first));
	if (!x->first)
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d stages", p->n_stages);
	for (int s = 0; s < p->n_stages; s++) {
		x->first[s] = n;
		n += orr_jobs_n_updates(jobs, s) *
		     (jobs->first_owner[s + 1] - jobs->first_owner[s]);
	}
	if ((int64_t)n * p->buckets > INT32_MAX / (int)sizeof(*x->uncomputed))
		return orr_fail(err, ORR_E_INPUT,
				"simulate: [buckets]=%d for each of %d updates are too many: take "
				"fewer",
				p->buckets, n);
	t->updates = calloc((size_t)n, sizeof(*t->updates));
	x->gradients = orr_arrays_add(all, (size_t)n, sizeof(*x->gradients));
	x->running = orr_arrays_add(all, (size_t)n, sizeof(*x->running));
	x->unmade = orr_arrays_add(all, (size_t)n, sizeof(*x->unmade));
	x->asked = orr_arrays_add(all, (size_t)n, sizeof(*x->asked));
	x->unsummed = orr_arrays_add(all, (size_t)n, sizeof(*x->unsummed));
	x->uncomputed = orr_arrays_add(all, (size_t)n * (size_t)p->buckets, sizeof(*x->uncomputed));
	x->incomplete = orr_arrays_add(all, (size_t)orr_pipeline_n_sets(p), sizeof(*x->incomplete));
	x->sums = orr_arrays_add(all, (size_t)p->n_stages, sizeof(*x->sums));
	x->first_reader = orr_arrays_add(all, (size_t)n + 2, sizeof(*x->first_reader));
	if (jobs->async)
		x->readers = orr_arrays_add(all, (size_t)jobs->n_jobs, sizeof(*x->readers));
	if (!t->updates || all->failed)
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d updates", n);
	t->n_updates = n;
	count_sums(x);
	lay_out(x, t);
	for (int j = 0; p->buckets > 1 && j < jobs->n_jobs; j++)
		if (orr_jobs_has(jobs, j) && orr_jobs_makes_gradient(jobs, j))
			x->unmade[orr_updates_at_owner(x, j)]++;
	if (jobs->async)
		find_readers(x, n);
	return 0;
}
