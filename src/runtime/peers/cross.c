#include "cross.h"

#include "base/max.h"
#include "codelets/codelets.h"

/* Numbers of messages are the same on every rank and differ from one another; two steps are in
 * flight at most, so the numbers of a step come back after the next one. Between two ranks messages
 * of one number arrive in the order in which they were sent. */
static struct orr_message message(const struct orr_cross *cross, int slot, int tag, int64_t at,
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

void orr_cross_pass(const struct orr_cross *cross, int slot, int tag, int64_t at,
		    starpu_data_handle_t handle, int other, bool sends)
{
	orr_message_pass(cross->work, message(cross, slot, tag, at, handle, other), sends);
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
		[ORR_TRANSFER_ACTIVATION] = edges + (int64_t)p->n_outputs * p->n_microbatches,
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

/* ---- credits ---- */

/* Flow control by credits. A credit is a handle without data. The job that fetches parameters, or
 * makes a weight gradient for another rank, has it from when that block of memory is made until it
 * is dropped; so a worker has as many blocks as credits, and no message is asked for earlier. A
 * receive has no room for a second handle: an empty task takes the credit for it.
 *
 * Nothing can deadlock: there is one order of all jobs, with every gradient added right after the
 * last job that it waits for, and a job that waits for a credit comes in it after the job that
 * holds it. */
static starpu_data_handle_t *make_credits(struct orr_data *data, int prefetch, enum orr_place place)
{
	const struct orr_work *work = data->work;
	struct orr_fault *fault = work->fault;
	starpu_data_handle_t *credits;
	int *before;

	orr_arrays_make(work->arrays, credits, work->jobs->n_jobs);
	orr_arrays_make(work->arrays, before, work->jobs->n_jobs);
	if (!orr_work_fails(work))
		fault->code = orr_places_find(before, work->jobs, prefetch + 1, place,
					      work->rank_of, &fault->err);
	for (int i = 0; i < work->n_sequence && !fault->code; i++) {
		int j = work->sequence[i];

		if (!orr_work_computes(work, j) || before[j] < 0)
			continue;
		if (before[j] == j)
			orr_handles_void(&data->handles, &credits[j]);
		else
			credits[j] = credits[before[j]];
	}
	return credits;
}

/* Uses of block from here on, in this mode, wait for job j's credit; and the credit waits for uses
 * of block before. */
static void take_credit(const struct orr_cross *cross, const starpu_data_handle_t *credits, int j,
			starpu_data_handle_t block, enum starpu_data_access_mode mode)
{
	struct orr_fault *fault = cross->work->fault;
	starpu_data_handle_t credit = credits[j];

	if (credit && !fault->code &&
	    starpu_task_insert(&orr_codelets[ORR_CODELET_JOIN], (int)mode, block, STARPU_RW, credit,
			       0))
		fault->code =
			orr_fail(&fault->err, ORR_E_RUNTIME, "run: StarPU refuses an empty task");
}

static void make_incoming(struct orr_cross *cross)
{
	orr_arrays_make(cross->work->arrays, cross->incoming, cross->data->n_owned);
	for (int i = 0; i < cross->data->n_owned && !orr_work_fails(cross->work); i++) {
		const struct orr_owned *o = &cross->data->owned[i];
		int64_t n = orr_work_n_trained(cross->work, o->s);
		bool comes = false;

		for (int k = 0; k < o->n_contributors; k++)
			comes |= !orr_work_computes(cross->work, o->contributors[k]);
		for (int k = 0; k < ORR_N_COMING && n && comes && orr_work_has(cross->work, o->w);
		     k++)
			orr_data_make_temporary(cross->data, &cross->incoming[i].handles[k], n);
	}
}

/* ---- what crosses between jobs ---- */

/* Output i of F of (s,b), and the gradient of it that comes back. All microbatches of what is
 * gathered come with the first F of the stage that reads it, and their gradients go with its last
 * B. */
static int visit_edge(const struct orr_work *work, int s, int b, int i,
		      int (*visit)(void *user, const struct orr_handover *h), void *user)
{
	const struct orr_pipeline *p = work->pipeline;
	const struct orr_jobs *jobs = work->jobs;
	int to = orr_stage_after(p, s, i), n = p->n_stages * jobs->n_passes;
	int64_t at = orr_work_edge_at(work, p->stages[s].out[i], b),
		samples = orr_work_samples(work, b);
	int f = orr_jobs_index(jobs, s, b, ORR_PASS_F);
	int reader = orr_jobs_index(jobs, to, b, ORR_PASS_F);
	int back = orr_jobs_index(jobs, to, b, ORR_PASS_B);
	int first = orr_jobs_index(jobs, s, b, orr_jobs_first_backward(jobs, s));
	int taker = p->stages[to].gather ? work->first_of[reader % n] : reader;
	int sender = p->stages[to].gather ? work->last_of[back % n] : back;
	int64_t floats = samples * work->programs[s]->out[i].columns;
	int64_t gradients = samples * work->programs[s]->out[i].gradients;
	const struct orr_handover moves[] = {
		{ORR_TRANSFER_ACTIVATION, at, floats, f, reader, f, taker},
		{ORR_TRANSFER_GRADIENT, at, gradients, back, first, sender, first},
	};
	int code = floats ? visit(user, &moves[0]) : 0;

	return code || !gradients ? code : visit(user, &moves[1]);
}

/* An output of several readers, by its number, to every rank of theirs once. */
static int visit_output(const struct orr_work *work, int s, int b, int number, int64_t floats,
			int (*visit)(void *user, const struct orr_handover *h), void *user)
{
	const struct orr_jobs *jobs = work->jobs;
	const struct orr_fanout *x = &work->pipeline->outputs[number - work->pipeline->n_edges];
	int f = orr_jobs_index(jobs, s, b, ORR_PASS_F), code = 0;

	for (int i = 0; i < x->n_readers && !code; i++) {
		int reader = orr_jobs_index(jobs, x->readers[i], b, ORR_PASS_F), k = 0, taker;

		while (orr_work_rank(work, orr_jobs_index(jobs, x->readers[k], b, ORR_PASS_F)) !=
		       orr_work_rank(work, reader))
			k++;
		taker = work->first_reader[orr_work_output_at(work, number, b)];
		if (k == i)
			code = visit(user,
				     &(struct orr_handover){
					     ORR_TRANSFER_ACTIVATION,
					     orr_work_edge_at(work, number, b), floats, f, reader,
					     f, orr_work_computes(work, reader) ? taker : reader});
	}
	return code;
}

int orr_cross_visit(const struct orr_work *work, int s, int b,
		    int (*visit)(void *user, const struct orr_handover *h), void *user)
{
	const struct orr_jobs *jobs = work->jobs;
	const struct orr_stage *stage = &work->pipeline->stages[s];
	const struct orr_program *program = work->programs[s];
	int64_t n = orr_work_samples(work, b), left = orr_program_left_floats(program, n, true);
	int f = orr_jobs_index(jobs, s, b, ORR_PASS_F), code = 0;
	int first = orr_jobs_index(jobs, s, b, orr_jobs_first_backward(jobs, s));
	int last = orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s));
	int64_t at = orr_work_at(work, s, b);
	int64_t stash = jobs->recompute[s] ? orr_program_input_floats(program, n)
					   : orr_program_stash_floats(program, n, false);
	struct orr_handover moves[] = {
		{ORR_TRANSFER_STASH, at, stash, f, first, f, first},
		{left ? ORR_TAG_LEFT : ORR_TAG_ENDED, at, left, first, last, first, last},
		{ORR_TAG_GATE, at, 1, 0, f, 0, f},
	};
	bool there[] = {orr_work_has_backward(work, s), orr_work_splits(work, s),
			orr_work_gates(work, s, b)};

	if (there[2])
		moves[2].from = moves[2].sender =
			orr_jobs_index(jobs, s, b - jobs->cap[s], orr_jobs_last_pass(jobs, s));
	for (int i = 0; i < stage->n_out && !code; i++)
		code = visit_edge(work, s, b, i, visit, user);
	for (int i = 0; i < stage->n_sent && !code; i++)
		code = visit_output(work, s, b, stage->sent[i],
				    n * program->out[stage->n_out + i].columns, visit, user);
	for (int k = 0; k < 3 && !code; k++)
		code = there[k] ? visit(user, &moves[k]) : 0;
	return code;
}

