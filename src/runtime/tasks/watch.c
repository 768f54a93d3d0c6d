#include "runtime/run/engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void orr_watch_done(struct orr_run *run, struct orr_slot *slot)
{
	long long done = atomic_fetch_add(&run->n_done, 1) + 1;
	bool ended = atomic_fetch_sub(&slot->n_running, 1) == 1;

	if (ended)
		slot->end_ns = orr_now_ns();
	if (ended || done == atomic_load(&run->wake_at)) {
		pthread_mutex_lock(&run->mutex);
		if (ended)
			slot->ended = true;
		pthread_cond_signal(&run->changed);
		pthread_mutex_unlock(&run->mutex);
	}
}

/* ---- the report ---- */

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

static void write_job(struct text *text, const struct orr_run *run, int j)
{
	struct orr_job job = orr_jobs_at(run->jobs, j);

	write_text(text, " %d%c%d", job.s, orr_pass_letter(job.d), job.b);
}

/* What worker w is at: the first of its jobs, in the order of n, that has not ended. */
static void report_worker(struct text *text, const struct orr_run *run, const struct orr_slot *slot,
			  int w)
{
	const struct orr_jobs *jobs = run->jobs;
	int predecessors[64], n = 0, j = -1, n_waits = 0;

	if (!orr_run_has(run, w))
		return;
	for (int i = jobs->first[w]; i < jobs->first[w + 1] && j < 0; i++)
		if (atomic_load(&slot->jobs[jobs->by_worker[i]].state) != ORR_STATE_DONE)
			j = jobs->by_worker[i];
	if (j < 0)
		return;
	if (atomic_load(&slot->jobs[j].state) == ORR_STATE_STARTED) {
		write_text(text, "; worker %d runs", w);
		write_job(text, run, j);
		return;
	}
	write_text(text, "; worker %d waits to run", w);
	write_job(text, run, j);
	if (run->pipeline->stages[orr_jobs_at(jobs, j).s].n_in + 2 <= 64 &&
	    run->pipeline->stages[orr_jobs_at(jobs, j).s].n_out + 2 <= 64)
		n = orr_jobs_predecessors(jobs, j, predecessors);
	for (int i = 0; i < n; i++)
		if (atomic_load(&slot->jobs[predecessors[i]].state) != ORR_STATE_DONE) {
			write_text(text, "%s", n_waits++ ? "," : " after");
			write_job(text, run, predecessors[i]);
			if (!orr_run_computes(run, predecessors[i]))
				write_text(text, " of rank %d",
					   run->rank_of[jobs->compute[predecessors[i]]]);
		}
}

static int report(struct orr_run *run, struct orr_error *err)
{
	char buffer[sizeof(err->msg)];
	struct text text = {buffer, sizeof(buffer)};
	const struct orr_slot *slot = &run->slots[run->n_finished % run->window];
	const char *failure = atomic_load(&run->common.failure);

	if (slot->ended && run->n_submitted > run->n_finished + 1) /* nobody has asked for it yet */
		slot = &run->slots[(run->n_finished + 1) % run->window];
	if (failure) /* what others wait for */
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", failure);
	buffer[0] = '\0';
	for (int w = 0; w < run->pipeline->n_workers; w++)
		report_worker(&text, run, slot, w);
	return orr_fail(err, ORR_E_RUNTIME, "run: no job has ended for %g s in step %lld%s",
			run->options.timeout_s, (long long)slot->step, buffer);
}

/* ---- waiting ---- */

static bool reached(const struct orr_run *run, const struct orr_slot *slot, int64_t n_done)
{
	return slot ? slot->ended : atomic_load(&run->n_done) >= n_done;
}

/* Wait for it; false: nothing ended for timeout_s. The deadline moves with every task that ends. */
static bool wait_for(struct orr_run *run, const struct orr_slot *slot, int64_t n_done,
		     double timeout_s)
{
	long long seen = atomic_load(&run->n_done);
	bool there;

	pthread_mutex_lock(&run->mutex);
	atomic_store(&run->wake_at, n_done);
	while (!(there = reached(run, slot, n_done))) {
		int64_t deadline_ns = orr_now_ns() + (int64_t)(timeout_s * 1e9);
		struct timespec deadline = {deadline_ns / 1000000000, deadline_ns % 1000000000};
		long long now;

		if (pthread_cond_timedwait(&run->changed, &run->mutex, &deadline) != ETIMEDOUT)
			continue;
		now = atomic_load(&run->n_done);
		if (now == seen && !reached(run, slot, n_done))
			break;
		seen = now;
	}
	pthread_mutex_unlock(&run->mutex);
	return there;
}

int orr_watch_wait(struct orr_run *run, const struct orr_slot *slot, int64_t n_done,
		   struct orr_error *err)
{
	return wait_for(run, slot, n_done, run->options.timeout_s) ? 0 : report(run, err);
}

void orr_watch_drain(struct orr_run *run)
{
	/* A codelet may be in the middle of a long job: it gets as long again, and a second at
	 * least. */
	double patience_s = run->options.timeout_s > 1 ? run->options.timeout_s : 1;

	atomic_store(&run->common.cancelled, true);
	orr_policy_release(run->policy);
	run->drained = wait_for(run, NULL, atomic_load(&run->n_tasks), patience_s);
}
