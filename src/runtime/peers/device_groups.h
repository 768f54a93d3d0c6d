#pragma once
/* Which devices add up the gradients of a stage by NCCL, and the groups of them. */
#include "runtime/tasks/slots.h"

/* Pure: the devices whose owners of stage s NCCL adds up, into devices[owners of s]; returns their
 * number, or 0: it does not. device_of[w]: -1 where w has none. member_of[i]: the device of owner i
 * among them; several owners on one are of one rank. alone: one owner is enough. */
int orr_device_groups_choose(const struct orr_jobs *jobs, int s, const int *device_of,
			     const int *rank_of, bool alone, int *devices, int *member_of);

/* The device that serves each worker, known by the first worker that it serves, into
 * device_of[n_workers]; -1: a core. Collective. (tests) alone: cores count, so that the way of a
 * gradient can be tried without a device. */
void orr_device_groups_locate(const struct orr_work *work, const struct orr_policy *policy,
			      bool alone, int *device_of);

/* The group of these n devices of the owners of s, in slots->groups, which has room; made when
 * it is first asked for; NULL: nothing of it is here. Collective. */
struct orr_nccl *orr_device_groups_find(struct orr_slots *slots, const struct orr_policy *policy,
					int s, const int *devices, int n, const int *member_of);
void orr_device_groups_fini(struct orr_slots *slots);
