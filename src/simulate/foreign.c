#include "foreign.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "orrery/jobs.h"

static bool has_any(const struct orr_jobs *jobs)
{
	int j = 0;

	while (j < jobs->n_jobs && jobs->weights[j] == jobs->compute[j])
		j++;
	return j < jobs->n_jobs;
}

static int find_places(struct orr_foreign *x, const struct orr_jobs *jobs, enum orr_place place,
		       struct orr_error *err)
{
	int n = place == ORR_PLACE_COMING ? ORR_N_COMING : jobs->pipeline->prefetch + 1;
	int *before = x->before[place], *after = x->after[place];
	int code = orr_places_find(before, jobs, n, place, NULL, err);

	for (int j = 0; j < jobs->n_jobs && !code; j++)
		after[j] = -1;
	for (int j = 0; j < jobs->n_jobs && !code; j++)
		if (before[j] >= 0 && before[j] != j)
			after[before[j]] = j;
	return code;
}

static int order_gradients(struct orr_foreign *x, const struct orr_jobs *jobs,
			   struct orr_error *err)
{
	size_t n_workers = (size_t)jobs->pipeline->n_workers;
	/* [n_stages * n_workers] the last gradient of a stage for an owner, from 1; 0: none yet */
	int *last = calloc((size_t)jobs->pipeline->n_stages * n_workers, sizeof(*last));

	if (!last)
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for the owners of %d jobs",
				jobs->n_jobs);
	for (int j = 0; j < jobs->n_jobs; j++) {
		int s = orr_jobs_at(jobs, j).s, before = x->before[ORR_PLACE_COMING][j],
		    *at = &last[(size_t)s * n_workers + (size_t)jobs->weights[j]];

		x->added_next[j] = -1;
		if (!orr_jobs_makes_gradient(jobs, j))
			continue;
		x->unsent[j] = 1 + (before >= 0 && before != j);
		x->unadded[j] = 1 + (*at > 0);
		if (*at)
			x->added_next[*at - 1] = j;
		*at = j + 1;
	}
	free(last);
	return 0;
}

int orr_foreign_init(struct orr_foreign *x, struct orr_arrays *all, const struct orr_jobs *jobs,
		     struct orr_error *err)
{
	size_t n_jobs = (size_t)jobs->n_jobs;
	int code = 0;

	if (!has_any(jobs))
		return 0;
	x->unsent = orr_arrays_add(all, n_jobs * (3 + 2 * ORR_N_PLACES), sizeof(*x->unsent));
	if (!x->unsent)
		return orr_fail(err, ORR_E_NOMEM, "simulate: no memory for %d jobs", jobs->n_jobs);
	x->unadded = x->unsent + n_jobs;
	x->added_next = x->unadded + n_jobs;
	for (int k = 0; k < ORR_N_PLACES && !code; k++) {
		x->before[k] = x->added_next + n_jobs * (size_t)(1 + 2 * k);
		x->after[k] = x->before[k] + n_jobs;
		code = find_places(x, jobs, (enum orr_place)k, err);
	}
	return code ? code : order_gradients(x, jobs, err);
}

int orr_foreign_waits(const struct orr_foreign *x, int j)
{
	if (!x->unsent)
		return 0;
	return (x->before[ORR_PLACE_PARAMETERS][j] >= 0) +
	       (x->before[ORR_PLACE_GRADIENT][j] >= 0 && x->before[ORR_PLACE_GRADIENT][j] != j);
}

int orr_foreign_after(const struct orr_foreign *x, enum orr_place place, int j)
{
	return x->unsent ? x->after[place][j] : -1;
}
