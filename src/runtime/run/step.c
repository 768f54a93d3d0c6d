#include "parts.h"

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
static void close_chain(const struct orr_slots *slots, struct orr_slot *slot,
			const struct orr_owned *o)
{
	if (!in_order(slots->submitter, o))
		return;
	orr_task_add(slots->submitter, o->gradient, STARPU_RW);
	orr_task_submit(slots->submitter, orr_slots_task(slots, slot, o->w), ORR_CODELET_JOIN);
}

/* ---- the tasks of a job ---- */

/* The owner's own, or those that came from its rank; without a flush the version that the job
 * reads. */
static starpu_data_handle_t parameters_of(const struct orr_data *data, const struct orr_slot *slot,
					  int j)
{
	starpu_data_handle_t fetched = data->fetched[j];

	if (slot->jobs[j].reads)
		return slot->jobs[j].reads->handle;
	return fetched ? fetched : data->owned[data->owned_of[j]].parameters;
}

/* Job j starts when those that make room for what it keeps have ended, and may make room itself;
 * and it takes the credits for what it has of other ranks, and for them. */
static void add_order(struct orr_run *run, int j)
{
	struct orr_submitter *submitter = &run->submitter;
	int n;
	const int *before = orr_jobs_room(&n, run->work.jobs, j, false);

	for (int i = 0; i < n; i++)
		orr_task_add(submitter, run->data.ended[before[i]], STARPU_R);
	orr_task_add(submitter, run->data.ended[j], STARPU_W);
	orr_task_add(submitter, run->cross.arriving[j], STARPU_RW);
	orr_task_add(submitter, run->cross.leaving[j], STARPU_RW);
}

/* The tensors of microbatch b over n edges, those of them that there are. */
static void add_edges(struct orr_run *run, const starpu_data_handle_t *tensors, const int *edges,
		      int n, int b, enum starpu_data_access_mode mode)
{
	for (int i = 0; i < n; i++)
		orr_task_add(&run->submitter, tensors[orr_work_edge_at(&run->work, edges[i], b)],
			     mode);
}

static void drop_edges(const struct orr_data *data, const starpu_data_handle_t *tensors,
		       const int *edges, int n, int b)
{
	for (int i = 0; i < n; i++)
		orr_data_drop(data, tensors[orr_work_edge_at(data->work, edges[i], b)]);
}

/* What F of (s,b) reads: of every edge its microbatch, or all of them, one after the other. */
static void add_inputs(struct orr_run *run, int s, int b)
{
	const struct orr_stage *stage = &run->work.pipeline->stages[s];
	int n = orr_work_n_read(&run->work, s);

	for (int i = 0; i < stage->n_in + stage->n_read; i++)
		for (int k = 0; k < n; k++) {
			int number = orr_stage_received(stage, i);

			add_edges(run, run->data.activation, &number, 1, n > 1 ? k : b, STARPU_R);
		}
}

/* What is gathered, or has several readers, goes with the last of them here. */
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
	for (int i = 0, n = orr_work_n_read(work, job.s); i < stage->n_read * n; i++) {
		int b = n > 1 ? i % n : job.b;

		if (work->last_reader[orr_work_output_at(work, stage->read[i / n], b)] == j)
			drop_edges(data, data->activation, &stage->read[i / n], 1, b);
	}
}

static void submit_forward(struct orr_run *run, struct orr_slot *slot, int j)
{
	const struct orr_work *work = &run->work;
	const struct orr_data *data = &run->data;
	struct orr_submitter *submitter = &run->submitter;
	int s = orr_jobs_at(work->jobs, j).s, b = orr_jobs_at(work->jobs, j).b;
	const struct orr_stage *stage = &work->pipeline->stages[s];
	int at = orr_work_at(work, s, b), cap = orr_jobs_cap(work->jobs, s);
	struct orr_task *t = &slot->jobs[j];

	if (t->arg.has_parameters)
		orr_task_add(submitter, parameters_of(data, slot, j), STARPU_R);
	orr_task_add(submitter, slot->samples.block[at], STARPU_R);
	add_inputs(run, s, b);
	add_edges(run, data->activation, stage->out, stage->n_out, b, STARPU_W);
	add_edges(run, data->activation, stage->sent, stage->n_sent, b, STARPU_W);
	orr_task_add(submitter, data->stash[at], STARPU_W);
	if (cap)
		orr_task_add(submitter, data->token[orr_work_at(work, s, b % cap)], STARPU_W);
	orr_task_add(submitter, data->gate[at], STARPU_R);
	add_order(run, j);
	orr_task_submit(submitter, t, ORR_CODELET_FORWARD);
	drop_inputs(data, j);
	orr_data_drop(data, data->fetched[j]);
}

