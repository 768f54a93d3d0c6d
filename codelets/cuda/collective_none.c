#include "collective.h"

#include <stdio.h>

bool orr_nccl_is_built(void)
{
	return false;
}

int orr_nccl_name(struct orr_nccl_id *id, char *why, size_t size)
{
	*id = (struct orr_nccl_id){{0}};
	snprintf(why, size, "this build has no NCCL");
	return -1;
}

int orr_nccl_create(struct orr_nccl **out, const struct orr_nccl_id *id, int n, const int *members,
		    const int *devices, int n_own, char *why, size_t size)
{
	(void)id, (void)n, (void)members, (void)devices, (void)n_own;
	*out = NULL;
	snprintf(why, size, "this build has no NCCL");
	return -1;
}

void orr_nccl_destroy(struct orr_nccl *group)
{
	(void)group;
}

const char *orr_nccl_start(struct orr_nccl *group, int i, enum orr_nccl_what what, float *floats,
			   int64_t n, void *stream)
{
	(void)group, (void)i, (void)what, (void)floats, (void)n, (void)stream;
	return "this build has no NCCL";
}

const char *orr_nccl_failure(struct orr_nccl *group)
{
	(void)group;
	return NULL;
}

void orr_nccl_abort(struct orr_nccl *group)
{
	(void)group;
}
