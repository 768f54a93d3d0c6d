#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- one task ---- */

static int64_t to_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

/* StarPU calls this when a task has finished, in the thread that ran it. */
static void finished(void *user)
{
	struct orr_job_task *t = user;
	const struct starpu_profiling_task_info *info = t->task->profiling_info;

	if (t->start_ns && info) {
		*t->start_ns = to_ns(&info->start_time);
		*t->end_ns = to_ns(&info->end_time);
	}
	atomic_store_explicit(&t->state, ORR_STATE_DONE, memory_order_release);
	if (t->owned >= 0)
		atomic_store(&t->run->data.owned[t->owned].version, t->slot->step + 1);
	orr_watch_done(t->run, t->slot);
}

/* A task under construction: its buffers, in order. */
struct buffers {
	starpu_data_handle_t *handles;
	enum starpu_data_access_mode *modes;
	int n;
};

static void add_buffer(struct buffers *buffers, starpu_data_handle_t handle,
		       enum starpu_data_access_mode mode)
{
	buffers->handles[buffers->n] = handle;
	buffers->modes[buffers->n++] = mode;
}

/* A task for at most most_buffers buffers. */
static struct starpu_task *task_create(enum orr_codelet codelet, int most_buffers,
				       struct buffers *buffers)
{
	struct starpu_task *task = starpu_task_create();

	task->cl = &orr_codelets[codelet];
	buffers->n = 0;
	buffers->handles = task->handles;
	buffers->modes = task->modes;
	if (most_buffers > STARPU_NMAXBUFS) {
		/* StarPU frees both with the task. */
		buffers->handles = task->dyn_handles =
			calloc((size_t)most_buffers, sizeof(*task->dyn_handles));
		buffers->modes = task->dyn_modes =
			calloc((size_t)most_buffers, sizeof(*task->dyn_modes));
		if (!buffers->handles || !buffers->modes) {
			task->destroy = 0;
			starpu_task_destroy(task);
			return NULL;
		}
	}
	return task;
}

/* StarPU calls this in the worker, just before the task runs. What a task reads was written by
 * tasks that have ended, so this is the version that is really there. */
static void note_version(void *user)
{
	struct orr_job_task *t = user;

	t->seen = atomic_load(&t->reads->holds);
	if (t->writes)
		atomic_store(&t->writes->holds, t->seen + t->later);
}

static int submit(struct orr_run *run, struct orr_job_task *t, struct starpu_task *task,
		  const struct buffers *buffers, struct orr_error *err)
{
	int code;

	task->nbuffers = buffers->n;
	task->cl_arg = &t->arg;
	task->cl_arg_size = sizeof(t->arg);
	task->sched_data = &t->queued;
	task->callback_func = finished;
	task->callback_arg = t;
	if (run->pinned) {
		int worker = orr_policy_worker(run->policy, t->queued.w);

		task->execute_on_a_specific_worker = 1;
		task->workerid = (unsigned)worker;
		task->workerorder = ++run->n_pinned[worker];
	}
	if (t->reads) {
		task->prologue_callback_pop_func = note_version;
		task->prologue_callback_pop_arg = t;
	}
	t->task = task;
	if (!run->stream)
		t->arg.step = t->arg.version = t->slot->step;
	atomic_store_explicit(&t->state, ORR_STATE_WAITING, memory_order_relaxed);
	atomic_fetch_add(&t->slot->n_running, 1);
	atomic_fetch_add(&run->n_tasks, 1);
	if ((code = starpu_task_submit(task))) {
		task->destroy = 0;
		starpu_task_destroy(task);
		atomic_fetch_sub(&t->slot->n_running, 1);
		atomic_fetch_sub(&run->n_tasks, 1);
		return orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses a task: %s",
				strerror(-code));
	}
	/* A large step does not lie in memory as a whole. What was submitted so far can run to its
	 * end, since the sequence extends every dependency and every worker's order. */
	if (run->n_tasks - run->n_done > ORR_MOST_TASKS)
		return orr_watch_wait(run, NULL, run->n_tasks - ORR_MOST_TASKS / 2, err);
	return 0;
}

static int no_memory(struct orr_error *err)
{
	return orr_fail(err, ORR_E_NOMEM, "run: no memory for a task");
}

/* ---- the tasks of a job ---- */

/* The owner's own, or what came from its rank; in a stream the version that the job reads. */
static starpu_data_handle_t parameters_of(const struct orr_run *run, const struct orr_slot *slot,
					  int j)
{
	starpu_data_handle_t fetched = run->data.fetched[j];

	if (slot->jobs[j].reads)
		return slot->jobs[j].reads->handle;
	return fetched ? fetched : run->data.owned[run->data.owned_of[j]].parameters;
}

