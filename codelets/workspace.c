#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>

#include "cuda/stream.h"
#include "worker_cuda.h"

/* A stage's weights as its products read them. */
struct orr_kept {
	const struct orr_program *program;
	const float *parameters; /* those that were rounded, and */
	int64_t version;         /* their version; -1: none yet */
	int64_t used;            /* by the workspace's n_rounds-th task last */
	void *at;
	size_t bytes;
};

/* Memory of a worker's node, aligned to 256. StarPU makes room for data alone: what is borrowed may
 * go beyond a limit, after which data goes. */
static void *allocate(unsigned node, size_t bytes, bool borrows)
{
	int flags = STARPU_MALLOC_PINNED | STARPU_MALLOC_COUNT;

	if (borrows)
		flags |= STARPU_MEMORY_OVERFLOW;
	if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
		return aligned_alloc(256, (bytes / 256 + 1) * 256);
	return (void *)starpu_malloc_on_node_flags(node, bytes / 256 * 256 + 256, flags);
}

static void release(unsigned node, void *at, size_t bytes)
{
	if (!at)
		return;
	if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
		free(at);
	else
		starpu_free_on_node(node, (uintptr_t)at, bytes / 256 * 256 + 256);
}

/* That an operator's passes see. */
static int64_t most_samples(const struct orr_workspace_sizes *sizes,
			    const struct orr_program *program)
{
	return orr_program_gathers(program) ? sizes->n_minibatch : sizes->most_samples;
}

