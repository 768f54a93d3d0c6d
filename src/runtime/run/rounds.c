#include "parts.h"

#include <math.h>
#include <stdlib.h>
#include "base/max.h"
#include "schedule/async.h"
#include "schedule/versions.h"

/* Microbatches of stage s from b on whose F comes before b's last pass. */
static int in_flight(const struct orr_jobs *jobs, int s, int b)
{
	int64_t end = jobs->priority[orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s))];

	return (int)(orr_async_before(jobs, s, ORR_PASS_F, end) - b);
}

/* The tensors of a microbatch take the place of those of the round before. */
static int check_round(const struct orr_jobs *jobs, struct orr_error *err)
{
	int m = jobs->pipeline->n_microbatches, most = 0, stage = 0;

	for (int s = 0; s < jobs->pipeline->n_stages; s++)
		for (int b = 0; b < m; b++)
			if (in_flight(jobs, s, b) > most) {
				most = in_flight(jobs, s, b);
				stage = s;
			}
	if (most <= m)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"run: stage %d has %d microbatches in flight, more than a round of "
			"[microbatches] %d: take [microbatches] %d or more",
			stage, most, m, most);
}

int orr_rounds_check(const struct orr_jobs *jobs, int batch, struct orr_error *err)
{
	int m = jobs->pipeline->n_microbatches;

	if (!jobs->async)
		return 0;
	if (batch % m)
		return orr_fail(
			err, ORR_E_INPUT,
			"run: without a flush every microbatch is a minibatch, so all are of one "
			"size: take a batch that is a multiple of [microbatches] %d, not %d",
			m, batch);
	return check_round(jobs, err);
}

/* Rounds from an empty pipeline until it has been drained. */
struct rounds {
	struct orr_run *run;
	int64_t n_microbatches, n_rounds;
	int64_t n_begun, n_submitted, n_finished; /* rounds */
	int64_t first;                            /* rounds before these */
	int64_t n_told;                           /* steps that have ended */
	int64_t *turn;                            /* [n_workers] of a worker's next job */
	void (*visit)(void *user, const struct orr_step *step);
	void *user;
};

static struct orr_slot *slot_of(const struct rounds *x, int64_t round)
{
	/* counted from orr_run_create on, so that ranks agree on slots */
	return orr_slots_at(&x->run->slots, x->first + round);
}

/* Microbatches of a round that there are: all but in the last one. */
static int in_round(const struct rounds *x, int64_t round)
{
	int m = x->run->work.pipeline->n_microbatches;

	return (int)smaller(x->n_microbatches - round * m, m);
}

static int begin_round(struct rounds *x, struct orr_error *err)
{
	struct orr_run *run = x->run;
	struct orr_slot *slot = slot_of(x, x->n_begun);
	int code;

	slot->round = x->n_begun;
	slot->samples.first =
		run->trained.n_steps * orr_run_step_samples(run->work.jobs, &run->options) +
		x->n_begun * run->work.batch;
	if (!(code = orr_slots_begin(&run->slots, slot, err)))
		x->n_begun++;
	return code;
}

/* Step k of a round: its loss is the mean over the step's microbatches. */
static struct orr_step step_of(const struct rounds *x, const struct orr_slot *slot, int k)
{
	const struct orr_work *work = &x->run->work;
	int in_step = orr_versions_step(work->jobs->versions);
	int samples = orr_run_step_samples(work->jobs, &x->run->options);

	return (struct orr_step){
		.step = x->n_told,
		.samples = (x->n_told + 1) * samples,
		.scores = orr_scores_of_slot(&x->run->scoring, slot, k * in_step, (k + 1) * in_step,
					     samples),
		.norm = NAN,
	};
}

/* Each step of a round that has ended, of n microbatches. */
static void tell_steps(struct rounds *x, const struct orr_slot *slot, int n)
{
	struct orr_trained *trained = &x->run->trained;
	int n_steps = n / orr_versions_step(x->run->work.jobs->versions);
	double seconds = (double)(slot->flight.end_ns - trained->last_end_ns) * 1e-9;

	for (int k = 0; k < n_steps; k++, x->n_told++) {
		struct orr_step step = step_of(x, slot, k);

		step.seconds = seconds / n_steps;
		if (x->visit)
			x->visit(x->user, &step);
	}
	trained->last_end_ns = slot->flight.end_ns;
}

