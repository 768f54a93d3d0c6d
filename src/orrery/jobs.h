#ifndef ORR_JOBS_H
#define ORR_JOBS_H
/* Every job (s,b,d) of a step under a schedule: its worker, the owner of its parameters, its place
 * in the order, its duration and its dependencies. The schedule's pure functions, evaluated once
 * and checked; simulator and runtime read nothing else. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "error.h"
#include "pipeline.h"
#include "schedule.h"

ORR_BEGIN

struct orr_async;
struct orr_room;
struct orr_versions;

struct orr_job {
	int s, b;
	enum orr_pass d;
};

/* Job j waits for before[first_before[j]] to before[first_before[j+1]-1] until there is room for
 * its stash (room.h), jobs on a worker of its own; `after` is the same, read the other way. */
struct orr_room {
	int *before, *first_before; /* first_...: [n_jobs + 1] */
	int *after, *first_after;
	int most; /* to either side of a job */
};

/* Of a graph that was split: what the schedule says, which sees the stages before (struct
 * orr_split), and groups of workers as workers. */
struct orr_groups {
	int n;
	int *first;            /* [n + 1] owned: group g is workers first[g] to first[g+1] - 1 */
	struct orr_jobs *jobs; /* owned: of the stages before, on groups */
	struct orr_pipeline pipeline; /* theirs; its arrays are borrowed */
	struct orr_cluster cluster;   /* of its machine, where the machine has one */
};

struct orr_jobs {
	const struct orr_pipeline *pipeline; /* borrowed */
	const char *schedule;                /* borrowed: its name */
	enum orr_order order;                /* BOUNDED has become GREEDY, with room */
	int n_passes;                        /* 2, or 3 with a split backward */
	int n_jobs;   /* n_stages * n_microbatches * n_passes: numbers of jobs, also of those that
			 do not exist (orr_jobs_has), which are in no worker's order */
	int *compute; /* [n_jobs] w_compute: of a job on several workers the first, see
			 orr_jobs_worker() */
	int *weights; /* [n_jobs] w_weights; the same array as compute where the schedule has none
		       */
	int64_t *priority;     /* [n_jobs] n */
	int *cap;              /* [n_stages] in-flight cap, 0: none, as of every stage without a
				  backward; NULL: none at all */
	struct orr_room *room; /* BOUNDED; else NULL */
	int64_t bound_ns; /* proven by the schedule, for the costs it was made for: no order within
			     its limits is shorter; 0: none */
	int64_t span_bound_ns; /* the same of the span, which the schedule seeks; else 0 */
	bool *recompute; /* [n_stages] the backward, if there is one, runs F again: the user asks
			    for it, or the schedule */
	int64_t *duration_ns; /* [n_jobs] of microbatch b on its worker; 0 of a job that does not
				 exist */
	/* worker w's jobs in the order of n: by_worker[first[w]] to by_worker[first[w+1]-1]; a job
	 * on several workers is in the order of each */
	int *by_worker;
	int *first;    /* [n_workers + 1] */
	int *position; /* [n_jobs * most_at] a job's place in the order of each of its workers, from
			  0: see orr_jobs_position() */
	int most_at;   /* the most workers of a job: 1 without gangs */
	/* the owners of stage s, each once, in the order of the first microbatch that they serve:
	 * owners[first_owner[s]] to owners[first_owner[s+1]-1]; more than one: replicas */
	int *owners;
	int *first_owner; /* [sets + 1] behind the stages the owners of tied parameters, those of
			     all of their stages: of set n_stages + t, see orr_pipeline_n_sets() */
	struct orr_groups *groups; /* owned: where the graph was split; else NULL */
	/* both NULL where the schedule flushes; else the step is a round of it */
	struct orr_async *async;
	struct orr_versions *versions;
};

