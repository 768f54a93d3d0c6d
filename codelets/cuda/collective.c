#include "collective.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../optimizer.h"

struct member {
	ncclComm_t comm; /* NULL: it is elsewhere */
	char failure[96];
};

struct orr_nccl {
	int n;
	struct member members[];
};

bool orr_nccl_is_built(void)
{
	return true;
}

static int refuse(char *why, size_t size, int n, ncclResult_t code)
{
	snprintf(why, size, "NCCL does not join %d devices: %s", n, ncclGetErrorString(code));
	return -1;
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
		return refuse(why, size, n, code);
	}
	*out = group;
	return 0;
}

void orr_nccl_destroy(struct orr_nccl *group)
{
	if (!group)
		return;
	for (int i = 0; i < group->n; i++)
		if (group->members[i].comm)
			ncclCommDestroy(group->members[i].comm);
	free(group);
}

static const char *tell(struct member *m, const char *what, ncclResult_t code)
{
	if (code == ncclSuccess)
		return NULL;
	snprintf(m->failure, sizeof(m->failure), "NCCL, %s: %s", what, ncclGetErrorString(code));
	return m->failure;
}

const char *orr_nccl_sum(struct orr_nccl *group, int i, const float *from, float *to, int64_t n,
			 void *stream)
{
	struct member *m = &group->members[i];
	return tell(m, "sum of gradients",
		    ncclAllReduce(from, to, (size_t)n, ncclFloat32, ncclSum, m->comm, stream));
}

/* Chunks differ by a float, so that a collective for each, all at once, takes the place of a
 * reduce-scatter or an all-gather. */
const char *orr_nccl_sum_part(struct orr_nccl *group, int i, const float *from, float *to,
			      int64_t n, void *stream)
{
	struct member *m = &group->members[i];
	ncclResult_t code = ncclGroupStart(), end;

	for (int c = 0; c < group->n && code == ncclSuccess; c++) {
		int64_t begin = orr_rule_chunk(n, group->n, c);
		int64_t count = orr_rule_chunk(n, group->n, c + 1) - begin;

		code = ncclReduce(from + begin, to, (size_t)count, ncclFloat32, ncclSum, c, m->comm,
				  stream);
	}
	end = ncclGroupEnd();
	return tell(m, "sum of a part of the gradients", code == ncclSuccess ? end : code);
}

const char *orr_nccl_gather(struct orr_nccl *group, int i, float *floats, int64_t n, void *stream)
{
	struct member *m = &group->members[i];
	ncclResult_t code = ncclGroupStart(), end;

	for (int c = 0; c < group->n && code == ncclSuccess; c++) {
		int64_t begin = orr_rule_chunk(n, group->n, c);
		int64_t count = orr_rule_chunk(n, group->n, c + 1) - begin;

		code = ncclBroadcast(floats + begin, floats + begin, (size_t)count, ncclFloat32, c,
				     m->comm, stream);
	}
	end = ncclGroupEnd();
	return tell(m, "gathering of parameters", code == ncclSuccess ? end : code);
}
