#include "device_groups.h"

#include <string.h>

#include "codelets/cuda/collective.h"
#include "orrery/run.h"
#include "runtime/devices/hardware.h"

int orr_device_groups_choose(const struct orr_jobs *jobs, int s, const int *device_of,
			     const int *rank_of, bool alone, int *devices, int *member_of)
{
	int first = jobs->first_owner[s], n_owners = jobs->first_owner[s + 1] - first, n = 0;
	const int *owners = jobs->owners + first;

	for (int i = 0; i < n_owners; i++) {
		int k = 0;

		if (device_of[owners[i]] < 0)
			return 0;
		while (k < n && devices[k] != device_of[owners[i]])
			k++;
		member_of[i] = k;
		devices[k] = device_of[owners[i]];
		n = k == n ? n + 1 : n;
		for (int before = 0; before < i; before++)
			if (member_of[before] == k && rank_of[owners[before]] != rank_of[owners[i]])
				return 0;
	}
	/* a sharded stage has one part per owner */
	if (n < n_owners && orr_jobs_shards(jobs, s))
		return 0;
	return n > 1 || (alone && n_owners == 1) ? n : 0;
}

void orr_device_groups_locate(const struct orr_work *work, const struct orr_policy *policy,
			      bool alone, int *device_of)
{
	enum { N = 17 }; /* is there one, and its identity */
	int n_workers = work->pipeline->n_workers;
	double *all;

	orr_arrays_make(work->arrays, all, (size_t)n_workers * N);
	if (orr_work_fails(work))
		return;
	for (int w = 0; w < n_workers && (alone || orr_nccl_is_built()); w++) {
		unsigned char identity[N - 1];

		if (!orr_work_has(work, w) || !orr_hardware_identity(orr_policy_worker(policy, w),
								     work->rank, alone, identity))
			continue;
		all[w * N] = 1;
		for (int i = 1; i < N; i++)
			all[w * N + i] = identity[i - 1];
	}
	work->fault->code = orr_ranks_sum(all, n_workers * N, &work->fault->err);
	for (int w = 0; w < n_workers; w++) {
		int first = 0;

		while (memcmp(&all[first * N], &all[w * N], N * sizeof(*all)))
			first++;
		device_of[w] = all[w * N] > 0 ? first : -1;
	}
}

/* The id of a new group of the owners of s, from the rank of the first one. */
static int share_id(const struct orr_work *work, int s, struct orr_nccl_id *id,
		    struct orr_error *err)
{
	double bytes[sizeof(*id)] = {0};
	char why[160];
	int code = 0;

	if (orr_work_has(work, work->jobs->owners[work->jobs->first_owner[s]]) &&
	    orr_nccl_name(id, why, sizeof(why)))
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	if (!orr_work_is_spread(work, s))
		return 0;
	for (size_t i = 0; i < sizeof(*id); i++)
		bytes[i] = (unsigned char)id->bytes[i];
	code = orr_ranks_sum(bytes, sizeof(*id), err);
	for (size_t i = 0; i < sizeof(*id); i++)
		id->bytes[i] = (char)(unsigned char)bytes[i];
	return code;
}

/* What this rank has of the group of n devices of the owners of s; NULL: nothing. */
static struct orr_nccl *make_group(const struct orr_work *work, const struct orr_policy *policy,
				   int s, int n, const int *member_of)
{
	struct orr_fault *fault = work->fault;
	struct orr_nccl_id id = {{0}};
	struct orr_nccl *group = NULL;
	int first = work->jobs->first_owner[s], next = 0, n_own = 0, *members, *devices;
	char why[160];

	orr_arrays_make(work->arrays, members, n);
	orr_arrays_make(work->arrays, devices, n);
	for (int i = 0; i < orr_work_replicas(work, s) && !orr_work_fails(work); i++) {
		int w = work->jobs->owners[first + i];

		if (member_of[i] < next)
			continue; /* another owner is on that device */
		next++;
		if (!orr_work_has(work, w))
			continue;
		members[n_own] = member_of[i];
		devices[n_own++] = starpu_worker_get_devid(orr_policy_worker(policy, w));
	}
	if (!fault->code && !(fault->code = share_id(work, s, &id, &fault->err)) && n_own &&
	    orr_nccl_create(&group, &id, n, members, devices, n_own, why, sizeof(why)))
		fault->code = orr_fail(&fault->err, ORR_E_RUNTIME, "run: %s", why);
	return group;
}

/* By all ranks in the same order. */
struct orr_nccl *orr_device_groups_find(struct orr_slots *slots, const struct orr_policy *policy,
					int s, const int *devices, int n, const int *member_of)
{
	const struct orr_work *work = slots->data->work;
	size_t bytes = (size_t)n * sizeof(int);
	struct orr_device_group *c = slots->groups, *end = c + slots->n_groups;

	while (c < end && (n != c->n || memcmp(c->devices, devices, bytes)))
		c++;
	if (c < end)
		return c->nccl;
	orr_arrays_make(work->arrays, c->devices, n);
	if (orr_work_fails(work))
		return NULL;
	memcpy(c->devices, devices, bytes);
	c->n = n;
	c->s = s;
	slots->n_groups++;
	return c->nccl = make_group(work, policy, s, n, member_of);
}

void orr_device_groups_fini(struct orr_slots *slots)
{
	for (int k = 0; k < slots->n_groups; k++)
		orr_nccl_destroy(slots->groups[k].nccl);
	slots->n_groups = 0;
}