/* What B or W reads of the forward, inputs where F is recomputed, and what B leaves for W. */
static void add_stash(struct orr_submitter *submitter, const struct orr_task *t,
		      starpu_data_handle_t stash, starpu_data_handle_t left)
{
	bool takes = t->arg.part == ORR_PART_WEIGHT;

	if (!takes || !t->arg.packed)
		orr_task_add(submitter, stash, t->arg.recompute ? STARPU_R : STARPU_RW);
	orr_task_add(submitter, left, takes ? STARPU_RW : STARPU_W);
}

static void submit_backward(struct orr_run *run, struct orr_slot *slot, int j)
{
	const struct orr_work *work = &run->work;
	const struct orr_data *data = &run->data;
	struct orr_submitter *submitter = &run->submitter;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	const struct orr_stage *stage = &work->pipeline->stages[job.s];
	int n = work->pipeline->n_microbatches, cap = orr_jobs_cap(work->jobs, job.s);
	int n_in = job.d == ORR_PASS_B ? stage->n_in : 0, at = orr_work_at(work, job.s, job.b);
	int n_out = job.d == orr_jobs_first_backward(work->jobs, job.s) ? stage->n_out : 0;
	bool last = job.d == orr_jobs_last_pass(work->jobs, job.s);
	const struct orr_owned *o = &data->owned[data->owned_of[j]];
	struct orr_task *t = &slot->jobs[j];

	if (t->arg.has_parameters)
		orr_task_add(submitter, parameters_of(data, slot, j), STARPU_R);
	add_stash(submitter, t, data->stash[at], data->left[at]);
	add_edges(run, data->gradient, stage->out, n_out, job.b, STARPU_R);
	add_edges(run, data->gradient, stage->in, n_in, job.b, STARPU_W);
	if (t->arg.has_gradient)
		orr_task_add(submitter, o->in_place ? o->gradient : data->partial[at],
			     chain_mode(submitter, o, t));
	if (last && cap)
		orr_task_add(submitter, data->token[orr_work_at(work, job.s, job.b % cap)],
			     STARPU_W);
	if (last && cap && job.b + cap < n && orr_work_gates(work, job.s, job.b + cap))
		orr_task_add(submitter, data->gate[at + cap], STARPU_W);
	add_order(run, j);
	orr_task_submit(submitter, t, ORR_CODELET_BACKWARD);
	drop_edges(data, data->gradient, stage->out, n_out, job.b);
	if (t->arg.packed ? t->arg.part != ORR_PART_WEIGHT : last)
		orr_data_drop(data, data->stash[at]);
	if (last)
		orr_data_drop(data, data->left[at]);
	orr_data_drop(data, data->fetched[j]);
}

/* Of a stage that gathers all Bs have been submitted: what it sends back waits for all of them. */
static void submit_join(struct orr_run *run, struct orr_slot *slot, int s)
{
	const struct orr_pipeline *p = run->work.pipeline;

	for (int b = 0; b < p->n_microbatches; b++)
		add_edges(run, run->data.gradient, p->stages[s].in, p->stages[s].n_in, b,
			  STARPU_RW);
	orr_task_submit(&run->submitter, orr_slots_task(&run->slots, slot, 0), ORR_CODELET_JOIN);
}

/* ---- gradients and updates ---- */

static void submit_partial(struct orr_run *run, struct orr_slot *slot, int j)
{
	const struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];
	starpu_data_handle_t partial = orr_cross_partial(&run->cross, slot->number, j);

	orr_slots_add(&run->slots, slot, o->w, o->contributors[0] == j ? ORR_ADD_ALL : ORR_ADD_TO,
		      partial, 0, o->gradient, 0, orr_work_n_trained(&run->work, o->s));
	orr_data_drop(&run->data, partial);
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

static void submit_update(struct orr_run *run, struct orr_slot *slot, int i, int q)
{
	const struct orr_owned *o = &run->data.owned[i];
	struct orr_task *t = &slot->updates[q * run->data.n_owned + i];
	struct orr_update *update = &slot->timeline->updates[o->update + q];

	t->start_ns = &update->start_ns;
	t->end_ns = &update->end_ns;
	orr_task_add(&run->submitter, o->parameters, STARPU_RW);
	orr_task_add(&run->submitter, o->state, STARPU_RW);
	orr_sum_read(&run->sum, i, o->sharded, &t->arg);
	t->arg.rule.learning_rate = rate_of(run, slot, i, q);
	t->arg.rule.scale = slot->scale;
	t->arg.rule.spared = orr_clip_spared(&run->clip, o->s, &t->arg.rule.n_spared);
	orr_task_submit(&run->submitter, t, ORR_CODELET_UPDATE);
	orr_sum_drop(&run->sum, i);
}