static int note(void *user, const struct orr_handover *h)
{
	struct orr_cross *cross = user;
	const struct orr_work *work = cross->work;
	int from = orr_work_rank(work, h->from), to = orr_work_rank(work, h->to), *next;

	if (from == to || (from != work->rank && to != work->rank))
		return 0;
	next = from == work->rank ? &cross->sends[h->sender] : &cross->takes[h->taker];
	while (*next >= 0)
		next = &cross->crossings[*next].next;
	*next = cross->n_crossings++;
	cross->crossings[*next] =
		(struct orr_crossing){h->tag, from == work->rank ? to : from, h->to, h->at, -1};
	return 0;
}

static void find_crossings(struct orr_cross *cross)
{
	const struct orr_work *work = cross->work;
	const struct orr_pipeline *p = work->pipeline;
	size_t n_jobs = (size_t)work->jobs->n_jobs;
	size_t n = 2 * (size_t)p->n_edges + 3 * (size_t)p->n_stages;

	for (int i = 0; i < p->n_outputs; i++)
		n += (size_t)p->outputs[i].n_readers;
	n *= (size_t)p->n_microbatches;
	orr_arrays_make(work->arrays, cross->crossings, n);
	orr_arrays_make(work->arrays, cross->takes, n_jobs);
	orr_arrays_make(work->arrays, cross->sends, n_jobs);
	if (orr_work_fails(work))
		return;
	for (size_t j = 0; j < n_jobs; j++)
		cross->takes[j] = cross->sends[j] = -1;
	for (int s = 0; s < p->n_stages && work->n_ranks > 1; s++)
		for (int b = 0; b < p->n_microbatches; b++)
			(void)orr_cross_visit(work, s, b, note, cross);
}

