#include "collective.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../optimizer.h"

struct member {
	ncclComm_t comm;               /* NULL: it is elsewhere, or aborted */
	int device;                    /* CUDA's number */
	pthread_mutex_t mutex;         /* a call is under way */
	char failure[160], later[160]; /* of a call, and afterwards */
};

struct orr_nccl {
	int n;
	atomic_bool aborted;
	struct member members[];
};

bool orr_nccl_is_built(void)
{
	return true;
}

int orr_nccl_name(struct orr_nccl_id *id, char *why, size_t size)
{
	ncclUniqueId unique;
	ncclResult_t code = ncclGetUniqueId(&unique);

	static_assert(sizeof(unique) == sizeof(*id), "an id is as long as NCCL's");
	if (code != ncclSuccess) {
		snprintf(why, size, "NCCL does not start: %s", ncclGetErrorString(code));
		return -1;
	}
	memcpy(id, &unique, sizeof(*id));
	return 0;
}

int orr_nccl_create(struct orr_nccl **out, const struct orr_nccl_id *id, int n, const int *members,
		    const int *devices, int n_own, char *why, size_t size)
{
	struct orr_nccl *group = calloc(1, sizeof(*group) + (size_t)n * sizeof(struct member));
	ncclResult_t code, end;
	ncclUniqueId unique;
	int before = -1;

	if (!group) {
		snprintf(why, size, "no memory for a group of %d devices", n);
		return -1;
	}
	group->n = n;
	for (int i = 0; i < n; i++)
		pthread_mutex_init(&group->members[i].mutex, NULL);
	for (int i = 0; i < n_own; i++)
		group->members[members[i]].device = devices[i];
	memcpy(&unique, id, sizeof(unique));
	/* Members would meet in their first sum, where each waits for the others' threads. */
	setenv("NCCL_RUNTIME_CONNECT", "0", 0);
	(void)cudaGetDevice(&before);
	code = ncclGroupStart();
	for (int i = 0; i < n_own && code == ncclSuccess; i++)
		code = cudaSetDevice(devices[i]) == cudaSuccess
			       ? ncclCommInitRank(&group->members[members[i]].comm, n, unique,
						  members[i])
			       : ncclUnhandledCudaError;
	end = ncclGroupEnd();
	if (before >= 0)
		(void)cudaSetDevice(before);
	code = code == ncclSuccess ? end : code;
	if (code != ncclSuccess) {
		free(group); /* not NCCL's part of it: destroying that may wait for a member forever
			      */
		snprintf(why, size, "NCCL does not join %d devices: %s", n,
			 ncclGetErrorString(code));
		return -1;
	}
	*out = group;
	return 0;
}

/* One thread ends all members here: in a group, since each waits for the others. */
void orr_nccl_destroy(struct orr_nccl *group)
{
	if (!group)
		return;
	(void)ncclGroupStart();
	for (int i = 0; i < group->n; i++)
		if (group->members[i].comm)
			(void)ncclCommFinalize(group->members[i].comm);
	(void)ncclGroupEnd();
	for (int i = 0; i < group->n; i++) {
		if (group->members[i].comm)
			(void)ncclCommDestroy(group->members[i].comm);
		pthread_mutex_destroy(&group->members[i].mutex);
	}
	free(group);
}

static const char *tell(const struct orr_nccl *group, struct member *m, char *text,
			const char *what, ncclResult_t code)
{
	if (code == ncclSuccess)
		return NULL;
	snprintf(text, sizeof(m->failure), "NCCL, %s, device %d, %d of %d members: %s", what,
		 m->device, (int)(m - group->members) + 1, group->n, ncclGetErrorString(code));
	return text;
}

/* Chunks differ by a float, so that a collective for each, all at once, takes the place of a
 * reduce-scatter or an all-gather. */
static ncclResult_t each_chunk(struct orr_nccl *group, ncclComm_t comm, float *floats, int64_t n,
			       bool sum, cudaStream_t stream)
{
	ncclResult_t code = ncclGroupStart(), last;

	for (int c = 0; c < group->n && code == ncclSuccess; c++) {
		float *at = floats + orr_rule_chunk(n, group->n, c);
		size_t count = (size_t)(orr_rule_chunk(n, group->n, c + 1) -
					orr_rule_chunk(n, group->n, c));

		code = sum ? ncclReduce(at, at, count, ncclFloat32, ncclSum, c, comm, stream)
			   : ncclBroadcast(at, at, count, ncclFloat32, c, comm, stream);
	}
	last = ncclGroupEnd();
	return code == ncclSuccess ? last : code;
}

const char *orr_nccl_start(struct orr_nccl *group, int i, enum orr_nccl_what what, float *floats,
			   int64_t n, void *stream)
{
	static const char *const names[] = {
		[ORR_NCCL_SUM] = "sum of gradients",
		[ORR_NCCL_SUM_PART] = "sum of a part of the gradients",
		[ORR_NCCL_GATHER] = "gathering of parameters",
	};
	struct member *m = &group->members[i];
	ncclResult_t code = ncclSuccess;
	bool aborted;

	pthread_mutex_lock(&m->mutex);
	if (!(aborted = atomic_load(&group->aborted)))
		code = what == ORR_NCCL_SUM ? ncclAllReduce(floats, floats, (size_t)n, ncclFloat32,
							    ncclSum, m->comm, stream)
					    : each_chunk(group, m->comm, floats, n,
							 what == ORR_NCCL_SUM_PART, stream);
	pthread_mutex_unlock(&m->mutex);
	return aborted ? "NCCL: the group has been aborted"
		       : tell(group, m, m->failure, names[what], code);
}

const char *orr_nccl_failure(struct orr_nccl *group)
{
	for (int i = 0; i < group->n && !atomic_load(&group->aborted); i++) {
		struct member *m = &group->members[i];
		ncclResult_t seen = ncclSuccess, code;

		if (!m->comm)
			continue;
		code = ncclCommGetAsyncError(m->comm, &seen);
		code = code == ncclSuccess ? seen : code;
		if (code != ncclSuccess && code != ncclInProgress)
			return tell(group, m, m->later, "after its start", code);
	}
	return NULL;
}

/* A call that does not come back keeps its mutex: after a second NCCL ends it as well. */
void orr_nccl_abort(struct orr_nccl *group)
{
	atomic_store(&group->aborted, true);
	for (int i = 0; i < group->n; i++) {
		struct member *m = &group->members[i];
		struct timespec until;
		bool locked;

		if (!m->comm)
			continue;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		locked = !pthread_mutex_timedlock(&m->mutex, &until);
		(void)ncclCommAbort(m->comm);
		m->comm = NULL;
		if (locked)
			pthread_mutex_unlock(&m->mutex);
	}
}
