#pragma once
/* Every job (s,b,d) of a step under a schedule: its worker, the owner of its parameters, its
 * position, duration and dependencies. The schedule's functions are evaluated here once and
 * checked; simulator and runtime read only the result. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "orrery.h"
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

/* BOUNDED: job j waits for room for its stash until the jobs before[first_before[j]] to
 * before[first_before[j+1]-1] of its worker end; `after` has the same pairs by the other job. */
struct orr_room {
	int *before, *first_before; /* first_...: [n_jobs + 1] */
	int *after, *first_after;
	int most; /* to either side of a job */
};

/* In a split graph: the jobs as the schedule sees them, of the stages before the split (struct
 * orr_split) on groups of workers. */
struct orr_groups {
	int n;
	int *first;            /* [n + 1] owned: group g is workers first[g] to first[g+1] - 1 */
	struct orr_jobs *jobs; /* owned: of these stages, on groups */
	struct orr_pipeline pipeline; /* theirs; its arrays are borrowed */
	struct orr_cluster cluster;   /* of its machine, if any */
};

struct orr_jobs {
	const struct orr_pipeline *pipeline; /* borrowed */
	const char *schedule;                /* borrowed: its name */
	enum orr_order order;                /* BOUNDED is stored as GREEDY, with room */
	int n_passes;                        /* 2, or 3 with a split backward */
	int n_jobs;        /* n_stages * n_microbatches * n_passes, including jobs that do not exist
			      (orr_jobs_has), which are in no worker's order */
	int *compute;      /* [n_jobs] w_compute; of a job on several workers the first, see
			      orr_jobs_worker() */
	int *weights;      /* [n_jobs] w_weights; the array compute if the schedule has none */
	int64_t *priority; /* [n_jobs] n */
	int *cap;          /* [n_stages] in-flight cap; 0: none, as for stages without a
			      backward; NULL: no stage has one */
	struct orr_room *room; /* BOUNDED; else NULL */
	int64_t bound_ns; /* lower bound from the schedule, for orders within its limits and the
			     costs that it was made for; 0: none */
	int64_t span_bound_ns; /* the same of the span, if the schedule minimizes it; else 0 */
	bool *recompute; /* [n_stages] the backward, if there is one, runs F again, requested by
			    the user or the schedule */
	int *park; /* [n_stages * n_microbatches] as park of the schedule or the user; NULL: all 0
		    */
	int64_t *duration_ns; /* [n_jobs] of microbatch b on its worker; 0 of a job that does not
				 exist */
	/* worker w's jobs in the order of n: by_worker[first[w]] to by_worker[first[w+1]-1]; a job
	 * on several workers is in the order of each */
	int *by_worker;
	int *first;    /* [n_workers + 1] */
	int *position; /* [n_jobs * most_at] a job's index in the order of each of its workers, see
			  orr_jobs_position() */
	int most_at;   /* the most workers of a job: 1 without gangs */
	/* the owners of stage s, each once, in the order of the first microbatch that they serve:
	 * owners[first_owner[s]] to owners[first_owner[s+1]-1]; more than one: replicas */
	int *owners;
	int *first_owner; /* [sets + 1] after the stages, tied parameters (set n_stages + t, see
			     orr_pipeline_n_sets()) with the owners of all their stages */
	int *ring; /* the same in all replicas that are alike, each owner once in each of them:
		      from alike * first_owner[set] on, orr_jobs_ring_size(); else owners */
	struct orr_groups *groups; /* owned; NULL: the graph was not split */
	/* both NULL if the schedule flushes; else the step is one round */
	struct orr_async *async;
	struct orr_versions *versions;
};

/* Evaluate schedule on p, whose step must be set. Refuses a placement out of range, equal
 * priorities on one worker, and an order or a cap that deadlocks: the message names the jobs of the
 * cycle in order. *out borrows p and schedule's name. The schedule is evaluated as if each stage
 * were on the one worker that it returns. Jobs of gangs on other workers are then ordered there by
 * n, if that gives neither a tie nor a deadlock; else all jobs are ordered by their start in the
 * schedule's own order, which cannot deadlock, and n is that order. If the graph was split, the
 * schedule is evaluated on the stages before the split (struct orr_split), with groups of workers
 * as workers; the parts of a job then have its n. Refuses schedules without a flush. Of a pipeline
 * with replicas the schedule is evaluated on the first: microbatch b is number b / replicas of
 * replica b mod replicas, which has the next workers / replicas workers. */
int orr_jobs_create(struct orr_jobs **out, const struct orr_pipeline *p,
		    const struct orr_schedule *schedule, struct orr_error *err);
/* The same with a plan's workers: home[b * n_stages + s] is that of microbatch b of stage s. If the
 * schedule groups stages like the plan but numbers the workers differently, it gets the plan's
 * numbers. NULL: no plan. In a split graph: stages before the split, and groups; with replicas: of
 * the first. */
int orr_jobs_create_at(struct orr_jobs **out, const struct orr_pipeline *p,
		       const struct orr_schedule *schedule, const int *home, struct orr_error *err);
void orr_jobs_destroy(struct orr_jobs *jobs); /* NULL is fine */
/* Recompute durations after the pipeline's costs have changed. */
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

