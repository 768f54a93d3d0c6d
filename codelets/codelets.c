#include "codelets.h"

#include <time.h>

#include "reduce.h"
#include "workspace.h"

static float *floats(void *buffer)
{
	return (float *)STARPU_VECTOR_GET_PTR(buffer);
}

/* A hash of all its bits (the finalizer of splitmix64). */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Note the start, and sleep where a test wants it. False: do nothing, the run was cancelled. */
static bool begin(const struct orr_codelet_arg *arg)
{
	struct orr_codelet_common *common = arg->common;

	if (arg->started)
		atomic_store_explicit(arg->started, 1, memory_order_relaxed);
	if (common->delay_us > 0 && arg->job >= 0) {
		uint64_t draw = mix(mix(mix(common->delay_seed) + (uint64_t)arg->step) +
				    (uint64_t)arg->job);
		int64_t us = (int64_t)(draw % ((uint64_t)common->delay_us + 1));
		struct timespec pause = {us / 1000000, us % 1000000 * 1000};

		if (!atomic_load_explicit(&common->cancelled, memory_order_relaxed))
			nanosleep(&pause, NULL);
	}
	return !atomic_load_explicit(&common->cancelled, memory_order_relaxed);
}

/* After a kernel that could not be started, no later task may use its results. */
static void end(const struct orr_codelet_arg *arg, const struct orr_device *device)
{
	const char *none = NULL;

	if (!device->failure)
		return;
	atomic_compare_exchange_strong(&arg->common->failure, &none, device->failure);
	atomic_store(&arg->common->cancelled, true);
}

/* What is computed next, for what depends on it. */
static void tell(struct orr_workspace *own, const struct orr_codelet_arg *arg)
{
	own->device.microbatch.seed = arg->common->seed;
	own->device.microbatch.sample = arg->sample;
}

/* own->in has every microbatch of each in-edge; then that of the task. */
static void gather(struct orr_workspace *own, const struct orr_codelet_arg *arg)
{
	int n = arg->n_microbatches;

	own->device.microbatch.first = arg->first;
	own->device.microbatch.n_minibatch = arg->n_minibatch;
	own->device.microbatch.gathered = own->gathered;
	orr_program_gather(arg->program, &own->device, n, own->in);
	for (int e = 0; e < orr_program_n_in(arg->program); e++)
		own->in[e] = own->in[e * n + arg->microbatch];
}

static void forward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = &arg->common->workspaces[starpu_worker_get_id()];
	int n_in = orr_program_n_in(arg->program), n_out = orr_program_n_out(arg->program), i = 0;
	const float *parameters, *data;
	float *stash;

	if (!begin(arg))
		return;
	tell(own, arg);
	parameters = arg->has_parameters ? floats(buffers[i++]) : NULL;
	data = arg->has_data ? floats(buffers[i++]) : NULL;
	for (int e = 0; e < n_in * arg->n_microbatches; e++)
		own->in[e] = floats(buffers[i++]);
	for (int e = 0; e < n_out; e++)
		own->out[e] = floats(buffers[i++]);
	stash = arg->has_stash ? floats(buffers[i]) : NULL;
	if (arg->n_microbatches > 1)
		gather(own, arg);
	if (arg->recompute) {
		orr_program_keep_inputs(arg->program, &own->device, arg->n, data, own->in, stash);
		stash = own->stash;
	}
	orr_workspace_round(own, arg, parameters);
	orr_program_forward(arg->program, &own->device, arg->n, parameters, data, own->in, own->out,
			    stash, own->scratch, arg->metrics);
	own->device.microbatch.gathered = NULL;
	end(arg, &own->device);
}

static void backward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = &arg->common->workspaces[starpu_worker_get_id()];
	int n_in = arg->part & ORR_PART_INPUT ? orr_program_n_in(arg->program) : 0;
	int n_out = arg->part & ORR_PART_INPUT ? orr_program_n_out(arg->program) : 0, i = 0;
	const float *parameters;
	float *stash, *gradient;

	if (!begin(arg))
		return;
	tell(own, arg);
	parameters = arg->has_parameters ? floats(buffers[i++]) : NULL;
	stash = floats(buffers[i++]);
	orr_workspace_round(own, arg, parameters);
	if (arg->recompute) {
		const float *inputs = stash;

		stash = arg->part == ORR_PART_BOTH ? own->stash : floats(buffers[i++]);
		orr_program_forward_again(arg->program, &own->device, arg->n, parameters, inputs,
					  own->in, own->out, own->again, stash, own->scratch);
	}
	for (int e = 0; e < n_out; e++)
		if (orr_program_out_gradient_floats(arg->program, e, 1))
			own->in[e] = floats(buffers[i++]);
	for (int e = 0; e < n_in; e++)
		if (orr_program_in_gradient_floats(arg->program, e, 1))
			own->out[e] = floats(buffers[i++]);
	gradient = arg->has_gradient ? floats(buffers[i]) : NULL;
	orr_program_backward(arg->program, &own->device, arg->part, arg->n, arg->loss_scale,
			     parameters, stash, own->in, own->out, gradient, arg->overwrite,
			     own->scratch);
	end(arg, &own->device);
}

