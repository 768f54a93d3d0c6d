#include "places.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/arrays.h"
#include "base/max.h"
#include "orrery/jobs.h"

static bool takes_place(const struct orr_jobs *jobs, int j, enum orr_place place,
			const int *rank_of)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[orr_jobs_at(jobs, j).s];
	int from = jobs->weights[j], to = jobs->compute[j];

	if (!orr_jobs_has(jobs, j) || (rank_of ? rank_of[from] == rank_of[to] : from == to))
		return false;
	return place == ORR_PLACE_PARAMETERS
		       ? stage->parameter_bytes > 0
		       : orr_jobs_makes_gradient(jobs, j) && orr_stage_trained_bytes(stage) > 0;
}

/* The owner of the parameters of job j, which exists, as an index of owners. */
static int owner_of(const struct orr_jobs *jobs, int j)
{
	int i = jobs->first_owner[orr_jobs_at(jobs, j).s];

	while (jobs->owners[i] != jobs->weights[j])
		i++;
	return i;
}

/* added[j]: when the gradient of job j can be added, after those of the microbatches before it as
 * well, as an index of sequence. of: [n_jobs] indices of jobs; last: [owners] zeros. */
static void find_added(int *added, const struct orr_jobs *jobs, const int *sequence, int *of,
		       int *last)
{
	for (int i = 0; i < jobs->n_jobs; i++)
		of[sequence[i]] = i;
	for (int j = 0; j < jobs->n_jobs; j++) {
		int i;

		if (!orr_jobs_makes_gradient(jobs, j))
			continue;
		i = owner_of(jobs, j);
		added[j] = last[i] = (int)larger(last[i], of[j]);
	}
}

int orr_places_find(int *before, const struct orr_jobs *jobs, int n, enum orr_place place,
		    const int *rank_of, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	size_t n_jobs = (size_t)jobs->n_jobs, n_owners = (size_t)jobs->first_owner[p->n_stages];
	size_t n_groups = place == ORR_PLACE_COMING ? n_owners : (size_t)p->n_workers;
	/* holder: [n_groups * n] the last job that took the place, counted from 1; 0: none */
	int *sequence = calloc(3 * n_jobs + n_owners + n_groups * ((size_t)n + 1), sizeof(int));
	int *of, *added, *last, *n_taken, *holder, code;

	if (!sequence)
		return orr_no_memory(err, "places");
	of = sequence + n_jobs;
	added = of + n_jobs;
	last = added + n_jobs;
	n_taken = last + n_owners;
	holder = n_taken + n_groups;
	if ((code = orr_jobs_sequence(jobs, sequence, err)))
		goto out;
	find_added(added, jobs, sequence, of, last);
	for (int i = 0; i < jobs->n_jobs; i++) {
		/* jobs are numbered by microbatch first, as gradients are added */
		int j = place == ORR_PLACE_COMING ? i : sequence[i];
		int group, *at;

		before[j] = -1;
		if (!takes_place(jobs, j, place, rank_of))
			continue;
		group = place == ORR_PLACE_COMING ? owner_of(jobs, j) : jobs->compute[j];
		at = &holder[(size_t)group * (size_t)n + (size_t)(n_taken[group] % n)];
		/* that may have to wait for a gradient that this job is needed for */
		if (place == ORR_PLACE_GRADIENT && *at && added[*at - 1] >= i)
			continue;
		n_taken[group]++;
		before[j] = *at ? *at - 1 : j;
		*at = j + 1;
	}
out:
	free(sequence);
	return code;
}