static int finish_round(struct rounds *x, struct orr_error *err)
{
	struct orr_run *run = x->run;
	struct orr_slot *slot = slot_of(x, x->n_finished);
	int m = run->work.pipeline->n_microbatches, n = in_round(x, x->n_finished), code;
	int64_t first_step = x->n_told;

	if ((code = orr_gather_end(&run->gather, slot, n == m, err)))
		return code;
	x->n_finished++;
	orr_version_buffers_measure(&run->versions, slot, n);
	tell_steps(x, slot, n);
	code = orr_finite_check(&run->slots, slot, first_step, &run->trained, err);
	if (run->trained.ends && x->n_begun < x->n_rounds) { /* what has begun is drained */
		x->n_rounds = x->n_begun;
		x->n_microbatches = x->n_rounds * m;
	}
	return code;
}

/* Job j of a round, and the update that it closes. */
static void submit_one(struct rounds *x, int64_t round, int j)
{
	struct orr_run *run = x->run;
	const struct orr_work *work = &run->work;
	struct orr_slot *slot = slot_of(x, round);
	struct orr_job job = orr_jobs_at(work->jobs, j);
	int w = work->jobs->compute[j], every = work->jobs->versions->every[job.s];

	if (job.b >= in_round(x, round))
		return;
	run->cross.step = round;
	if (orr_work_computes(work, j)) {
		if (orr_work_reads(work, j))
			orr_version_buffers_choose(&run->versions, slot, j);
		orr_step_submit_job(run, slot, j, x->turn[w]++);
	}
	if (orr_work_makes_gradient(work, j) && (job.b + 1) % every == 0)
		orr_step_submit_updates(run, slot, job.s, job.b / every);
}

static int submit_wave(struct rounds *x, int64_t wave, struct orr_error *err)
{
	const struct orr_jobs *jobs = x->run->work.jobs;
	const struct orr_async *async = jobs->async;
	int code = 0;

	while (!code && wave < x->n_rounds && x->n_begun - x->n_finished >= x->run->work.window)
		code = finish_round(x, err);
	if (!code && wave < x->n_rounds)
		code = begin_round(x, err);
	for (int i = 0; i < orr_jobs_count(jobs) && !code; i++) {
		int64_t round = wave - async->lag[async->order[i]];

		if (round >= 0 && round < x->n_rounds)
			submit_one(x, round, async->order[i]);
	}
	code = code ? code : orr_fault_tell(x->run->work.fault, err);
	/* all of that round is there */
	if (!code && wave + 1 >= async->n_waves)
		orr_watch_submitted(&slot_of(x, x->n_submitted++)->flight);
	return code;
}

/* Nothing is in flight: the turns of all workers start over. */
static int init_turns(struct rounds *x, struct orr_error *err)
{
	int n_workers = x->run->work.pipeline->n_workers;

	if (!(x->turn = calloc((size_t)n_workers, sizeof(*x->turn))))
		return orr_no_memory(err, "run");
	for (int w = 0; w < n_workers; w++)
		orr_policy_begin(x->run->session.policy, w, 0);
	return 0;
}

int orr_rounds_train(struct orr_run *run, int64_t n,
		     void (*visit)(void *user, const struct orr_step *step), void *user,
		     struct orr_error *err)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int m = jobs->pipeline->n_microbatches, in_step = orr_versions_step(jobs->versions), code;
	struct rounds x = {
		.run = run,
		.n_microbatches = n * in_step,
		.n_rounds = (n * in_step + m - 1) / m,
		.first = run->slots.n_submitted,
		.n_told = run->trained.n_steps,
		.visit = visit,
		.user = user,
	};

	if ((code = init_turns(&x, err)))
		return code;
	orr_version_buffers_restart(&run->versions, run->trained.n_steps);
	for (int64_t wave = 0; wave < x.n_rounds + jobs->async->n_waves - 1 && !code; wave++)
		code = submit_wave(&x, wave, err);
	while (x.n_submitted < x.n_begun) /* after a failure */
		orr_watch_submitted(&slot_of(&x, x.n_submitted++)->flight);
	while (x.n_finished < x.n_rounds && !code)
		code = finish_round(&x, err);
	if (!code)
		run->trained.n_steps += x.n_microbatches / in_step;
	free(x.turn);
	return code;
}