void orr_cross_init(struct orr_cross *cross, struct orr_data *data, int prefetch)
{
	const struct orr_work *work = data->work;

	*cross = (struct orr_cross){.work = work, .data = data};
	for (int s = 0; s < work->pipeline->n_stages; s++)
		cross->most_owners = (int)larger(cross->most_owners, orr_work_replicas(work, s));
	number_tags(cross);
	cross->arriving = make_credits(data, prefetch, ORR_PLACE_PARAMETERS);
	cross->leaving = make_credits(data, prefetch, ORR_PLACE_GRADIENT);
	find_crossings(cross);
	make_incoming(cross);
}

/* ---- one job's messages ---- */

/* Sends what `reader` takes, a job or -1, an update; or receives it. Within this rank there is no
 * message. */
static void pass(const struct orr_cross *cross, int slot, const struct orr_crossing *c, int reader,
		 starpu_data_handle_t handle, bool sends)
{
	struct orr_message m = message(cross, slot, c->tag, c->at, handle, c->other);

	m.priority = orr_cross_priority(cross, reader);
	if (c->other != cross->work->rank)
		orr_message_pass(cross->work, m, sends);
}

static void send_partial(const struct orr_cross *cross, int slot, int j)
{
	const struct orr_work *work = cross->work;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	int at = orr_work_at(work, job.s, job.b), to = work->rank_of[work->jobs->weights[j]];
	const struct orr_crossing c = {ORR_TRANSFER_WEIGHT_GRADIENT, to, -1, at, -1};
	starpu_data_handle_t partial = cross->data->partial[at];

	if (to == work->rank)
		return;
	pass(cross, slot, &c, -1, partial, true);
	take_credit(cross, cross->leaving, j, partial, STARPU_RW);
	orr_data_drop(cross->data, partial);
}

