#include "data.h"

#include <stdlib.h>
#include <string.h>
#include "compat.h"

/* Floats that are one element to StarPU, which counts elements in 32 bits. */
static int64_t together_of(int64_t n)
{
	return n < UINT32_MAX ? 1 : 1024;
}

static int register_floats(starpu_data_handle_t *handle, int node, uintptr_t at, int64_t n,
			   struct orr_error *err)
{
	int64_t together = together_of(n);

	if (n / together >= UINT32_MAX)
		return orr_fail(err, ORR_E_UNSUPPORTED,
				"a stage has a tensor of %lld floats, more than StarPU takes in "
				"one piece; cut it or take more microbatches",
				(long long)n);
	/* An empty tensor still orders its writer and its readers. */
	starpu_vector_data_register(handle, node, at,
				    n ? (uint32_t)((n + together - 1) / together) : 1,
				    (size_t)together * sizeof(float));
	return 0;
}

int orr_data_register(starpu_data_handle_t *handle, float *at, int64_t n, struct orr_error *err)
{
	return register_floats(handle, STARPU_MAIN_RAM, (uintptr_t)at, n, err);
}

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

static int settle(const struct orr_resident *block, const struct orr_owned *o,
		  struct orr_error *err)
{
	if (!block->handle)
		return 0;
	if (starpu_data_fetch_on_node(block->handle, o->node, 0))
		return orr_fail(err, ORR_E_RUNTIME,
				"run: the parameters of stage %d do not go to worker %d", o->s,
				o->w);
	(void)orr_give_back(block->handle, STARPU_MAIN_RAM);
	return 0;
}

int orr_data_settle(const struct orr_data *data, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < data->n_owned && !code; i++) {
		const struct orr_owned *o = &data->owned[i];

		if (o->node != STARPU_MAIN_RAM && !(code = settle(&o->parameters, o, err)))
			code = settle(&o->state, o, err);
	}
	return code;
}

void *orr_data_pin(size_t bytes)
{
	void *at;

	return starpu_malloc_flags(&at, bytes, STARPU_MALLOC_PINNED) ? NULL : at;
}

void orr_data_unpin(void *at, size_t bytes)
{
	if (at)
		starpu_free_flags(at, bytes, STARPU_MALLOC_PINNED);
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

static int init_owned(struct orr_data *data, const struct orr_policy *policy, int i, int s,
		      struct orr_error *err)
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
		o->node = starpu_worker_get_memory_node((unsigned)orr_policy_worker(policy, o->w));
	orr_arrays_make(work->arrays, o->contributors, work->pipeline->n_microbatches);
	return o->contributors ? 0 : orr_no_memory(err, "run");
}

/* Which job takes whose parameters, and which gradients flow where. */
static int find_owners(struct orr_data *data, const struct orr_policy *policy,
		       struct orr_error *err)
{
	const struct orr_jobs *jobs = data->work->jobs;
	int n_stages = data->work->pipeline->n_stages, code;

	data->n_owned = jobs->first_owner[n_stages];
	orr_arrays_make(data->work->arrays, data->owned, data->n_owned);
	orr_arrays_make(data->work->arrays, data->owned_of, jobs->n_jobs);
	if (data->work->arrays->failed)
		return orr_no_memory(err, "run");
	for (int s = 0; s < n_stages; s++)
		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++)
			if ((code = init_owned(data, policy, i, s, err)))
				return code;
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
		unsigned worker;

		o->in_place = adds_in_place(data->work, o);
		if (!o->in_place || !o->n_contributors)
			continue;
		worker = (unsigned)orr_policy_worker(policy, jobs->compute[o->contributors[0]]);
		o->in_order = starpu_worker_get_memory_node(worker) == o->node;
	}
	return 0;
}

/* An optimizer may keep nothing, and that, too, is a tensor. */
static size_t block_bytes(int64_t n)
{
	int64_t together = together_of(n);

	return (size_t)(n ? (n + together - 1) / together * together : 1) * sizeof(float);
}

int orr_data_make_block(struct orr_resident *block, const struct orr_owned *o, int64_t n,
			struct orr_error *err)
{
	block->at = starpu_malloc_on_node(o->node, block_bytes(n));
	if (!block->at)
		return orr_fail(err, ORR_E_NOMEM,
				"run: no memory for %lld floats of stage %d on worker %d",
				(long long)n, o->s, o->w);
	return register_floats(&block->handle, (int)o->node, block->at, n, err);
}

void orr_data_drop_block(struct orr_resident *block, const struct orr_owned *o, int64_t n)
{
	if (block->handle)
		starpu_data_unregister(block->handle);
	if (block->at)
		starpu_free_on_node(o->node, block->at, block_bytes(n));
}

