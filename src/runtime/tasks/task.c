#include "task.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/grow.h"

struct orr_buffer {
	starpu_data_handle_t handle;
	enum starpu_data_access_mode mode;
};

void orr_task_init(struct orr_task *t, const struct orr_submitter *submitter,
		   struct orr_flight *flight, int w)
{
	*t = (struct orr_task){
		.queued = {.w = w, .turn = ORR_NO_TURN},
		.arg = {.common = submitter->common, .job = -1},
		.flight = flight,
	};
}

static int no_memory(struct orr_submitter *submitter)
{
	struct orr_fault *fault = submitter->fault;

	return fault->code = orr_no_memory(&fault->err, "run");
}

void orr_task_add(struct orr_submitter *submitter, starpu_data_handle_t handle,
		  enum starpu_data_access_mode mode)
{
	int n = submitter->n_buffers;

	if (!handle || submitter->fault->code)
		return;
	if (!orr_grow(&submitter->buffers, n, &submitter->room, sizeof(*submitter->buffers))) {
		no_memory(submitter);
		return;
	}
	submitter->buffers[n] = (struct orr_buffer){handle, mode};
	submitter->n_buffers++;
}

static int set_buffers(struct orr_submitter *submitter, struct starpu_task *task, size_t n)
{
	starpu_data_handle_t *handles = task->handles;
	enum starpu_data_access_mode *modes = task->modes;

	if (n > STARPU_NMAXBUFS) { /* StarPU frees both with the task */
		handles = task->dyn_handles = calloc(n, sizeof(*handles));
		modes = task->dyn_modes = calloc(n, sizeof(*modes));
	}
	if (!handles || !modes)
		return no_memory(submitter);
	for (size_t i = 0; i < n; i++) {
		handles[i] = submitter->buffers[i].handle;
		modes[i] = submitter->buffers[i].mode;
	}
	task->nbuffers = (int)n;
	return 0;
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

/* One that was not submitted. */
static void destroy(struct starpu_task *task)
{
	task->destroy = 0;
	starpu_task_destroy(task);
}

void orr_task_submit(struct orr_submitter *submitter, struct orr_task *t, enum orr_codelet codelet)
{
	struct orr_fault *fault = submitter->fault;
	size_t n = (size_t)submitter->n_buffers;
	struct starpu_task *task;
	int code;

	submitter->n_buffers = 0;
	if (fault->code)
		return;
	task = t->task = starpu_task_create();
	if (set_buffers(submitter, task, n)) {
		destroy(task);
		return;
	}
	task->cl = &orr_codelets[codelet];
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
		return;
	destroy(task);
	orr_watch_done(t->flight);
	fault->code = orr_fail(&fault->err, ORR_E_RUNTIME, "run: StarPU refuses a task: %s",
			       strerror(-code));
}
