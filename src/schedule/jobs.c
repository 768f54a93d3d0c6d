#include "orrery/jobs.h"

int64_t orr_jobs_duration_ns(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &jobs->pipeline->stages[job.s];
	int64_t duration_ns =
		orr_pipeline_duration_ns(jobs->pipeline, job.s, job.d, jobs->n_passes == 3);

	if (jobs->recompute[job.s] && !stage->recompute && job.d != ORR_PASS_F &&
	    job.d == orr_jobs_first_backward(jobs, job.s))
		duration_ns += stage->forward_ns; /* the schedule asks for it, so the pipeline does
						     not know */
	return duration_ns;
}

int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int s, enum orr_pass d)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[s];

	if (orr_jobs_last_pass(jobs, s) == ORR_PASS_F)
		return 0;
	if (!jobs->recompute[s])
		return stage->stash_bytes;
	/* the stash includes the part of the input that the backward reads; F runs again from all
	 * of the input */
	return d == ORR_PASS_F || stage->input_bytes > stage->stash_bytes ? stage->input_bytes
									  : stage->stash_bytes;
}

int64_t orr_jobs_edge_bytes(const struct orr_jobs *jobs, int j, int k)
{
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);

	return from.d == ORR_PASS_F
		       ? orr_pipeline_edge(jobs->pipeline, from.s, to.s)->bytes
		       : orr_pipeline_edge(jobs->pipeline, to.s, from.s)->gradient_bytes;
}

int orr_jobs_next_pass(const struct orr_jobs *jobs, int j)
{
	int end = j - j % jobs->n_passes + jobs->n_passes;

	for (j++; j < end; j++)
		if (orr_jobs_has(jobs, j))
			return j;
	return -1;
}

int orr_jobs_pass_before(const struct orr_jobs *jobs, int j)
{
	int first = j - j % jobs->n_passes;

	for (j--; j >= first; j--)
		if (orr_jobs_has(jobs, j))
			return j;
	return -1;
}

/* The cap of stage s, 0: none. */
static int cap_of(const struct orr_jobs *jobs, int s)
{
	return jobs->cap && orr_jobs_last_pass(jobs, s) != ORR_PASS_F ? jobs->cap[s] : 0;
}

int orr_jobs_predecessors(const struct orr_jobs *jobs, int j, int *predecessors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = cap_of(jobs, job.s);

	if (!orr_jobs_has(jobs, j))
		return 0;
	if (job.d == ORR_PASS_F) {
		for (int i = 0; i < stage->n_in; i++)
			predecessors[n++] = orr_jobs_index(jobs, orr_stage_before(p, job.s, i),
							   job.b, ORR_PASS_F);
		if (cap && job.b >= cap)
			predecessors[n++] = orr_jobs_index(jobs, job.s, job.b - cap,
							   orr_jobs_last_pass(jobs, job.s));
		return n;
	}
	predecessors[n++] = orr_jobs_pass_before(jobs, j);
	for (int i = 0; i < stage->n_out && job.d == orr_jobs_first_backward(jobs, job.s); i++)
		if (!p->edges[stage->out[i]].detached)
			predecessors[n++] = orr_jobs_index(jobs, orr_stage_after(p, job.s, i),
							   job.b, ORR_PASS_B);
	return n;
}

int orr_jobs_successors(const struct orr_jobs *jobs, int j, int *successors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = cap_of(jobs, job.s), next = orr_jobs_next_pass(jobs, j);

	if (!orr_jobs_has(jobs, j))
		return 0;
	for (int i = 0; i < stage->n_out && job.d == ORR_PASS_F; i++)
		successors[n++] =
			orr_jobs_index(jobs, orr_stage_after(p, job.s, i), job.b, ORR_PASS_F);
	for (int i = 0; i < stage->n_in && job.d == ORR_PASS_B; i++) {
		int before = orr_stage_before(p, job.s, i);

		if (!p->edges[stage->in[i]].detached)
			successors[n++] = orr_jobs_index(jobs, before, job.b,
							 orr_jobs_first_backward(jobs, before));
	}
	if (next >= 0)
		successors[n++] = next;
	if (cap && job.d == orr_jobs_last_pass(jobs, job.s) && job.b < p->n_microbatches - cap)
		successors[n++] = orr_jobs_index(jobs, job.s, job.b + cap, ORR_PASS_F);
	return n;
}