static int fill_zero(const struct orr_resident *block, int64_t n, struct orr_error *err)
{
	float *floats;
	int code = orr_data_acquire(block->handle, STARPU_W, &floats, err);

	if (code)
		return code;
	memset(floats, 0, (size_t)n * sizeof(*floats));
	orr_data_release(block->handle);
	return 0;
}

static int make_owned(const struct orr_data *data, struct orr_owned *o, uint64_t seed,
		      struct orr_error *err)
{
	const struct orr_program *program = data->work->programs[o->s];
	int64_t n = program->n_parameters, n_trained = program->n_trained;
	int64_t n_state = orr_data_n_state(data, o);
	float *floats;
	int code;

	if (!n || !orr_work_has(data->work, o->w))
		return 0;
	if ((code = orr_data_make_block(&o->parameters, o, n, err)) ||
	    (code = orr_data_acquire(o->parameters.handle, STARPU_W, &floats, err)))
		return code;
	orr_program_init(program, seed, floats);
	orr_data_release(o->parameters.handle);
	if (!n_trained)
		return 0;
	if ((code = orr_data_make_block(&o->state, o, n_state, err)) ||
	    (code = orr_data_make_block(&o->gradient, o, n_trained, err)))
		return code;
	/* an owner that only lends its parameters has no gradient of its own to add */
	if ((code = fill_zero(&o->state, n_state, err)) || o->n_contributors)
		return code;
	return fill_zero(&o->gradient, n_trained, err);
}

/* ---- the tensors of a microbatch ---- */

int orr_data_make_handles(starpu_data_handle_t **handles, size_t n, struct orr_error *err)
{
	*handles = calloc(n + 1, sizeof(**handles));
	return *handles ? 0 : orr_no_memory(err, "run");
}

void orr_data_forget(starpu_data_handle_t handle)
{
	if (handle) /* its content is not wanted any more */
		starpu_data_unregister_no_coherency(handle);
}

void orr_data_forget_handles(starpu_data_handle_t *handles, size_t n)
{
	for (size_t i = 0; handles && i < n; i++)
		orr_data_forget(handles[i]);
	free(handles);
}

int orr_data_make_temporary(struct orr_data *data, starpu_data_handle_t *handle, int64_t n,
			    struct orr_error *err)
{
	data->temporary_bytes += n * (int64_t)sizeof(float);
	return register_floats(handle, -1, 0, n, err);
}

int orr_data_make_loose(starpu_data_handle_t *handle, int64_t n, struct orr_error *err)
{
	return register_floats(handle, -1, 0, n, err);
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

static int make_stash(struct orr_data *data, int s, int b, struct orr_error *err)
{
	const struct orr_work *work = data->work;
	const struct orr_program *program = work->programs[s];
	int64_t n = orr_work_samples(work, b);
	bool f = is_here(work, s, b, ORR_PASS_F);
	bool first = is_here(work, s, b, orr_jobs_first_backward(work->jobs, s));
	bool last = is_here(work, s, b, orr_jobs_last_pass(work->jobs, s));
	int64_t floats = work->jobs->recompute[s] ? orr_program_input_floats(program, n)
						  : orr_program_stash_floats(program, n, false);
	int at = orr_work_at(work, s, b), code = 0;

	if (!orr_work_has_backward(work, s))
		return 0;
	if (f || first)
		code = orr_data_make_temporary(data, &data->stash[at], floats, err);
	floats = orr_program_left_floats(program, n, orr_work_packs(work, s, b));
	if (!code && orr_work_splits(work, s) && (first || last))
		code = orr_data_make_temporary(data, &data->left[at], floats, err);
	return code;
}

static int make_edges(struct orr_data *data, int s, int b, struct orr_error *err)
{
	const struct orr_work *work = data->work;
	const struct orr_stage *stage = &work->pipeline->stages[s];
	int code = 0;

	for (int i = 0; !code && i < stage->n_out; i++) {
		int64_t e = orr_work_edge_at(work, stage->out[i], b);
		int64_t floats = orr_work_samples(work, b) * work->programs[s]->out[i].columns;
		int to = orr_stage_after(work->pipeline, s, i);

		if (floats && (is_here(work, s, b, ORR_PASS_F) || is_here(work, to, b, ORR_PASS_F)))
			code = orr_data_make_temporary(data, &data->activation[e], floats, err);
		floats = orr_work_samples(work, b) * work->programs[s]->out[i].gradients;
		if (!code && floats &&
		    (is_here(work, s, b, orr_jobs_first_backward(work->jobs, s)) ||
		     is_here(work, to, b, ORR_PASS_B)))
			code = orr_data_make_temporary(data, &data->gradient[e], floats, err);
	}
	for (int i = 0; !code && i < stage->n_sent; i++)
		if (is_here(work, s, b, ORR_PASS_F) ||
		    work->first_reader[orr_work_output_at(work, stage->sent[i], b)] >= 0)
			code = orr_data_make_temporary(
				data, &data->activation[orr_work_edge_at(work, stage->sent[i], b)],
				orr_work_samples(work, b) *
					work->programs[s]->out[stage->n_out + i].columns,
				err);
	return code;
}

static int make_temporaries(struct orr_data *data, int s, int b, struct orr_error *err)
{
	const struct orr_work *work = data->work;
	const struct orr_jobs *jobs = work->jobs;
	int64_t n = orr_work_n_parameters(work, s);
	int at = orr_work_at(work, s, b), cap = orr_jobs_cap(jobs, s), code;
	int j = orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s));

	if ((code = make_stash(data, s, b, err)) || (code = make_edges(data, s, b, err)))
		return code;
	if (orr_work_makes_gradient(work, j) && !data->owned[data->owned_of[j]].in_place &&
	    orr_work_computes(work, j))
		code = orr_data_make_temporary(data, &data->partial[at],
					       orr_work_n_trained(work, s), err);
	for (int d = 0; !code && d < jobs->n_passes; d++) {
		int n_waiting;

		j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);
		if (n && orr_jobs_has(jobs, j) && orr_work_computes(work, j) &&
		    !orr_work_has(work, jobs->weights[j]))
			code = orr_data_make_temporary(data, &data->fetched[j], n, err);
		(void)orr_jobs_room(&n_waiting, jobs, j, true);
		if (n_waiting && orr_work_computes(work, j))
			starpu_void_data_register(&data->ended[j]);
	}
	if (!code && b < cap)
		starpu_void_data_register(&data->token[at]);
	/* A message without any data is none; the job that opens the gate is b - cap's last. */
	if (!code && orr_work_gates(work, s, b) &&
	    (is_here(work, s, b, ORR_PASS_F) ||
	     is_here(work, s, b - cap, orr_jobs_last_pass(jobs, s))))
		code = orr_data_make_temporary(data, &data->gate[at], 1, err);
	return code;
}

