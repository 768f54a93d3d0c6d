#include "stall.h"

#include <stdio.h>
#include "codelets/cuda/collective.h"

/* Tasks that may be in flight at once. */
#define MOST_TASKS 20000
/* Seconds between two looks at groups. */
#define ASK_S 1.0

static void write_job(FILE *text, const struct orr_work *work, int j)
{
	struct orr_job job = orr_jobs_at(work->jobs, j);

	(void)fprintf(text, " %d%c%d", job.s, orr_pass_letter(job.d), job.b);
}

/* What worker w is at: the first of its jobs, in the order of n, that has not ended. */
static void report_worker(FILE *text, const struct orr_work *work, const struct orr_slot *slot,
			  int w)
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
		(void)fprintf(text, "; worker %d runs", w);
		write_job(text, work, j);
		return;
	}
	(void)fprintf(text, "; worker %d waits to run", w);
	write_job(text, work, j);
	(void)orr_jobs_room(&n_room, jobs, j, false);
	most = orr_pipeline_gathers(work->pipeline) ? work->pipeline->n_microbatches : 1;
	if (work->pipeline->stages[orr_jobs_at(jobs, j).s].n_in * most + 2 + n_room <= 64 &&
	    work->pipeline->stages[orr_jobs_at(jobs, j).s].n_out * most + 2 + n_room <= 64)
		n = orr_jobs_predecessors(jobs, j, predecessors);
	for (int i = 0; i < n; i++)
		if (atomic_load(&slot->jobs[predecessors[i]].state) != ORR_STATE_DONE) {
			(void)fprintf(text, "%s", n_waits++ ? "," : " after");
			write_job(text, work, predecessors[i]);
			if (!orr_work_computes(work, predecessors[i]))
				(void)fprintf(text, " of rank %d",
					      orr_work_rank(work, predecessors[i]));
		}
}

static int report(const struct orr_slots *slots, struct orr_error *err)
{
	char waits[sizeof(err->msg)] = "";
	FILE *text;
	const struct orr_work *work = slots->data->work;
	const struct orr_slot *slot = orr_slots_at(slots, slots->n_finished);

	if (slot->flight.ended && slots->n_submitted > slots->n_finished + 1)
		slot = orr_slots_at(slots,
				    slots->n_finished + 1); /* the first has not been taken */
	text = fmemopen(waits, sizeof(waits), "w");         /* too long a text is cut */
	for (int w = 0; text && w < work->pipeline->n_workers; w++)
		report_worker(text, work, slot, w);
	if (text)
		(void)fclose(text);
	waits[sizeof(waits) - 1] = '\0';
	return orr_fail(err, ORR_E_RUNTIME, "run: no job has ended for %g s in step %lld%s",
			slots->timeout_s, (long long)slot->flight.step, waits);
}

/* Has a group failed on its own? */
static int ask(const struct orr_slots *slots, struct orr_error *err)
{
	int code = 0;

	for (int k = 0; k < slots->n_groups && !code; k++) {
		const struct orr_device_group *c = &slots->groups[k];
		const char *what = c->nccl ? orr_nccl_failure(c->nccl) : NULL;

		if (what)
			code = orr_fail(err, ORR_E_RUNTIME,
					"run: gradients of stage %d, rank %d: %s",
					orr_slots_adds_up(slots, c), slots->data->work->rank, what);
	}
	return code;
}

/* Wait as orr_watch_wait does, and ask between. 0: there; 1: no task has ended for the timeout. */
static int wait_and_ask(const struct orr_slots *slots, const struct orr_flight *flight,
			int64_t n_done, struct orr_error *err)
{
	double idle_s = 0;
	int code = 0;

	for (;;) {
		double left_s = slots->timeout_s - idle_s,
		       slice_s = left_s < ASK_S || !slots->n_groups ? left_s : ASK_S;
		int64_t seen = atomic_load(&slots->watch->n_done);
		bool copies = atomic_load(&slots->watch->copies);

		if (orr_watch_wait(slots->watch, flight, n_done, slice_s))
			return 0;
		if ((code = ask(slots, err)))
			return code;
		/* some have ended before none did for a slice */
		idle_s = (atomic_load(&slots->watch->n_done) != seen ? 0 : idle_s) + slice_s;
		idle_s = copies ? 0 : idle_s; /* what waits for a copy does not hang */
		if (idle_s >= slots->timeout_s)
			return 1;
	}
}

int orr_stall_wait(const struct orr_slots *slots, const struct orr_slot *slot, int64_t n_done,
		   struct orr_error *err)
{
	int code = wait_and_ask(slots, slot ? &slot->flight : NULL, n_done, err);
	const char *failure = atomic_load(&slots->submitter->common->failure);

	if (failure && code >= 0) /* whatever waits does so for that task */
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", failure);
	return code > 0 ? report(slots, err) : code;
}

static void wait_within(const struct orr_slots *slots, int64_t n_done)
{
	struct orr_fault *fault = slots->data->work->fault;

	if (!fault->code)
		fault->code = orr_stall_wait(slots, NULL, n_done, &fault->err);
}

void orr_stall_all(const struct orr_slots *slots)
{
	int64_t n = atomic_load(&slots->watch->n_tasks);

	for (int k = 0; k < slots->data->work->window; k++)
		n -= slots->slots[k].flight.open;
	wait_within(slots, n);
}

void orr_stall_throttle(const struct orr_slots *slots)
{
	int64_t n = atomic_load(&slots->watch->n_tasks);

	if (n - atomic_load(&slots->watch->n_done) > MOST_TASKS)
		wait_within(slots, n - MOST_TASKS / 2);
}
