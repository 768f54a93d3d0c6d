#include "stall.h"

#include <stdarg.h>
#include <stdio.h>

/* Tasks that may be in flight at once. */
#define MOST_TASKS 20000
/* Seconds between two questions of slots->ask. */
#define ASK_S 1.0

struct text {
	char *at;
	size_t left;
};

static void write_text(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void write_text(struct text *text, const char *format, ...)
{
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text->at, text->left, format, arguments);
	va_end(arguments);
	if (n < 0)
		return;
	if ((size_t)n >= text->left)
		n = (int)text->left - 1;
	text->at += n;
	text->left -= (size_t)n;
}

static void write_job(struct text *text, const struct orr_work *work, int j)
{
	struct orr_job job = orr_jobs_at(work->jobs, j);

	write_text(text, " %d%c%d", job.s, orr_pass_letter(job.d), job.b);
}

/* What worker w is at: the first of its jobs, in the order of n, that has not ended. */
static void report_worker(struct text *text, const struct orr_work *work,
			  const struct orr_slot *slot, int w)
{
	const struct orr_jobs *jobs = work->jobs;
	int predecessors[64], n = 0, j = -1, n_waits = 0, n_room, most;

	if (!orr_work_has(work, w))
		return;
	for (int i = jobs->first[w]; i < jobs->first[w + 1] && j < 0; i++)
		if (atomic_load(&slot->jobs[jobs->by_worker[i]].state) != ORR_STATE_DONE)
			j = jobs->by_worker[i];
	if (j < 0)
		return;
	if (atomic_load(&slot->jobs[j].state) == ORR_STATE_STARTED) {
		write_text(text, "; worker %d runs", w);
		write_job(text, work, j);
		return;
	}
	write_text(text, "; worker %d waits to run", w);
	write_job(text, work, j);
	(void)orr_jobs_room(&n_room, jobs, j, false);
	most = orr_pipeline_gathers(work->pipeline) ? work->pipeline->n_microbatches : 1;
	if (work->pipeline->stages[orr_jobs_at(jobs, j).s].n_in * most + 2 + n_room <= 64 &&
	    work->pipeline->stages[orr_jobs_at(jobs, j).s].n_out * most + 2 + n_room <= 64)
		n = orr_jobs_predecessors(jobs, j, predecessors);
	for (int i = 0; i < n; i++)
		if (atomic_load(&slot->jobs[predecessors[i]].state) != ORR_STATE_DONE) {
			write_text(text, "%s", n_waits++ ? "," : " after");
			write_job(text, work, predecessors[i]);
			if (!orr_work_computes(work, predecessors[i]))
				write_text(text, " of rank %d",
					   work->rank_of[jobs->compute[predecessors[i]]]);
		}
}

static int report(const struct orr_slots *slots, struct orr_error *err)
{
	char buffer[sizeof(err->msg)];
	struct text text = {buffer, sizeof(buffer)};
	const struct orr_work *work = slots->data->work;
	const struct orr_slot *slot = orr_slots_at(slots, slots->n_finished);
	const char *failure = orr_task_failure(slots->submitter);

	if (failure) /* the others wait for that task */
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", failure);
	if (slot->flight.ended && slots->n_submitted > slots->n_finished + 1)
		slot = orr_slots_at(slots,
				    slots->n_finished + 1); /* the first has not been taken */
	buffer[0] = '\0';
	for (int w = 0; w < work->pipeline->n_workers; w++)
		report_worker(&text, work, slot, w);
	return orr_fail(err, ORR_E_RUNTIME, "run: no job has ended for %g s in step %lld%s",
			slots->timeout_s, (long long)slot->flight.step, buffer);
}

/* Wait as orr_watch_wait does, and ask between. 0: there; 1: no task has ended for the timeout. */
static int wait_and_ask(const struct orr_slots *slots, const struct orr_flight *flight,
			int64_t n_done, struct orr_error *err)
{
	double idle_s = 0;
	int code = 0;

	for (;;) {
		double left_s = slots->timeout_s - idle_s,
		       slice_s = left_s < ASK_S ? left_s : ASK_S;
		int64_t seen = atomic_load(&slots->watch->n_done);

		if (orr_watch_wait(slots->watch, flight, n_done, slots->ask ? slice_s : left_s))
			return 0;
		if (slots->ask && (code = slots->ask(slots->asked, err)))
			return code;
		/* some have ended before none did for a slice */
		idle_s = (atomic_load(&slots->watch->n_done) != seen ? 0 : idle_s) + slice_s;
		if (!slots->ask || idle_s >= slots->timeout_s)
			return 1;
	}
}

int orr_stall_wait(const struct orr_slots *slots, const struct orr_slot *slot, int64_t n_done,
		   struct orr_error *err)
{
	int code = wait_and_ask(slots, slot ? &slot->flight : NULL, n_done, err);
	const char *failure;

	if (code)
		return code > 0 ? report(slots, err) : code;
	failure = orr_task_failure(slots->submitter);
	return failure ? orr_fail(err, ORR_E_RUNTIME, "run: %s", failure) : 0;
}

int orr_stall_all(const struct orr_slots *slots, struct orr_error *err)
{
	int64_t n = atomic_load(&slots->watch->n_tasks);

	for (int k = 0; k < slots->data->work->window; k++)
		n -= slots->slots[k].flight.open;
	return orr_stall_wait(slots, NULL, n, err);
}

int orr_stall_throttle(const struct orr_slots *slots, struct orr_error *err)
{
	int64_t n = atomic_load(&slots->watch->n_tasks);

	return n - atomic_load(&slots->watch->n_done) > MOST_TASKS
		       ? orr_stall_wait(slots, NULL, n - MOST_TASKS / 2, err)
		       : 0;
}
