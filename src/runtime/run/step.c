#include "step.h"

#include "finite.h"
#include "options.h"
#include "schedule/versions.h"
#include "runtime/tasks/stall.h"

/* ---- jobs that add to one gradient in place, one after the other ---- */

/* Where one worker runs the jobs that add to a gradient in their order, in the gradient's own
 * memory, StarPU need not order them as well: it starts none before it has seen the end of the one
 * before, and a device waits for that each time. The first one writes, so that no other memory has
 * the gradient. The others read, as far as StarPU knows; it makes no copy for that, and a block is
 * never evicted from its home. What else uses the gradient has to wait for all of them. */
static bool in_order(const struct orr_submitter *submitter, const struct orr_owned *o)
{
	return o->in_order && submitter->orders;
}

/* How the job of t accesses the gradient of o, which it adds to in place. */
static enum starpu_data_access_mode chain_mode(const struct orr_submitter *submitter,
					       const struct orr_owned *o, const struct orr_task *t)
{
	if (t->arg.overwrite)
		return STARPU_W;
	return in_order(submitter, o) ? STARPU_R : STARPU_RW;
}

/* All jobs that add to o's gradient have been submitted: what is submitted from now on and uses it
 * follows them. */
static int close_chain(const struct orr_slots *slots, struct orr_slot *slot,
		       const struct orr_owned *o, struct orr_error *err)
{
	struct orr_buffers buffers;
	struct orr_task *t;

	if (!in_order(slots->submitter, o))
		return 0;
	if (!(t = orr_slots_open(slots, slot, o->w, ORR_CODELET_JOIN, 1, &buffers, err)))
		return ORR_E_NOMEM;
	orr_buffers_add(&buffers, o->gradient.handle, STARPU_RW);
	return orr_task_submit(slots->submitter, t, &buffers, err);
}

/* ---- the tasks of a job ---- */

/* The owner's own, or those that came from its rank; without a flush the version that the job
 * reads. */
static starpu_data_handle_t parameters_of(const struct orr_data *data, const struct orr_slot *slot,
					  int j)
{
	starpu_data_handle_t fetched = data->fetched[j];

	if (slot->jobs[j].reads)
		return slot->jobs[j].reads->block.handle;
	return fetched ? fetched : data->owned[data->owned_of[j]].parameters.handle;
}

/* The most buffers that add_order() adds. */
static int count_order(const struct orr_jobs *jobs, int j)
{
	int n;

	(void)orr_jobs_room(&n, jobs, j, false);
	return n + 3;
}

/* Job j starts when those that make room for what it keeps have ended, and may make room itself;
 * and it takes the credits for what it has of other ranks, and for them. */
static void add_order(struct orr_buffers *buffers, const struct orr_run *run, int j)
{
	int n;
	const int *before = orr_jobs_room(&n, run->work.jobs, j, false);

	for (int i = 0; i < n; i++)
		orr_buffers_add(buffers, run->data.ended[before[i]], STARPU_R);
	orr_buffers_add(buffers, run->data.ended[j], STARPU_W);
	orr_buffers_add(buffers, run->cross.arriving.of[j], STARPU_RW);
	orr_buffers_add(buffers, run->cross.leaving.of[j], STARPU_RW);
}

/* The tensors of microbatch b over n edges, those of them that there are. */
static void add_edges(struct orr_buffers *buffers, const struct orr_work *work,
		      const starpu_data_handle_t *tensors, const int *edges, int n, int b,
		      enum starpu_data_access_mode mode)
{
	for (int i = 0; i < n; i++)
		orr_buffers_add(buffers, tensors[orr_work_edge_at(work, edges[i], b)], mode);
}

static void drop_edges(const struct orr_data *data, const starpu_data_handle_t *tensors,
		       const int *edges, int n, int b)
{
	for (int i = 0; i < n; i++)
		orr_data_drop(data, tensors[orr_work_edge_at(data->work, edges[i], b)]);
}

/* What F of (s,b) reads: of every edge its microbatch, or all of them, one after the other. */
static void add_inputs(struct orr_buffers *buffers, const struct orr_data *data, int s, int b)
{
	const struct orr_work *work = data->work;
	const struct orr_stage *stage = &work->pipeline->stages[s];
	int n = orr_work_n_read(work, s);

	for (int i = 0; i < stage->n_in; i++)
		for (int k = 0; k < n; k++)
			add_edges(buffers, work, data->activation, &stage->in[i], 1, n > 1 ? k : b,
				  STARPU_R);
}