static void add(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &arg->common->workspaces[starpu_worker_get_id()].device;
	const float *partial = floats(buffers[0]) + arg->offset;
	float *sum = floats(buffers[1]) + arg->to;

	if (!begin(arg))
		return;
	if (arg->overwrite)
		device->kernels->copy(device, arg->n_floats, partial, sum);
	else
		device->kernels->sum(device, arg->n_floats, sum, partial, sum);
	end(arg, device);
}

/* Of several gradients each is checked by its own owner. */
static void find_wild(const struct orr_codelet_arg *arg, struct orr_workspace *own)
{
	bool own_chunk = arg->sharded && arg->n_chunks;
	int first = !own_chunk && (arg->n_gradients == 1 || arg->n_chunks) ? 0 : arg->own;
	int end = own_chunk       ? first + arg->n_gradients
		  : arg->n_chunks ? arg->n_gradients
				  : first + 1;

	for (int i = first; i < end; i++) {
		int64_t at = arg->n_chunks ? orr_rule_chunk(arg->n_floats, arg->n_chunks, i) : 0;
		int64_t after = arg->n_chunks ? orr_rule_chunk(arg->n_floats, arg->n_chunks, i + 1)
					      : arg->n_floats;

		own->device.kernels->find_wild(&own->device, after - at, own->in[i], at, arg->wild);
	}
}

static void check(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &arg->common->workspaces[starpu_worker_get_id()].device;

	if (!begin(arg))
		return;
	device->kernels->find_wild(device, arg->n_floats, floats(buffers[0]), 0, arg->wild);
	end(arg, device);
}

static void update(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = &arg->common->workspaces[starpu_worker_get_id()];
	struct orr_rule rule = arg->common->rule;

	if (!begin(arg))
		return;
	rule.n_averaged = arg->n_averaged;
	rule.learning_rate = arg->rate;
	rule.scale = arg->scale;
	rule.spared = arg->spared;
	rule.n_spared = arg->n_spared;
	rule.part = arg->sharded ? &arg->shard : NULL;
	for (int i = 0; i < arg->n_gradients; i++)
		own->in[arg->sharded && arg->n_chunks ? arg->own : i] =
			floats(buffers[2 + i]) + arg->offset;
	if (arg->wild)
		find_wild(arg, own);
	own->device.kernels->step(&own->device, &rule, arg->step + 1, arg->n_floats,
				  floats(buffers[0]), floats(buffers[1]), own->in,
				  arg->n_chunks ? arg->n_chunks : arg->n_gradients, arg->n_chunks);
	end(arg, &own->device);
}

static void norm(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = &arg->common->workspaces[starpu_worker_get_id()];

	if (!begin(arg))
		return;
	for (int i = 0; i < arg->n_gradients; i++)
		own->in[i] = floats(buffers[i]);
	own->device.kernels->squares(&own->device, arg->n_floats, own->in,
				     arg->n_chunks ? arg->n_chunks : arg->n_gradients,
				     arg->n_chunks, arg->tensors, arg->n_tensors, arg->squares);
	end(arg, &own->device);
}

static void reduce(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &arg->common->workspaces[starpu_worker_get_id()].device;

	const char *failure;

	/* Where the run is cancelled, members that have come before still wait for this one. */
	if (!begin(arg) && !arg->group)
		return;
	if (arg->group && (failure = arg->gathers ? orr_gather_cuda(arg, floats(buffers[0]))
						  : orr_reduce_cuda(arg, floats(buffers[0]))))
		device->failure = failure;
	end(arg, device);
}

struct starpu_codelet orr_codelets[8] = {
	[ORR_CODELET_FORWARD] =
		{
			.name = "forward",
			.cpu_funcs = {forward},
			.cuda_funcs = {forward},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_BACKWARD] =
		{
			.name = "backward",
			.cpu_funcs = {backward},
			.cuda_funcs = {backward},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_ADD] =
		{
			.name = "add",
			.cpu_funcs = {add},
			.cuda_funcs = {add},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_UPDATE] =
		{
			.name = "update",
			.cpu_funcs = {update},
			.cuda_funcs = {update},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_REDUCE] =
		{
			.name = "reduce",
			.cpu_funcs = {reduce},
			.cuda_funcs = {reduce},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_JOIN] =
		{
			.name = "join",
			.where = STARPU_NOWHERE,
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_CHECK] =
		{
			.name = "check",
			.cpu_funcs = {check},
			.cuda_funcs = {check},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
	[ORR_CODELET_NORM] =
		{
			.name = "norm",
			.cpu_funcs = {norm},
			.cuda_funcs = {norm},
			.cuda_flags = {STARPU_CUDA_ASYNC},
			.nbuffers = STARPU_VARIABLE_NBUFFERS,
		},
};
