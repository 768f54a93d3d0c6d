/* Jobs that stand in for those of another evaluation. */
#include "functions.h"

#include "base/max.h"
#include "orrery/jobs.h"
#include "orrery/schedule.h"

static int stage_of(const struct orr_pipeline *p, const struct orr_stand_in *x, int s)
{
	return x->groups ? p->split->stage[s] : s;
}

/* What a job (s,b,d) stands in for: its own pass, or that in which the whole stage does the same.
 */
static int job_of(const struct orr_pipeline *p, const struct orr_stand_in *x, int s, int b,
		  enum orr_pass d)
{
	const enum orr_pass instead[] = {d, d == ORR_PASS_B ? ORR_PASS_W : ORR_PASS_B, ORR_PASS_F};
	int of_s = stage_of(p, x, s), of_b = x->groups ? b : b / p->replicas;

	for (int i = 0; i < ORR_N_PASSES; i++) {
		int j = orr_jobs_index(x->jobs, of_s, of_b, instead[i]);

		if ((int)instead[i] < x->jobs->n_passes && orr_jobs_has(x->jobs, j))
			return j;
	}
	return orr_jobs_index(x->jobs, of_s, of_b, ORR_PASS_F);
}

/* Of a group the worker of the part's number, or a lower one where a stash is parked with a smaller
 * group. Replicas are blocks of workers one behind the other, so that the innermost groups of a
 * machine, whose links are the fastest, hold the transfers of every microbatch, and the rings,
 * which go once a step, cross over. */
static int worker_of(const struct orr_pipeline *p, const struct orr_stand_in *x, int s, int b,
		     int worker)
{
	const int *first = x->groups ? x->groups->first + worker : NULL;

	return first ? first[0] + p->split->shard[s] % (first[1] - first[0])
		     : b % p->replicas * (p->n_workers / p->replicas) + worker;
}

/* Within the place of a whole job: F by level; B against it, and then W. */
static int64_t n_of(const struct orr_pipeline *p, const struct orr_stand_in *x, int s,
		    enum orr_pass d, int job)
{
	const struct orr_split *split = p->split;
	int back;

	if (!x->groups)
		return x->jobs->priority[job];
	back = split->n_levels - 1 - split->level[s];
	return (int64_t)orr_jobs_position(x->jobs, job, 0) * 2 * split->n_levels +
	       (d == ORR_PASS_F   ? split->level[s]
		: d == ORR_PASS_B ? back
				  : split->n_levels + back);
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	const struct orr_stand_in *x = data;
	int n_passes = x->jobs->n_passes, n_jobs = p->n_stages * p->n_microbatches * n_passes;

	(void)err;
	out->stays = !x->jobs->park;
	for (int j = 0; j < n_jobs; j++) {
		int s = j / n_passes % p->n_stages, b = j / n_passes / p->n_stages;
		enum orr_pass d = (enum orr_pass)(j % n_passes);
		int job = job_of(p, x, s, b, d);

		out->worker[j] = worker_of(p, x, s, b, x->jobs->compute[job]);
		out->n[j] = n_of(p, x, s, d, job);
	}
	if (x->groups || p->microbatches)
		return 0;
	/* no replica is faster than one alone; but it was proved for equal microbatches */
	out->bound_ns = x->jobs->bound_ns;
	out->span_bound_ns = x->jobs->span_bound_ns;
	return 0;
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	const struct orr_stand_in *x = data;

	return worker_of(p, x, s, b, x->jobs->weights[job_of(p, x, s, b, d)]);
}

/* In a replica microbatch b waits for the one that is as many before it there. */
static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	const struct orr_stand_in *x = data;
	int64_t cap = orr_jobs_cap(x->jobs, stage_of(p, x, s));

	return (int)(x->groups ? cap : smaller(cap, p->n_microbatches / p->replicas) * p->replicas);
}

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	const struct orr_stand_in *x = data;

	return x->jobs->recompute[stage_of(p, x, s)];
}

static int park(const struct orr_pipeline *p, int s, int b, const void *data)
{
	const struct orr_stand_in *x = data;
	const int *at = x->jobs->park;
	int place = at ? at[job_of(p, x, s, b, ORR_PASS_F) / x->jobs->n_passes] : 0;

	return place > 0 ? worker_of(p, x, s, b, place - 1) + 1 : place;
}

int orr_jobs_stand_in(struct orr_jobs **out, const struct orr_pipeline *p,
		      const struct orr_schedule *schedule, const struct orr_stand_in *x,
		      struct orr_error *err)
{
	const struct orr_schedule all = {
		.name = schedule->name,
		.order = schedule->order,
		.split_backward = schedule->split_backward,
		.place = place,
		.weights = schedule->weights ? weights : NULL,
		.in_flight = schedule->in_flight ? in_flight : NULL,
		.recompute = recompute,
		.park = park,
		.data = x,
	};

	return orr_jobs_evaluate(out, p, &all, NULL, err);
}
