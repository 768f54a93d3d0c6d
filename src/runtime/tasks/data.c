#include "data.h"

#include <string.h>
#include "compat.h"

int orr_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode, float **floats,
		     struct orr_error *err)
{
	*floats = NULL;
	if (starpu_data_acquire_on_node(handle, STARPU_MAIN_RAM, mode))
		return orr_fail(err, ORR_E_RUNTIME,
				"run: StarPU does not give back a block of data");
	*floats = starpu_data_handle_to_pointer(handle, STARPU_MAIN_RAM);
	return 0;
}

void orr_data_release(starpu_data_handle_t handle)
{
	starpu_data_release_on_node(handle, STARPU_MAIN_RAM);
}

static int settle(starpu_data_handle_t block, const struct orr_owned *o, struct orr_error *err)
{
	if (!block)
		return 0;
	if (starpu_data_fetch_on_node(block, o->node, 0))
		return orr_fail(err, ORR_E_RUNTIME,
				"run: the parameters of stage %d do not go to worker %d", o->s,
				o->w);
	(void)orr_give_back(block, STARPU_MAIN_RAM);
	return 0;
}

int orr_data_settle(const struct orr_data *data, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < data->n_owned && !code; i++) {
		const struct orr_owned *o = &data->owned[i];

		if (o->node != STARPU_MAIN_RAM && !(code = settle(o->parameters, o, err)))
			code = settle(o->state, o, err);
	}
	return code;
}

/* ---- parameters ---- */

/* Do the gradients of o add up in place? They do if one worker makes them all, in microbatch order,
 * on the owner's rank. */
static bool adds_in_place(const struct orr_work *work, const struct orr_owned *o)
{
	const struct orr_jobs *jobs = work->jobs;

	if (jobs->order != ORR_ORDER_STRICT || !orr_work_has(work, o->w))
		return false;
	for (int i = 1; i < o->n_contributors; i++) {
		int before = o->contributors[i - 1], j = o->contributors[i];

		if (jobs->compute[before] != jobs->compute[j] ||
		    jobs->position[before] > jobs->position[j])
			return false;
	}
	return !o->n_contributors || orr_work_computes(work, o->contributors[0]);
}

static void init_owned(struct orr_data *data, const struct orr_policy *policy, int i, int s)
{
	const struct orr_work *work = data->work;
	struct orr_owned *o = &data->owned[i];
	int64_t n_trained = orr_work_n_trained(work, s);
	int r = orr_work_replicas(work, s), number = i - work->jobs->first_owner[s];
	bool trained = n_trained > 0;

	o->s = s;
	o->sharded = trained && orr_jobs_shards(work->jobs, s);
	o->part = (struct orr_extent){0, orr_work_n_kept(work, s)};
	o->partial = o->sharded || o->part.end < n_trained;
	if (o->sharded)
		o->part = (struct orr_extent){orr_rule_chunk(n_trained, r, number),
					      orr_rule_chunk(n_trained, r, number + 1)};
	o->w = work->jobs->owners[i];
	o->update = trained ? data->n_updates : -1;
	data->n_updates += trained ? orr_jobs_n_updates(work->jobs, s) : 0;
	if (orr_work_has(work, o->w))
		o->node = orr_policy_node(policy, o->w);
	orr_arrays_make(work->arrays, o->contributors, work->pipeline->n_microbatches);
}

/* Which job takes whose parameters, and which gradients flow where. */
static void find_owners(struct orr_data *data, const struct orr_policy *policy)
{
	const struct orr_jobs *jobs = data->work->jobs;
	int n_stages = data->work->pipeline->n_stages;

	data->n_owned = jobs->first_owner[n_stages];
	orr_arrays_make(data->work->arrays, data->owned, data->n_owned);
	orr_arrays_make(data->work->arrays, data->owned_of, jobs->n_jobs);
	for (int s = 0; s < n_stages; s++)
		for (int i = jobs->first_owner[s];
		     i < jobs->first_owner[s + 1] && !orr_work_fails(data->work); i++)
			init_owned(data, policy, i, s);
	if (orr_work_fails(data->work))
		return;
	/* Jobs are numbered by microbatch first, so contributors come in its order. */
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int i = jobs->first_owner[job.s];

		while (jobs->owners[i] != jobs->weights[j])
			i++;
		data->owned_of[j] = i;
		if (orr_work_makes_gradient(data->work, j))
			data->owned[i].contributors[data->owned[i].n_contributors++] = j;
	}
	for (int i = 0; i < data->n_owned; i++) {
		struct orr_owned *o = &data->owned[i];

		o->in_place = adds_in_place(data->work, o);
		o->in_order = o->in_place && o->n_contributors &&
			      orr_policy_node(policy, jobs->compute[o->contributors[0]]) == o->node;
	}
}

