#include "orrery/run.h"

#include "base/max.h"
#include "parts.h"

/* Wait for the oldest step in flight and take its results. */
static int finish_step(struct orr_run *run, struct orr_slot *slot, struct orr_step *step,
		       struct orr_error *err)
{
	struct orr_trained *trained = &run->trained;
	int code = orr_gather_end(&run->gather, slot, true, err);

	if (code)
		return code;
	trained->n_steps++;
	trained->n_skipped_last = slot->skipped ? trained->n_skipped_last + 1 : 0;
	*step = (struct orr_step){
		.step = slot->flight.step,
		.samples = (slot->flight.step + 1) * run->work.batch,
		.scores = orr_scores_of_slot(&run->scoring, slot, 0,
					     run->work.pipeline->n_microbatches, run->work.batch),
		.skipped = slot->skipped,
		.norm = slot->norm,
		.seconds = (double)(slot->flight.end_ns - trained->last_end_ns) * 1e-9,
	};
	trained->last_end_ns = slot->flight.end_ns;
	return 0;
}

static int train_steps(struct orr_run *run, int64_t n,
		       void (*visit)(void *user, const struct orr_step *step), void *user,
		       struct orr_error *err)
{
	struct orr_slots *slots = &run->slots;
	int64_t end = slots->n_finished + n;
	int code = 0;

	while (!code && slots->n_finished < end) {
		struct orr_slot *slot = orr_slots_at(slots, slots->n_finished);
		struct orr_step step;

		if (slots->n_submitted < end &&
		    slots->n_submitted < slots->n_finished + run->work.window) {
			code = orr_step_submit(run, err);
			continue;
		}
		if ((code = finish_step(run, slot, &step, err)))
			return code;
		if (visit)
			visit(user, &step);
		code = orr_finite_check(slots, slot, step.step, &run->trained, err);
		if (run->trained.ends)
			end = slots->n_submitted;
	}
	return code;
}

/* Cancel the tasks in flight and wait for them, but not forever. */
static void drain(struct orr_run *run)
{
	/* A codelet may be in the middle of a long job: it gets as long again, and a second at
	 * least. */
	double patience_s = run->options.timeout_s > 1 ? run->options.timeout_s : 1;

	atomic_store(&run->session.common.cancelled, true);
	orr_policy_release(run->session.policy);
	run->trained.drained =
		orr_watch_wait(&run->watch, NULL, atomic_load(&run->watch.n_tasks), patience_s);
}

int orr_run_train(struct orr_run *run, int64_t n,
		  void (*visit)(void *user, const struct orr_step *step), void *user,
		  struct orr_error *err)
{
	int code;

	if (run->trained.failed)
		return orr_fail(err, run->trained.failed,
				"run: it has failed before and cannot go on");
	run->trained.last_end_ns = orr_clock_ns();
	orr_hardware_count(&run->copies, false);
	orr_resident_reset();
	if (!(code = orr_data_settle(&run->data, err)))
		code = run->work.jobs->async ? orr_rounds_train(run, n, visit, user, err)
					     : train_steps(run, n, visit, user, err);
	orr_hardware_count(&run->copies, true);
	run->resident_peak = larger(run->resident_peak, orr_resident_peak());
	if (code) {
		run->trained.failed = code;
		orr_reduce_abort(&run->sum.reduce);
		drain(run);
	} else {
		orr_prefetch_settle(&run->prefetch);
	}
	return code;
}

void orr_run_stop(struct orr_run *run)
{
	atomic_store(&run->trained.stop, true);
}

bool orr_run_stopped(const struct orr_run *run)
{
	return run->trained.ends;
}

int64_t orr_run_skipped(const struct orr_run *run)
{
	return run->trained.n_skipped;
}

int orr_run_skipped_last(const struct orr_run *run)
{
	return run->trained.n_skipped_last;
}