static void add_credits(struct buffers *buffers, const struct orr_run *run, int j)
{
	starpu_data_handle_t arriving = orr_credit_of(&run->arriving, j),
			     leaving = orr_credit_of(&run->leaving, j);

	if (arriving)
		add_buffer(buffers, arriving, STARPU_RW);
	if (leaving)
		add_buffer(buffers, leaving, STARPU_RW);
}

static void drop_fetched(const struct orr_run *run, int j)
{
	if (run->data.fetched[j])
		orr_data_drop(run, run->data.fetched[j]);
}

static int submit_forward(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_data *data = &run->data;
	const struct orr_stage *stage = &run->pipeline->stages[orr_jobs_at(run->jobs, j).s];
	int s = orr_jobs_at(run->jobs, j).s, b = orr_jobs_at(run->jobs, j).b, code;
	int n = run->pipeline->n_microbatches, cap = run->jobs->cap ? run->jobs->cap[s] : 0;
	struct orr_job_task *t = &slot->jobs[j];
	struct buffers buffers;
	struct starpu_task *task =
		task_create(ORR_CODELET_FORWARD, stage->n_in + stage->n_out + 6, &buffers);

	if (!task)
		return no_memory(err);
	if (t->arg.has_parameters)
		add_buffer(&buffers, parameters_of(run, slot, j), STARPU_R);
	if (t->arg.has_data)
		add_buffer(&buffers, slot->block[s * n + b], STARPU_R);
	for (int i = 0; i < stage->n_in; i++)
		add_buffer(&buffers, data->activation[(int64_t)stage->in[i] * n + b], STARPU_R);
	for (int i = 0; i < stage->n_out; i++)
		add_buffer(&buffers, data->activation[(int64_t)stage->out[i] * n + b], STARPU_W);
	add_buffer(&buffers, data->stash[s * n + b], STARPU_W);
	if (cap)
		add_buffer(&buffers, data->token[s * n + b % cap], STARPU_W);
	if (orr_cross_gate(run, s, b))
		add_buffer(&buffers, data->gate[s * n + b], STARPU_R);
	add_credits(&buffers, run, j);
	if ((code = submit(run, t, task, &buffers, err)))
		return code;
	for (int i = 0; i < stage->n_in; i++)
		orr_data_drop(run, data->activation[(int64_t)stage->in[i] * n + b]);
	drop_fetched(run, j);
	return 0;
}

/* What B or W reads of the forward. Where F is recomputed B reads inputs and, for W, writes a whole
 * stash. */
static void add_stash(struct buffers *buffers, const struct orr_job_task *t,
		      starpu_data_handle_t stash, starpu_data_handle_t whole)
{
	if (t->arg.recompute) {
		add_buffer(buffers, stash, STARPU_R);
		if (whole)
			add_buffer(buffers, whole, STARPU_W);
	} else {
		add_buffer(buffers, whole ? whole : stash, STARPU_RW);
	}
}

/* B or W. */
static int submit_backward(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_data *data = &run->data;
	struct orr_job job = orr_jobs_at(run->jobs, j);
	const struct orr_stage *stage = &run->pipeline->stages[job.s];
	int n = run->pipeline->n_microbatches, cap = run->jobs->cap ? run->jobs->cap[job.s] : 0,
	    code;
	int n_in = job.d == ORR_PASS_W ? 0 : stage->n_in,
	    n_out = job.d == ORR_PASS_W ? 0 : stage->n_out;
	bool last = job.d == orr_jobs_last_pass(run->jobs, job.s);
	const struct orr_owned *o = &data->owned[data->owned_of[j]];
	struct orr_job_task *t = &slot->jobs[j];
	struct buffers buffers;
	struct starpu_task *task = task_create(ORR_CODELET_BACKWARD, n_in + n_out + 8, &buffers);
	starpu_data_handle_t stash = data->stash[job.s * n + job.b],
			     whole = data->whole[job.s * n + job.b];

	if (!task)
		return no_memory(err);
	if (t->arg.has_parameters)
		add_buffer(&buffers, parameters_of(run, slot, j), STARPU_R);
	add_stash(&buffers, t, stash, whole);
	for (int i = 0; i < n_out; i++)
		add_buffer(&buffers, data->gradient[(int64_t)stage->out[i] * n + job.b], STARPU_R);
	for (int i = 0; i < n_in; i++)
		add_buffer(&buffers, data->gradient[(int64_t)stage->in[i] * n + job.b], STARPU_W);
	if (last && t->arg.has_parameters)
		add_buffer(&buffers, o->in_place ? o->gradient : data->partial[job.s * n + job.b],
			   t->arg.overwrite ? STARPU_W : STARPU_RW);
	if (last && cap)
		add_buffer(&buffers, data->token[job.s * n + job.b % cap], STARPU_W);
	if (last && cap && job.b + cap < n && orr_cross_gate(run, job.s, job.b + cap))
		add_buffer(&buffers, data->gate[job.s * n + job.b + cap], STARPU_W);
	add_credits(&buffers, run, j);
	if ((code = submit(run, t, task, &buffers, err)))
		return code;
	for (int i = 0; i < n_out; i++)
		orr_data_drop(run, data->gradient[(int64_t)stage->out[i] * n + job.b]);
	if (t->arg.recompute || (last && !whole))
		orr_data_drop(run, stash);
	if (last && whole)
		orr_data_drop(run, whole);
	drop_fetched(run, j);
	return 0;
}

