#pragma once
/* The scheduling policy: w_compute says which worker runs a task, n in which order.
 *
 * Workers of a schedule are logical: worker w is served by one of the StarPU workers at hand, which
 * serves several where there are fewer of them. With CUDA devices those alone serve: w is on device
 * w mod D, and a device with several streams serves its workers in turn on one stream each.
 * Everything that StarPU calls here happens under the lock of that StarPU worker, so the policy has
 * no lock of its own. */
#include <limits.h>
#include "work.h"

struct starpu_sched_policy;
struct starpu_task;

/* Where a task belongs: task->sched_data points to one, which must outlive the task. */
struct orr_queued {
	int w;
	/* Its place in w's order, counted from 0 over all steps without a gap; or ORR_NO_TURN: it
	 * has none, and runs before the others as soon as it is ready. */
	int64_t turn;
	/* A collective, without a turn: apart from w's jobs, if StarPU workers are reserved */
	bool apart;
	/* Its first buffer is fetched ahead by worker and turn (prefetch.h), where that is done */
	bool ahead;
	struct starpu_task *task; /* (private) */
};
#define ORR_NO_TURN (-1)

/* Higher first: of data for a task on its way, by its turn. */
static inline int orr_policy_priority(int64_t turn)
{
	return turn == ORR_NO_TURN ? INT_MAX : INT_MAX - 1 - (int)(turn % (INT_MAX / 2));
}

struct orr_policy;

/* For the jobs of work, as one of its arrays; NULL: no memory. One policy at a time:
 * orr_policy_starpu is the last one made. */
struct orr_policy *orr_policy_create(const struct orr_work *work);

/* Before StarPU starts: of every device one stream, or of cores the second half, computes no jobs;
 * collectives have them for themselves, and run while jobs do. */
void orr_policy_reserve(struct orr_policy *p);
/* Is StarPU's worker id reserved? */
bool orr_policy_is_reserved(const struct orr_policy *p, int id);

/* What conf.sched_policy takes. */
struct starpu_sched_policy *orr_policy_starpu(void);
/* Has StarPU taken it? (An environment variable can make it take another.) */
bool orr_policy_started(const struct orr_policy *p);
/* (tests) StarPU runs under another policy; this one only says which StarPU worker serves whom. */
void orr_policy_stand_by(struct orr_policy *p);

/* The StarPU worker that serves w, once StarPU has started, and its memory. */
int orr_policy_worker(const struct orr_policy *p, int w);
unsigned orr_policy_node(const struct orr_policy *p, int w);

/* started(user, queued) is called in the StarPU worker just before a task with a turn runs. A first
 * buffer that is fetched ahead is so for `depth` jobs after the one that runs; -1: none is. */
void orr_policy_on_start(struct orr_policy *p, int depth,
			 void (*started)(void *user, const struct orr_queued *queued), void *user);

/* The same of ended, just after it has run. */
void orr_policy_on_end(struct orr_policy *p,
		       void (*ended)(void *user, const struct orr_queued *queued), void *user);

/* The next turn on worker w is this one; nothing may be in flight. Without a call, 0. */
void orr_policy_begin(struct orr_policy *p, int w, int64_t turn);

/* Give tasks out in any order from now on, so that what was submitted can drain. */
void orr_policy_release(struct orr_policy *p);
