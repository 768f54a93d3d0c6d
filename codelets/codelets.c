#include "codelets.h"

#include <time.h>

#include "base/mix.h"
#include "base/spin.h"
#include "cuda/collective.h"
#include "worker_cuda.h"
#include "workspace.h"

static float *floats(void *buffer)
{
	return (float *)STARPU_VECTOR_GET_PTR(buffer);
}

static struct orr_workspace *own_of(const struct orr_codelet_arg *arg)
{
	return &arg->common->workspaces[starpu_worker_get_id()];
}

/* After a kernel that could not be started, no later task may use its results. */
static void end(const struct orr_codelet_arg *arg, const struct orr_device *device)
{
	struct orr_codelet_common *common = arg->common;
	const char *none = NULL;

	if (!device->failure)
		return;
	if (atomic_compare_exchange_strong(&common->failure, &none, device->failure) &&
	    device->lost && common->lost)
		common->lost(device->failure);
	atomic_store(&common->cancelled, true);
}

/* Sleep where a test wants it. */
static void delay(const struct orr_codelet_arg *arg)
{
	struct orr_codelet_common *common = arg->common;
	uint64_t draw =
		orr_mix_next(orr_mix_next(orr_mix_next(common->delay_seed) + (uint64_t)arg->step) +
			     (uint64_t)arg->job);
	int64_t us = (int64_t)(draw % ((uint64_t)common->delay_us + 1));
	struct timespec pause = {us / 1000000, us % 1000000 * 1000};

	if (!atomic_load_explicit(&common->cancelled, memory_order_relaxed))
		nanosleep(&pause, NULL);
}

/* Note the start. False: do nothing, the run was cancelled. */
static bool begin(const struct orr_codelet_arg *arg)
{
	struct orr_codelet_common *common = arg->common;
	struct orr_device *device = &own_of(arg)->device;

	orr_spin_end();
	if (arg->started)
		atomic_store_explicit(arg->started, 1, memory_order_relaxed);
	if (common->delay_us > 0 && arg->job >= 0)
		delay(arg);
	if (device->kernels && device->kernels->begin && !device->failure) {
		device->kernels->begin(device);
		end(arg, device);
	}
	return !atomic_load_explicit(&common->cancelled, memory_order_relaxed);
}

/* own->in has every microbatch of each in-edge; then that of the task. */
static void gather(struct orr_workspace *own, const struct orr_codelet_arg *arg)
{
	int n = arg->n_microbatches;

	own->device.microbatch.first = arg->first;
	own->device.microbatch.n_minibatch = arg->n_minibatch;
	own->device.microbatch.gathered = own->gathered;
	orr_program_gather(arg->program, &own->device, n, own->in);
	for (int e = 0; e < arg->program->n_in; e++)
		own->in[e] = own->in[e * n + arg->microbatch];
}

/* A pass, to be started, perhaps more than once. */
struct pass {
	const struct orr_codelet_arg *arg;
	struct orr_workspace *own;
	void **buffers;
	int n_buffers; /* with floats */
};

/* Everything that what it starts depends on, beside what all passes of the device share. */
static void key_of(struct orr_key *key, const struct pass *pass, uint64_t codelet)
{
	const struct orr_codelet_arg *arg = pass->arg;
	const struct orr_workspace *own = pass->own;
	const struct orr_microbatch *block = &own->device.microbatch;
	union {
		float scale;
		uint32_t bits;
	} scale = {arg->loss_scale};
	const uint64_t words[] = {
		codelet,
		(uint64_t)arg->part,
		(uintptr_t)arg->program,
		(uint64_t)arg->n,
		(uint64_t)arg->n_microbatches << 32 | (uint64_t)arg->microbatch,
		(uint64_t)arg->first,
		(uint64_t)arg->n_minibatch,
		(uint64_t)arg->packed << 3 | (uint64_t)arg->recompute << 2 |
			(uint64_t)arg->overwrite << 1 | block->evaluation,
		scale.bits,
		(uintptr_t)arg->metrics,
		(uintptr_t)own->device.rounded,
		(uintptr_t)own->device.workspace, /* and more that evaluation has of its own */
		(uintptr_t)own->scratch,
		(uintptr_t)own->stash,
		(uintptr_t)own->gathered,
	};

	key->n = 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		orr_key_add(key, words[i]);
	for (int i = 0; i < pass->n_buffers; i++)
		orr_key_add(key, (uintptr_t)floats(pass->buffers[i]));
}

