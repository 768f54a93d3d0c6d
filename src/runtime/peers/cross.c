#include "cross.h"

#include "base/arrays.h"

/* Numbers of messages are the same on every rank and differ from one another; two steps are in
 * flight at most, so the numbers of a step come back after the next one. Between two ranks messages
 * of one number arrive in the order in which they were sent. */
struct orr_message orr_cross_message(const struct orr_cross *cross, int slot, int tag, int64_t at,
				     starpu_data_handle_t handle, int other)
{
	return (struct orr_message){
		.handle = handle,
		.kind = tag < ORR_TRANSFER_KINDS ? tag
			: tag == ORR_TAG_LEFT    ? ORR_TRANSFER_STASH
			: tag == ORR_TAG_TIED    ? ORR_TRANSFER_ALL_REDUCE
						 : ORR_RANKS_ORDER,
		.other = other,
		.tag = slot * cross->n_tags + cross->first_tag[tag] + at,
		/* Else what is ready early, a step's parameters, would lie at the receiver. */
		.waits = tag == ORR_TRANSFER_PARAMETER || tag == ORR_TRANSFER_WEIGHT_GRADIENT,
	};
}

int orr_cross_priority(const struct orr_cross *cross, int reader)
{
	const struct orr_jobs *jobs = cross->work->jobs;
	int last = jobs->n_jobs; /* of a step */

	return orr_policy_priority(cross->step * (last + 1) +
				   (reader >= 0 ? jobs->position[reader] : last));
}

static void number_tags(struct orr_cross *cross)
{
	const struct orr_work *work = cross->work;
	const struct orr_pipeline *p = work->pipeline;
	int64_t stages = (int64_t)p->n_stages * p->n_microbatches;
	int64_t edges = (int64_t)p->n_edges * p->n_microbatches;
	int64_t n_updates = (int64_t)cross->data->n_owned * work->n_updates;
	const int64_t n_tags[ORR_TAGS] = {
		[ORR_TRANSFER_ACTIVATION] = edges,
		[ORR_TRANSFER_GRADIENT] = edges,
		[ORR_TRANSFER_STASH] = stages,
		[ORR_TAG_LEFT] = stages,
		[ORR_TAG_ENDED] = stages,
		[ORR_TRANSFER_PARAMETER] = work->jobs->n_jobs,
		[ORR_TRANSFER_WEIGHT_GRADIENT] = stages,
		[ORR_TAG_GATE] = stages,
		[ORR_TRANSFER_ALL_REDUCE] = 3 * cross->most_owners * n_updates,
		[ORR_TAG_READY] = 2 * work->n_ranks * n_updates,
		[ORR_TAG_TIED] = (int64_t)orr_work_n_ties(work) * (p->n_workers + work->n_ranks) *
				 work->n_updates,
	};

	for (int k = 0; k < ORR_TAGS; k++) {
		cross->first_tag[k] = cross->n_tags;
		cross->n_tags += n_tags[k];
	}
}

static int make_incoming(struct orr_cross *cross, struct orr_error *err)
{
	const struct orr_jobs *jobs = cross->work->jobs;
	int code = 0;

	cross->incoming = orr_arrays_add(cross->work->arrays, (size_t)cross->data->n_owned,
					 sizeof(*cross->incoming));
	if (!cross->incoming)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d owners",
				cross->data->n_owned);
	for (int i = 0; i < cross->data->n_owned; i++) {
		const struct orr_owned *o = &cross->data->owned[i];
		int64_t n = orr_work_n_trained(cross->work, o->s);
		bool comes = false;

		for (int k = 0; k < o->n_contributors; k++)
			comes |= cross->work->rank_of[jobs->compute[o->contributors[k]]] !=
				 cross->work->rank;
		for (int k = 0;
		     k < ORR_N_COMING && n && comes && orr_work_has(cross->work, o->w) && !code;
		     k++)
			code = orr_data_make_temporary(cross->data, &cross->incoming[i].handles[k],
						       n, err);
	}
	return code;
}

int orr_cross_init(struct orr_cross *cross, struct orr_data *data, int prefetch,
		   struct orr_error *err)
{
	const struct orr_work *work = data->work;
	int code;

	*cross = (struct orr_cross){.work = work, .data = data};
	for (int s = 0; s < work->pipeline->n_stages; s++)
		if (orr_work_replicas(work, s) > cross->most_owners)
			cross->most_owners = orr_work_replicas(work, s);
	number_tags(cross);
	if ((code = orr_credits_init(&cross->arriving, work, prefetch, ORR_PLACE_PARAMETERS,
				     err)) ||
	    (code = orr_credits_init(&cross->leaving, work, prefetch, ORR_PLACE_GRADIENT, err)))
		return code;
	return make_incoming(cross, err);
}

void orr_cross_fini(struct orr_cross *cross)
{
	for (int i = 0; cross->incoming && i < cross->data->n_owned; i++)
		for (int k = 0; k < ORR_N_COMING; k++)
			orr_data_forget(cross->incoming[i].handles[k]);
	orr_credits_fini(&cross->arriving);
	orr_credits_fini(&cross->leaving);
}

