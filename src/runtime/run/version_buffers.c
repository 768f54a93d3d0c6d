#include "version_buffers.h"

#include <math.h>
#include <stdlib.h>
#include "base/max.h"
#include "schedule/versions.h"

static void make_versions(struct orr_held *held, struct orr_data *data, const struct orr_owned *o)
{
	const struct orr_work *work = data->work;

	held->n_versions = work->jobs->versions->peak[o->s];
	held->n_used = 1;
	orr_arrays_make(work->arrays, held->versions, held->n_versions);
	if (orr_work_fails(work))
		return;
	held->versions[0].handle = o->parameters;
	for (int k = 1; k < held->n_versions; k++)
		orr_data_make_block(data, &held->versions[k].handle, o,
				    orr_work_n_parameters(work, o->s));
}

void orr_version_buffers_init(struct orr_version_buffers *buffers, struct orr_slots *slots)
{
	struct orr_data *data = slots->data;
	const struct orr_work *work = data->work;
	int n_stages = work->pipeline->n_stages;

	*buffers = (struct orr_version_buffers){.slots = slots};
	if (!work->jobs->async)
		return;
	orr_arrays_make(work->arrays, buffers->held, data->n_owned);
	orr_arrays_make(work->arrays, buffers->first_update, n_stages);
	orr_arrays_make(work->arrays, buffers->measured, n_stages);
	if (orr_work_fails(work))
		return;
	for (int s = 0; s < n_stages; s++)
		buffers->measured[s] = (struct orr_run_versions){.least = -1, .most = -1};
	for (int i = 0; i < data->n_owned; i++)
		if (data->owned[i].parameters)
			make_versions(&buffers->held[i], data, &data->owned[i]);
}

void orr_version_buffers_restart(struct orr_version_buffers *buffers, int64_t n_steps)
{
	const struct orr_data *data = buffers->slots->data;
	const struct orr_versions *v = data->work->jobs->versions;

	for (int s = 0; s < data->work->pipeline->n_stages; s++)
		buffers->first_update[s] = n_steps * orr_versions_step(v) / v->every[s];
	for (int i = 0; i < data->n_owned; i++) {
		struct orr_held *held = &buffers->held[i];

		for (int k = 0; k < held->n_versions; k++)
			held->versions[k].number = k == held->latest ? 0 : -1;
		if (held->n_versions)
			atomic_store(&held->versions[held->latest].holds, 0);
	}
}

/* Microbatch b of the slot's round, from the first one of all rounds. */
static int64_t microbatch_of(const struct orr_work *work, const struct orr_slot *slot, int b)
{
	return slot->round * work->pipeline->n_microbatches + b;
}

void orr_version_buffers_choose(struct orr_version_buffers *buffers, struct orr_slot *slot, int j)
{
	const struct orr_data *data = buffers->slots->data;
	const struct orr_work *work = data->work;
	struct orr_fault *fault = work->fault;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	struct orr_held *held = &buffers->held[data->owned_of[j]];
	struct orr_task *t = &slot->jobs[j];
	int64_t number = orr_versions_read(work->jobs->versions, job.s,
					   microbatch_of(work, slot, job.b), job.d);

	t->reads = NULL;
	for (int k = 0; k < held->n_versions; k++)
		if (held->versions[k].number == number)
			t->reads = &held->versions[k];
	t->arg.step = slot->flight.step;
	t->arg.version = buffers->first_update[job.s] + number;
	if (!t->reads && held->n_versions && !fault->code)
		fault->code =
			orr_fail(&fault->err, ORR_E_RUNTIME,
				 "run: version %lld of stage %d is gone", (long long)number, job.s);
}

/* Does a microbatch after b still read the buffer's version? */
static bool is_held(const struct orr_work *work, const struct orr_owned *o,
		    const struct orr_version *version, int64_t b)
{
	if (version->number < 0 || work->pipeline->sync == ORR_SYNC_NONE)
		return false;
	return orr_versions_last_reader(work->jobs->versions, work->jobs, o->s, o->w,
					version->number) > b;
}

/* -1: none is. */
static int find_free(const struct orr_held *held, const struct orr_work *work,
		     const struct orr_owned *o, int64_t b)
{
	struct orr_fault *fault = work->fault;

	for (int k = 0; k < held->n_versions; k++)
		if (k != held->latest && !is_held(work, o, &held->versions[k], b))
			return k;
	if (!fault->code)
		fault->code = orr_fail(&fault->err, ORR_E_RUNTIME,
				       "run: stage %d holds more than %d versions", o->s,
				       held->n_versions);
	return -1;
}