/* Computes it, or has the device do again what it has noted of one like it. */
static void run(void *buffers[], int n_buffers, const struct orr_codelet_arg *arg, uint64_t codelet,
		void (*start)(struct orr_device *device, void *pass))
{
	struct orr_workspace *own = own_of(arg);
	struct pass pass = {arg, own, buffers, n_buffers};
	struct orr_device *device = &own->device;
	struct orr_key key;

	if (!begin(arg))
		return;
	device->microbatch.seed = arg->common->seed;
	device->microbatch.sample = arg->sample;
	orr_workspace_round(own, arg, arg->has_parameters ? floats(buffers[0]) : NULL);
	if (!device->kernels->replay || orr_program_draws(arg->program)) {
		start(device, &pass);
	} else {
		key_of(&key, &pass, codelet);
		device->kernels->replay(device, &key, start, &pass);
	}
	end(arg, device);
}

static void start_forward(struct orr_device *device, void *pass_)
{
	const struct pass *pass = pass_;
	const struct orr_codelet_arg *arg = pass->arg;
	struct orr_workspace *own = pass->own;
	int n_in = arg->program->n_in, n_out = arg->program->n_out, i = 0;
	const float *parameters = arg->has_parameters ? floats(pass->buffers[i++]) : NULL;
	const float *data = arg->has_data ? floats(pass->buffers[i++]) : NULL;
	float *stash;

	for (int e = 0; e < n_in * arg->n_microbatches; e++)
		if (arg->program->in[e / arg->n_microbatches].columns)
			own->in[e] = floats(pass->buffers[i++]);
	for (int e = 0; e < n_out; e++)
		if (arg->program->out[e].columns)
			own->out[e] = floats(pass->buffers[i++]);
	stash = arg->has_stash ? floats(pass->buffers[i]) : own->stash;
	if (arg->n_microbatches > 1)
		gather(own, arg);
	if (arg->recompute) {
		orr_program_keep_inputs(arg->program, device, arg->n, data, own->in, stash);
		stash = own->stash;
	}
	orr_program_forward(arg->program, device, arg->n, parameters, data, own->in, own->out,
			    stash, own->scratch, arg->metrics);
	device->microbatch.gathered = NULL;
}

static void forward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	const struct orr_program *p = arg->program;
	int n_buffers = arg->has_parameters + arg->has_data + arg->has_stash;

	for (int e = 0; e < p->n_in; e++)
		n_buffers += p->in[e].columns ? arg->n_microbatches : 0;
	for (int e = 0; e < p->n_out; e++)
		n_buffers += p->out[e].columns > 0;
	run(buffers, n_buffers, arg, ORR_CODELET_FORWARD, start_forward);
}

/* Has this pass of the backward the stash, beside what B leaves for W? */
static bool has_stash(const struct orr_codelet_arg *arg)
{
	return arg->part != ORR_PART_WEIGHT || !arg->packed;
}

static void start_backward(struct orr_device *device, void *pass_)
{
	const struct pass *pass = pass_;
	const struct orr_codelet_arg *arg = pass->arg;
	struct orr_workspace *own = pass->own;
	int n_in = arg->part & ORR_PART_INPUT ? arg->program->n_in : 0;
	int n_out = arg->part & ORR_PART_INPUT ? arg->program->n_out : 0, i = 0;
	const float *parameters = arg->has_parameters ? floats(pass->buffers[i++]) : NULL;
	float *stash = has_stash(arg) ? floats(pass->buffers[i++]) : NULL, *gradient;
	float *left = arg->part == ORR_PART_BOTH ? NULL : floats(pass->buffers[i++]);

	if (arg->recompute) {
		const float *inputs = stash;

		stash = own->stash;
		orr_program_forward_again(arg->program, device, arg->n, parameters, inputs, own->in,
					  own->out, own->again, stash, own->scratch);
	}
	for (int e = 0; e < n_out; e++)
		if (arg->program->out[e].gradients)
			own->in[e] = floats(pass->buffers[i++]);
	for (int e = 0; e < n_in; e++)
		if (arg->program->in[e].gradients)
			own->out[e] = floats(pass->buffers[i++]);
	gradient = arg->has_gradient ? floats(pass->buffers[i]) : NULL;
	orr_program_backward(arg->program, device, arg->part, arg->n, arg->loss_scale, parameters,
			     stash, left, arg->packed, own->in, own->out, gradient, arg->overwrite,
			     own->scratch);
}