/* Do updates wait for the gradients of all other stages? */
static bool updates_wait(const struct orr_run *run)
{
	return run->slots.skips || run->clip.limit > 0;
}

/* Job j has read parameters that are owned here, and its gradient, if it has one, is on its way:
 * add what can be added now, in microbatch order, and update the stage after its last reader. */
static void submit_gradient(struct orr_run *run, struct orr_slot *slot, int j)
{
	int i = run->data.owned_of[j], s = orr_jobs_at(run->work.jobs, j).s;
	const struct orr_owned *o = &run->data.owned[i];

	while (slot->n_added[i] < o->n_contributors &&
	       slot->submitted[o->contributors[slot->n_added[i]]]) {
		int k = o->contributors[slot->n_added[i]++];

		if (!o->in_place)
			submit_partial(run, slot, k);
		if (slot->n_added[i] == o->n_contributors)
			close_chain(&run->slots, slot, o);
	}
	if (!--slot->n_left[s] && !updates_wait(run) && !orr_sum_is_late(&run->sum, s))
		orr_step_submit_updates(run, slot, s, 0);
}

/* All owners of s that are here update by the sum that is there, and share what they update. */
static void submit_owners(struct orr_run *run, struct orr_slot *slot, int s, int q)
{
	const struct orr_jobs *jobs = run->work.jobs;

	for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++) {
		if (!orr_work_has(&run->work, run->data.owned[i].w))
			continue;
		if (jobs->async)
			orr_version_buffers_advance(&run->versions, slot, i, q);
		submit_update(run, slot, i, q);
	}
	orr_sum_gather(&run->sum, slot, s, q);
	orr_stall_throttle(&run->slots);
}

void orr_step_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q)
{
	const struct orr_jobs *jobs = run->work.jobs;

	for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1] && jobs->async; i++)
		close_chain(&run->slots, slot, &run->data.owned[i]);
	orr_sum_submit(&run->sum, slot, s, q);
	submit_owners(run, slot, s, q);
}

void orr_step_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn)
{
	struct orr_task *t = &slot->jobs[j];
	struct orr_job job = orr_jobs_at(run->work.jobs, j);

	orr_cross_receive(&run->cross, slot->number, j);
	t->queued.turn = turn;
	t->queued.ahead = t->arg.has_parameters && !run->data.fetched[j];
	t->start_ns = &slot->timeline->start_ns[j];
	t->end_ns = &slot->timeline->end_ns[j];
	if (job.d == ORR_PASS_F)
		submit_forward(run, slot, j);
	else
		submit_backward(run, slot, j);
	if (job.d == ORR_PASS_B && run->work.pipeline->stages[job.s].gather &&
	    orr_work_is_last(&run->work, j))
		submit_join(run, slot, job.s);
	orr_cross_send(&run->cross, slot->number, j);
	orr_stall_throttle(&run->slots);
}

/* In one order on all ranks. */
static void submit_late_updates(struct orr_run *run, struct orr_slot *slot)
{
	orr_ties_submit(&run->sum.ties, slot, -1, 0);
	for (int s = run->work.pipeline->n_stages - 1; s >= 0; s--)
		if (orr_work_n_trained(&run->work, s) &&
		    (updates_wait(run) || orr_sum_is_late(&run->sum, s)))
			orr_step_submit_updates(run, slot, s, 0);
}

static void submit_check(struct orr_run *run, struct orr_slot *slot, int i)
{
	const struct orr_owned *o = &run->data.owned[i];
	struct orr_task *t = orr_slots_task(&run->slots, slot, o->w);

	t->arg.n_floats = orr_work_n_trained(&run->work, o->s);
	t->arg.wild = &slot->wild[i];
	orr_task_add(&run->submitter, o->gradient, STARPU_R);
	orr_task_submit(&run->submitter, t, ORR_CODELET_CHECK);
}

/* The squares of the gradient of stage s, summed where its first owner is. */
static void submit_norm(struct orr_run *run, struct orr_slot *slot, int s)
{
	int i = run->work.jobs->first_owner[s];
	struct orr_task *t = orr_slots_task(&run->slots, slot, run->data.owned[i].w);

	orr_clip_count(&run->clip, s, &t->arg);
	orr_sum_read(&run->sum, i, false, &t->arg);
	orr_task_submit(&run->submitter, t, ORR_CODELET_NORM);
}