void orr_data_make_block(struct orr_data *data, starpu_data_handle_t *handle,
			 const struct orr_owned *o, int64_t n)
{
	orr_handles_block(&data->handles, handle, n, o->node, o->s, o->w);
}

/* To be written in this thread, as far as nothing has failed; NULL: it has. */
static float *write_to(const struct orr_data *data, starpu_data_handle_t block)
{
	struct orr_fault *fault = data->work->fault;
	float *floats = NULL;

	if (!fault->code)
		fault->code = orr_data_acquire(block, STARPU_W, &floats, &fault->err);
	return floats;
}

static void fill_zero(const struct orr_data *data, starpu_data_handle_t block, int64_t n)
{
	float *floats = write_to(data, block);

	if (!floats)
		return;
	memset(floats, 0, (size_t)n * sizeof(*floats));
	orr_data_release(block);
}

static void make_owned(struct orr_data *data, struct orr_owned *o,
		       const struct orr_run_options *options)
{
	const struct orr_program *program = data->work->programs[o->s];
	int64_t n = program->n_parameters, n_trained = program->n_trained;
	int64_t n_state = orr_data_n_state(data, o);
	float *floats;

	if (!n || !orr_work_has(data->work, o->w))
		return;
	orr_data_make_block(data, &o->parameters, o, n);
	if (options->loads)
		fill_zero(data, o->parameters, n);
	else if ((floats = write_to(data, o->parameters))) {
		orr_program_init(program, options->seed, floats);
		orr_data_release(o->parameters);
	}
	if (!n_trained)
		return;
	orr_data_make_block(data, &o->state, o, n_state);
	orr_data_make_block(data, &o->gradient, o, n_trained);
	fill_zero(data, o->state, n_state);
	/* an owner that only lends its parameters has no gradient of its own to add */
	if (!o->n_contributors)
		fill_zero(data, o->gradient, n_trained);
}

/* ---- the tensors of a microbatch ---- */

void orr_data_make_temporary(struct orr_data *data, starpu_data_handle_t *handle, int64_t n)
{
	data->temporary_bytes += n * (int64_t)sizeof(float);
	orr_handles_floats(&data->handles, handle, n);
}

void orr_data_make_zeros(struct orr_data *data, starpu_data_handle_t *handle, int64_t n)
{
	orr_handles_floats(&data->handles, handle, n);
	fill_zero(data, *handle, n);
}

void orr_data_drop(const struct orr_data *data, starpu_data_handle_t handle)
{
	if (handle && data->temporary_bytes > data->keep_bytes && !data->work->fault->code)
		starpu_data_invalidate_submit(handle);
}

/* Is pass d of (s,b) computed here? */
static bool is_here(const struct orr_work *work, int s, int b, enum orr_pass d)
{
	return orr_work_computes(work, orr_jobs_index(work->jobs, s, b, d));
}

static void make_stash(struct orr_data *data, int s, int b)
{
	const struct orr_work *work = data->work;
	const struct orr_program *program = work->programs[s];
	int64_t n = orr_work_samples(work, b);
	bool f = is_here(work, s, b, ORR_PASS_F);
	bool first = is_here(work, s, b, orr_jobs_first_backward(work->jobs, s));
	bool last = is_here(work, s, b, orr_jobs_last_pass(work->jobs, s));
	int64_t floats = work->jobs->recompute[s] ? orr_program_input_floats(program, n)
						  : orr_program_stash_floats(program, n, false);
	int at = orr_work_at(work, s, b);

	if (!orr_work_has_backward(work, s))
		return;
	if (f || first)
		orr_data_make_temporary(data, &data->stash[at], floats);
	floats = orr_program_left_floats(program, n, orr_work_packs(work, s, b));
	if (orr_work_splits(work, s) && (first || last))
		orr_data_make_temporary(data, &data->left[at], floats);
}

