#include "work.h"

#include <stdlib.h>
#include "base/max.h"
#include "schedule/async.h"
#include "orrery/graph.h"
#include "orrery/figures.h"
#include "runtime/devices/compile.h"

static int allocate(struct orr_work *work, struct orr_error *err)
{
	const struct orr_pipeline *p = work->pipeline;
	size_t n = (size_t)p->n_stages * (size_t)work->jobs->n_passes;
	size_t n_outputs = (size_t)p->n_outputs * (size_t)p->n_microbatches;
	struct orr_arrays *all = work->arrays = calloc(1, sizeof(*all));

	if (!all)
		return orr_no_memory(err, "run");
	orr_arrays_make(all, work->fault, 1);
	orr_arrays_make(all, work->first_of, n);
	orr_arrays_make(all, work->last_of, n);
	orr_arrays_make(all, work->first_reader, n_outputs + 1);
	orr_arrays_make(all, work->last_reader, n_outputs + 1);
	work->programs = orr_arrays_add(all, (size_t)p->n_stages, sizeof(struct orr_program *));
	orr_arrays_make(all, work->sequence, work->jobs->n_jobs);
	orr_arrays_make(all, work->n_readers, p->n_stages);
	orr_arrays_make(all, work->rank_of, p->n_workers);
	orr_arrays_make(all, work->losses, p->graph->n_operators);
	if (all->failed)
		return orr_no_memory(err, "run");
	for (size_t i = 0; i < n; i++)
		work->first_of[i] = work->last_of[i] = -1;
	for (size_t i = 0; i < n_outputs; i++)
		work->first_reader[i] = work->last_reader[i] = -1;
	return 0;
}

/* F j, computed here, reads outputs that others may read here, too. */
static void note_reads(struct orr_work *work, int j)
{
	struct orr_job job = orr_jobs_at(work->jobs, j);
	const struct orr_stage *stage = &work->pipeline->stages[job.s];
	int n = orr_work_n_read(work, job.s);

	for (int i = 0; i < stage->n_read * n; i++) {
		int64_t at = orr_work_output_at(work, stage->read[i / n], n > 1 ? i % n : job.b);

		work->last_reader[at] = j;
		if (work->first_reader[at] < 0)
			work->first_reader[at] = j;
	}
}

/* Of the order of all jobs, those that concern this rank. */
static void select_jobs(struct orr_work *work)
{
	const struct orr_jobs *jobs = work->jobs;
	int n_passes = work->pipeline->n_stages * jobs->n_passes;

	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = work->sequence[i], s = orr_jobs_at(jobs, j).s;
		bool owns = orr_work_has(work, jobs->weights[j]) && orr_work_reads(work, j);

		if (!orr_jobs_has(jobs, j))
			continue;
		work->n_readers[s] += owns && orr_work_n_trained(work, s);
		if (orr_work_computes(work, j)) {
			work->last_of[j % n_passes] = j;
			if (work->first_of[j % n_passes] < 0)
				work->first_of[j % n_passes] = j;
			if (orr_jobs_at(jobs, j).d == ORR_PASS_F)
				note_reads(work, j);
		}
		if (owns || orr_work_computes(work, j))
			work->sequence[work->n_sequence++] = j;
	}
}

int orr_work_init(struct orr_work *work, const struct orr_jobs *jobs, int batch, int rank,
		  int n_ranks, const char *ranks_workers, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int code;

	*work = (struct orr_work){
		.jobs = jobs,
		.pipeline = p,
		.batch = batch,
		.rank = rank,
		.n_ranks = n_ranks,
		.n_updates = 1,
		/* of a schedule without a flush a wave of jobs is submitted before the round that
		 * last used its memory is waited for */
		.window = jobs->async ? jobs->async->n_waves + 1 : 2,
	};
	if ((code = allocate(work, err)) ||
	    (code = orr_ranks_of_workers(work->rank_of, p->n_workers, n_ranks, ranks_workers, err)))
		return code;
	for (int s = 0; s < p->n_stages; s++) {
		work->n_updates = (int)larger(work->n_updates, orr_jobs_n_updates(jobs, s));
		if ((code = orr_program_create(&work->programs[s], p, s, err)))
			return code;
	}
	if ((code = orr_jobs_sequence(jobs, work->sequence, err)))
		return code;
	select_jobs(work);
	for (int k = 0; k < p->graph->n_operators; k++)
		if (orr_operator_is_loss(&p->graph->operators[k]))
			work->losses[work->n_losses++] = k;
	return 0;
}

