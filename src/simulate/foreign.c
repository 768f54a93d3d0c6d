#include "simulation.h"

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

/* last: [n_stages * n_workers] zeros; the last gradient of a stage for an owner, from 1. */
static void order_gradients(struct orr_foreign *x, const struct orr_jobs *jobs, int *last)
{
	for (int j = 0; j < jobs->n_jobs; j++) {
		int s = orr_jobs_at(jobs, j).s, before = x->before[ORR_PLACE_COMING][j],
		    *at = &last[s * jobs->pipeline->n_workers + jobs->weights[j]];

		x->added_next[j] = -1;
		if (!orr_jobs_makes_gradient(jobs, j))
			continue;
		x->unsent[j] = 1 + (before >= 0 && before != j);
		x->unadded[j] = 1 + (*at > 0);
		if (*at)
			x->added_next[*at - 1] = j;
		*at = j + 1;
	}
}

int orr_foreign_init(struct orr_simulation *sim)
{
	const struct orr_jobs *jobs = sim->jobs;
	struct orr_foreign *x = &sim->foreign;
	struct orr_error *err = sim->failure.err;
	int n = jobs->n_jobs, *last, code = 0;

	if (!has_any(jobs))
		return 0;
	orr_arrays_make(&sim->all, x->unsent, n);
	orr_arrays_make(&sim->all, x->unadded, n);
	orr_arrays_make(&sim->all, x->added_next, n);
	orr_arrays_make(&sim->all, last,
			(size_t)jobs->pipeline->n_stages * (size_t)jobs->pipeline->n_workers);
	for (int k = 0; k < ORR_N_PLACES; k++) {
		orr_arrays_make(&sim->all, x->before[k], n);
		orr_arrays_make(&sim->all, x->after[k], n);
	}
	if (sim->all.failed)
		return orr_no_memory(err, "simulate");
	for (int k = 0; k < ORR_N_PLACES && !code; k++)
		code = find_places(x, jobs, (enum orr_place)k, err);
	if (!code)
		order_gradients(x, jobs, last);
	return code;
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