static void make_edges(struct orr_data *data, int s, int b)
{
	const struct orr_work *work = data->work;
	const struct orr_stage *stage = &work->pipeline->stages[s];

	for (int i = 0; i < stage->n_out; i++) {
		int64_t e = orr_work_edge_at(work, stage->out[i], b);
		int64_t floats = orr_work_samples(work, b) * work->programs[s]->out[i].columns;
		int to = orr_stage_after(work->pipeline, s, i);

		if (floats && (is_here(work, s, b, ORR_PASS_F) || is_here(work, to, b, ORR_PASS_F)))
			orr_data_make_temporary(data, &data->activation[e], floats);
		floats = orr_work_samples(work, b) * work->programs[s]->out[i].gradients;
		if (floats && (is_here(work, s, b, orr_jobs_first_backward(work->jobs, s)) ||
			       is_here(work, to, b, ORR_PASS_B)))
			orr_data_make_temporary(data, &data->gradient[e], floats);
	}
	for (int i = 0; i < stage->n_sent; i++)
		if (is_here(work, s, b, ORR_PASS_F) ||
		    work->first_reader[orr_work_output_at(work, stage->sent[i], b)] >= 0)
			orr_data_make_temporary(
				data, &data->activation[orr_work_edge_at(work, stage->sent[i], b)],
				orr_work_samples(work, b) *
					work->programs[s]->out[stage->n_out + i].columns);
}

static void make_temporaries(struct orr_data *data, int s, int b)
{
	const struct orr_work *work = data->work;
	const struct orr_jobs *jobs = work->jobs;
	int64_t n = orr_work_n_parameters(work, s);
	int at = orr_work_at(work, s, b), cap = orr_jobs_cap(jobs, s);
	int j = orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s));

	make_stash(data, s, b);
	make_edges(data, s, b);
	if (orr_work_makes_gradient(work, j) && !data->owned[data->owned_of[j]].in_place &&
	    orr_work_computes(work, j))
		orr_data_make_temporary(data, &data->partial[at], orr_work_n_trained(work, s));
	for (int d = 0; d < jobs->n_passes; d++) {
		int n_waiting;

		j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);
		if (n && orr_jobs_has(jobs, j) && orr_work_computes(work, j) &&
		    !orr_work_has(work, jobs->weights[j]))
			orr_data_make_temporary(data, &data->fetched[j], n);
		(void)orr_jobs_room(&n_waiting, jobs, j, true);
		if (n_waiting && orr_work_computes(work, j))
			orr_handles_void(&data->handles, &data->ended[j]);
	}
	if (b < cap)
		orr_handles_void(&data->handles, &data->token[at]);
	/* A message without any data is none; the job that opens the gate is b - cap's last. */
	if (orr_work_gates(work, s, b) && (is_here(work, s, b, ORR_PASS_F) ||
					   is_here(work, s, b - cap, orr_jobs_last_pass(jobs, s))))
		orr_data_make_temporary(data, &data->gate[at], 1);
}

/* NULL handles. */
static void allocate(struct orr_data *data)
{
	const struct orr_work *work = data->work;
	int n_stages = orr_work_at(work, work->pipeline->n_stages, 0), n_jobs = work->jobs->n_jobs;
	int64_t n_edges = orr_work_edge_at(work, work->pipeline->n_edges, 0);

	orr_arrays_make(work->arrays, data->activation,
			n_edges + orr_work_edge_at(work, work->pipeline->n_outputs, 0));
	orr_arrays_make(work->arrays, data->gradient, n_edges);
	orr_arrays_make(work->arrays, data->stash, n_stages);
	orr_arrays_make(work->arrays, data->left, n_stages);
	orr_arrays_make(work->arrays, data->partial, n_stages);
	orr_arrays_make(work->arrays, data->token, n_stages);
	orr_arrays_make(work->arrays, data->gate, n_stages);
	orr_arrays_make(work->arrays, data->ended, n_jobs);
	orr_arrays_make(work->arrays, data->fetched, n_jobs);
}

void orr_data_init(struct orr_data *data, const struct orr_work *work,
		   const struct orr_policy *policy, const struct orr_run_options *options)
{
	*data = (struct orr_data){.work = work,
				  .handles = {work->arrays, work->fault, NULL},
				  .n_state = orr_optimizer_floats(options->optimizer),
				  .keep_bytes = options->keep_bytes};
	find_owners(data, policy);
	allocate(data);
	for (int i = 0; i < data->n_owned && !orr_work_fails(work); i++)
		make_owned(data, &data->owned[i], options);
	for (int s = 0; s < work->pipeline->n_stages; s++)
		for (int b = 0; b < work->pipeline->n_microbatches && !orr_work_fails(work); b++)
			make_temporaries(data, s, b);
}