/* All handles of tensors. */
enum { N_LISTS = 9 };
struct list {
	starpu_data_handle_t **handles;
	size_t n;
};

static void find_lists(struct orr_data *data, struct list lists[N_LISTS])
{
	const struct orr_work *work = data->work;
	size_t stages = (size_t)orr_work_at(work, work->pipeline->n_stages, 0);
	size_t edges = (size_t)orr_work_edge_at(work, work->pipeline->n_edges, 0);
	size_t activations = edges + (size_t)orr_work_edge_at(work, work->pipeline->n_outputs, 0);
	size_t jobs = (size_t)work->jobs->n_jobs;
	const struct list all[N_LISTS] = {
		{&data->activation, activations},
		{&data->gradient, edges},
		{&data->stash, stages},
		{&data->left, stages},
		{&data->partial, stages},
		{&data->token, stages},
		{&data->gate, stages},
		{&data->ended, jobs},
		{&data->fetched, jobs},
	};

	memcpy(lists, all, sizeof(all));
}

int orr_data_init(struct orr_data *data, const struct orr_work *work,
		  const struct orr_policy *policy, int n_state, uint64_t seed, int64_t keep_bytes,
		  struct orr_error *err)
{
	int n_stages = work->pipeline->n_stages, n_microbatches = work->pipeline->n_microbatches;
	struct list lists[N_LISTS];
	int code;

	*data = (struct orr_data){.work = work, .n_state = n_state, .keep_bytes = keep_bytes};
	if ((code = find_owners(data, policy, err)))
		return code;
	find_lists(data, lists);
	for (int k = 0; k < N_LISTS && !code; k++)
		code = orr_data_make_handles(lists[k].handles, lists[k].n, err);
	for (int i = 0; i < data->n_owned && !code; i++)
		code = make_owned(data, &data->owned[i], seed, err);
	for (int s = 0; s < n_stages; s++)
		for (int b = 0; b < n_microbatches && !code; b++)
			code = make_temporaries(data, s, b, err);
	return code;
}

void orr_data_fini(struct orr_data *data)
{
	const struct orr_work *work = data->work;
	struct list lists[N_LISTS];

	if (!work)
		return;
	find_lists(data, lists);
	for (int k = 0; k < N_LISTS; k++)
		orr_data_forget_handles(*lists[k].handles, lists[k].n);
	for (int i = 0; data->owned && i < data->n_owned; i++) {
		struct orr_owned *o = &data->owned[i];
		int64_t n_trained = orr_work_n_trained(work, o->s);

		orr_data_drop_block(&o->parameters, o, orr_work_n_parameters(work, o->s));
		orr_data_drop_block(&o->state, o, orr_data_n_state(data, o));
		orr_data_drop_block(&o->gradient, o, n_trained);
	}
}