/* ---- gradients and updates ---- */

int orr_submit_add(struct orr_run *run, struct orr_job_task *t, starpu_data_handle_t partial,
		   starpu_data_handle_t sum, bool overwrite, int64_t offset, int64_t n_floats,
		   struct orr_error *err)
{
	struct buffers buffers;
	struct starpu_task *task = task_create(ORR_CODELET_ADD, 2, &buffers);

	if (!task)
		return no_memory(err);
	t->arg.overwrite = overwrite;
	t->arg.offset = offset;
	t->arg.n_floats = n_floats;
	add_buffer(&buffers, partial, STARPU_R);
	add_buffer(&buffers, sum, overwrite ? STARPU_W : STARPU_RW);
	return submit(run, t, task, &buffers, err);
}

int orr_submit_reduce(struct orr_run *run, struct orr_job_task *t, const struct orr_owned *o,
		      starpu_data_handle_t gate, struct orr_error *err)
{
	struct buffers buffers;
	struct starpu_task *task = task_create(ORR_CODELET_REDUCE, 4, &buffers);

	if (!task)
		return no_memory(err);
	add_buffer(&buffers, o->gradient, STARPU_R);
	add_buffer(&buffers, o->summed, STARPU_W);
	add_buffer(&buffers, gate, STARPU_R);
	add_buffer(&buffers, o->chain, STARPU_RW);
	return submit(run, t, task, &buffers, err);
}

static int submit_partial(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	struct orr_job job = orr_jobs_at(run->jobs, j);
	struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];
	starpu_data_handle_t partial =
		run->data.partial[job.s * run->pipeline->n_microbatches + job.b];
	int code = 0;

	if (!partial) {
		partial = o->incoming[o->n_incoming++ % 2];
		code = orr_cross_receive_partial(run, slot, j, partial, err);
	}
	if (!code)
		code = orr_submit_add(run, &slot->adds[j], partial, o->gradient,
				      o->contributors[0] == j, 0,
				      orr_program_n_parameters(run->programs[job.s]), err);
	if (!code)
		orr_data_drop(run, partial);
	return code;
}

static int submit_update(struct orr_run *run, struct orr_slot *slot, int i, int q,
			 struct orr_error *err)
{
	const struct orr_data *data = &run->data;
	const struct orr_owned *o = &data->owned[i];
	int first = run->jobs->first_owner[o->s], end = run->jobs->first_owner[o->s + 1], code;
	struct orr_job_task *t = &slot->updates[q * data->n_owned + i];
	struct orr_update *update = &slot->timeline->updates[o->update + q];
	struct buffers buffers;
	struct starpu_task *task = task_create(ORR_CODELET_UPDATE, 2 + end - first, &buffers);

	if (!task)
		return no_memory(err);
	t->start_ns = &update->start_ns;
	t->end_ns = &update->end_ns;
	add_buffer(&buffers, o->parameters, STARPU_RW);
	add_buffer(&buffers, o->state, STARPU_RW);
	/* Every replica sums the same gradients in the same order, so that they stay the same. */
	if (o->summed)
		add_buffer(&buffers, o->summed, STARPU_R);
	for (int k = 0; k < end - first && !o->summed; k++)
		if (!o->chunks)
			add_buffer(&buffers, data->owned[first + k].gradient, STARPU_R);
		else if (o->chunks[k])
			add_buffer(&buffers, o->chunks[k], STARPU_R);
	t->arg.n_gradients = buffers.n - 2;
	t->arg.n_chunks = o->chunks ? end - first : 0;
	if ((code = submit(run, t, task, &buffers, err)))
		return code;
	for (int k = 0; o->chunks && k < end - first; k++)
		if (o->chunks[k])
			orr_data_drop(run, o->chunks[k]);
	if (o->summed)
		orr_data_drop(run, o->summed);
	return 0;
}

/* Job j has read parameters that are owned here, and its gradient, if it has one, is on its way:
 * add what can be added now, in microbatch order, and update the stage after its last reader. */