void orr_version_buffers_advance(struct orr_version_buffers *buffers, struct orr_slot *slot, int i,
				 int q)
{
	struct orr_data *data = buffers->slots->data;
	struct orr_owned *o = &data->owned[i];
	struct orr_held *held = &buffers->held[i];
	struct orr_task *update = &slot->updates[q * data->n_owned + i], *copy;
	struct orr_version *from = &held->versions[held->latest], *to = from;
	struct orr_submitter *submitter = buffers->slots->submitter;
	int every = data->work->jobs->versions->every[o->s], k;
	int64_t b = microbatch_of(data->work, slot, (q + 1) * every - 1), number = from->number;

	if (is_held(data->work, o, from, b)) {
		if ((k = find_free(held, data->work, o, b)) < 0)
			return;
		to = &held->versions[k];
		copy = orr_slots_task(buffers->slots, slot, o->w);
		copy->reads = from;
		copy->writes = to;
		copy->arg.overwrite = true;
		copy->arg.n_floats = orr_work_n_parameters(data->work, o->s);
		orr_task_add(submitter, from->handle, STARPU_R);
		orr_task_add(submitter, to->handle, STARPU_W);
		orr_task_submit(submitter, copy, ORR_CODELET_ADD);
		held->latest = k;
		held->n_used = k < held->n_used ? held->n_used : k + 1;
		o->parameters = to->handle;
	}
	to->number = number + 1;
	update->reads = update->writes = to;
	update->later = 1;
	update->arg.step = buffers->first_update[o->s] + number;
}

/* ---- measurements ---- */

/* One microbatch of an owner that is here has ended. */
static void measure_microbatch(struct orr_version_buffers *buffers, const struct orr_slot *slot,
			       int s, int b)
{
	const struct orr_data *data = buffers->slots->data;
	const struct orr_jobs *jobs = data->work->jobs;
	const struct orr_versions *v = jobs->versions;
	struct orr_run_versions *measured = &buffers->measured[s];
	int f = orr_jobs_index(jobs, s, b, ORR_PASS_F), n = data->n_owned;
	int64_t at = microbatch_of(data->work, slot, b), behind;

	for (int d = 0; d < jobs->n_passes; d++) {
		if (!orr_jobs_has(jobs, f + d))
			continue;
		measured->n_read++;
		measured->n_wrong +=
			slot->jobs[f + d].seen != orr_versions_read(v, s, at, (enum orr_pass)d);
	}
	if (v->every[s] == ORR_NEVER || at < orr_versions_full(v, s))
		return;
	behind = slot->updates[b / v->every[s] * n + data->owned_of[f]].seen - slot->jobs[f].seen;
	measured->least = measured->least < 0 ? behind : smaller(measured->least, behind);
	measured->most = larger(measured->most, behind);
}

void orr_version_buffers_measure(struct orr_version_buffers *buffers, const struct orr_slot *slot,
				 int n_microbatches)
{
	const struct orr_work *work = buffers->slots->data->work;

	for (int b = 0; b < n_microbatches; b++)
		for (int s = 0; s < work->pipeline->n_stages; s++) {
			int f = orr_jobs_index(work->jobs, s, b, ORR_PASS_F);

			if (orr_work_computes(work, f) && orr_work_reads(work, f))
				measure_microbatch(buffers, slot, s, b);
		}
}

/* Each rank's numbers of each stage; those of an owner elsewhere are 0 here. */
enum { HELD, LEAST, MOST, READ, WRONG, N_NUMBERS };

int orr_version_buffers_report(const struct orr_version_buffers *buffers,
			       struct orr_run_versions *stages, struct orr_error *err)
{
	const struct orr_work *work = buffers->slots->data->work;
	int n_stages = work->pipeline->n_stages, n = n_stages * N_NUMBERS, code;
	double *numbers = calloc((size_t)n * (size_t)work->n_ranks, sizeof(*numbers)), *own;

	if (!numbers)
		return orr_no_memory(err, "run");
	own = numbers + work->rank * n;
	for (int s = 0; s < n_stages; s++, own += N_NUMBERS) {
		const struct orr_run_versions *v = &buffers->measured[s];

		for (int i = work->jobs->first_owner[s]; i < work->jobs->first_owner[s + 1]; i++)
			own[HELD] = fmax(own[HELD], buffers->held[i].n_used);
		own[LEAST] = (double)v->least + 1;
		own[MOST] = (double)v->most + 1;
		own[READ] = (double)v->n_read;
		own[WRONG] = (double)v->n_wrong;
	}
	code = orr_ranks_sum(numbers, n * work->n_ranks, err);
	for (int s = 0; s < n_stages && !code; s++) {
		struct orr_run_versions sum = {.least = -1, .most = -1};

		for (int k = 0; k < work->n_ranks; k++) {
			const double *x = numbers + k * n + s * N_NUMBERS;
			int64_t least = (int64_t)x[LEAST] - 1, most = (int64_t)x[MOST] - 1;

			sum.held = x[HELD] > sum.held ? (int)x[HELD] : sum.held;
			if (least >= 0 && (sum.least < 0 || least < sum.least))
				sum.least = least;
			sum.most = larger(sum.most, most);
			sum.n_read += (int64_t)x[READ];
			sum.n_wrong += (int64_t)x[WRONG];
		}
		stages[s] = sum;
	}
	free(numbers);
	return code;
}
