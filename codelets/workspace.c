#include "workspace.h"

#include <stdio.h>
#include <stdlib.h>

#include "cuda/stream.h"

/* A stage's weights as its products read them. */
struct orr_kept {
	const struct orr_program *program;
	const float *parameters; /* those that were rounded, and */
	int64_t version;         /* their version; -1: none yet */
	int64_t used;            /* by the workspace's n_rounds-th task last */
	void *at;
	size_t bytes;
};

static size_t aligned(size_t bytes)
{
	return bytes / 256 * 256 + 256;
}

/* Memory of a worker's node, aligned to 256. StarPU makes room for data alone: what is borrowed may
 * go beyond a limit, after which data goes. */
static void *allocate(unsigned node, size_t bytes, bool borrows)
{
	int flags = STARPU_MALLOC_PINNED | STARPU_MALLOC_COUNT;

	if (borrows)
		flags |= STARPU_MEMORY_OVERFLOW;
	if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
		return aligned_alloc(256, aligned(bytes));
	return (void *)starpu_malloc_on_node_flags(node, aligned(bytes), flags);
}

static void release(unsigned node, void *at, size_t bytes)
{
	if (at && starpu_node_get_kind(node) == STARPU_CPU_RAM)
		free(at);
	else if (at)
		starpu_free_on_node(node, (uintptr_t)at, aligned(bytes));
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

/* Its parts lie one behind the other in memory of its own, or in that of another, which is idle
 * meanwhile: a backward works in more, mostly, than a forward and its stash take. */
static bool make_memory(struct orr_workspace *own, const struct orr_workspace *of,
			const struct orr_workspace_sizes *sizes)
{
	float **const parts[] = {&own->scratch, &own->stash, &own->again, &own->gathered};
	const int64_t floats[] = {sizes->scratch, sizes->stash, sizes->again, sizes->gathered};
	size_t first = aligned(workspace_bytes(sizes, &own->device));
	bool lent;
	char *at;

	own->bytes = first;
	for (int i = 0; i < 4; i++)
		own->bytes += aligned((size_t)floats[i] * sizeof(float));
	lent = of && own->bytes <= of->bytes;
	own->memory = lent ? NULL : allocate(own->node, own->bytes, of);
	if (!(at = lent ? of->memory : own->memory))
		return false;
	own->device.workspace = at;
	at += first;
	for (int i = 0; i < 4; i++) {
		*parts[i] = (float *)(void *)at;
		at += aligned((size_t)floats[i] * sizeof(float));
	}
	return true;
}

static void make(void *argument)
{
	struct making *m = argument;
	struct orr_workspace *own = m->own;
	const struct orr_workspace_sizes *sizes = m->sizes;

	if (make_device(m))
		return;
	/* what a pass has, and behind it what F has that B runs again */
	own->in = calloc(2 * (size_t)sizes->n_pointers + 1, sizeof(const float *));
	own->out = calloc(2 * (size_t)sizes->n_pointers + 1, sizeof(float *));
	if (!make_memory(own, m->of, sizes) || !own->in || !own->out) {
		m->code = -1;
		snprintf(m->why, m->size, "no memory for %.1f MiB of scratch",
			 (double)own->bytes / (1 << 20));
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
	release(own->node, own->memory, own->bytes);
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