static int submit_gradient(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	int i = run->data.owned_of[j], s = orr_jobs_at(run->jobs, j).s, code = 0;
	const struct orr_owned *o = &run->data.owned[i];

	while (slot->n_added[i] < o->n_contributors &&
	       slot->submitted[o->contributors[slot->n_added[i]]]) {
		int k = o->contributors[slot->n_added[i]++];

		if (!o->in_place && (code = submit_partial(run, slot, k, err)))
			return code;
	}
	return --slot->n_left[s] || o->joins || run->options.on_nan == ORR_ON_NAN_SKIP
		       ? 0
		       : orr_submit_updates(run, slot, s, 0, err);
}

int orr_submit_updates(struct orr_run *run, struct orr_slot *slot, int s, int q,
		       struct orr_error *err)
{
	const struct orr_data *data = &run->data;
	int first = run->jobs->first_owner[s], code = 0;

	if (data->owned[first].joins && (code = orr_reduce_submit(run, slot, s, q, err)))
		return code;
	if (data->owned[first].rings && (code = orr_ring_submit(run, slot, s, q, err)))
		return code;
	for (int i = first; i < run->jobs->first_owner[s + 1] && !code; i++)
		if (orr_run_has(run, data->owned[i].w) &&
		    (!run->stream || !(code = orr_stream_advance(run, slot, i, q, err))))
			code = submit_update(run, slot, i, q, err);
	return code;
}

int orr_submit_job(struct orr_run *run, struct orr_slot *slot, int j, int64_t turn,
		   struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	struct orr_job_task *t = &slot->jobs[j];
	int code;

	if ((code = orr_cross_receive(run, slot, j, err)))
		return code;
	t->queued.turn = turn;
	t->start_ns = &slot->timeline->start_ns[j];
	t->end_ns = &slot->timeline->end_ns[j];
	code = orr_jobs_at(jobs, j).d == ORR_PASS_F ? submit_forward(run, slot, j, err)
						    : submit_backward(run, slot, j, err);
	return code ? code : orr_cross_send(run, slot, j, err);
}

/* What NCCL adds up comes in one order on all ranks (reduce.c), whichever job is a rank's last; and
 * all does where the step could have been left out. */
static int submit_late_updates(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	bool all = run->options.on_nan == ORR_ON_NAN_SKIP;
	int code = 0;

	for (int s = run->pipeline->n_stages - 1; s >= 0 && !code; s--)
		if (run->data.owned[run->jobs->first_owner[s]].joins ||
		    (all && orr_program_n_parameters(run->programs[s])))
			code = orr_submit_updates(run, slot, s, 0, err);
	return code;
}

static int submit_check(struct orr_run *run, struct orr_slot *slot, int i, struct orr_error *err)
{
	struct buffers buffers;
	struct starpu_task *task = task_create(ORR_CODELET_CHECK, 1, &buffers);

	if (!task)
		return no_memory(err);
	add_buffer(&buffers, run->data.owned[i].gradient, STARPU_R);
	return submit(run, &slot->checks[i], task, &buffers, err);
}

/* All gradients are looked at before any of them is applied, so that no owner, here or on another
 * rank, is a step ahead of the others: this thread waits for the step's jobs. */
static int submit_if_finite(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	bool finite;
	int code = 0;

	for (int i = 0; i < run->data.n_owned && !code; i++)
		if (run->data.owned[i].gradient)
			code = submit_check(run, slot, i, err);
	/* all but the submission itself */
	if (code || (code = orr_watch_wait(run, NULL, run->n_tasks - 1, err)) ||
	    (code = orr_finite_judge(run, slot, &finite, err)))
		return code;
	if (finite)
		return submit_late_updates(run, slot, err);
	slot->skipped = true;
	run->n_skipped++;
	for (int i = 0; i < run->data.n_owned; i++) /* as the update would */
		atomic_store(&run->data.owned[i].version, slot->step + 1);
	return 0;
}

static int submit_jobs(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	int code;

	for (int i = 0; i < run->n_sequence; i++) {
		int j = run->sequence[i], w = jobs->compute[j];
		int64_t turn = slot->step * (jobs->first[w + 1] - jobs->first[w]) + jobs->rank[j];

		code = orr_run_computes(run, j) ? orr_submit_job(run, slot, j, turn, err)
						: orr_cross_serve(run, slot, j, err);
		if (code)
			return code;
		slot->submitted[j] = true;
		if (orr_run_learns(run, j) && orr_run_has(run, run->jobs->weights[j]) &&
		    (code = submit_gradient(run, slot, j, err)))
			return code;
	}
	return run->options.on_nan == ORR_ON_NAN_SKIP ? submit_if_finite(run, slot, err)
						      : submit_late_updates(run, slot, err);
}

int orr_submit_step(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	int code;

	slot->first_sample = run->n_submitted * run->options.batch;
	if ((code = orr_slot_begin(run, slot, err)))
		return code;
	code = submit_jobs(run, slot, err);
	orr_watch_done(run, slot);
	return code;
}
