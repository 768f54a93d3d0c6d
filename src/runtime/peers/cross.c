#include "runtime/run/engine.h"

#include <stdlib.h>

/* Numbers of messages are the same on every rank and differ from one another; two steps are in
 * flight at most, so the numbers of a step come back after the next one. Between two ranks messages
 * of one number arrive in the order in which they were sent. */
struct orr_message orr_cross_message(const struct orr_slot *slot, enum orr_tag tag, int64_t at,
				     starpu_data_handle_t handle, int other)
{
	static const int kinds[ORR_TAGS] = {
		[ORR_TAG_ACTIVATION] = ORR_TRAFFIC_ACTIVATION,
		[ORR_TAG_GRADIENT] = ORR_TRAFFIC_GRADIENT,
		[ORR_TAG_STASH] = ORR_TRAFFIC_STASH,
		[ORR_TAG_WHOLE] = ORR_TRAFFIC_STASH,
		[ORR_TAG_PARAMETER] = ORR_TRAFFIC_PARAMETER,
		[ORR_TAG_PARTIAL] = ORR_TRAFFIC_WEIGHT_GRADIENT,
		[ORR_TAG_GATE] = ORR_RANKS_ORDER,
		[ORR_TAG_RING] = ORR_TRAFFIC_ALL_REDUCE,
		[ORR_TAG_READY] = ORR_RANKS_ORDER,
	};
	const struct orr_run *run = slot->jobs->run;

	return (struct orr_message){
		.handle = handle,
		.kind = kinds[tag],
		.other = other,
		.tag = (slot - run->slots) * run->n_tags + run->first_tag[tag] + at,
		/* Else what is ready early, a step's parameters, would lie at the receiver. */
		.waits = tag == ORR_TAG_PARAMETER || tag == ORR_TAG_PARTIAL,
	};
}

