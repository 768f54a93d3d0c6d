#include "collective.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

struct orr_nccl {
	int n;
	ncclComm_t comms[]; /* by member; NULL: none */
};

int orr_nccl_create(struct orr_nccl **out, const int *devices, int n, char *why, size_t size)
{
	struct orr_nccl *group = calloc(1, sizeof(*group) + (size_t)n * sizeof(ncclComm_t));
	ncclResult_t code;

	if (!group) {
		snprintf(why, size, "no memory for a group of %d devices", n);
		return -1;
	}
	/* Members would meet in their first sum, where each waits for the others' threads. */
	setenv("NCCL_RUNTIME_CONNECT", "0", 0);
	group->n = n;
	code = ncclCommInitAll(group->comms, n, devices);
	if (code != ncclSuccess) {
		snprintf(why, size, "NCCL does not join %d devices: %s", n,
			 ncclGetErrorString(code));
		free(group);
		return -1;
	}
	*out = group;
	return 0;
}

void orr_nccl_destroy(struct orr_nccl *group)
{
	if (!group)
		return;
	for (int i = 0; i < group->n; i++)
		ncclCommDestroy(group->comms[i]);
	free(group);
}

const char *orr_nccl_sum(struct orr_nccl *group, int i, const float *from, float *to, int64_t n,
			 void *stream)
{
	ncclResult_t code = ncclAllReduce(from, to, (size_t)n, ncclFloat32, ncclSum,
					  group->comms[i], stream);

	return code == ncclSuccess ? NULL : ncclGetErrorString(code);
}