void orr_work_fini(struct orr_work *work)
{
	for (int s = 0; work->programs && s < work->pipeline->n_stages; s++)
		orr_program_destroy(work->programs[s]);
	if (work->arrays)
		orr_arrays_free(work->arrays);
	free(work->arrays);
}

int orr_fault_tell(const struct orr_fault *fault, struct orr_error *err)
{
	if (fault->code && err)
		*err = fault->err;
	return fault->code;
}

int orr_work_samples(const struct orr_work *work, int b)
{
	int n = work->pipeline->n_microbatches;

	return work->batch / n + (b < work->batch % n);
}

int orr_work_first_sample(const struct orr_work *work, int b)
{
	int n = work->pipeline->n_microbatches, batch = work->batch;

	return b * (batch / n) + (int)smaller(b, batch % n);
}

bool orr_work_gates(const struct orr_work *work, int s, int b)
{
	const struct orr_jobs *jobs = work->jobs;
	int cap = orr_jobs_cap(jobs, s), before;

	if (!cap || b < cap)
		return false;
	before = orr_jobs_index(jobs, s, b - cap, orr_jobs_last_pass(jobs, s));
	return orr_work_rank(work, before) !=
	       orr_work_rank(work, orr_jobs_index(jobs, s, b, ORR_PASS_F));
}

bool orr_work_is_spread(const struct orr_work *work, int s)
{
	const struct orr_jobs *jobs = work->jobs;

	for (int i = jobs->first_owner[s] + 1; i < jobs->first_owner[s + 1]; i++)
		if (work->rank_of[jobs->owners[i]] != work->rank_of[jobs->owners[i - 1]])
			return true;
	return false;
}

/* Has stage s one owner, which is here? */
static bool has_one_owner(const struct orr_work *work, int s)
{
	return orr_work_replicas(work, s) == 1 &&
	       orr_work_has(work, work->jobs->owners[work->jobs->first_owner[s]]);
}

static bool may_be_copied(const struct orr_work *work, int k)
{
	const struct orr_graph *g = work->pipeline->graph;
	const int *stage_of = work->pipeline->stage_of;
	int first = g->operators[k].tied;

	return first >= 0 && !g->operators[k].frozen && stage_of[first] < stage_of[k] &&
	       !work->jobs->async && has_one_owner(work, stage_of[first]) &&
	       has_one_owner(work, stage_of[k]);
}

int64_t orr_work_n_kept(const struct orr_work *work, int s)
{
	const struct orr_graph *g = work->pipeline->graph;
	int64_t end = orr_work_n_trained(work, s);

	for (int k = g->n_operators - 1; k >= 0 && end; k--) {
		int64_t first = orr_program_first_parameter(work->programs[s], k);

		if (work->pipeline->stage_of[k] == s && may_be_copied(work, k) &&
		    orr_padded_floats(first + g->operators[k].n_parameters) ==
			    orr_padded_floats(end))
			end = first;
	}
	return end;
}

bool orr_work_is_copied(const struct orr_work *work, int k)
{
	int s = work->pipeline->stage_of[k];

	return may_be_copied(work, k) &&
	       orr_program_first_parameter(work->programs[s], k) >= orr_work_n_kept(work, s);
}

int orr_work_n_ties(const struct orr_work *work)
{
	const struct orr_graph *g = work->pipeline->graph;
	int n = 0;

	for (int k = 0; k < g->n_operators; k++)
		if (g->operators[k].tied >= 0 && !g->operators[k].frozen)
			n += orr_work_replicas(work, work->pipeline->stage_of[k]);
	return n;
}