int orr_cross_init(struct orr_run *run, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	const struct orr_pipeline *p = run->pipeline;
	int64_t stages = (int64_t)p->n_stages * p->n_microbatches;
	int64_t edges = (int64_t)p->n_edges * p->n_microbatches;
	int n = 0, code = orr_credits_plan(run, err);

	if (code)
		return code;
	for (int s = 0; s < p->n_stages; s++)
		if (jobs->first_owner[s + 1] - jobs->first_owner[s] > run->most_owners)
			run->most_owners = jobs->first_owner[s + 1] - jobs->first_owner[s];
	const int64_t n_tags[ORR_TAGS] = {
		[ORR_TAG_ACTIVATION] = edges,
		[ORR_TAG_GRADIENT] = edges,
		[ORR_TAG_STASH] = stages,
		[ORR_TAG_WHOLE] = stages,
		[ORR_TAG_PARAMETER] = jobs->n_jobs,
		[ORR_TAG_PARTIAL] = stages,
		[ORR_TAG_GATE] = stages,
		[ORR_TAG_RING] = 2 * (int64_t)run->most_owners * jobs->first_owner[p->n_stages] *
				 run->n_updates,
		[ORR_TAG_READY] =
			(int64_t)run->n_ranks * jobs->first_owner[p->n_stages] * run->n_updates,
	};
	for (int k = 0; k < ORR_TAGS; k++) {
		run->first_tag[k] = run->n_tags;
		run->n_tags += n_tags[k];
	}
	if (!(run->n_readers = calloc((size_t)p->n_stages, sizeof(*run->n_readers))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d stages", p->n_stages);
	for (int i = 0; i < jobs->n_jobs; i++) {
		int j = run->sequence[i];
		bool owns = orr_run_has(run, jobs->weights[j]) && orr_run_learns(run, j);

		run->n_readers[orr_jobs_at(jobs, j).s] += owns;
		if (owns || orr_run_computes(run, j))
			run->sequence[n++] = j;
	}
	run->n_sequence = n;
	return 0;
}

bool orr_cross_gate(const struct orr_run *run, int s, int b)
{
	const struct orr_jobs *jobs = run->jobs;
	int cap = jobs->cap ? jobs->cap[s] : 0, before;

	if (!cap || b < cap)
		return false;
	before = orr_jobs_index(jobs, s, b - cap, orr_jobs_last_pass(jobs, s));
	return run->rank_of[jobs->compute[before]] !=
	       run->rank_of[jobs->compute[orr_jobs_index(jobs, s, b, ORR_PASS_F)]];
}

/* ---- one job's messages ---- */

/* The job at hand. */
struct crossing {
	struct orr_run *run;
	const struct orr_slot *slot;
	struct orr_job job;
	struct orr_error *err;
	int code; /* of the first failure; nothing goes after it */
};

static int rank_of_job(const struct orr_run *run, int s, int b, enum orr_pass d)
{
	return run->rank_of[run->jobs->compute[orr_jobs_index(run->jobs, s, b, d)]];
}

static void receive(struct crossing *x, enum orr_tag tag, int64_t at, starpu_data_handle_t handle,
		    int from)
{
	struct orr_message m = orr_cross_message(x->slot, tag, at, handle, from);

	if (!x->code && from != x->run->rank)
		x->code = orr_ranks_receive_data(&m, NULL, NULL, x->err);
}

static void send(struct crossing *x, enum orr_tag tag, int64_t at, starpu_data_handle_t handle,
		 int to)
{
	struct orr_message m = orr_cross_message(x->slot, tag, at, handle, to);

	if (!x->code && to != x->run->rank)
		x->code = orr_ranks_send_data(&m, x->err);
}

/* Nobody reads it here any more. */
static void send_last_of(struct crossing *x, enum orr_tag tag, int64_t at,
			 starpu_data_handle_t handle, int to)
{
	send(x, tag, at, handle, to);
	if (!x->code && to != x->run->rank)
		orr_data_drop(x->run, handle);
}

static void send_partial(struct crossing *x, int j, int64_t at, int to)
{
	starpu_data_handle_t partial = x->run->data.partial[at];

	send(x, ORR_TAG_PARTIAL, at, partial, to);
	if (x->code || to == x->run->rank)
		return;
	x->code = orr_credit_take(&x->run->leaving, j, partial, STARPU_RW, x->err);
	orr_data_drop(x->run, partial);
}

int orr_cross_receive(struct orr_run *run, const struct orr_slot *slot, int j,
		      struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	const struct orr_pipeline *p = run->pipeline;
	const struct orr_data *data = &run->data;
	struct crossing x = {run, slot, orr_jobs_at(jobs, j), err, 0};
	int s = x.job.s, b = x.job.b, n = p->n_microbatches;
	int64_t at = (int64_t)s * n + b;

	if (data->fetched[j]) {
		x.code = orr_credit_take(&run->arriving, j, data->fetched[j], STARPU_W, err);
		receive(&x, ORR_TAG_PARAMETER, j, data->fetched[j], run->rank_of[jobs->weights[j]]);
	}
	switch (x.job.d) {
	case ORR_PASS_F:
		for (int i = 0; i < p->stages[s].n_in; i++) {
			int64_t e = (int64_t)p->stages[s].in[i] * n + b;

			receive(&x, ORR_TAG_ACTIVATION, e, data->activation[e],
				rank_of_job(run, orr_stage_before(p, s, i), b, ORR_PASS_F));
		}
		if (orr_cross_gate(run, s, b))
			receive(&x, ORR_TAG_GATE, at, data->gate[at],
				rank_of_job(run, s, b - jobs->cap[s], orr_jobs_last_pass(jobs, s)));
		break;
	case ORR_PASS_B:
		receive(&x, ORR_TAG_STASH, at, data->stash[at], rank_of_job(run, s, b, ORR_PASS_F));
		for (int i = 0; i < p->stages[s].n_out; i++) {
			int64_t e = (int64_t)p->stages[s].out[i] * n + b;

			receive(&x, ORR_TAG_GRADIENT, e, data->gradient[e],
				rank_of_job(run, orr_stage_after(p, s, i), b, ORR_PASS_B));
		}
		break;
	case ORR_PASS_W:
		receive(&x, ORR_TAG_WHOLE, at, data->whole[at] ? data->whole[at] : data->stash[at],
			rank_of_job(run, s, b, ORR_PASS_B));
		break;
	}
	return x.code;
}

/* After the last pass: its weight gradient, and the go for the one that the cap holds back. */
static void send_last(struct crossing *x, int j)
{
	const struct orr_run *run = x->run;
	const struct orr_jobs *jobs = run->jobs;
	int s = x->job.s, b = x->job.b, n = run->pipeline->n_microbatches;
	int64_t at = (int64_t)s * n + b;
	int next = b + (jobs->cap ? jobs->cap[s] : n);

	if (orr_run_learns(run, j))
		send_partial(x, j, at, run->rank_of[jobs->weights[j]]);
	if (next < n && orr_cross_gate(run, s, next)) {
		at = (int64_t)s * n + next;
		send_last_of(x, ORR_TAG_GATE, at, run->data.gate[at],
			     rank_of_job(run, s, next, ORR_PASS_F));
	}
}

int orr_cross_send(struct orr_run *run, const struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_pipeline *p = run->pipeline;
	const struct orr_data *data = &run->data;
	struct crossing x = {run, slot, orr_jobs_at(run->jobs, j), err, 0};
	int s = x.job.s, b = x.job.b, n = p->n_microbatches;
	int64_t at = (int64_t)s * n + b;

	if (x.job.d == ORR_PASS_F) {
		for (int i = 0; i < p->stages[s].n_out; i++) {
			int64_t e = (int64_t)p->stages[s].out[i] * n + b;

			send_last_of(&x, ORR_TAG_ACTIVATION, e, data->activation[e],
				     rank_of_job(run, orr_stage_after(p, s, i), b, ORR_PASS_F));
		}
		send_last_of(&x, ORR_TAG_STASH, at, data->stash[at],
			     rank_of_job(run, s, b, ORR_PASS_B));
	} else if (x.job.d == ORR_PASS_B) {
		for (int i = 0; i < p->stages[s].n_in; i++) {
			int64_t e = (int64_t)p->stages[s].in[i] * n + b;

			send_last_of(&x, ORR_TAG_GRADIENT, e, data->gradient[e],
				     rank_of_job(run, orr_stage_before(p, s, i), b, ORR_PASS_B));
		}
		if (run->jobs->n_passes == 3)
			send_last_of(&x, ORR_TAG_WHOLE, at,
				     data->whole[at] ? data->whole[at] : data->stash[at],
				     rank_of_job(run, s, b, ORR_PASS_W));
	}
	if (x.job.d == orr_jobs_last_pass(run->jobs, x.job.s))
		send_last(&x, j);
	return x.code;
}

int orr_cross_serve(struct orr_run *run, const struct orr_slot *slot, int j, struct orr_error *err)
{
	const struct orr_data *data = &run->data;
	struct crossing x = {run, slot, orr_jobs_at(run->jobs, j), err, 0};

	send(&x, ORR_TAG_PARAMETER, j, data->owned[data->owned_of[j]].parameters,
	     run->rank_of[run->jobs->compute[j]]);
	return x.code;
}

int orr_cross_receive_partial(struct orr_run *run, const struct orr_slot *slot, int j,
			      starpu_data_handle_t partial, struct orr_error *err)
{
	struct crossing x = {run, slot, orr_jobs_at(run->jobs, j), err, 0};
	int64_t at = (int64_t)x.job.s * run->pipeline->n_microbatches + x.job.b;

	receive(&x, ORR_TAG_PARTIAL, at, partial, run->rank_of[run->jobs->compute[j]]);
	return x.code;
}
