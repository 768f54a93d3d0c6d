#include "engine.h"

#include <math.h>
#include <stdlib.h>

#include "orrery/stream.h"
#include "orrery/versions.h"
#include "options.h"
#include "orrery/ranks.h"

/* A stream (src/stream.h): rounds overlap. Everything is submitted in the order of n, wave after
 * wave, and the submitting thread alone says which version (src/versions.h) lies in which buffer.
 * So tasks need no counts of who reads what: a buffer is written again when the last microbatch
 * that reads what it holds has been submitted, and StarPU makes the writer wait for that reader. */

/* Microbatches of stage s from b on whose F comes before b's last pass. */
static int in_flight(const struct orr_jobs *jobs, int s, int b)
{
	int64_t end = jobs->priority[orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s))];

	return (int)(orr_stream_before(jobs, s, ORR_PASS_F, end) - b);
}

/* What a microbatch leaves lies where that of the round before lay. */
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
			"[microbatches] %d: "
			"take [microbatches] %d or more",
			stage, most, m, most);
}

int orr_stream_plan(struct orr_run *run, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	size_t n_stages = (size_t)run->pipeline->n_stages;

	run->window = 2;
	run->n_updates = 1;
	if (!jobs->stream)
		return 0;
	run->stream = true;
	/* a wave's worth of jobs is submitted before the round that its slot was last used by is
	 * waited for */
	run->window = jobs->stream->n_waves + 1;
	run->first_update = calloc(n_stages, sizeof(*run->first_update));
	run->turn = calloc((size_t)run->pipeline->n_workers, sizeof(*run->turn));
	run->versions = calloc(n_stages, sizeof(*run->versions));
	if (!run->turn || !run->versions || !run->first_update)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a stream");
	for (int s = 0; s < run->pipeline->n_stages; s++)
		if (orr_jobs_n_updates(run->jobs, s) > run->n_updates)
			run->n_updates = orr_jobs_n_updates(run->jobs, s);
	for (int s = 0; s < run->pipeline->n_stages; s++)
		run->versions[s] = (struct orr_run_versions){.least = -1, .most = -1};
	if (run->options.batch % run->pipeline->n_microbatches)
		return orr_fail(
			err, ORR_E_INPUT,
			"run: in a stream every microbatch is a minibatch, so all are of one size: "
			"take a batch that is a multiple of [microbatches] %d, not %d",
			run->pipeline->n_microbatches, run->options.batch);
	return check_round(jobs, err);
}

static int make_versions(struct orr_run *run, struct orr_owned *o, struct orr_error *err)
{
	int code = 0, n = run->jobs->versions->peak[o->s];

	if (!o->parameters)
		return 0;
	if (!(o->versions = calloc((size_t)n, sizeof(*o->versions))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d versions", n);
	o->n_held = 1;
	o->versions[0].handle = o->parameters;
	o->versions[0].at = o->parameters_at;
	for (o->n_versions = 1; o->n_versions < n && !code; o->n_versions++) {
		struct orr_version *v = &o->versions[o->n_versions];

		code = orr_data_make_block(&v->handle, &v->at, o,
					   orr_program_n_parameters(run->programs[o->s]), err);
	}
	return code;
}

int orr_stream_init(struct orr_run *run, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; run->stream && i < run->data.n_owned && !code; i++)
		code = make_versions(run, &run->data.owned[i], err);
	return code;
}

void orr_stream_fini(struct orr_run *run)
{
	for (int i = 0; run->stream && run->data.owned && i < run->data.n_owned; i++) {
		struct orr_owned *o = &run->data.owned[i];

		for (int k = 0; o->versions && k < o->n_versions; k++)
			orr_data_drop_block(o->versions[k].handle, o->versions[k].at, o,
					    orr_program_n_parameters(run->programs[o->s]));
		if (o->versions) { /* it was one of them */
			o->parameters = NULL;
			o->parameters_at = 0;
		}
		free(o->versions);
	}
}

/* ---- versions ---- */

/* Updates of stage s before the stream began. */
static int64_t updates_before(const struct orr_run *run, int s)
{
	return run->n_steps * orr_versions_step(run->jobs->versions) /
	       run->jobs->versions->every[s];
}

/* Nothing is in flight: what there is counts as version 0. */
static void restart_versions(struct orr_run *run)
{
	for (int i = 0; i < run->data.n_owned; i++) {
		struct orr_owned *o = &run->data.owned[i];

		for (int k = 0; k < o->n_versions; k++)
			o->versions[k].number = k == o->latest ? 0 : -1;
		if (o->n_versions)
			atomic_store(&o->versions[o->latest].holds, 0);
	}
}

static int64_t microbatch_of(const struct orr_run *run, const struct orr_slot *slot, int b)
{
	return slot->round * run->pipeline->n_microbatches + b;
}

/* The version that job j reads, in the buffer where it is. */
static int choose_version(struct orr_run *run, struct orr_slot *slot, int j, struct orr_error *err)
{
	struct orr_job job = orr_jobs_at(run->jobs, j);
	struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];
	struct orr_job_task *t = &slot->jobs[j];
	int64_t number = orr_versions_read(run->jobs->versions, job.s,
					   microbatch_of(run, slot, job.b), job.d);

	t->reads = NULL;
	for (int k = 0; k < o->n_versions; k++)
		if (o->versions[k].number == number)
			t->reads = &o->versions[k];
	t->arg.step = slot->step;
	t->arg.version = run->first_update[job.s] + number;
	if (!t->reads && o->n_versions)
		return orr_fail(err, ORR_E_RUNTIME, "run: version %lld of stage %d is gone",
				(long long)number, job.s);
	return 0;
}