static int n_gradients_of(const struct orr_program *p)
{
	int n = 0;

	for (int e = 0; e < p->n_out; e++)
		n += p->out[e].gradients > 0;
	for (int e = 0; e < p->n_in; e++)
		n += p->in[e].gradients > 0;
	return n;
}

static void backward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	int n_buffers = arg->has_parameters + has_stash(arg) + (arg->part != ORR_PART_BOTH) +
			(arg->part & ORR_PART_INPUT ? n_gradients_of(arg->program) : 0) +
			arg->has_gradient;

	run(buffers, n_buffers, arg, ORR_CODELET_BACKWARD, start_backward);
}

static void add(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &own_of(arg)->device;
	const float *partial = floats(buffers[0]) + arg->offset;
	float *sum = floats(buffers[1]) + arg->to;

	if (!begin(arg))
		return;
	if (arg->overwrite)
		device->kernels->elements->copy(device, arg->n_floats, partial, sum);
	else
		device->kernels->elements->sum(device, arg->n_floats, sum, partial, sum);
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

		own->device.kernels->elements->find_wild(&own->device, after - at, own->in[i], at,
							 arg->wild);
	}
}

static void check(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &own_of(arg)->device;

	if (!begin(arg))
		return;
	device->kernels->elements->find_wild(device, arg->n_floats, floats(buffers[0]), 0,
					     arg->wild);
	end(arg, device);
}

static void update(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = own_of(arg);
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
	own->device.kernels->optimizer->step(&own->device, &rule, arg->step + 1, arg->n_floats,
					     floats(buffers[0]), floats(buffers[1]), own->in,
					     arg->n_chunks ? arg->n_chunks : arg->n_gradients,
					     arg->n_chunks);
	end(arg, &own->device);
}

static void norm(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_workspace *own = own_of(arg);

	if (!begin(arg))
		return;
	for (int i = 0; i < arg->n_gradients; i++)
		own->in[i] = floats(buffers[i]);
	own->device.kernels->optimizer->squares(&own->device, arg->n_floats, own->in,
						arg->n_chunks ? arg->n_chunks : arg->n_gradients,
						arg->n_chunks, arg->tensors, arg->n_tensors,
						arg->squares);
	end(arg, &own->device);
}

static void reduce(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	struct orr_device *device = &own_of(arg)->device;
	enum orr_nccl_what what = arg->gathers   ? ORR_NCCL_GATHER
				  : arg->sharded ? ORR_NCCL_SUM_PART
						 : ORR_NCCL_SUM;
	const char *failure;

	/* Where the run is cancelled, members that have come before still wait for this one. */
	if (!begin(arg) && !arg->group)
		return;
	if (arg->group &&
	    (failure = orr_nccl_start(arg->group, arg->member, what, floats(buffers[0]),
				      arg->n_floats, orr_worker_stream())))
		device->failure = failure;
	end(arg, device);
}

#define ORR_CODELET(does) \
	{ \
		.name = #does, .cpu_funcs = {does}, .cuda_funcs = {does}, \
		.cuda_flags = {STARPU_CUDA_ASYNC}, .nbuffers = STARPU_VARIABLE_NBUFFERS \
	}

struct starpu_codelet orr_codelets[8] = {
	[ORR_CODELET_FORWARD] = ORR_CODELET(forward),
	[ORR_CODELET_BACKWARD] = ORR_CODELET(backward),
	[ORR_CODELET_ADD] = ORR_CODELET(add),
	[ORR_CODELET_UPDATE] = ORR_CODELET(update),
	[ORR_CODELET_REDUCE] = ORR_CODELET(reduce),
	[ORR_CODELET_JOIN] = {.name = "join",
			      .where = STARPU_NOWHERE,
			      .nbuffers = STARPU_VARIABLE_NBUFFERS},
	[ORR_CODELET_CHECK] = ORR_CODELET(check),
	[ORR_CODELET_NORM] = ORR_CODELET(norm),
};