/* What is gathered goes with its last reader. */
static void drop_inputs(const struct orr_data *data, int j)
{
	const struct orr_work *work = data->work;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	const struct orr_stage *stage = &work->pipeline->stages[job.s];

	if (!stage->gather)
		drop_edges(data, data->activation, stage->in, stage->n_in, job.b);
	for (int b = 0;
	     stage->gather && orr_work_is_last(work, j) && b < work->pipeline->n_microbatches; b++)
		drop_edges(data, data->activation, stage->in, stage->n_in, b);
}

static int submit_forward(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	const struct orr_data *data = &run->data;
	int s = orr_jobs_at(work->jobs, j).s, b = orr_jobs_at(work->jobs, j).b, code;
	const struct orr_stage *stage = &work->pipeline->stages[s];
	int n = work->pipeline->n_microbatches, cap = orr_jobs_cap(work->jobs, s);
	struct orr_task *t = &slot->jobs[j];
	struct orr_buffers buffers;

	if ((code = orr_buffers_init(&buffers, ORR_CODELET_FORWARD,
				     stage->n_in * orr_work_n_read(work, s) + stage->n_out + 5 +
					     count_order(work->jobs, j),
				     err)))
		return code;
	if (t->arg.has_parameters)
		orr_buffers_add(&buffers, parameters_of(data, slot, j), STARPU_R);
	orr_buffers_add(&buffers, slot->samples.block[s * n + b], STARPU_R);
	add_inputs(&buffers, data, s, b);
	add_edges(&buffers, work, data->activation, stage->out, stage->n_out, b, STARPU_W);
	orr_buffers_add(&buffers, data->stash[s * n + b], STARPU_W);
	if (cap)
		orr_buffers_add(&buffers, data->token[s * n + b % cap], STARPU_W);
	orr_buffers_add(&buffers, data->gate[s * n + b], STARPU_R);
	add_order(&buffers, run, j);
	if ((code = orr_task_submit(&run->submitter, t, &buffers, err)))
		return code;
	drop_inputs(data, j);
	orr_data_drop(data, data->fetched[j]);
	return 0;
}

/* What B or W reads of the forward, inputs where F is recomputed, and what B leaves for W. */
static void add_stash(struct orr_buffers *buffers, const struct orr_task *t,
		      starpu_data_handle_t stash, starpu_data_handle_t left)
{
	bool takes = t->arg.part == ORR_PART_WEIGHT;

	if (!takes || !t->arg.packed)
		orr_buffers_add(buffers, stash, t->arg.recompute ? STARPU_R : STARPU_RW);
	orr_buffers_add(buffers, left, takes ? STARPU_RW : STARPU_W);
}

static int submit_backward(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	const struct orr_data *data = &run->data;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	const struct orr_stage *stage = &work->pipeline->stages[job.s];
	int n = work->pipeline->n_microbatches, cap = orr_jobs_cap(work->jobs, job.s);
	int n_in = job.d == ORR_PASS_B ? stage->n_in : 0;
	int n_out = job.d == orr_jobs_first_backward(work->jobs, job.s) ? stage->n_out : 0, code;
	bool last = job.d == orr_jobs_last_pass(work->jobs, job.s);
	const struct orr_owned *o = &data->owned[data->owned_of[j]];
	struct orr_task *t = &slot->jobs[j];
	struct orr_buffers buffers;
	starpu_data_handle_t stash = data->stash[job.s * n + job.b],
			     left = data->left[job.s * n + job.b];

	if ((code = orr_buffers_init(&buffers, ORR_CODELET_BACKWARD,
				     n_in + n_out + 6 + count_order(work->jobs, j), err)))
		return code;
	if (t->arg.has_parameters)
		orr_buffers_add(&buffers, parameters_of(data, slot, j), STARPU_R);
	add_stash(&buffers, t, stash, left);
	add_edges(&buffers, work, data->gradient, stage->out, n_out, job.b, STARPU_R);
	add_edges(&buffers, work, data->gradient, stage->in, n_in, job.b, STARPU_W);
	if (t->arg.has_gradient)
		orr_buffers_add(&buffers,
				o->in_place ? o->gradient.handle : data->partial[job.s * n + job.b],
				chain_mode(&run->submitter, o, t));
	if (last && cap)
		orr_buffers_add(&buffers, data->token[job.s * n + job.b % cap], STARPU_W);
	if (last && cap && job.b + cap < n && orr_work_gates(work, job.s, job.b + cap))
		orr_buffers_add(&buffers, data->gate[job.s * n + job.b + cap], STARPU_W);
	add_order(&buffers, run, j);
	if ((code = orr_task_submit(&run->submitter, t, &buffers, err)))
		return code;
	drop_edges(data, data->gradient, stage->out, n_out, job.b);
	if (t->arg.packed ? t->arg.part != ORR_PART_WEIGHT : last)
		orr_data_drop(data, stash);
	if (last)
		orr_data_drop(data, left);
	orr_data_drop(data, data->fetched[j]);
	return 0;
}

