#include "runtime/run/engine.h"

#include <assert.h>
#include <stdlib.h>

static bool learns(const struct orr_run *run, int s)
{
	return orr_program_n_parameters(run->programs[s]) > 0;
}

static int register_floats(starpu_data_handle_t *handle, int node, uintptr_t at, int64_t n,
			   struct orr_error *err)
{
	/* An empty tensor still orders its writer and its readers. */
	if (n > UINT32_MAX)
		return orr_fail(err, ORR_E_UNSUPPORTED,
				"a stage has a tensor of %lld floats, more than StarPU "
				"takes in one piece; cut it or take more microbatches",
				(long long)n);
	starpu_vector_data_register(handle, node, at, n ? (uint32_t)n : 1, sizeof(float));
	return 0;
}

/* ---- parameters ---- */

/* Do the gradients of o add up in place? They do if one worker makes them all, in microbatch order,
 * on the owner's rank. */
static bool adds_in_place(const struct orr_run *run, const struct orr_owned *o)
{
	const struct orr_jobs *jobs = run->jobs;

	if (jobs->order != ORR_ORDER_STRICT || !orr_run_has(run, o->w))
		return false;
	for (int i = 1; i < o->n_contributors; i++) {
		int before = o->contributors[i - 1], j = o->contributors[i];

		if (jobs->compute[before] != jobs->compute[j] || jobs->rank[before] > jobs->rank[j])
			return false;
	}
	return !o->n_contributors || orr_run_computes(run, o->contributors[0]);
}

/* Which job takes whose parameters, and which gradients flow where. */
static int find_owners(struct orr_run *run, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	struct orr_data *data = &run->data;
	int n_stages = run->pipeline->n_stages;

	data->n_owned = jobs->first_owner[n_stages];
	data->owned = calloc((size_t)data->n_owned, sizeof(*data->owned));
	data->owned_of = calloc((size_t)jobs->n_jobs, sizeof(*data->owned_of));
	if (!data->owned || !data->owned_of)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d owners", data->n_owned);
	for (int s = 0; s < n_stages; s++)
		for (int i = jobs->first_owner[s]; i < jobs->first_owner[s + 1]; i++) {
			struct orr_owned *o = &data->owned[i];

			o->s = s;
			o->w = jobs->owners[i];
			o->update = learns(run, s) ? data->n_updates : -1;
			data->n_updates += learns(run, s) ? orr_jobs_n_updates(run->jobs, s) : 0;
			if (orr_run_has(run, o->w))
				o->node = starpu_worker_get_memory_node(
					(unsigned)orr_policy_worker(run->policy, o->w));
			o->contributors =
				calloc((size_t)run->pipeline->n_microbatches, sizeof(int));
			if (!o->contributors)
				return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d owners",
						data->n_owned);
		}
	/* Jobs are numbered by microbatch first, so contributors come in its order. */
	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int i = jobs->first_owner[job.s];

		while (jobs->owners[i] != jobs->weights[j])
			i++;
		data->owned_of[j] = i;
		if (job.d == orr_jobs_last_pass(jobs, job.s))
			data->owned[i].contributors[data->owned[i].n_contributors++] = j;
	}
	for (int i = 0; i < data->n_owned; i++)
		data->owned[i].in_place = adds_in_place(run, &data->owned[i]);
	return 0;
}

/* An optimizer may keep nothing, and that, too, is a tensor. */
static size_t block_bytes(int64_t n)
{
	return (size_t)(n ? n : 1) * sizeof(float);
}

int orr_data_make_block(starpu_data_handle_t *handle, uintptr_t *at, const struct orr_owned *o,
			int64_t n, struct orr_error *err)
{
	*at = starpu_malloc_on_node(o->node, block_bytes(n));
	if (!*at)
		return orr_fail(err, ORR_E_NOMEM,
				"run: no memory for %lld floats of stage %d on worker %d",
				(long long)n, o->s, o->w);
	return register_floats(handle, (int)o->node, *at, n, err);
}

