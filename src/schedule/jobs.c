#include "orrery/jobs.h"

int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	int64_t stash = orr_pipeline_stash_bytes(jobs->pipeline, job.s, job.b), input;

	if (orr_jobs_last_pass(jobs, job.s) == ORR_PASS_F)
		return 0;
	if (!jobs->recompute[job.s])
		return stash;
	/* the stash includes the part of the input that the backward reads; F runs again from all
	 * of the input */
	input = orr_pipeline_input_bytes(jobs->pipeline, job.s, job.b);
	return job.d == ORR_PASS_F || input > stash ? input : stash;
}

int64_t orr_jobs_edge_bytes(const struct orr_jobs *jobs, int j, int k)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job from = orr_jobs_at(jobs, j), to = orr_jobs_at(jobs, k);
	bool gradient = from.d != ORR_PASS_F;
	const struct orr_edge *edge =
		gradient ? orr_pipeline_edge(p, to.s, from.s) : orr_pipeline_edge(p, from.s, to.s);

	return orr_pipeline_edge_bytes(p, (int)(edge - p->edges), from.b, gradient);
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

int orr_jobs_predecessors(const struct orr_jobs *jobs, int j, int *predecessors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = orr_jobs_cap(jobs, job.s);

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
	int n = 0, cap = orr_jobs_cap(jobs, job.s), next = orr_jobs_next_pass(jobs, j);

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
