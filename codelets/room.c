#include "room.h"

#include <stdio.h>
#include <stdlib.h>

#include "room_cuda.h"

/* A stage's weights as its products read them. */
struct orr_kept {
	const struct orr_program *program;
	const float *parameters; /* those that were rounded, and */
	int64_t version;         /* their version; -1: none yet */
	void *at;
	size_t bytes;
};

/* Memory of a worker's node, aligned to 256. */
static void *allocate(unsigned node, size_t bytes)
{
	if (starpu_node_get_kind(node) == STARPU_CPU_RAM)
		return aligned_alloc(256, (bytes / 256 + 1) * 256);
	return (void *)starpu_malloc_on_node(node, bytes / 256 * 256 + 256);
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

static size_t workspace_bytes(const struct orr_room_sizes *sizes, const struct orr_device *device)
{
	size_t most = 0;

	for (int i = 0; i < sizes->n_programs; i++) {
		size_t bytes = orr_program_workspace_bytes(sizes->programs[i], device,
							   sizes->most_samples);

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* What goes to the worker's thread and comes back. */
struct making {
	struct orr_codelet_room *room;
	const struct orr_room_sizes *sizes;
	char *why;
	size_t size;
	int code;
};

static void make(void *argument)
{
	struct making *m = argument;
	struct orr_codelet_room *room = m->room;
	const struct orr_room_sizes *sizes = m->sizes;

	room->device = orr_device_cpu(sizes->precision);
	if (starpu_node_get_kind(room->node) == STARPU_CUDA_RAM &&
	    (m->code = orr_room_cuda_init(&room->device, sizes->precision, m->why, m->size)))
		return;
	room->n_scratch = (size_t)sizes->scratch * sizeof(float);
	room->n_stash = (size_t)sizes->stash * sizeof(float);
	room->n_again = (size_t)sizes->again * sizeof(float);
	room->n_workspace = workspace_bytes(sizes, &room->device);
	room->scratch = allocate(room->node, room->n_scratch);
	room->stash = allocate(room->node, room->n_stash);
	room->again = allocate(room->node, room->n_again);
	room->device.workspace = allocate(room->node, room->n_workspace);
	room->in = calloc((size_t)sizes->n_pointers + 1, sizeof(const float *));
	room->out = calloc((size_t)sizes->n_pointers + 1, sizeof(float *));
	room->kept = calloc((size_t)sizes->n_programs + 1, sizeof(*room->kept));
	if (!room->scratch || !room->stash || !room->again || !room->device.workspace ||
	    !room->in || !room->out || !room->kept) {
		m->code = -1;
		snprintf(m->why, m->size, "no memory for %.1f MiB of scratch",
			 (double)(room->n_scratch + room->n_stash + room->n_again +
				  room->n_workspace) /
				 (1 << 20));
		return;
	}
	for (int i = 0; i < sizes->n_programs; i++)
		orr_program_prepare(sizes->programs[i], &room->device, sizes->most_samples);
}

/* Where a device is current. */
static void on_worker(unsigned worker, void (*function)(void *), void *argument)
{
	if (starpu_worker_get_type((int)worker) == STARPU_CUDA_WORKER)
		starpu_execute_on_specific_workers(function, argument, 1, &worker, "room");
	else
		function(argument);
}

int orr_room_init(struct orr_codelet_room *room, unsigned worker,
		  const struct orr_room_sizes *sizes, char *why, size_t size)
{
	struct making making = {room, sizes, why, size, 0};

	room->node = starpu_worker_get_memory_node(worker);
	on_worker(worker, make, &making);
	return making.code;
}

static void unmake(void *argument)
{
	struct orr_codelet_room *room = argument;

	for (int i = 0; i < room->n_kept; i++)
		release(room->node, room->kept[i].at, room->kept[i].bytes);
	release(room->node, room->scratch, room->n_scratch);
	release(room->node, room->stash, room->n_stash);
	release(room->node, room->again, room->n_again);
	release(room->node, room->device.workspace, room->n_workspace);
	free(room->in);
	free(room->out);
	free(room->kept);
	if (room->device.cuda)
		orr_room_cuda_fini(&room->device);
	*room = (struct orr_codelet_room){0};
}

void orr_room_fini(struct orr_codelet_room *room, unsigned worker)
{
	if (room->device.kernels)
		on_worker(worker, unmake, room);
}

int orr_room_keep(struct orr_codelet_room *room, const struct orr_program *program)
{
	size_t bytes = orr_program_rounded_bytes(program, &room->device);
	void *at;

	for (int i = 0; i < room->n_kept; i++)
		if (room->kept[i].program == program)
			return 0;
	if (!bytes)
		return 0;
	if (!(at = allocate(room->node, bytes)))
		return -1;
	room->kept[room->n_kept++] = (struct orr_kept){program, NULL, -1, at, bytes};
	return 0;
}

void orr_room_round(struct orr_codelet_room *room, const struct orr_codelet_arg *arg,
		    const float *parameters)
{
	room->device.rounded = NULL;
	for (int i = 0; i < room->n_kept && arg->has_parameters; i++) {
		struct orr_kept *kept = &room->kept[i];

		if (kept->program != arg->program)
			continue;
		if (kept->version != arg->version || kept->parameters != parameters)
			orr_program_round(arg->program, &room->device, parameters, kept->at);
		kept->version = arg->version;
		kept->parameters = parameters;
		room->device.rounded = kept->at;
	}
}