static int64_t state_floats(const struct orr_run *run, int s)
{
	return orr_program_n_parameters(run->programs[s]) *
	       orr_optimizer_floats(run->common.rule.optimizer);
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

static int make_owned(struct orr_run *run, struct orr_owned *o, struct orr_error *err)
{
	const struct orr_program *program = run->programs[o->s];
	int64_t n = orr_program_n_parameters(program), n_state = state_floats(run, o->s);
	float *floats;
	int code;

	if (!n || !orr_run_has(run, o->w))
		return 0;
	if ((code = orr_data_make_block(&o->parameters, &o->parameters_at, o, n, err)) ||
	    (code = orr_data_make_block(&o->state, &o->state_at, o, n_state, err)) ||
	    (code = orr_data_make_block(&o->gradient, &o->gradient_at, o, n, err)) ||
	    (code = orr_data_acquire(o->parameters, STARPU_W, &floats, err)))
		return code;
	orr_program_init(program, run->options.seed, floats);
	orr_data_release(o->parameters);
	if ((code = orr_data_acquire(o->state, STARPU_W, &floats, err)))
		return code;
	for (int64_t i = 0; i < n_state; i++)
		floats[i] = 0;
	orr_data_release(o->state);
	/* Who only lends parameters has no gradient of its own to add. */
	if (o->n_contributors)
		return 0;
	if ((code = orr_data_acquire(o->gradient, STARPU_W, &floats, err)))
		return code;
	for (int64_t i = 0; i < n; i++)
		floats[i] = 0;
	orr_data_release(o->gradient);
	return 0;
}

void orr_data_drop_block(starpu_data_handle_t handle, uintptr_t at, const struct orr_owned *o,
			 int64_t n)
{
	if (handle)
		starpu_data_unregister(handle);
	if (at)
		starpu_free_on_node(o->node, at, block_bytes(n));
}

/* ---- what comes and goes with a microbatch ---- */

static int make_handles(starpu_data_handle_t **handles, size_t n, struct orr_error *err)
{
	*handles = calloc(n + 1, sizeof(**handles));
	return *handles ? 0 : orr_fail(err, ORR_E_NOMEM, "run: no memory for %zu handles", n);
}

static int make_temporary(struct orr_run *run, starpu_data_handle_t *handle, int64_t n,
			  struct orr_error *err)
{
	run->data.temporary_bytes += n * (int64_t)sizeof(float);
	return register_floats(handle, -1, 0, n, err);
}

void orr_data_drop(const struct orr_run *run, starpu_data_handle_t handle)
{
	if (!run->data.keep)
		starpu_data_invalidate_submit(handle);
}

/* Is pass d of (s,b) computed here? */
static bool is_here(const struct orr_run *run, int s, int b, enum orr_pass d)
{
	return orr_run_computes(run, orr_jobs_index(run->jobs, s, b, d));
}

static int make_stash(struct orr_run *run, int s, int b, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	const struct orr_program *program = run->programs[s];
	int64_t n = orr_run_samples(run, b), at = (int64_t)s * run->pipeline->n_microbatches + b;
	bool split = jobs->n_passes == 3, again = jobs->recompute[s];
	bool f = is_here(run, s, b, ORR_PASS_F), backward = is_here(run, s, b, ORR_PASS_B);
	bool w = split && is_here(run, s, b, ORR_PASS_W);
	int code = 0;

	if (f || backward || (w && !again))
		code = make_temporary(run, &run->data.stash[at],
				      again ? orr_program_input_floats(program, n)
					    : orr_program_stash_floats(program, n, split),
				      err);
	if (!code && again && split && (backward || w))
		code = make_temporary(run, &run->data.whole[at],
				      orr_program_stash_floats(program, n, split), err);
	return code;
}

static int make_edges(struct orr_run *run, int s, int b, struct orr_error *err)
{
	const struct orr_stage *stage = &run->pipeline->stages[s];
	struct orr_data *data = &run->data;
	int code = 0;

	for (int i = 0; !code && i < stage->n_out; i++) {
		int64_t e = (int64_t)stage->out[i] * run->pipeline->n_microbatches + b;
		int64_t floats =
			orr_program_out_floats(run->programs[s], i, orr_run_samples(run, b));
		int to = orr_stage_after(run->pipeline, s, i);

		if (is_here(run, s, b, ORR_PASS_F) || is_here(run, to, b, ORR_PASS_F))
			code = make_temporary(run, &data->activation[e], floats, err);
		if (!code && (is_here(run, s, b, ORR_PASS_B) || is_here(run, to, b, ORR_PASS_B)))
			code = make_temporary(run, &data->gradient[e], floats, err);
	}
	return code;
}

static int make_incoming(struct orr_run *run, struct orr_owned *o, int64_t n, struct orr_error *err)
{
	int code = 0;

	for (int i = 0; i < 2 && !code && !o->incoming[i]; i++)
		code = make_temporary(run, &o->incoming[i], n, err);
	return code;
}

static int make_temporaries(struct orr_run *run, int s, int b, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	struct orr_data *data = &run->data;
	int64_t at = (int64_t)s * run->pipeline->n_microbatches + b;
	int64_t n = orr_program_n_parameters(run->programs[s]);
	int cap = jobs->cap ? jobs->cap[s] : 0, code;
	int j = orr_jobs_index(jobs, s, b, orr_jobs_last_pass(jobs, s));
	const struct orr_owned *o = &data->owned[data->owned_of[j]];

	if ((code = make_stash(run, s, b, err)) || (code = make_edges(run, s, b, err)))
		return code;
	if (n && !o->in_place && orr_run_computes(run, j))
		code = make_temporary(run, &data->partial[at], n, err);
	else if (n && orr_run_has(run, o->w))
		code = make_incoming(run, &data->owned[data->owned_of[j]], n, err);
	for (int d = 0; !code && d < jobs->n_passes; d++) {
		j = orr_jobs_index(jobs, s, b, (enum orr_pass)d);
		if (n && orr_run_computes(run, j) && !orr_run_has(run, jobs->weights[j]))
			code = make_temporary(run, &data->fetched[j], n, err);
	}
	if (!code && b < cap)
		starpu_void_data_register(&data->token[at]);
	/* A message without any data is none; the job that opens the gate is b - cap's last. */
	if (!code && orr_cross_gate(run, s, b) &&
	    (is_here(run, s, b, ORR_PASS_F) ||
	     is_here(run, s, b - cap, orr_jobs_last_pass(jobs, s))))
		code = make_temporary(run, &data->gate[at], 1, err);
	return code;
}

static int64_t row_floats(const struct orr_program *program)
{
	int64_t n = 0;

	for (int i = 0; i < orr_program_n_inputs(program); i++)
		n += orr_program_input_width(program, i);
	return n;
}

/* Floats of the data that F of (s,b) reads here. */
static int64_t block_floats(const struct orr_run *run, int s, int b)
{
	return is_here(run, s, b, ORR_PASS_F)
		       ? row_floats(run->programs[s]) * orr_run_samples(run, b)
		       : 0;
}

/* Where the tasks of each slot read their columns of the data, in main memory. */
static int make_columns(struct orr_run *run, struct orr_error *err)
{
	struct orr_data *data = &run->data;
	int n_stages = run->pipeline->n_stages, n_microbatches = run->pipeline->n_microbatches,
	    code = 0;
	int64_t n = 0;

	for (int s = 0; s < n_stages; s++)
		for (int b = 0; b < n_microbatches; b++)
			n += block_floats(run, s, b);
	data->columns_bytes = (size_t)n * sizeof(float);
	for (int k = 0; k < run->window; k++) {
		struct orr_slot *slot = &run->slots[k];
		float *at;

		if ((code = make_handles(&slot->block, (size_t)n_stages * (size_t)n_microbatches,
					 err)))
			return code;
		if (n && starpu_malloc_flags((void **)&slot->columns, data->columns_bytes,
					     STARPU_MALLOC_PINNED))
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for %lld floats of data",
					(long long)n);
		at = slot->columns;
		for (int s = 0; s < n_stages; s++)
			for (int b = 0; b < n_microbatches; b++) {
				int64_t floats = block_floats(run, s, b);

				if (floats &&
				    (code = register_floats(&slot->block[s * n_microbatches + b],
							    STARPU_MAIN_RAM, (uintptr_t)at, floats,
							    err)))
					return code;
				at += floats;
			}
	}
	return 0;
}

