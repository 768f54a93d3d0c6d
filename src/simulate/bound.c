#include "bound.h"

#include "base/arrays.h"
#include "base/max.h"

struct finder {
	const struct orr_jobs *jobs;
	int64_t *head, *tail; /* [n_jobs] longest paths: to the start of a job, and from its end */
	int64_t *life;        /* [n_stages] of the microbatch at hand */
	int *order, *around;
};

/* Longest paths over the jobs that there are. Caps and orders are a schedule's own and no part of
 * it. */
static void find_paths(struct finder *f)
{
	const struct orr_jobs *jobs = f->jobs;

	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = f->order[i], n = orr_jobs_predecessors(jobs, j, f->around);

		for (int k = 0; k < n; k++)
			if (!orr_jobs_is_cap(jobs, f->around[k], j))
				f->head[j] =
					larger(f->head[j], f->head[f->around[k]] +
								   jobs->duration_ns[f->around[k]]);
	}
	for (int i = jobs->n_jobs - 1; i >= 0; i--) {
		int j = f->order[i], n = orr_jobs_predecessors(jobs, j, f->around);

		if (orr_jobs_makes_gradient(jobs, j))
			f->tail[j] =
				larger(f->tail[j], orr_jobs_update_ns(jobs, orr_jobs_at(jobs, j).s,
								      jobs->weights[j]));
		for (int k = 0; k < n; k++)
			if (!orr_jobs_is_cap(jobs, f->around[k], j))
				f->tail[f->around[k]] = larger(f->tail[f->around[k]],
							       f->tail[j] + jobs->duration_ns[j]);
	}
}

/* A worker cannot start before its earliest job can, then has all its work to do, and after its
 * last job what waits for that remains. */
static int64_t bound_worker(const struct finder *f, int w)
{
	const struct orr_jobs *jobs = f->jobs;
	int64_t before = INT64_MAX, after = INT64_MAX, busy = 0;

	for (int i = jobs->first[w]; i < jobs->first[w + 1]; i++) {
		int j = jobs->by_worker[i];

		before = smaller(before, f->head[j]);
		after = smaller(after, f->tail[j]);
		busy += jobs->duration_ns[j];
	}
	return busy ? before + busy + after : 0;
}

/* The least time that stashes of microbatch b live, all stages together: from the start of F(s) to
 * the end of B(s), F goes down one way at least and B comes back. */
static int64_t add_lives(const struct finder *f, int b)
{
	const struct orr_jobs *jobs = f->jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	int64_t sum = 0;

	for (int s = p->n_stages - 1; s >= 0; s--) {
		const int64_t *duration =
			&jobs->duration_ns[orr_jobs_index(jobs, s, b, ORR_PASS_F)];

		f->life[s] = 0;
		for (int i = 0; i < p->stages[s].n_out; i++)
			if (!p->edges[p->stages[s].out[i]].detached)
				f->life[s] = larger(f->life[s], f->life[orr_stage_after(p, s, i)]);
		if (orr_jobs_last_pass(jobs, s) != ORR_PASS_F)
			f->life[s] += duration[ORR_PASS_F] + duration[ORR_PASS_B];
		sum += f->life[s] + (jobs->n_passes == 3 ? duration[ORR_PASS_W] : 0);
	}
	return sum;
}

/* Of microbatch b on stage s, what is run again left out. */
static int64_t work_of(const struct orr_jobs *jobs, int s, int b)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int forward = orr_jobs_index(jobs, s, b, ORR_PASS_F), backward = forward + 1;
	int64_t backward_ns =
		orr_pipeline_job_ns(p, s, b, ORR_PASS_B, jobs->compute[backward], false);

	if (backward_ns && p->stages[s].recompute)
		return backward_ns;
	return orr_pipeline_job_ns(p, s, b, ORR_PASS_F, jobs->compute[forward], false) +
	       backward_ns;
}

int orr_bound_find(struct orr_bound *out, const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct finder x = {.jobs = jobs};
	struct orr_arrays all = {0};
	int code;

	*out = (struct orr_bound){0};
	orr_arrays_make(&all, x.head, jobs->n_jobs);
	orr_arrays_make(&all, x.tail, jobs->n_jobs);
	orr_arrays_make(&all, x.life, p->n_stages);
	orr_arrays_make(&all, x.order, jobs->n_jobs);
	orr_arrays_make(&all, x.around, orr_jobs_most_around(jobs));
	if ((code = orr_arrays_check(&all, "figures", err)) ||
	    (code = orr_jobs_sequence(jobs, x.order, err)))
		goto out;
	find_paths(&x);
	for (int j = 0; j < jobs->n_jobs; j++)
		out->makespan_ns =
			larger(out->makespan_ns, x.head[j] + jobs->duration_ns[j] + x.tail[j]);
	for (int w = 0; w < p->n_workers; w++)
		out->makespan_ns = larger(out->makespan_ns, bound_worker(&x, w));
	for (int b = 0; b < p->n_microbatches; b++) {
		out->lifespan_ns += add_lives(&x, b);
		for (int s = 0; s < p->n_stages; s++)
			out->work_ns += work_of(jobs, s, b) * orr_pipeline_n_at(p, s);
	}
out:
	orr_arrays_free(&all);
	return code;
}
