#include "collective.h"

#include <stdio.h>

#include "base/absent.h"

#define WHY "this build has no NCCL"

ORR_ABSENT(bool, false, orr_nccl_is_built, void)

int orr_nccl_name(struct orr_nccl_id *id, char *why, size_t size)
{
	*id = (struct orr_nccl_id){{0}};
	snprintf(why, size, WHY);
	return -1;
}

int orr_nccl_create(struct orr_nccl **out, const struct orr_nccl_id *id, int n, const int *members,
		    const int *devices, int n_own, char *why, size_t size)
{
	*out = NULL;
	snprintf(why, size, WHY);
	return -1;
}

ORR_ABSENT(void, , orr_nccl_destroy, struct orr_nccl *group)
ORR_ABSENT(const char *, WHY, orr_nccl_start, struct orr_nccl *group, int i,
	   enum orr_nccl_what what, float *floats, int64_t n, void *stream)
ORR_ABSENT(const char *, NULL, orr_nccl_failure, struct orr_nccl *group)
ORR_ABSENT(void, , orr_nccl_abort, struct orr_nccl *group)