/* Does a microbatch after b still read what is in the buffer? */
static bool is_held(const struct orr_run *run, const struct orr_owned *o,
		    const struct orr_version *version, int64_t b)
{
	if (version->number < 0 || run->pipeline->sync == ORR_SYNC_NONE)
		return false;
	return orr_versions_last_reader(run->jobs->versions, run->jobs, o->s, o->w,
					version->number) > b;
}

int orr_stream_advance(struct orr_run *run, struct orr_slot *slot, int i, int q,
		       struct orr_error *err)
{
	struct orr_owned *o = &run->data.owned[i];
	struct orr_job_task *update = &slot->updates[q * run->data.n_owned + i],
			    *copy = &slot->copies[q * run->data.n_owned + i];
	struct orr_version *from = &o->versions[o->latest], *to = from;
	int every = run->jobs->versions->every[o->s], code;
	int64_t b = microbatch_of(run, slot, (q + 1) * every - 1), number = from->number;

	if (is_held(run, o, from, b)) {
		int k = 0;

		while (k < o->n_versions && (k == o->latest || is_held(run, o, &o->versions[k], b)))
			k++;
		if (k == o->n_versions)
			return orr_fail(err, ORR_E_RUNTIME,
					"run: stage %d holds more than %d versions", o->s,
					o->n_versions);
		to = &o->versions[k];
		copy->reads = from;
		copy->writes = to;
		if ((code = orr_submit_add(run, copy, from->handle, to->handle, true, 0,
					   copy->arg.n_floats, err)))
			return code;
		o->latest = k;
		o->parameters = to->handle;
	}
	o->n_held = to == from || to - o->versions < o->n_held ? o->n_held
							       : (int)(to - o->versions) + 1;
	to->number = number + 1;
	update->reads = update->writes = to;
	update->later = 1;
	update->arg.step = run->first_update[o->s] + number;
	return 0;
}

/* ---- what was measured ---- */

/* One microbatch of an owner that is here has ended. */
static void measure_microbatch(struct orr_run *run, const struct orr_slot *slot, int s, int b)
{
	const struct orr_jobs *jobs = run->jobs;
	const struct orr_versions *v = jobs->versions;
	struct orr_run_versions *measured = &run->versions[s];
	int f = orr_jobs_index(jobs, s, b, ORR_PASS_F), n = run->data.n_owned;
	int64_t at = microbatch_of(run, slot, b), behind;

	for (int d = 0; d < jobs->n_passes; d++) {
		measured->n_read++;
		measured->n_wrong +=
			slot->jobs[f + d].seen != orr_versions_read(v, s, at, (enum orr_pass)d);
	}
	if (at < orr_versions_full(v, s))
		return;
	behind = slot->updates[b / v->every[s] * n + run->data.owned_of[f]].seen -
		 slot->jobs[f].seen;
	measured->least =
		measured->least < 0 || behind < measured->least ? behind : measured->least;
	measured->most = behind > measured->most ? behind : measured->most;
}