int orr_data_init(struct orr_run *run, struct orr_error *err)
{
	struct orr_data *data = &run->data;
	int n_stages = run->pipeline->n_stages, n_microbatches = run->pipeline->n_microbatches;
	size_t stages = (size_t)n_stages * (size_t)n_microbatches;
	size_t edges = (size_t)run->pipeline->n_edges * (size_t)n_microbatches;
	int code;

	if ((code = find_owners(run, err)) ||
	    (code = make_handles(&data->activation, edges, err)) ||
	    (code = make_handles(&data->gradient, edges, err)) ||
	    (code = make_handles(&data->stash, stages, err)) ||
	    (code = make_handles(&data->whole, stages, err)) ||
	    (code = make_handles(&data->partial, stages, err)) ||
	    (code = make_handles(&data->token, stages, err)) ||
	    (code = make_handles(&data->gate, stages, err)) ||
	    (code = make_handles(&data->fetched, (size_t)run->jobs->n_jobs, err)) ||
	    (code = make_columns(run, err)))
		return code;
	for (int i = 0; i < data->n_owned; i++)
		if ((code = make_owned(run, &data->owned[i], err)))
			return code;
	for (int s = 0; s < n_stages; s++)
		for (int b = 0; b < n_microbatches; b++)
			if ((code = make_temporaries(run, s, b, err)))
				return code;
	if ((code = orr_reduce_init(run, err)) || (code = orr_ring_init(run, err)) ||
	    (code = orr_credits_init(run, err)))
		return code;
	data->keep = data->temporary_bytes <= run->options.keep_bytes;
	return 0;
}