/* The workers that job j holds: their number, and worker i of them; 0 computes. */
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
/* Its index in the order of its worker i. */
static inline int orr_jobs_position(const struct orr_jobs *jobs, int j, int i)
{
	return jobs->position[j * jobs->most_at + i];
}
/* The index of worker w among those of j; -1: it is none of them. */
static inline int orr_jobs_number_at(const struct orr_jobs *jobs, int j, int w)
{
	int i = orr_jobs_n_at(jobs, j) - 1;

	while (i >= 0 && orr_jobs_worker(jobs, j, i) != w)
		i--;
	return i;
}
/* The job before (step -1) or after (step 1) j in the order of its worker i; -1: none. */
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
/* The owners of a set of parameters in all replicas. */
static inline int orr_jobs_ring_size(const struct orr_jobs *jobs, int set)
{
	return (jobs->first_owner[set + 1] - jobs->first_owner[set]) * jobs->pipeline->alike;
}
/* The number of worker w among a set's owners; -1: it is none of them. */
static inline int orr_jobs_owner_number(const struct orr_jobs *jobs, int set, int w)
{
	for (int i = jobs->first_owner[set]; i < jobs->first_owner[set + 1]; i++)
		if (jobs->owners[i] == w)
			return i - jobs->first_owner[set];
	return -1;
}
static inline const int *orr_jobs_ring(const struct orr_jobs *jobs, int set)
{
	return jobs->ring + jobs->first_owner[set] * jobs->pipeline->alike;
}
/* The next pass of its stage and microbatch after job j, and the one before; -1: none. */
int orr_jobs_next_pass(const struct orr_jobs *jobs, int j);
int orr_jobs_pass_before(const struct orr_jobs *jobs, int j);
/* Does job j compute a gradient of its stage's parameters? */
static inline bool orr_jobs_makes_gradient(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);

	return jobs->pipeline->stages[job.s].has_weight_gradient &&
	       job.d == orr_jobs_last_pass(jobs, job.s);
}

/* Updates of stage s per step and owner: one; without a flush, those of a round; 0 if frozen. */
int orr_jobs_n_updates(const struct orr_jobs *jobs, int s);
/* The microbatches whose gradients are in one of them. */
static inline int orr_jobs_each_update(const struct orr_jobs *jobs, int s)
{
	int n = orr_jobs_n_updates(jobs, s);

	return jobs->pipeline->n_microbatches / (n ? n : 1);
}
/* Duration of an update on owner w; of its part alone if the optimizer's state is divided. */
int64_t orr_jobs_update_ns(const struct orr_jobs *jobs, int s, int w);
/* Do the owners of stage s each update a part, which they send to the others afterwards? */
bool orr_jobs_shards(const struct orr_jobs *jobs, int s);

/* The stash of job j's stage and microbatch, on each of its workers, from the start of j until the
 * start of the next pass or, for the last pass, until its end. With recomputation it is the input
 * until B starts. */
int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int j);

/* Is the stash of F j parked, and where: ORR_HOST, or a worker + 1; 0: it is not. It leaves when F
 * ends, and the job that follows `ahead` others after F waits until it has left; it comes back when
 * the job that is `ahead` before the first that reads it starts. One that would be away beside no
 * job stays. So what a worker holds at most follows from its order alone. */
int orr_jobs_parked(const struct orr_jobs *jobs, int j);
static inline int orr_jobs_park_ahead(const struct orr_jobs *jobs)
{
	return jobs->pipeline->prefetch > 1 ? jobs->pipeline->prefetch : 1;
}
/* The F whose stash has to leave before j starts; or, with back, the one whose stash comes back as
 * j starts. -1: none. */
int orr_jobs_parked_beside(const struct orr_jobs *jobs, int j, bool back);

/* Bytes of it that move to the next pass if another worker computes that: to B all that B and W
 * read, to W all that W reads, results of B included. */
int64_t orr_jobs_moved_bytes(const struct orr_jobs *jobs, int j);

/* Bytes on the edge from job j to a job k of another stage that waits for it. */
int64_t orr_jobs_edge_bytes(const struct orr_jobs *jobs, int j, int k);
/* The worker that sends j's output or stash to worker i of k, which waits for j. -1: nothing moves:
 * it is there already, the edge is a cap, or another job's transfer has it, since a worker receives
 * an output once, whatever reads it there, and what gathering stages send back summed per worker.
 */
int orr_jobs_sender(const struct orr_jobs *jobs, int j, int k, int i);
/* Bytes that move then: all on the edge but outputs that another job's transfer has; -1: it has
 * all.
 */
int64_t orr_jobs_sent_bytes(const struct orr_jobs *jobs, int j, int k, int i);
/* The job of stage s on worker w that receives what F j sends it alone: of j's microbatch or, if s
 * gathers, the first there. An output that several read comes with the first of these in the order
 * of w. -1: there is none on w. */
int orr_jobs_receiver(const struct orr_jobs *jobs, int j, int s, int w);
/* Does k, which reads what F j makes, wait for the transfer from j to job `to` on worker w? */
bool orr_jobs_awaits(const struct orr_jobs *jobs, int j, int k, int to, int w);

/* The jobs that j waits for. For any DAG: F(s,b) after F(p,b) of every predecessor stage p, and
 * after the end of (s,b-cap); B(s,b) after F(s,b) and B(c,b) of every successor stage c that sends
 * a gradient; W(s,b) after B(s,b) or, without B, after the jobs that B would wait for [Rahimi25].
 * Caps ignore stages without a backward. If s gathers, F(s,b) is after F(p,b') of every b', and
 * B(p,b) after every B(s,b'). In BOUNDED order a job that keeps a stash waits for those that make
 * room for it. The arrays hold orr_jobs_most_around(). */
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
/* The *n predecessors of j, or with `after` successors, that only make room for a stash. */
const int *orr_jobs_room(int *n, const struct orr_jobs *jobs, int j, bool after);
/* An order that extends every dependency and, in STRICT, every worker's order. order holds n_jobs.
 */
int orr_jobs_sequence(const struct orr_jobs *jobs, int *order, struct orr_error *err);
ORR_END
