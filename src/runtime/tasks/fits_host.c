#include "fits_host.h"

#include <unistd.h>
#include "base/quantity.h"

int64_t orr_host_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);

	return pages < 0 || bytes < 0 ? -1 : (int64_t)pages * bytes;
}

/* Parameters that are owned here; those that are trained have a gradient and the optimizer's state,
 * of which each owner may have a part alone. */
static int64_t owned_bytes(const struct orr_work *work, int n_state)
{
	const struct orr_jobs *jobs = work->jobs;
	int64_t floats = 0;

	for (int s = 0; s < work->pipeline->n_stages; s++) {
		int64_t trained = orr_work_n_trained(work, s);

		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++)
			if (orr_work_has(work, jobs->owners[i]))
				floats += orr_work_n_parameters(work, s) + trained +
					  (orr_jobs_shards(jobs, s) ? 0 : n_state * trained);
	}
	return floats * (int64_t)sizeof(float);
}

/* What a job keeps for later, and what it works in. */
static int64_t job_bytes(const struct orr_work *work, struct orr_job job)
{
	const struct orr_program *program = work->programs[job.s];
	int64_t n = orr_work_samples(work, job.b);

	return (orr_program_stash_floats(program, n, false) +
		orr_program_scratch_floats(program, n)) *
	       (int64_t)sizeof(float);
}

int orr_fits_host(const struct orr_work *work, int n_state, int64_t host_bytes,
		  struct orr_error *err)
{
	int64_t owned = owned_bytes(work, n_state), most = 0;
	struct orr_job largest = {0};

	for (int i = 0; i < work->n_sequence; i++) {
		struct orr_job job = orr_jobs_at(work->jobs, work->sequence[i]);
		int64_t bytes =
			orr_work_computes(work, work->sequence[i]) ? job_bytes(work, job) : 0;

		if (bytes > most)
			most = bytes, largest = job;
	}
	if (host_bytes < 0 || owned + most <= host_bytes)
		return 0;
	return orr_fail(err, ORR_E_NOMEM,
			"run: %s are needed, %s of parameters and %s of a microbatch of %d in "
			"stage %d, and this host has %s: take more [microbatches], a smaller "
			"batch or more hosts",
			orr_size_text(owned + most), orr_size_text(owned), orr_size_text(most),
			orr_work_samples(work, largest.b), largest.s, orr_size_text(host_bytes));
}
