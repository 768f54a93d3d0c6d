#include "credits.h"

#include <stdlib.h>
#include "base/arrays.h"
#include "codelets/codelets.h"

/* Flow control by credits. A credit is a handle without data. The job that fetches parameters, or
 * makes a weight gradient for another rank, has it from when that block of memory is made until it
 * is dropped; so a worker has as many blocks as credits, and no message is asked for earlier. A
 * receive has no room for a second handle: an empty task takes the credit for it.
 *
 * Nothing can deadlock: there is one order of all jobs, with every gradient added right after the
 * last job that it waits for, and a job that waits for a credit comes in it after the job that
 * holds it. */

int orr_credits_init(struct orr_credits *credits, const struct orr_work *work, int prefetch,
		     enum orr_place place, struct orr_error *err)
{
	const struct orr_jobs *jobs = work->jobs;
	int *before = malloc((size_t)jobs->n_jobs * sizeof(*before)), code = 0;

	credits->handles =
		orr_arrays_add(work->arrays, (size_t)jobs->n_jobs, sizeof(*credits->handles));
	credits->of = orr_arrays_add(work->arrays, (size_t)jobs->n_jobs, sizeof(*credits->of));
	if (!before || work->arrays->failed)
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for the credits of %d jobs",
				jobs->n_jobs);
	if (!code)
		code = orr_places_find(before, jobs, prefetch + 1, place, work->rank_of, err);
	for (int i = 0; i < work->n_sequence && !code; i++) {
		int j = work->sequence[i];

		if (!orr_work_computes(work, j) || before[j] < 0)
			continue;
		if (before[j] == j)
			starpu_void_data_register(&credits->handles[credits->n_handles++]);
		credits->of[j] = before[j] == j ? credits->handles[credits->n_handles - 1]
						: credits->of[before[j]];
	}
	free(before);
	return code;
}

void orr_credits_fini(struct orr_credits *credits)
{
	for (int i = 0; i < credits->n_handles; i++)
		starpu_data_unregister(credits->handles[i]);
}

int orr_credit_take(const struct orr_credits *credits, int j, starpu_data_handle_t block,
		    enum starpu_data_access_mode mode, struct orr_error *err)
{
	starpu_data_handle_t credit = credits->of[j];

	if (credit && starpu_task_insert(&orr_codelets[ORR_CODELET_JOIN], (int)mode, block,
					 STARPU_RW, credit, 0))
		return orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses an empty task");
	return 0;
}
