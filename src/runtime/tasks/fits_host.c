#include "fits_host.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/max.h"
#include "base/quantity.h"

/* What a file says in one number, or INT64_MAX ("max", or no such file). */
static int64_t number_in(const char *path)
{
	FILE *f = fopen(path, "re");
	long long number;
	int n = f ? fscanf(f, "%lld", &number) : 0;

	if (f)
		(void)fclose(f);
	return n == 1 && number >= 0 ? number : INT64_MAX;
}

/* The least limit of a control group and those above it. `group` is shortened. */
static int64_t limit_of(const char *root, char *group, const char *file)
{
	char path[2 * PATH_MAX], *end;
	int64_t least = INT64_MAX;

	for (;;) {
		(void)snprintf(path, sizeof(path), "%s%s/%s", root, group, file);
		least = smaller(least, number_in(path));
		if (!(end = strrchr(group, '/')))
			return least;
		*end = '\0';
	}
}

int64_t orr_group_bytes(const char *groups, const char *root)
{
	FILE *f = fopen(groups, "re");
	char line[PATH_MAX], path[PATH_MAX], *controllers, *group;
	int64_t least = INT64_MAX;

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!(controllers = strchr(line, ':')) || !(group = strchr(++controllers, ':')))
			continue;
		*group++ = '\0';
		(void)snprintf(path, sizeof(path), "%s/%s", root, controllers);
		if (!strcmp(controllers, "memory"))
			least = smaller(least, limit_of(path, group, "memory.limit_in_bytes"));
		else if (!*controllers)
			least = smaller(least, limit_of(root, group, "memory.max"));
	}
	if (f)
		(void)fclose(f);
	return least;
}

int64_t orr_host_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
	int64_t all = pages < 0 || bytes < 0 ? INT64_MAX : (int64_t)pages * bytes;
	int64_t least = smaller(all, orr_group_bytes("/proc/self/cgroup", "/sys/fs/cgroup"));

	return least < INT64_MAX ? least : -1;
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
					  (orr_jobs_shards(jobs, s)
						   ? 0
						   : n_state * orr_work_n_kept(work, s));
	}
	return floats * (int64_t)sizeof(float);
}

/* What the workers here work in: each has room of its own, for the largest of its jobs. */
static int64_t working_bytes(const struct orr_work *work)
{
	int64_t all = 0;

	for (int w = 0; w < work->pipeline->n_workers; w++) {
		int64_t most = 0;

		for (int i = 0; i < work->n_sequence && orr_work_has(work, w); i++) {
			struct orr_job job = orr_jobs_at(work->jobs, work->sequence[i]);

			if (work->jobs->compute[work->sequence[i]] == w)
				most = larger(most, orr_program_scratch_floats(
							    work->programs[job.s],
							    orr_work_samples(work, job.b)));
		}
		all += most;
	}
	return all * (int64_t)sizeof(float);
}

int orr_fits_host(const struct orr_work *work, int n_state, int64_t host_bytes,
		  struct orr_error *err)
{
	int64_t owned = owned_bytes(work, n_state), working = working_bytes(work), most = 0, all;
	struct orr_job largest = {0};

	for (int i = 0; i < work->n_sequence; i++) {
		struct orr_job job = orr_jobs_at(work->jobs, work->sequence[i]);
		int64_t bytes = orr_program_stash_floats(work->programs[job.s],
							 orr_work_samples(work, job.b), false) *
				(int64_t)sizeof(float);

		if (orr_work_computes(work, work->sequence[i]) && bytes > most)
			most = bytes, largest = job;
	}
	all = owned + working + most;
	if (host_bytes < 0 || all <= host_bytes)
		return 0;
	return orr_fail(err, ORR_E_NOMEM,
			"run: %s are needed, %s of parameters, %s that workers work in and %s that "
			"a microbatch of %d keeps in stage %d, and this host has %s: take more "
			"[microbatches], a smaller batch or more hosts",
			orr_size_text(all), orr_size_text(owned), orr_size_text(working),
			orr_size_text(most), orr_work_samples(work, largest.b), largest.s,
			orr_size_text(host_bytes));
}