static void measure_round(struct orr_run *run, const struct orr_slot *slot, int n_microbatches)
{
	for (int b = 0; b < n_microbatches; b++)
		for (int s = 0; s < run->pipeline->n_stages; s++) {
			int f = orr_jobs_index(run->jobs, s, b, ORR_PASS_F);

			if (orr_run_computes(run, f) && orr_run_learns(run, f))
				measure_microbatch(run, slot, s, b);
		}
}

/* Each rank's numbers of each stage; those of an owner elsewhere are 0 here. */
enum { HELD, LEAST, MOST, READ, WRONG, N_NUMBERS };

int orr_run_versions(struct orr_run *run, struct orr_run_versions *stages, struct orr_error *err)
{
	int n_stages = run->pipeline->n_stages, n = n_stages * N_NUMBERS, code;
	double *numbers = calloc((size_t)n * (size_t)run->n_ranks, sizeof(*numbers)), *own;

	if (!numbers)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for what was measured");
	own = numbers + run->rank * n;
	for (int s = 0; s < n_stages; s++, own += N_NUMBERS) {
		const struct orr_run_versions *v = &run->versions[s];

		for (int i = run->jobs->first_owner[s]; i < run->jobs->first_owner[s + 1]; i++)
			own[HELD] = fmax(own[HELD], run->data.owned[i].n_held);
		own[LEAST] = (double)v->least + 1;
		own[MOST] = (double)v->most + 1;
		own[READ] = (double)v->n_read;
		own[WRONG] = (double)v->n_wrong;
	}
	code = orr_ranks_sum(numbers, n * run->n_ranks, err);
	for (int s = 0; s < n_stages && !code; s++) {
		struct orr_run_versions sum = {.least = -1, .most = -1};

		for (int k = 0; k < run->n_ranks; k++) {
			const double *x = numbers + k * n + s * N_NUMBERS;
			int64_t least = (int64_t)x[LEAST] - 1, most = (int64_t)x[MOST] - 1;

			sum.held = x[HELD] > sum.held ? (int)x[HELD] : sum.held;
			if (least >= 0 && (sum.least < 0 || least < sum.least))
				sum.least = least;
			sum.most = most > sum.most ? most : sum.most;
			sum.n_read += (int64_t)x[READ];
			sum.n_wrong += (int64_t)x[WRONG];
		}
		stages[s] = sum;
	}
	free(numbers);
	return code;
}

/* ---- rounds ---- */

/* A stream from when it begins empty to when it has been drained. */
struct orr_stream_run {
	struct orr_run *run;
	int64_t n_microbatches, n_rounds;
	int64_t n_begun, n_submitted, n_finished; /* rounds */
	void (*visit)(void *user, const struct orr_step *step);
	void *user;
};

static struct orr_slot *slot_of(const struct orr_stream_run *x, int64_t round)
{
	/* rounds are counted on over all streams of a run, so that ranks agree on slots */
	return &x->run->slots[(x->run->first_round + round) % x->run->window];
}

/* Microbatches of a round that there are: all but in the last one. */
static int in_round(const struct orr_stream_run *x, int64_t round)
{
	int64_t left = x->n_microbatches - round * x->run->pipeline->n_microbatches;

	return left < x->run->pipeline->n_microbatches ? (int)left
						       : x->run->pipeline->n_microbatches;
}

static int begin_round(struct orr_stream_run *x, struct orr_error *err)
{
	struct orr_run *run = x->run;
	struct orr_slot *slot = slot_of(x, x->n_begun);
	int code;

	slot->round = x->n_begun;
	slot->first_sample = run->n_steps * orr_run_step_samples(run->jobs, &run->options) +
			     x->n_begun * run->options.batch;
	if (!(code = orr_slot_begin(run, slot, err)))
		x->n_begun++;
	return code;
}

/* Each step of a round that has ended; its loss is the mean over the step's microbatches. */
static void tell_steps(struct orr_stream_run *x, const struct orr_slot *slot, int n)
{
	struct orr_run *run = x->run;
	int in_step = orr_versions_step(run->jobs->versions), n_steps = n / in_step;
	int samples = orr_run_step_samples(run->jobs, &run->options);
	double seconds = (double)(slot->end_ns - run->last_end_ns) * 1e-9;

	for (int k = 0; k < n_steps; k++) {
		struct orr_metrics sum = {0};

		for (int s = 0; s < run->pipeline->n_stages; s++)
			for (int b = k * in_step; b < (k + 1) * in_step; b++) {
				const struct orr_metrics *m =
					&slot->metrics[s * run->pipeline->n_microbatches + b];

				sum.loss += m->loss;
				sum.correct += m->correct;
				sum.classified += m->classified;
			}
		run->n_told++;
		if (x->visit)
			x->visit(x->user,
				 &(struct orr_step){
					 .step = run->n_told - 1,
					 .samples = run->n_told * samples,
					 .loss = run->rank ? NAN : sum.loss / samples,
					 .accuracy = sum.classified && !run->rank
							     ? (double)sum.correct /
								       (double)sum.classified
							     : NAN,
					 .seconds = seconds / n_steps,
				 });
	}
	run->last_end_ns = slot->end_ns;
}