/* Of a stage that gathers all Bs have been submitted: what it sends back waits for all of them. */
static int submit_join(struct orr_run *run, struct orr_slot *slot, int s, struct orr_error *err)
{
	const struct orr_pipeline *p = run->work.pipeline;
	const struct orr_stage *stage = &p->stages[s];
	struct orr_buffers buffers;
	struct orr_task *t = orr_slots_open(&run->slots, slot, 0, ORR_CODELET_JOIN,
					    stage->n_in * p->n_microbatches, &buffers, err);

	if (!t)
		return ORR_E_NOMEM;
	for (int b = 0; b < p->n_microbatches; b++)
		add_edges(&buffers, &run->work, run->data.gradient, stage->in, stage->n_in, b,
			  STARPU_RW);
	return orr_task_submit(&run->submitter, t, &buffers, err);
}

/* ---- gradients and updates ---- */

static int submit_partial(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];
	starpu_data_handle_t partial;
	int code;

	if ((code = orr_cross_partial(&run->cross, slot->number, j, &partial, err)) ||
	    (code = orr_slots_add(&run->slots, slot, o->w, partial, o->gradient.handle,
				  o->contributors[0] == j, 0, 0,
				  orr_work_n_trained(&run->work, o->s), err)))
		return code;
	orr_data_drop(&run->data, partial);
	return 0;
}

/* That of the step which owner i's update belongs to. */
static double rate_of(const struct orr_run *run, const struct orr_slot *slot, int i, int q)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int64_t step = slot->flight.step;

	if (jobs->async) {
		const struct orr_task *t = &slot->updates[q * run->data.n_owned + i];

		step = t->arg.step * jobs->versions->every[run->data.owned[i].s] /
		       orr_versions_step(jobs->versions);
	}
	return orr_run_rate(&run->options, step);
}

static int submit_update(struct orr_run *run, struct orr_slot *slot, int i, int q,
			 struct orr_error *err)
{
	const struct orr_owned *o = &run->data.owned[i];
	int code;
	struct orr_task *t = &slot->updates[q * run->data.n_owned + i];
	struct orr_update *update = &slot->timeline->updates[o->update + q];
	struct orr_buffers buffers;

	if ((code = orr_buffers_init(&buffers, ORR_CODELET_UPDATE,
				     2 + orr_work_replicas(&run->work, o->s), err)))
		return code;
	t->start_ns = &update->start_ns;
	t->end_ns = &update->end_ns;
	orr_buffers_add(&buffers, o->parameters.handle, STARPU_RW);
	orr_buffers_add(&buffers, o->state.handle, STARPU_RW);
	orr_sum_read(&run->sum, i, o->sharded, &buffers, &t->arg);
	t->arg.rate = rate_of(run, slot, i, q);
	t->arg.scale = slot->scale;
	t->arg.spared = orr_spared_of(&run->spared, o->s, &t->arg.n_spared);
	if ((code = orr_task_submit(&run->submitter, t, &buffers, err)))
		return code;
	orr_sum_drop(&run->sum, i);
	return 0;
}

/* Do updates wait for the gradients of all other stages? */
static bool updates_wait(const struct orr_run *run)
{
	return run->slots.skips || run->clip.limit > 0;
}

/* Job j has read parameters that are owned here, and its gradient, if it has one, is on its way:
 * add what can be added now, in microbatch order, and update the stage after its last reader. */
