#include "orrery/jobs.h"

int64_t orr_jobs_duration_ns(const struct orr_jobs *jobs, int j)
{
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &jobs->pipeline->stages[job.s];
	int64_t duration_ns =
		orr_pipeline_duration_ns(jobs->pipeline, job.s, job.d, jobs->n_passes == 3);

	if (job.d == ORR_PASS_B && jobs->recompute[job.s] && !stage->recompute)
		duration_ns += stage->forward_ns; /* the schedule asks for it, so the pipeline does
						     not know */
	return duration_ns;
}

int64_t orr_jobs_stash_bytes(const struct orr_jobs *jobs, int s, enum orr_pass d)
{
	const struct orr_stage *stage = &jobs->pipeline->stages[s];

	if (!jobs->recompute[s])
		return stage->stash_bytes;
	/* the stash has in it what the backward reads of the input; F runs again from all of it */
	return d == ORR_PASS_F || stage->input_bytes > stage->stash_bytes ? stage->input_bytes
									  : stage->stash_bytes;
}

int orr_jobs_predecessors(const struct orr_jobs *jobs, int j, int *predecessors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = jobs->cap ? jobs->cap[job.s] : 0;

	switch (job.d) {
	case ORR_PASS_F:
		for (int i = 0; i < stage->n_in; i++)
			predecessors[n++] = orr_jobs_index(jobs, orr_stage_before(p, job.s, i),
							   job.b, ORR_PASS_F);
		if (cap && job.b >= cap)
			predecessors[n++] =
				orr_jobs_index(jobs, job.s, job.b - cap, orr_jobs_last_pass(jobs));
		break;
	case ORR_PASS_B:
		predecessors[n++] = j - 1; /* F of the same stage and microbatch */
		for (int i = 0; i < stage->n_out; i++)
			predecessors[n++] = orr_jobs_index(jobs, orr_stage_after(p, job.s, i),
							   job.b, ORR_PASS_B);
		break;
	case ORR_PASS_W:
		predecessors[n++] = j - 1;
		break;
	}
	return n;
}

int orr_jobs_successors(const struct orr_jobs *jobs, int j, int *successors)
{
	const struct orr_pipeline *p = jobs->pipeline;
	struct orr_job job = orr_jobs_at(jobs, j);
	const struct orr_stage *stage = &p->stages[job.s];
	int n = 0, cap = jobs->cap ? jobs->cap[job.s] : 0;

	if (job.d == ORR_PASS_F) {
		for (int i = 0; i < stage->n_out; i++)
			successors[n++] = orr_jobs_index(jobs, orr_stage_after(p, job.s, i), job.b,
							 ORR_PASS_F);
		successors[n++] = j + 1;
		return n;
	}
	if (job.d == ORR_PASS_B) {
		for (int i = 0; i < stage->n_in; i++)
			successors[n++] = orr_jobs_index(jobs, orr_stage_before(p, job.s, i), job.b,
							 ORR_PASS_B);
		if (jobs->n_passes == 3)
			successors[n++] = j + 1;
	}
	if (cap && job.d == orr_jobs_last_pass(jobs) && job.b < p->n_microbatches - cap)
		successors[n++] = orr_jobs_index(jobs, job.s, job.b + cap, ORR_PASS_F);
	return n;
}