/* Evaluate schedule on p, whose step must be set. Refuses a placement out of range, equal
 * priorities on one worker, and an order or a cap that deadlocks: the message names the jobs of the
 * cycle in order. *out borrows p and schedule's name.
 * The schedule is evaluated as if each stage were on the one worker that it gives. Jobs that are on
 * others as well, or instead, then take their places there by n, if that orders them without a tie
 * and without a deadlock; else by the time at which they would start in the schedule's own order,
 * which extends it, so it cannot deadlock. n is that order then.
 * Where the graph was split, the schedule is evaluated on the stages before (struct orr_split),
 * with groups of workers, as many as there is room for, in place of workers; n, then, is that of
 * the parts of each job in its place. Refuses one without a flush. */
int orr_jobs_create(struct orr_jobs **out, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, struct orr_error *err);
/* The same with a plan's workers: home[b * n_stages + s] is that of microbatch b of stage s. A
 * schedule that groups stages as the plan does, but numbers the workers differently, gets the
 * plan's numbers; any other keeps its own. NULL: no plan. Where the graph was split, of the stages
 * before, and groups. */
int orr_jobs_create_at(struct orr_jobs **out, const struct orr_pipeline *p,
		       const struct orr_schedule *schedule, const int *home, struct orr_error *err);
void orr_jobs_destroy(struct orr_jobs *jobs); /* NULL is fine */
/* The costs of the pipeline have changed: durations anew. */
void orr_jobs_renew(struct orr_jobs *jobs);

static inline int orr_jobs_index(const struct orr_jobs *jobs, int s, int b, enum orr_pass d)
{
	return (b * jobs->pipeline->n_stages + s) * jobs->n_passes + (int)d;
}
static inline struct orr_job orr_jobs_at(const struct orr_jobs *jobs, int j)
{
	int n_stages = jobs->pipeline->n_stages, sb = j / jobs->n_passes;
	struct orr_job job = {sb % n_stages, sb / n_stages, (enum orr_pass)(j % jobs->n_passes)};

	return job;
}
static inline bool orr_jobs_has(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);

	return orr_pipeline_has_pass(jobs->pipeline, job.s, job.d, jobs->n_passes == 3);
}
/* How many jobs exist. */
int orr_jobs_count(const struct orr_jobs *jobs);

/* The workers that job j holds: how many, and number i of them, 0 the one that computes. */
static inline int orr_jobs_n_at(const struct orr_jobs *jobs, int j)
{
	return jobs->most_at > 1 && orr_jobs_has(jobs, j)
		       ? orr_pipeline_n_at(jobs->pipeline, orr_jobs_at(jobs, j).s)
		       : 1;
}
static inline int orr_jobs_worker(const struct orr_jobs *jobs, int j, int i)
{
	return i ? orr_pipeline_at(jobs->pipeline, orr_jobs_at(jobs, j).s, jobs->compute[j], i)
		 : jobs->compute[j];
}
/* Its place in the order of number i of its workers. */
static inline int orr_jobs_position(const struct orr_jobs *jobs, int j, int i)
{
	return jobs->position[j * jobs->most_at + i];
}
/* The number of worker w among those of j; -1: it is none of them. */
static inline int orr_jobs_number_at(const struct orr_jobs *jobs, int j, int w)
{
	int i = orr_jobs_n_at(jobs, j) - 1;

	while (i >= 0 && orr_jobs_worker(jobs, j, i) != w)
		i--;
	return i;
}
/* The job before j, or with step 1 after it, in the order of number i of its workers; -1: none. */
static inline int orr_jobs_beside(const struct orr_jobs *jobs, int j, int i, int step)
{
	int w = orr_jobs_worker(jobs, j, i);
	int place = jobs->first[w] + orr_jobs_position(jobs, j, i) + step;

	return place < jobs->first[w] || place >= jobs->first[w + 1] ? -1 : jobs->by_worker[place];
}
/* The last pass of a stage: B, or W where the backward is split; F: it has no backward. */
static inline enum orr_pass orr_jobs_last_pass(const struct orr_jobs *jobs, int s)
{
	return orr_pipeline_last_pass(jobs->pipeline, s, jobs->n_passes == 3);
}
static inline enum orr_pass orr_jobs_first_backward(const struct orr_jobs *jobs, int s)
{
	return orr_pipeline_first_backward(jobs->pipeline, s, jobs->n_passes == 3);
}
/* Most microbatches of stage s in flight; 0: no cap. */
static inline int orr_jobs_cap(const struct orr_jobs *jobs, int s)
{
	return jobs->cap ? jobs->cap[s] : 0;
}
/* The pass of its stage and microbatch after job j, and the one before; -1: there is none. */
int orr_jobs_next_pass(const struct orr_jobs *jobs, int j);
int orr_jobs_pass_before(const struct orr_jobs *jobs, int j);
/* Does job j make a gradient of its stage's parameters? */
static inline bool orr_jobs_makes_gradient(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);

	return jobs->pipeline->stages[job.s].has_weight_gradient &&
	       job.d == orr_jobs_last_pass(jobs, job.s);
}