static int submit_gradient(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	int i = run->data.owned_of[j], s = orr_jobs_at(run->work.jobs, j).s, code = 0;
	const struct orr_owned *o = &run->data.owned[i];

	while (slot->n_added[i] < o->n_contributors &&
	       slot->submitted[o->contributors[slot->n_added[i]]]) {
		int k = o->contributors[slot->n_added[i]++];

		if (!o->in_place && (code = submit_partial(run, slot, k, err)))
			return code;
		if (slot->n_added[i] == o->n_contributors &&
		    (code = close_chain(&run->slots, slot, o, err)))
			return code;
	}
	return --slot->n_left[s] || updates_wait(run) || orr_sum_is_late(&run->sum, s)
		       ? 0
		       : orr_step_submit_updates(run, slot, s, 0, err);
}

/* All owners of s that are here update by the sum that is there, and share what they update. */
static int submit_owners(struct orr_run *run, struct orr_slot *slot, int s, int q,
			 struct orr_error *err)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int code = 0;

	for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1] && !code; i++)
		if (orr_work_has(&run->work, run->data.owned[i].w) &&
		    (!jobs->async ||
		     !(code = orr_version_buffers_advance(&run->versions, slot, i, q, err))))
			code = submit_update(run, slot, i, q, err);
	if (!code)
		code = orr_sum_gather(&run->sum, slot, s, q, err);
	return code ? code : orr_stall_throttle(&run->slots, err);
}

int orr_step_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q,
			    struct orr_error *err)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int code = 0;

	for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1] && jobs->async && !code;
	     i++)
		code = close_chain(&run->slots, slot, &run->data.owned[i], err);
	if (code || (code = orr_sum_submit(&run->sum, slot, s, q, err)))
		return code;
	return submit_owners(run, slot, s, q, err);
}

int orr_step_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn,
			struct orr_error *err)
{
	struct orr_task *t = &slot->jobs[j];
	struct orr_job job = orr_jobs_at(run->work.jobs, j);
	int code;

	if ((code = orr_cross_receive(&run->cross, slot->number, j, err)))
		return code;
	t->queued.turn = turn;
	t->queued.ahead = t->arg.has_parameters && !run->data.fetched[j];
	t->start_ns = &slot->timeline->start_ns[j];
	t->end_ns = &slot->timeline->end_ns[j];
	code = job.d == ORR_PASS_F ? submit_forward(run, slot, j, err)
				   : submit_backward(run, slot, j, err);
	if (!code && job.d == ORR_PASS_B && run->work.pipeline->stages[job.s].gather &&
	    orr_work_is_last(&run->work, j))
		code = submit_join(run, slot, job.s, err);
	if (code || (code = orr_cross_send(&run->cross, slot->number, j, err)))
		return code;
	return orr_stall_throttle(&run->slots, err);
}

/* In one order on all ranks. */
static int submit_late_updates(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	int code = orr_sum_submit_shared(&run->sum, slot, err);

	for (int s = run->work.pipeline->n_stages - 1; s >= 0 && !code; s--)
		if (orr_work_n_trained(&run->work, s) &&
		    (updates_wait(run) || orr_sum_is_late(&run->sum, s)))
			code = orr_step_submit_updates(run, slot, s, 0, err);
	return code;
}

static int submit_check(struct orr_run *run, struct orr_slot *slot, int i, struct orr_error *err)
{
	const struct orr_owned *o = &run->data.owned[i];
	struct orr_buffers buffers;
	struct orr_task *t =
		orr_slots_open(&run->slots, slot, o->w, ORR_CODELET_CHECK, 1, &buffers, err);

	if (!t)
		return ORR_E_NOMEM;
	t->arg.n_floats = orr_work_n_trained(&run->work, o->s);
	t->arg.wild = &slot->wild[i];
	orr_buffers_add(&buffers, o->gradient.handle, STARPU_R);
	return orr_task_submit(&run->submitter, t, &buffers, err);
}

/* The squares of the gradient of stage s, summed where its first owner is. */
static int submit_norm(struct orr_run *run, struct orr_slot *slot, int s, struct orr_error *err)
{
	int i = run->work.jobs->first_owner[s];
	struct orr_buffers buffers;
	struct orr_task *t =
		orr_slots_open(&run->slots, slot, run->data.owned[i].w, ORR_CODELET_NORM,
			       orr_work_replicas(&run->work, s), &buffers, err);

	if (!t)
		return ORR_E_NOMEM;
	orr_clip_count(&run->clip, s, &t->arg);
	orr_sum_read(&run->sum, i, false, &buffers, &t->arg);
	return orr_task_submit(&run->submitter, t, &buffers, err);
}