static starpu_data_handle_t handle_of(const struct orr_data *data, const struct orr_crossing *c)
{
	return (c->tag == ORR_TRANSFER_ACTIVATION ? data->activation
		: c->tag == ORR_TRANSFER_GRADIENT ? data->gradient
		: c->tag == ORR_TRANSFER_STASH    ? data->stash
		: c->tag == ORR_TAG_GATE          ? data->gate
						  : data->left)[c->at];
}

void orr_cross_receive(struct orr_cross *cross, int slot, int j)
{
	const struct orr_data *data = cross->data;
	int owner = cross->work->rank_of[cross->work->jobs->weights[j]];
	const struct orr_crossing parameters = {ORR_TRANSFER_PARAMETER, owner, j, j, -1}, *c;

	if (data->fetched[j]) {
		take_credit(cross, cross->arriving, j, data->fetched[j], STARPU_W);
		pass(cross, slot, &parameters, j, data->fetched[j], false);
	}
	for (int i = cross->takes[j]; i >= 0; i = c->next) {
		c = &cross->crossings[i];
		pass(cross, slot, c, j, handle_of(data, c), false);
	}
}

/* Are there more messages of what c carries, or readers of it here? Those of one handle follow one
 * another. */
static bool is_kept(const struct orr_cross *cross, const struct orr_crossing *c)
{
	const struct orr_crossing *next = c->next < 0 ? NULL : &cross->crossings[c->next];
	const struct orr_work *work = cross->work;
	int64_t at = c->at - orr_work_edge_at(work, work->pipeline->n_edges, 0);

	return c->tag == ORR_TRANSFER_ACTIVATION && at >= 0 &&
	       (work->first_reader[at] >= 0 || (next && next->tag == c->tag && next->at == c->at));
}

/* What it leaves for other ranks alone has no more readers here. */
void orr_cross_send(struct orr_cross *cross, int slot, int j)
{
	const struct orr_data *data = cross->data;
	const struct orr_crossing *c;

	for (int i = cross->sends[j]; i >= 0; i = c->next) {
		c = &cross->crossings[i];
		pass(cross, slot, c, c->reader, handle_of(data, c), true);
		if (!is_kept(cross, c))
			orr_data_drop(data, handle_of(data, c));
	}
	if (orr_work_makes_gradient(cross->work, j))
		send_partial(cross, slot, j);
}

void orr_cross_serve(struct orr_cross *cross, int slot, int j)
{
	const struct orr_data *data = cross->data;
	const struct orr_crossing c = {ORR_TRANSFER_PARAMETER, orr_work_rank(cross->work, j), j, j,
				       -1};

	pass(cross, slot, &c, j, data->owned[data->owned_of[j]].parameters, true);
}

starpu_data_handle_t orr_cross_partial(struct orr_cross *cross, int slot, int j)
{
	const struct orr_work *work = cross->work;
	struct orr_job job = orr_jobs_at(work->jobs, j);
	struct orr_incoming *incoming = &cross->incoming[cross->data->owned_of[j]];
	int at = orr_work_at(work, job.s, job.b);
	const struct orr_crossing c = {ORR_TRANSFER_WEIGHT_GRADIENT, orr_work_rank(work, j), -1, at,
				       -1};
	starpu_data_handle_t partial = cross->data->partial[at];

	if (partial)
		return partial;
	partial = incoming->handles[incoming->n++ % ORR_N_COMING];
	pass(cross, slot, &c, -1, partial, false);
	return partial;
}