/* ---- one job's messages ---- */

/* The job at hand. */
struct crossing {
	struct orr_cross *cross;
	const struct orr_work *work;
	int slot;
	struct orr_job job;
	struct orr_error *err;
	int code;   /* of the first failure; nothing goes after it */
	int reader; /* the job that takes what is received; -1: an update */
};

static int rank_of(const struct orr_work *work, int j)
{
	return work->rank_of[work->jobs->compute[j]];
}

static int rank_of_job(const struct orr_work *work, int s, int b, enum orr_pass d)
{
	return rank_of(work, orr_jobs_index(work->jobs, s, b, d));
}

static void receive(struct crossing *x, int tag, int64_t at, starpu_data_handle_t handle, int from)
{
	struct orr_message m = orr_cross_message(x->cross, x->slot, tag, at, handle, from);

	m.priority = orr_cross_priority(x->cross, x->reader);
	if (!x->code && from != x->work->rank)
		x->code = orr_ranks_receive_data(&m, x->err);
}

static void send(struct crossing *x, int tag, int64_t at, starpu_data_handle_t handle, int to,
		 int reader)
{
	struct orr_message m = orr_cross_message(x->cross, x->slot, tag, at, handle, to);

	m.priority = orr_cross_priority(x->cross, reader);
	if (!x->code && to != x->work->rank)
		x->code = orr_ranks_send_data(&m, x->err);
}

/* It has no more readers here. */
static void send_last_of(struct crossing *x, int tag, int64_t at, starpu_data_handle_t handle,
			 int reader)
{
	int to = rank_of(x->work, reader);

	send(x, tag, at, handle, to, reader);
	if (!x->code && to != x->work->rank)
		orr_data_drop(x->cross->data, handle);
}

static void send_partial(struct crossing *x, int j, int64_t at, int to)
{
	starpu_data_handle_t partial = x->cross->data->partial[at];

	send(x, ORR_TRANSFER_WEIGHT_GRADIENT, at, partial, to, -1);
	if (x->code || to == x->work->rank)
		return;
	x->code = orr_credit_take(&x->cross->leaving, j, partial, STARPU_RW, x->err);
	orr_data_drop(x->cross->data, partial);
}

static void receive_activations(struct crossing *x, int b)
{
	const struct orr_work *work = x->work;
	const struct orr_pipeline *p = work->pipeline;
	int s = x->job.s;

	for (int i = 0; i < p->stages[s].n_in; i++) {
		int64_t e = orr_work_edge_at(work, p->stages[s].in[i], b);

		receive(x, ORR_TRANSFER_ACTIVATION, e, x->cross->data->activation[e],
			rank_of_job(work, orr_stage_before(p, s, i), b, ORR_PASS_F));
	}
}

/* What job F takes: its inputs, and the go where a cap holds it back. */
static void receive_forward(struct crossing *x)
{
	const struct orr_work *work = x->work;
	const struct orr_jobs *jobs = work->jobs;
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_data *data = x->cross->data;
	int s = x->job.s, b = x->job.b, at = orr_work_at(work, s, b);

	if (!p->stages[s].gather)
		receive_activations(x, b);
	else if (orr_work_is_first(work, orr_jobs_index(jobs, s, b, ORR_PASS_F)))
		for (int k = 0; k < p->n_microbatches; k++)
			receive_activations(x, k);
	if (orr_work_gates(work, s, b))
		receive(x, ORR_TAG_GATE, at, data->gate[at],
			rank_of_job(work, s, b - jobs->cap[s], orr_jobs_last_pass(jobs, s)));
}

/* What the first job of the backward takes: the stash, and gradients where there are any. */
static void receive_backward(struct crossing *x)
{
	const struct orr_work *work = x->work;
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_data *data = x->cross->data;
	int s = x->job.s, b = x->job.b, at = orr_work_at(work, s, b);

	receive(x, ORR_TRANSFER_STASH, at, data->stash[at], rank_of_job(work, s, b, ORR_PASS_F));
	for (int i = 0; i < p->stages[s].n_out; i++) {
		int64_t e = orr_work_edge_at(work, p->stages[s].out[i], b);

		if (data->gradient[e])
			receive(x, ORR_TRANSFER_GRADIENT, e, data->gradient[e],
				rank_of_job(work, orr_stage_after(p, s, i), b, ORR_PASS_B));
	}
}

static int tag_of_left(const struct orr_work *work, int s)
{
	return orr_program_left_floats(work->programs[s], 1, true) ? ORR_TAG_LEFT : ORR_TAG_ENDED;
}