/* Updates by gradients that are scaled by the norm of all of them, for which this thread waits. */
static int submit_clipped(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	int code = orr_sum_submit_shared(&run->sum, slot, err);

	for (int s = work->pipeline->n_stages - 1; s >= 0 && !code; s--)
		if (orr_work_n_trained(work, s) &&
		    !(code = orr_sum_submit(&run->sum, slot, s, 0, err)) &&
		    orr_clip_counts(&run->clip, s))
			code = submit_norm(run, slot, s, err);
	if (code || (code = orr_stall_all(&run->slots, err)) ||
	    (code = orr_clip_judge(&run->clip, &slot->norm, &slot->scale, err)))
		return code;
	for (int s = work->pipeline->n_stages - 1; s >= 0 && !code; s--)
		if (orr_work_n_trained(work, s))
			code = submit_owners(run, slot, s, 0, err);
	return code;
}

/* What is updated by a copy of the first one of its set. */
static int submit_copies(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	const struct orr_graph *g = work->pipeline->graph;
	const int *first_owner = work->jobs->first_owner;
	int code = 0;

	for (int k = 0; k < g->n_operators && !code; k++) {
		int to = work->pipeline->stage_of[k], tied = g->operators[k].tied, from;

		if (!orr_work_is_copied(work, k))
			continue;
		from = work->pipeline->stage_of[tied];
		code = orr_slots_put(&run->slots, slot, run->data.owned[first_owner[to]].w,
				     run->data.owned[first_owner[from]].parameters.handle,
				     run->data.owned[first_owner[to]].parameters.handle,
				     orr_program_first_parameter(work->programs[from], tied),
				     orr_program_first_parameter(work->programs[to], k),
				     g->operators[k].n_parameters, err);
	}
	return code;
}

/* The updates that have waited for all gradients of the step. */
static int submit_waiting(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	int code = run->clip.limit > 0 ? submit_clipped(run, slot, err)
				       : submit_late_updates(run, slot, err);

	return code ? code : submit_copies(run, slot, err);
}

/* All gradients are looked at before any of them is applied, so that no owner, here or on another
 * rank, is a step ahead of the others: this thread waits for the step's jobs. */
static int submit_if_finite(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	bool finite;
	int code = 0;

	for (int i = 0; i < run->data.n_owned && !code; i++)
		if (run->data.owned[i].gradient.handle)
			code = submit_check(run, slot, i, err);
	if (code || (code = orr_stall_all(&run->slots, err)) ||
	    (code = orr_finite_judge(&run->slots, slot, &finite, err)))
		return code;
	if (finite)
		return submit_waiting(run, slot, err);
	slot->skipped = true;
	run->trained.n_skipped++;
	for (int i = 0; i < run->data.n_owned; i++) /* as the update would */
		atomic_store(&run->data.owned[i].version, slot->flight.step + 1);
	return 0;
}

static int submit_jobs(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = &run->work;
	const struct orr_jobs *jobs = work->jobs;
	int code;

	run->cross.step = slot->flight.step;
	for (int i = 0; i < work->n_sequence; i++) {
		int j = work->sequence[i], w = jobs->compute[j];
		int64_t turn = slot->flight.step * (jobs->first[w + 1] - jobs->first[w]) +
			       jobs->position[j];

		code = orr_work_computes(work, j)
			       ? orr_step_submit_job(run, slot, j, turn, err)
			       : orr_cross_serve(&run->cross, slot->number, j, err);
		if (code)
			return code;
		slot->submitted[j] = true;
		if (run->data.owned[run->data.owned_of[j]].update >= 0 &&
		    orr_work_has(work, jobs->weights[j]) &&
		    (code = submit_gradient(run, slot, j, err)))
			return code;
	}
	return run->slots.skips ? submit_if_finite(run, slot, err) : submit_waiting(run, slot, err);
}

int orr_step_submit(struct orr_run *run, struct orr_error *err)
{
	struct orr_slot *slot = orr_slots_at(&run->slots, run->slots.n_submitted);
	int code;

	slot->samples.first = run->slots.n_submitted * run->work.batch;
	if ((code = orr_slots_begin(&run->slots, slot, err)))
		return code;
	code = submit_jobs(run, slot, err);
	orr_watch_submitted(&slot->flight);
	return code;
}
