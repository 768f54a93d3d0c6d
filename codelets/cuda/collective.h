#pragma once
/* NCCL among devices, of one process or of several: each member of a group brings a block of floats
 * and gets the sum of all of them. Every member gets the same bits; which ones, NCCL chooses by the
 * sizes and the links: they are not those of the ring that adds up on CPU cores (optimizer.h).
 *
 * All members of a group must call in one order, and none may wait for what comes after its call:
 * src/runtime/peers/reduce.c sees to both. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct orr_nccl;

/* Is there NCCL in this build? Without it every call fails. */
bool orr_nccl_is_built(void);

/* What the members of a group know it by. */
struct orr_nccl_id {
	char bytes[128];
};
/* A new one, to be told to all processes that have a member. Not 0: why, of size bytes, says what
 * NCCL says. */
int orr_nccl_name(struct orr_nccl_id *id, char *why, size_t size);

/* A group of n members, all on different devices, n_own of them here: member members[i] on CUDA's
 * device devices[i]. Waits for the other processes, which call it, too, in the same order of
 * groups. Not 0: why says what NCCL says, and the others wait forever. */
int orr_nccl_create(struct orr_nccl **out, const struct orr_nccl_id *id, int n, const int *members,
		    const int *devices, int n_own, char *why, size_t size);
/* NULL is fine; nothing may be in flight, unless the group has been aborted. */
void orr_nccl_destroy(struct orr_nccl *group);

/* In place: the sum of all blocks; the i-th of n chunks of it (optimizer.h), one for each member;
 * of members that each have their chunk in its place, all chunks. */
enum orr_nccl_what { ORR_NCCL_SUM, ORR_NCCL_SUM_PART, ORR_NCCL_GATHER };
/* Member i's part, where its device is current, in a thread that starts no other member's (StarPU
 * has one a device). Starts on stream, a cudaStream_t of the device, and does not wait. NULL, or
 * what NCCL says: the group's, and good as long as that. */
const char *orr_nccl_start(struct orr_nccl *group, int i, enum orr_nccl_what what, float *floats,
			   int64_t n, void *stream);

/* What has happened to the group since: NULL, nothing, or what NCCL says of the first member here
 * that it has happened to, the group's. Any thread. */
const char *orr_nccl_failure(struct orr_nccl *group);
/* Members here that wait for others end, and every later call fails. Any thread, once. */
void orr_nccl_abort(struct orr_nccl *group);