static size_t workspace_bytes(const struct orr_workspace_sizes *sizes,
			      const struct orr_device *device)
{
	size_t most = 0;

	for (int i = 0; i < sizes->n_programs; i++) {
		size_t bytes = orr_program_workspace_bytes(sizes->programs[i], device,
							   most_samples(sizes, sizes->programs[i]));

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* What goes to the worker's thread and comes back. */
struct making {
	struct orr_workspace *own;
	const struct orr_workspace *of; /* whose device it is; NULL: one of its own */
	const struct orr_workspace_sizes *sizes;
	char *why;
	size_t size;
	int code;
};

/* Its parameters may be others than those that were rounded. */
static void forget_rounded(const struct orr_workspace *own)
{
	for (int i = 0; i < own->n_kept; i++)
		own->kept[i].version = -1;
}

static int make_device(struct making *m)
{
	struct orr_workspace *own = m->own;

	own->device = orr_device_cpu(m->sizes->precision);
	if (m->of) {
		own->borrows = true;
		own->device = m->of->device;
		own->device.workspace = NULL; /* that is the other's */
		own->kept = m->of->kept;
		own->n_kept = m->of->n_kept;
		own->n_own = m->of->n_own;
		own->n_rounds = m->of->n_rounds;
		forget_rounded(own);
	} else if (starpu_node_get_kind(own->node) == STARPU_CUDA_RAM) {
		m->code = orr_cuda_stream_init(&own->device, m->sizes->precision,
					       orr_worker_stream(), m->why, m->size);
	}
	return m->code;
}

/* What a backward works in is idle meanwhile, and mostly larger than a forward's scratch and stash
 * together. */
static void lend(struct orr_workspace *own, const struct orr_workspace *of)
{
	size_t behind = (own->n_scratch + 255) / 256 * 256;

	own->lent_scratch = behind + own->n_stash <= of->n_scratch;
	own->lent_workspace = own->n_workspace <= of->n_workspace;
	if (own->lent_scratch) {
		own->scratch = of->scratch;
		own->stash = of->scratch + behind / sizeof(float);
	}
	if (own->lent_workspace)
		own->device.workspace = of->device.workspace;
}

static void make(void *argument)
{
	struct making *m = argument;
	struct orr_workspace *own = m->own;
	const struct orr_workspace_sizes *sizes = m->sizes;

	if (make_device(m))
		return;
	own->n_scratch = (size_t)sizes->scratch * sizeof(float);
	own->n_stash = (size_t)sizes->stash * sizeof(float);
	own->n_again = (size_t)sizes->again * sizeof(float);
	own->n_gathered = (size_t)sizes->gathered * sizeof(float);
	own->n_workspace = workspace_bytes(sizes, &own->device);
	if (m->of)
		lend(own, m->of);
	if (!own->scratch) {
		own->scratch = allocate(own->node, own->n_scratch, own->borrows);
		own->stash = allocate(own->node, own->n_stash, own->borrows);
	}
	own->again = allocate(own->node, own->n_again, own->borrows);
	own->gathered = allocate(own->node, own->n_gathered, own->borrows);
	if (!own->device.workspace)
		own->device.workspace = allocate(own->node, own->n_workspace, own->borrows);
	own->in = calloc((size_t)sizes->n_pointers + 1, sizeof(const float *));
	own->out = calloc((size_t)sizes->n_pointers + 1, sizeof(float *));
	if (!own->scratch || !own->stash || !own->again || !own->gathered ||
	    !own->device.workspace || !own->in || !own->out) {
		m->code = -1;
		snprintf(m->why, m->size, "no memory for %.1f MiB of scratch",
			 (double)(own->n_scratch + own->n_stash + own->n_again + own->n_gathered +
				  own->n_workspace) /
				 (1 << 20));
		return;
	}
	/* what is borrowed is used for forward passes, and takes what is known */
	for (int i = 0; i < sizes->n_programs && !m->of; i++)
		orr_program_prepare(sizes->programs[i], &own->device,
				    most_samples(sizes, sizes->programs[i]));
}

/* Where a device is current. */
static void on_worker(unsigned worker, void (*function)(void *), void *argument)
{
	if (starpu_worker_get_type((int)worker) == STARPU_CUDA_WORKER)
		starpu_execute_on_specific_workers(function, argument, 1, &worker, "workspace");
	else
		function(argument);
}

int orr_workspace_init(struct orr_workspace *own, unsigned worker, const struct orr_workspace *of,
		       const struct orr_workspace_sizes *sizes, char *why, size_t size)
{
	struct making making = {own, of, sizes, why, size, 0};

	own->node = starpu_worker_get_memory_node(worker);
	on_worker(worker, make, &making);
	return making.code;
}

static void unmake(void *argument)
{
	struct orr_workspace *own = argument;

	if (own->borrows)
		forget_rounded(own);
	for (int i = 0; i < own->n_kept && !own->borrows; i++)
		release(own->node, own->kept[i].at, own->kept[i].bytes);
	if (!own->lent_scratch) {
		release(own->node, own->scratch, own->n_scratch);
		release(own->node, own->stash, own->n_stash);
	}
	release(own->node, own->again, own->n_again);
	release(own->node, own->gathered, own->n_gathered);
	if (!own->lent_workspace)
		release(own->node, own->device.workspace, own->n_workspace);
	free(own->in);
	free(own->out);
	if (!own->borrows) {
		free(own->kept);
		if (own->device.cuda)
			orr_cuda_stream_fini(&own->device);
	}
	*own = (struct orr_workspace){0};
}

void orr_workspace_fini(struct orr_workspace *own, unsigned worker)
{
	if (own->device.kernels)
		on_worker(worker, unmake, own);
}

/* -1: no memory. The array grows with what is kept, whatever the callers ask for. */
static int add_kept(struct orr_workspace *own, const struct orr_program *program, size_t bytes)
{
	struct orr_kept *kept = realloc(own->kept, ((size_t)own->n_kept + 1) * sizeof(*kept));
	void *at = kept ? allocate(own->node, bytes, false) : NULL;

	own->kept = kept ? kept : own->kept;
	if (!at)
		return -1;
	own->kept[own->n_kept++] =
		(struct orr_kept){.program = program, .version = -1, .at = at, .bytes = bytes};
	return 0;
}

static bool has_place(const struct orr_workspace *own, const struct orr_program *program)
{
	for (int i = 0; i < own->n_kept; i++)
		if (own->kept[i].program == program)
			return true;
	return false;
}

int orr_workspace_keep(struct orr_workspace *own, const struct orr_program *program)
{
	size_t bytes = orr_program_rounded_bytes(program, &own->device);

	if (has_place(own, program))
		return 0;
	if (!bytes || add_kept(own, program, bytes))
		return bytes ? -1 : 0;
	own->n_own = own->n_kept;
	return 0;
}

int orr_workspace_share(struct orr_workspace *own, const struct orr_program *const *programs, int n,
			int n_blocks)
{
	size_t most = 0;
	int n_shared = 0;

	for (int i = 0; i < n; i++) {
		size_t bytes = orr_program_rounded_bytes(programs[i], &own->device);

		/* one of its own serves all copies of a stage, see find_kept */
		if (!bytes || has_place(own, programs[i]))
			continue;
		n_shared++;
		most = bytes > most ? bytes : most;
	}
	for (int i = 0; i < n_shared && i < n_blocks; i++)
		if (add_kept(own, NULL, most))
			return -1;
	return 0;
}

/* Where the weights of a stage are rounded to: its own place, the one that they are in, or the one
 * of those shared that was used longest ago; NULL: none. */
static struct orr_kept *find_kept(struct orr_workspace *own, const struct orr_program *program)
{
	size_t bytes = orr_program_rounded_bytes(program, &own->device);
	struct orr_kept *oldest = NULL;

	for (int i = 0; i < own->n_kept; i++) {
		struct orr_kept *kept = &own->kept[i];

		if (kept->program == program)
			return kept;
		if (i >= own->n_own && bytes <= kept->bytes &&
		    (!oldest || kept->used < oldest->used))
			oldest = kept;
	}
	if (!oldest || !bytes)
		return NULL;
	oldest->program = program;
	oldest->version = -1;
	return oldest;
}

void orr_workspace_round(struct orr_workspace *own, const struct orr_codelet_arg *arg,
			 const float *parameters)
{
	struct orr_kept *kept = arg->has_parameters ? find_kept(own, arg->program) : NULL;

	own->device.rounded = NULL;
	if (!kept)
		return;
	if (kept->version != arg->version || kept->parameters != parameters)
		orr_program_round(arg->program, &own->device, parameters, kept->at);
	kept->version = arg->version;
	kept->parameters = parameters;
	kept->used = ++own->n_rounds;
	own->device.rounded = kept->at;
}