static int finish_round(struct orr_stream_run *x, struct orr_error *err)
{
	struct orr_run *run = x->run;
	struct orr_slot *slot = slot_of(x, x->n_finished);
	int n = in_round(x, x->n_finished), code;
	int64_t first_step = run->n_told;

	if ((code = orr_run_end_slot(run, slot, n == run->pipeline->n_microbatches, err)))
		return code;
	x->n_finished++;
	measure_round(run, slot, n);
	tell_steps(x, slot, n);
	code = orr_finite_check(run, slot, first_step, err);
	if (run->ends && x->n_begun < x->n_rounds) { /* what has begun is drained */
		x->n_rounds = x->n_begun;
		x->n_microbatches = x->n_rounds * run->pipeline->n_microbatches;
	}
	return code;
}

/* Job j of a round, and the update that it closes. */
static int submit_one(struct orr_stream_run *x, int64_t round, int j, struct orr_error *err)
{
	struct orr_run *run = x->run;
	struct orr_slot *slot = slot_of(x, round);
	struct orr_job job = orr_jobs_at(run->jobs, j);
	int w = run->jobs->compute[j], every = run->jobs->versions->every[job.s], code;

	if (job.b >= in_round(x, round))
		return 0;
	if (orr_run_computes(run, j) &&
	    ((orr_run_learns(run, j) && (code = choose_version(run, slot, j, err))) ||
	     (code = orr_submit_job(run, slot, j, run->turn[w]++, err))))
		return code;
	if (job.d != orr_jobs_last_pass(run->jobs, job.s) || !orr_run_learns(run, j) ||
	    (job.b + 1) % every)
		return 0;
	return orr_submit_updates(run, slot, job.s, job.b / every, err);
}

static int submit_wave(struct orr_stream_run *x, int64_t wave, struct orr_error *err)
{
	const struct orr_stream *stream = x->run->jobs->stream;
	int code = 0;

	while (!code && wave < x->n_rounds && x->n_begun - x->n_finished >= x->run->window)
		code = finish_round(x, err);
	if (!code && wave < x->n_rounds)
		code = begin_round(x, err);
	for (int i = 0; i < orr_jobs_count(x->run->jobs) && !code; i++) {
		int64_t round = wave - stream->lag[stream->order[i]];

		if (round >= 0 && round < x->n_rounds)
			code = submit_one(x, round, stream->order[i], err);
	}
	/* all of that round is there */
	if (!code && wave + 1 >= stream->n_waves)
		orr_watch_done(x->run, slot_of(x, x->n_submitted++));
	return code;
}

int orr_stream_train(struct orr_run *run, int64_t n,
		     void (*visit)(void *user, const struct orr_step *step), void *user,
		     struct orr_error *err)
{
	int m = run->pipeline->n_microbatches, code = 0;
	struct orr_stream_run x = {.run = run, .visit = visit, .user = user};

	x.n_microbatches = n * orr_versions_step(run->jobs->versions);
	x.n_rounds = (x.n_microbatches + m - 1) / m;
	run->first_round = run->n_submitted;
	run->n_told = run->n_steps;
	restart_versions(run);
	for (int s = 0; s < run->pipeline->n_stages; s++)
		run->first_update[s] = updates_before(run, s);
	for (int64_t wave = 0; wave < x.n_rounds + run->jobs->stream->n_waves - 1 && !code; wave++)
		code = submit_wave(&x, wave, err);
	while (x.n_submitted < x.n_begun) /* after a failure */
		orr_watch_done(run, slot_of(&x, x.n_submitted++));
	while (x.n_finished < x.n_rounds && !code)
		code = finish_round(&x, err);
	if (!code)
		run->n_steps += x.n_microbatches / orr_versions_step(run->jobs->versions);
	return code;
}
