#include "engine.h"

#include <stdlib.h>

#include "../../codelets/cuda/collective.h"

/* Where all owners of a stage are on CUDA devices of this process, each on one of its own, NCCL adds
 * up their gradients; else the update does it (orr_rule_step), or the ring between ranks (ring.c).
 *
 * A collective blocks its stream until all members have come, so two things must hold, and hold by
 * construction. No member starts before the gradients of all of them are there: a gate, which each
 * collective reads, follows all of the gradients; a device that waits in one thus waits for nobody
 * who waits for it. And all devices start the collectives in one order, that of their submission,
 * which one thread does: each has a chain handle that its collectives write. */

static void nothing(void *buffers[], void *cl_arg)
{
	(void)buffers;
	(void)cl_arg;
}

/* It runs nowhere, and moves nothing: it only comes after what it reads. */
static struct starpu_codelet gate_codelet = {
	.name = "gate",
	.where = STARPU_NOWHERE,
	.cpu_funcs = {nothing},
	.nbuffers = STARPU_VARIABLE_NBUFFERS,
};

int orr_reduce_devices(const struct orr_jobs *jobs, int s, const int *device_of, bool alone,
		       int *devices)
{
	int first = jobs->first_owner[s], n = jobs->first_owner[s + 1] - first;

	for (int i = 0; i < n; i++) {
		devices[i] = device_of[jobs->owners[first + i]];
		if (devices[i] < 0)
			return 0;
		for (int k = 0; k < i; k++)
			if (devices[k] == devices[i])
				return 0;
	}
	return n > 1 || alone ? n : 0;
}

/* The device that serves each worker; -1: a core, or another rank. (tests) alone: cores count, so
 * that the way of a gradient can be tried without a device. */
static void find_devices(const struct orr_run *run, int *device_of)
{
	for (int w = 0; w < run->pipeline->n_workers; w++) {
		int id = orr_run_has(run, w) ? orr_policy_worker(run->policy, w) : -1;

		device_of[w] = -1;
		if (id >= 0 && starpu_worker_get_type(id) == STARPU_CUDA_WORKER)
			device_of[w] = starpu_worker_get_devid(id);
		else if (id >= 0 && run->options.reduce_alone)
			device_of[w] = id;
	}
}

/* The group of these devices, made when it is first asked for. */
static int find_group(struct orr_run *run, const int *devices, int n, struct orr_nccl **group,
		      struct orr_error *err)
{
	struct orr_reduce *r = &run->reduce;
	char why[160];

	for (int k = 0; k < r->n_groups; k++) {
		int same = 0;

		while (same < n && same < r->groups[k].n && r->groups[k].devices[same] == devices[same])
			same++;
		if (same == n && n == r->groups[k].n) {
			*group = r->groups[k].nccl;
			return 0;
		}
	}
	r->groups[r->n_groups].n = n;
	r->groups[r->n_groups].devices = calloc((size_t)n, sizeof(int));
	if (!r->groups[r->n_groups].devices)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d devices", n);
	for (int i = 0; i < n; i++)
		r->groups[r->n_groups].devices[i] = devices[i];
	r->n_groups++;
	if (orr_nccl_create(&r->groups[r->n_groups - 1].nccl, devices, n, why, sizeof(why)))
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	*group = r->groups[r->n_groups - 1].nccl;
	return 0;
}

static int join(struct orr_run *run, int s, const int *devices, int n, struct orr_error *err)
{
	struct orr_nccl *group = NULL;
	int first = run->jobs->first_owner[s], code = 0;
	int64_t floats = orr_program_n_parameters(run->programs[s]);

	if (starpu_cuda_worker_get_count() && (code = find_group(run, devices, n, &group, err)))
		return code;
	for (int i = 0; i < n; i++) {
		struct orr_owned *o = &run->data.owned[first + i];
		starpu_data_handle_t *chain = &run->reduce.chain[devices[i]];

		o->group = group;
		o->member = i;
		starpu_vector_data_register(&o->summed, -1, 0, (uint32_t)floats, sizeof(float));
		run->data.temporary_bytes += floats * (int64_t)sizeof(float);
		if (!*chain)
			starpu_void_data_register(chain);
		o->chain = *chain;
	}
	starpu_void_data_register(&run->data.owned[first].gate);
	return 0;
}

int orr_reduce_init(struct orr_run *run, struct orr_error *err)
{
	int n_workers = run->pipeline->n_workers, n_stages = run->pipeline->n_stages, code = 0;
	int *device_of = calloc((size_t)n_workers, sizeof(int));
	int *devices = calloc((size_t)run->data.n_owned + 1, sizeof(int));

	run->reduce.groups = calloc((size_t)n_stages, sizeof(*run->reduce.groups));
	if (!device_of || !devices || !run->reduce.groups) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
		goto out;
	}
	find_devices(run, device_of);
	for (int s = 0; s < n_stages && !code && !run->options.policy; s++) {
		int n = orr_program_n_parameters(run->programs[s])
				? orr_reduce_devices(run->jobs, s, device_of,
						     run->options.reduce_alone, devices)
				: 0;

		if (n && run->data.owned[run->jobs->first_owner[s]].update >= 0)
			code = join(run, s, devices, n, err);
	}
out:
	free(device_of);
	free(devices);
	return code;
}

void orr_reduce_fini(struct orr_run *run)
{
	for (int i = 0; run->data.owned && i < run->data.n_owned; i++) {
		struct orr_owned *o = &run->data.owned[i];

		if (o->summed)
			starpu_data_unregister_no_coherency(o->summed);
		if (o->gate)
			starpu_data_unregister(o->gate);
	}
	for (int i = 0; i < STARPU_NMAXWORKERS; i++)
		if (run->reduce.chain[i])
			starpu_data_unregister(run->reduce.chain[i]);
	for (int k = 0; k < run->reduce.n_groups; k++) {
		orr_nccl_destroy(run->reduce.groups[k].nccl);
		free(run->reduce.groups[k].devices);
	}
	free(run->reduce.groups);
}

static int submit_gate(const struct orr_run *run, int first, int end, struct orr_error *err)
{
	struct starpu_task *task = starpu_task_create();
	int n = end - first, code;

	task->cl = &gate_codelet;
	task->nbuffers = n + 1;
	task->dyn_handles = calloc((size_t)n + 1, sizeof(*task->dyn_handles));
	task->dyn_modes = calloc((size_t)n + 1, sizeof(*task->dyn_modes));
	if (!task->dyn_handles || !task->dyn_modes) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for a task");
		goto fail;
	}
	for (int i = 0; i < n; i++) {
		task->dyn_handles[i] = run->data.owned[first + i].gradient;
		task->dyn_modes[i] = STARPU_R;
	}
	task->dyn_handles[n] = run->data.owned[first].gate;
	task->dyn_modes[n] = STARPU_W;
	if (!(code = starpu_task_submit(task)))
		return 0;
	code = orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses a gate");
fail:
	task->destroy = 0;
	starpu_task_destroy(task);
	return code;
}

int orr_reduce_submit(struct orr_run *run, struct orr_slot *slot, int s, int q,
		      struct orr_error *err)
{
	int first = run->jobs->first_owner[s], end = run->jobs->first_owner[s + 1];
	int code = submit_gate(run, first, end, err);

	for (int i = first; i < end && !code; i++)
		code = orr_submit_reduce(run, &slot->reduces[q * run->data.n_owned + i], &run->data.owned[i],
					 run->data.owned[first].gate, err);
	return code;
}