/* no_coherency: what it holds is not wanted any more. */
static void drop_handles(starpu_data_handle_t *handles, size_t n)
{
	for (size_t i = 0; handles && i < n; i++)
		if (handles[i])
			starpu_data_unregister_no_coherency(handles[i]);
	free(handles);
}

void orr_data_fini(struct orr_run *run)
{
	struct orr_data *data = &run->data;
	size_t n_microbatches = (size_t)run->pipeline->n_microbatches;
	size_t stages = (size_t)run->pipeline->n_stages * n_microbatches;
	size_t edges = (size_t)run->pipeline->n_edges * n_microbatches;

	drop_handles(data->activation, edges);
	drop_handles(data->gradient, edges);
	drop_handles(data->stash, stages);
	drop_handles(data->whole, stages);
	drop_handles(data->partial, stages);
	drop_handles(data->token, stages);
	drop_handles(data->gate, stages);
	drop_handles(data->fetched, (size_t)run->jobs->n_jobs);
	orr_ring_fini(run);
	orr_reduce_fini(run);
	orr_credits_fini(run);
	for (int k = 0; k < run->window; k++) {
		drop_handles(run->slots[k].block, stages);
		if (run->slots[k].columns)
			starpu_free_flags(run->slots[k].columns, data->columns_bytes,
					  STARPU_MALLOC_PINNED);
	}
	for (int i = 0; data->owned && i < data->n_owned; i++) {
		struct orr_owned *o = &data->owned[i];
		int64_t n = orr_program_n_parameters(run->programs[o->s]);

		for (int k = 0; k < 2; k++)
			if (o->incoming[k])
				starpu_data_unregister_no_coherency(o->incoming[k]);
		/* in a stream it is one of the versions, and they are gone */
		orr_data_drop_block(o->parameters, o->parameters_at, o, n);
		orr_data_drop_block(o->state, o->state_at, o, state_floats(run, o->s));
		orr_data_drop_block(o->gradient, o->gradient_at, o, n);
		free(o->contributors);
	}
	free(data->owned);
	free(data->owned_of);
}

/* ---- a step's samples ---- */

void orr_data_columns(const struct orr_run *run, const struct orr_program *program,
		      const int64_t *rows, int64_t n, float *to)
{
	for (int i = 0; i < orr_program_n_inputs(program); i++) {
		const int64_t *columns = orr_program_input_columns(program, i);
		int64_t width = orr_program_input_width(program, i);

		for (int64_t r = 0; r < n; r++) {
			const float *row = orr_dataset_row(run->dataset, rows[r]);

			for (int64_t c = 0; c < width; c++) {
				int64_t place = orr_dataset_place(run->dataset, columns[c]);

				assert(place >= 0);
				*to++ = row[place];
			}
		}
	}
}

int orr_data_gather(struct orr_run *run, const struct orr_slot *slot, struct orr_error *err)
{
	int n_microbatches = run->pipeline->n_microbatches;
	int code = orr_dataset_rows(run->dataset, run->options.seed, slot->first_sample,
				    run->options.batch, run->rows, err);

	if (code)
		return code;
	for (int i = 0; i < run->n_sequence; i++) {
		struct orr_job job = orr_jobs_at(run->jobs, run->sequence[i]);
		starpu_data_handle_t block = slot->block[(int64_t)job.s * n_microbatches + job.b];
		float *floats;

		if (job.d != ORR_PASS_F || !block)
			continue;
		/* The slot's last step has finished, so this does not wait. */
		if ((code = orr_data_acquire(block, STARPU_W, &floats, err)))
			return code;
		orr_data_columns(run, run->programs[job.s],
				 run->rows + orr_run_first_sample(run, job.b),
				 orr_run_samples(run, job.b), floats);
		orr_data_release(block);
	}
	return 0;
}