/* Updates of stage s in a step by each of its owners: one; without a flush, those of a round; none
 * of a frozen stage. */
int orr_jobs_n_updates(const struct orr_jobs *jobs, int s);
/* Its duration on owner w: of its part alone where the optimizer's state is divided. */
int64_t orr_jobs_update_ns(const struct orr_jobs *jobs, int s, int w);
/* Do the owners of stage s each update a part, which they send to the others afterwards? */
bool orr_jobs_shards(const struct orr_jobs *jobs, int s);

/* The stash of job j's stage and microbatch, on each of its workers, from the start of j until the
 * start of the next pass or, for the last pass, until its end. With recomputation it is the input
 * until B starts. */
int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int j);

/* What of it moves to the next pass, where another worker computes that: to B all that is read of
 * it, to W what W reads, also of B. */
int64_t orr_jobs_moved_bytes(const struct orr_jobs *jobs, int j);

/* What moves from job j to a job k of another stage that waits for it: an activation, or after F a
 * gradient. */
int64_t orr_jobs_edge_bytes(const struct orr_jobs *jobs, int j, int k);
/* The worker that sends it, or the stash, to number i of k's workers, for k that waits for j; -1:
 * nothing moves. It is there, or the edge is a cap, or, where a minibatch is gathered, it moves
 * along with another microbatch: an activation once to every worker that reads it, and a gradient
 * as the sum that a worker has made. */
int orr_jobs_sender(const struct orr_jobs *jobs, int j, int k, int i);

/* What j waits for, by number, and whether data moves along the edge. For any DAG:
 * F(s,b) after F(p,b) of every predecessor stage p, and after the end of (s,b-cap); B(s,b) after
 * F(s,b) and B(c,b) of every successor stage c that sends a gradient; W(s,b) after B(s,b), or where
 * there is none after what that would wait for [Rahimi25]. A cap says nothing of a stage without a
 * backward. Where s gathers, F(s,b) is after F(p,b') of every b', and B(p,b) after every B(s,b').
 * In BOUNDED order a job that keeps a stash waits for those that make room for it (room.h).
 * The arrays hold orr_jobs_most_around(). */
int orr_jobs_predecessors(const struct orr_jobs *jobs, int j, int *predecessors);
/* Does j wait for k, one of its predecessors, only because of a cap or for room? Nothing moves. */
bool orr_jobs_is_cap(const struct orr_jobs *jobs, int k, int j);
/* The jobs that wait for j. */
int orr_jobs_successors(const struct orr_jobs *jobs, int j, int *successors);
static inline size_t orr_jobs_most_around(const struct orr_jobs *jobs)
{
	const struct orr_pipeline *p = jobs->pipeline;

	return (size_t)p->n_stages * (orr_pipeline_gathers(p) ? (size_t)p->n_microbatches : 1) + 2 +
	       (size_t)(jobs->room ? jobs->room->most : 0);
}
/* Those of them for room: *n that j waits for, or with `after` that wait for j. */
const int *orr_jobs_room(int *n, const struct orr_jobs *jobs, int j, bool after);
/* An order that extends every dependency and, in STRICT, every worker's order. order holds n_jobs.
 */
int orr_jobs_sequence(const struct orr_jobs *jobs, int *order, struct orr_error *err);
ORR_END
#endif