int orr_cross_receive(struct orr_cross *cross, int slot, int j, struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	const struct orr_data *data = cross->data;
	struct crossing x = {cross, work, slot, orr_jobs_at(work->jobs, j), err, 0, j};
	int s = x.job.s, b = x.job.b, at = orr_work_at(work, s, b);

	if (data->fetched[j]) {
		x.code = orr_credit_take(&cross->arriving, j, data->fetched[j], STARPU_W, err);
		receive(&x, ORR_TRANSFER_PARAMETER, j, data->fetched[j],
			work->rank_of[work->jobs->weights[j]]);
	}
	if (x.job.d == ORR_PASS_F)
		receive_forward(&x);
	else if (x.job.d == orr_jobs_first_backward(work->jobs, s))
		receive_backward(&x);
	else
		receive(&x, tag_of_left(work, s), at, data->left[at],
			rank_of_job(work, s, b, ORR_PASS_B));
	return x.code;
}

/* After the last pass: its weight gradient, and the go for the one that the cap holds back. */
static void send_last(struct crossing *x, int j)
{
	const struct orr_work *work = x->work;
	int s = x->job.s, b = x->job.b, next = b + orr_jobs_cap(work->jobs, s);
	int at = orr_work_at(work, s, b);

	if (orr_work_makes_gradient(work, j))
		send_partial(x, j, at, work->rank_of[work->jobs->weights[j]]);
	if (next < work->pipeline->n_microbatches && orr_work_gates(work, s, next)) {
		at = orr_work_at(work, s, next);
		send_last_of(x, ORR_TAG_GATE, at, x->cross->data->gate[at],
			     orr_jobs_index(work->jobs, s, next, ORR_PASS_F));
	}
}

static void send_forward(struct crossing *x)
{
	const struct orr_work *work = x->work;
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_data *data = x->cross->data;
	int s = x->job.s, b = x->job.b, at = orr_work_at(work, s, b);

	for (int i = 0; i < p->stages[s].n_out; i++) {
		int64_t e = orr_work_edge_at(work, p->stages[s].out[i], b);

		send_last_of(x, ORR_TRANSFER_ACTIVATION, e, data->activation[e],
			     orr_jobs_index(work->jobs, orr_stage_after(p, s, i), b, ORR_PASS_F));
	}
	if (orr_work_has_backward(work, s))
		send_last_of(
			x, ORR_TRANSFER_STASH, at, data->stash[at],
			orr_jobs_index(work->jobs, s, b, orr_jobs_first_backward(work->jobs, s)));
}

static void send_gradients(struct crossing *x, int b)
{
	const struct orr_work *work = x->work;
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_data *data = x->cross->data;
	int s = x->job.s;

	for (int i = 0; i < p->stages[s].n_in; i++) {
		int64_t e = orr_work_edge_at(work, p->stages[s].in[i], b);
		int before = orr_stage_before(p, s, i);

		if (data->gradient[e])
			send_last_of(x, ORR_TRANSFER_GRADIENT, e, data->gradient[e],
				     orr_jobs_index(work->jobs, before, b,
						    orr_jobs_first_backward(work->jobs, before)));
	}
}

/* A stage that gathers sends all gradients after its last B. */
static void send_backward(struct crossing *x)
{
	const struct orr_work *work = x->work;
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_data *data = x->cross->data;
	int s = x->job.s, b = x->job.b, at = orr_work_at(work, s, b);

	if (!p->stages[s].gather)
		send_gradients(x, b);
	else if (orr_work_is_last(work, orr_jobs_index(work->jobs, s, b, ORR_PASS_B)))
		for (int k = 0; k < p->n_microbatches; k++)
			send_gradients(x, k);
	if (orr_work_splits(work, s))
		send_last_of(x, tag_of_left(work, s), at, data->left[at],
			     orr_jobs_index(work->jobs, s, b, ORR_PASS_W));
}

int orr_cross_send(struct orr_cross *cross, int slot, int j, struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	struct crossing x = {cross, work, slot, orr_jobs_at(work->jobs, j), err, 0, j};

	if (x.job.d == ORR_PASS_F)
		send_forward(&x);
	else if (x.job.d == ORR_PASS_B)
		send_backward(&x);
	if (x.job.d == orr_jobs_last_pass(work->jobs, x.job.s))
		send_last(&x, j);
	return x.code;
}

int orr_cross_serve(struct orr_cross *cross, int slot, int j, struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	const struct orr_data *data = cross->data;
	struct crossing x = {cross, work, slot, orr_jobs_at(work->jobs, j), err, 0, j};

	send(&x, ORR_TRANSFER_PARAMETER, j, data->owned[data->owned_of[j]].parameters.handle,
	     rank_of(work, j), j);
	return x.code;
}

int orr_cross_partial(struct orr_cross *cross, int slot, int j, starpu_data_handle_t *partial,
		      struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	struct crossing x = {cross, work, slot, orr_jobs_at(work->jobs, j), err, 0, -1};
	struct orr_incoming *incoming = &cross->incoming[cross->data->owned_of[j]];
	int at = orr_work_at(work, x.job.s, x.job.b);

	*partial = cross->data->partial[at];
	if (*partial)
		return 0;
	*partial = incoming->handles[incoming->n++ % ORR_N_COMING];
	receive(&x, ORR_TRANSFER_WEIGHT_GRADIENT, at, *partial,
		work->rank_of[work->jobs->compute[j]]);
	return x.code;
}