/* Updates by gradients that are scaled by the norm of all of them, for which this thread waits. */
static void submit_clipped(struct orr_run *run, struct orr_slot *slot)
{
	const struct orr_work *work = &run->work;
	struct orr_fault *fault = work->fault;

	orr_ties_submit(&run->sum.ties, slot, -1, 0);
	for (int s = work->pipeline->n_stages - 1; s >= 0; s--) {
		if (!orr_work_n_trained(work, s))
			continue;
		orr_sum_submit(&run->sum, slot, s, 0);
		if (orr_clip_counts(&run->clip, s))
			submit_norm(run, slot, s);
	}
	orr_slots_look_ahead(&run->slots);
	orr_stall_all(&run->slots);
	if (!fault->code)
		fault->code = orr_clip_judge(&run->clip, &slot->norm, &slot->scale, &fault->err);
	for (int s = work->pipeline->n_stages - 1; s >= 0; s--)
		if (orr_work_n_trained(work, s))
			submit_owners(run, slot, s, 0);
}

/* What is updated by a copy of the first one of its set. */
static void submit_copies(struct orr_run *run, struct orr_slot *slot)
{
	const struct orr_work *work = &run->work;
	const struct orr_graph *g = work->pipeline->graph;

	for (int k = 0; k < g->n_operators; k++) {
		int to = work->pipeline->stage_of[k], tied = g->operators[k].tied, from;
		const struct orr_owned *source, *copy;

		if (!orr_work_is_copied(work, k))
			continue;
		from = work->pipeline->stage_of[tied];
		source = &run->data.owned[work->jobs->first_owner[from]];
		copy = &run->data.owned[work->jobs->first_owner[to]];
		orr_slots_add(&run->slots, slot, copy->w, ORR_ADD_OVER, source->parameters,
			      orr_program_first_parameter(work->programs[from], tied),
			      copy->parameters, orr_program_first_parameter(work->programs[to], k),
			      g->operators[k].n_parameters);
	}
}

/* The updates that have waited for all gradients of the step. */
static void submit_waiting(struct orr_run *run, struct orr_slot *slot)
{
	if (run->clip.limit > 0)
		submit_clipped(run, slot);
	else
		submit_late_updates(run, slot);
	submit_copies(run, slot);
}

/* All gradients are looked at before any of them is applied, so that no owner, here or on another
 * rank, is a step ahead of the others: this thread waits for the step's jobs. */
static void submit_if_finite(struct orr_run *run, struct orr_slot *slot)
{
	struct orr_fault *fault = run->work.fault;
	bool finite;

	for (int i = 0; i < run->data.n_owned; i++)
		if (run->data.owned[i].gradient)
			submit_check(run, slot, i);
	orr_slots_look_ahead(&run->slots);
	orr_stall_all(&run->slots);
	if (fault->code ||
	    (fault->code = orr_finite_judge(&run->slots, slot, &finite, &fault->err)))
		return;
	if (finite) {
		submit_waiting(run, slot);
		return;
	}
	slot->skipped = true;
	run->trained.n_skipped++;
	for (int i = 0; i < run->data.n_owned; i++) /* as the update would */
		atomic_store(&run->data.owned[i].version, slot->flight.step + 1);
}

static void submit_jobs(struct orr_run *run, struct orr_slot *slot)
{
	const struct orr_work *work = &run->work;
	const struct orr_jobs *jobs = work->jobs;

	run->cross.step = slot->flight.step;
	for (int i = 0; i < work->n_sequence; i++) {
		int j = work->sequence[i], w = jobs->compute[j];
		int64_t turn = slot->flight.step * (jobs->first[w + 1] - jobs->first[w]) +
			       jobs->position[j];

		if (orr_work_computes(work, j))
			orr_step_submit_job(run, slot, j, turn);
		else
			orr_cross_serve(&run->cross, slot->number, j);
		slot->submitted[j] = true;
		if (run->data.owned[run->data.owned_of[j]].update >= 0 &&
		    orr_work_has(work, jobs->weights[j]))
			submit_gradient(run, slot, j);
	}
	if (run->slots.skips)
		submit_if_finite(run, slot);
	else
		submit_waiting(run, slot);
}

int orr_step_submit(struct orr_run *run, struct orr_error *err)
{
	struct orr_slot *slot = orr_slots_at(&run->slots, run->slots.n_submitted);
	int code;

	slot->samples.first = run->slots.n_submitted * run->work.batch;
	if ((code = orr_slots_begin(&run->slots, slot, err)))
		return code;
	submit_jobs(run, slot);
	orr_watch_submitted(&slot->flight);
	return orr_fault_tell(run->work.fault, err);
}
