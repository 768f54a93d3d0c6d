#include "task.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

void orr_task_init(struct orr_task *t, const struct orr_submitter *submitter,
		   struct orr_flight *flight, int w)
{
	*t = (struct orr_task){
		.queued = {.w = w, .turn = ORR_NO_TURN},
		.arg = {.common = submitter->common, .job = -1},
		.flight = flight,
	};
}

const char *orr_task_failure(const struct orr_submitter *submitter)
{
	return atomic_load(&submitter->common->failure);
}

int orr_buffers_init(struct orr_buffers *buffers, enum orr_codelet codelet, int most,
		     struct orr_error *err)
{
	struct starpu_task *task = starpu_task_create();

	task->cl = &orr_codelets[codelet];
	*buffers = (struct orr_buffers){task, task->handles, task->modes, 0};
	if (most <= STARPU_NMAXBUFS)
		return 0;
	/* StarPU frees both with the task */
	buffers->handles = task->dyn_handles = calloc((size_t)most, sizeof(*task->dyn_handles));
	buffers->modes = task->dyn_modes = calloc((size_t)most, sizeof(*task->dyn_modes));
	if (buffers->handles && buffers->modes)
		return 0;
	task->destroy = 0;
	starpu_task_destroy(task);
	return orr_fail(err, ORR_E_NOMEM, "run: no memory for a task");
}

void orr_buffers_add(struct orr_buffers *buffers, starpu_data_handle_t handle,
		     enum starpu_data_access_mode mode)
{
	if (!handle)
		return;
	buffers->handles[buffers->n] = handle;
	buffers->modes[buffers->n++] = mode;
}

/* StarPU calls this when a task has finished, in the thread that ran it. */
static void finished(void *user)
{
	struct orr_task *t = user;
	const struct starpu_profiling_task_info *info = t->task->profiling_info;

	if (t->start_ns && info) {
		*t->start_ns = orr_ns_of(info->start_time);
		*t->end_ns = orr_ns_of(info->end_time);
	}
	atomic_store_explicit(&t->state, ORR_STATE_DONE, memory_order_release);
	if (t->n_updated)
		atomic_store(t->n_updated, t->flight->step + 1);
	orr_watch_done(t->flight);
}

/* StarPU calls this in the worker, just before the task runs. What a task reads was written by
 * tasks that have ended, so this is the version that is really there. */
static void note_version(void *user)
{
	struct orr_task *t = user;

	t->seen = atomic_load(&t->reads->holds);
	if (t->writes)
		atomic_store(&t->writes->holds, t->seen + t->later);
}

int orr_task_submit(struct orr_submitter *submitter, struct orr_task *t,
		    const struct orr_buffers *buffers, struct orr_error *err)
{
	struct starpu_task *task = t->task = buffers->task;
	int code;

	task->nbuffers = buffers->n;
	task->cl_arg = &t->arg;
	task->cl_arg_size = sizeof(t->arg);
	task->sched_data = &t->queued;
	task->callback_func = finished;
	task->callback_arg = t;
	if (submitter->pinned && task->cl->where != STARPU_NOWHERE) {
		int worker = orr_policy_worker(submitter->policy, t->queued.w);

		task->execute_on_a_specific_worker = 1;
		task->workerid = (unsigned)worker;
		task->workerorder = ++submitter->n_pinned[worker];
	}
	if (t->reads) {
		task->prologue_callback_pop_func = note_version;
		task->prologue_callback_pop_arg = t;
	}
	t->arg.sample = t->flight->sample + t->arg.first;
	if (submitter->flushes)
		t->arg.step = t->arg.version = t->flight->step;
	atomic_store_explicit(&t->state, ORR_STATE_WAITING, memory_order_relaxed);
	orr_watch_add(t->flight);
	if (!(code = starpu_task_submit(task)))
		return 0;
	task->destroy = 0;
	starpu_task_destroy(task);
	orr_watch_take_back(t->flight);
	return orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses a task: %s", strerror(-code));
}

int orr_task_submit_add(struct orr_submitter *submitter, struct orr_task *t,
			starpu_data_handle_t from, starpu_data_handle_t to,
			enum starpu_data_access_mode mode, struct orr_error *err)
{
	struct orr_buffers buffers;
	int code = orr_buffers_init(&buffers, ORR_CODELET_ADD, 2, err);

	if (code)
		return code;
	orr_buffers_add(&buffers, from, STARPU_R);
	orr_buffers_add(&buffers, to, mode);
	return orr_task_submit(submitter, t, &buffers, err);
}
