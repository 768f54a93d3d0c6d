#include "codelets.h"

#include <time.h>

#include "base/mix.h"
#include "base/spin.h"
#include "cuda/collective.h"
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

/* A pass, to be started, perhaps more than once. What lies on the edges is in own->in and out. */
struct pass {
	const struct orr_codelet_arg *arg;
	struct orr_workspace *own;
	void **buffers;
	int n_taken; /* of them */
	const float *parameters, *data;
	float *stash, *left, *gradient;
};

/* The next of its buffers, if it has this one. */
static float *take(struct pass *pass, bool has)
{
	return has ? floats(pass->buffers[pass->n_taken++]) : NULL;
}

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
	for (int i = 0; i < pass->n_taken; i++)
		orr_key_add(key, (uintptr_t)floats(pass->buffers[i]));
}

/* Computes it, or has the device do again what it has noted of one like it. */
static void run(struct pass *pass, uint64_t codelet,
		void (*start)(struct orr_device *device, void *pass))
{
	const struct orr_codelet_arg *arg = pass->arg;
	struct orr_device *device = &pass->own->device;
	struct orr_key key;

	if (!begin(arg))
		return;
	device->microbatch.seed = arg->common->seed;
	device->microbatch.sample = arg->sample;
	orr_workspace_round(pass->own, arg, pass->parameters);
	if (!device->kernels->replay || orr_program_draws(arg->program)) {
		start(device, pass);
	} else {
		key_of(&key, pass, codelet);
		device->kernels->replay(device, &key, start, pass);
	}
	end(arg, device);
}

static void start_forward(struct orr_device *device, void *pass_)
{
	const struct pass *pass = pass_;
	const struct orr_codelet_arg *arg = pass->arg;
	struct orr_workspace *own = pass->own;
	const float *const *in = own->in + arg->microbatch * arg->program->n_in;
	float *stash = pass->stash ? pass->stash : own->stash;

	if (arg->n_microbatches > 1) {
		device->microbatch.first = arg->first;
		device->microbatch.n_minibatch = arg->n_minibatch;
		device->microbatch.gathered = own->gathered;
		orr_program_gather(arg->program, device, arg->n_microbatches, own->in);
	}
	if (arg->recompute) {
		orr_program_keep_inputs(arg->program, device, arg->n, pass->data, in, stash);
		stash = own->stash;
	}
	orr_program_forward(arg->program, device, arg->n, pass->parameters, pass->data, in,
			    own->out, stash, own->scratch, arg->metrics);
	device->microbatch.gathered = NULL;
}

static void forward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	const struct orr_program *p = arg->program;
	struct pass pass = {.arg = arg, .own = own_of(arg), .buffers = buffers};

	pass.parameters = take(&pass, arg->has_parameters);
	pass.data = take(&pass, arg->has_data);
	for (int e = 0; e < p->n_in; e++)
		for (int k = 0; k < arg->n_microbatches; k++)
			pass.own->in[k * p->n_in + e] = take(&pass, p->in[e].columns > 0);
	for (int e = 0; e < p->n_out; e++)
		pass.own->out[e] = take(&pass, p->out[e].columns > 0);
	pass.stash = take(&pass, arg->has_stash);
	run(&pass, ORR_CODELET_FORWARD, start_forward);
}

static void start_backward(struct orr_device *device, void *pass_)
{
	const struct pass *pass = pass_;
	const struct orr_codelet_arg *arg = pass->arg;
	const struct orr_program *p = arg->program;
	struct orr_workspace *own = pass->own;
	float *stash = pass->stash;

	if (arg->recompute) {
		stash = own->stash;
		orr_program_forward_again(p, device, arg->n, pass->parameters, pass->stash,
					  own->in + p->n_out, own->out + p->n_in, own->again, stash,
					  own->scratch);
	}
	orr_program_backward(p, device, arg->part, arg->n, arg->loss_scale, pass->parameters, stash,
			     pass->left, arg->packed, own->in, own->out, pass->gradient,
			     arg->overwrite, own->scratch);
}

/* W reads no edges and, where B leaves it all that it reads, no stash. */
static void backward(void *buffers[], void *cl_arg)
{
	const struct orr_codelet_arg *arg = cl_arg;
	const struct orr_program *p = arg->program;
	struct pass pass = {.arg = arg, .own = own_of(arg), .buffers = buffers};
	bool input = arg->part & ORR_PART_INPUT;

	pass.parameters = take(&pass, arg->has_parameters);
	pass.stash = take(&pass, input || !arg->packed);
	pass.left = take(&pass, arg->part != ORR_PART_BOTH);
	for (int e = 0; e < p->n_out; e++)
		pass.own->in[e] = take(&pass, input && p->out[e].gradients);
	for (int e = 0; e < p->n_in; e++)
		pass.own->out[e] = take(&pass, input && p->in[e].gradients);
	pass.gradient = take(&pass, arg->has_gradient);
	run(&pass, ORR_CODELET_BACKWARD, start_backward);
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
	bool own_chunk = arg->rule.part && arg->n_chunks;
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

	if (!begin(arg))
		return;
	for (int i = 0; i < arg->n_gradients; i++)
		own->in[arg->rule.part && arg->n_chunks ? arg->own : i] =
			floats(buffers[2 + i]) + arg->offset;
	if (arg->wild)
		find_wild(arg, own);
	own->device.kernels->optimizer->step(&own->device, &arg->rule, arg->step + 1, arg->n_floats,
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
