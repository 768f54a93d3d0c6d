#include "runtime/run/engine.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/collective.h"

/* Where all owners of a stage are on CUDA devices, each on one of its own, of this rank or others,
 * NCCL adds up their gradients; else the update does it (orr_rule_step), or the ring between ranks
 * (ring.c).
 *
 * A collective blocks its stream until all members have come, so two things must hold, and hold by
 * construction. No member starts before the gradients of all of them are there: a gate, which each
 * collective reads, follows all of the gradients, those of other ranks by a message from each; a
 * device that waits in one thus waits for nobody who waits for it. And all devices start the
 * collectives in one order, that of their submission, which is the same on all ranks: in a step
 * that of the stages (submit.c), in a stream that of the jobs, all of which every rank walks along.
 * One thread submits, and each device has a chain handle that its collectives write. */

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

/* The device that serves each worker, known by the first worker that it serves; -1: a core. (tests)
 * alone: cores count, so that the way of a gradient can be tried without a device. */
static int find_devices(const struct orr_run *run, int *device_of, struct orr_error *err)
{
	enum { N = 17 }; /* is there one, and its identity */
	int n_workers = run->pipeline->n_workers, code;
	double *all = calloc((size_t)n_workers * N, sizeof(*all));
	bool alone = run->hooks.reduce_alone;

	if (!all)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
	for (int w = 0; w < n_workers && (alone || orr_nccl_is_built()); w++) {
		unsigned char identity[N - 1];

		if (!orr_run_has(run, w) || !orr_hardware_identity(run, w, alone, identity))
			continue;
		all[w * N] = 1;
		for (int i = 1; i < N; i++)
			all[w * N + i] = identity[i - 1];
	}
	code = orr_ranks_sum(all, n_workers * N, err);
	for (int w = 0; w < n_workers; w++) {
		int first = 0;

		while (memcmp(&all[first * N], &all[w * N], N * sizeof(*all)))
			first++;
		device_of[w] = all[w * N] > 0 ? first : -1;
	}
	free(all);
	return code;
}

/* The id of a new group of the owners of s, from the rank of the first one. */
static int share_id(const struct orr_run *run, int s, struct orr_nccl_id *id, struct orr_error *err)
{
	double bytes[sizeof(*id)] = {0};
	char why[160];
	int code = 0;

	if (orr_run_has(run, run->jobs->owners[run->jobs->first_owner[s]]) &&
	    orr_nccl_name(id, why, sizeof(why)))
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	if (!orr_ring_is_spread(run, s))
		return 0;
	for (size_t i = 0; i < sizeof(*id); i++)
		bytes[i] = (unsigned char)id->bytes[i];
	code = orr_ranks_sum(bytes, sizeof(*id), err);
	for (size_t i = 0; i < sizeof(*id); i++)
		id->bytes[i] = (char)(unsigned char)bytes[i];
	return code;
}

/* What this rank has of the group of the owners of s; NULL: nothing. */
static int make_group(const struct orr_run *run, int s, int n, struct orr_nccl **group,
		      struct orr_error *err)
{
	struct orr_nccl_id id = {{0}};
	int *members = calloc((size_t)n * 2, sizeof(int)), *devices = members + n, n_own = 0, code;
	char why[160];

	if (!members)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d devices", n);
	for (int i = 0; i < n; i++) {
		int w = run->jobs->owners[run->jobs->first_owner[s] + i];

		if (!orr_run_has(run, w))
			continue;
		members[n_own] = i;
		devices[n_own++] = starpu_worker_get_devid(orr_policy_worker(run->policy, w));
	}
	if (!(code = share_id(run, s, &id, err)) && n_own &&
	    orr_nccl_create(group, &id, n, members, devices, n_own, why, sizeof(why)))
		code = orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	free(members);
	return code;
}

/* The group of these devices, made when it is first asked for, by all ranks in the same order. */
static int find_group(struct orr_run *run, int s, const int *devices, int n,
		      struct orr_nccl **group, struct orr_error *err)
{
	struct orr_reduce *r = &run->reduce;
	size_t bytes = (size_t)n * sizeof(int);
	int k = 0, code;

	while (k < r->n_groups &&
	       (n != r->groups[k].n || memcmp(r->groups[k].devices, devices, bytes)))
		k++;
	if (k == r->n_groups) {
		if (!(r->groups[k].devices = malloc(bytes)))
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d devices", n);
		memcpy(r->groups[k].devices, devices, bytes);
		r->groups[k].n = n;
		r->n_groups++;
		if ((code = make_group(run, s, n, &r->groups[k].nccl, err)))
			return code;
	}
	*group = r->groups[k].nccl;
	return 0;
}

/* Of the owners of a stage on a rank, the first speaks for the others. */
static bool speaks(const struct orr_run *run, int i)
{
	const struct orr_jobs *jobs = run->jobs;
	int k = jobs->first_owner[run->data.owned[i].s];

	while (run->rank_of[jobs->owners[k]] != run->rank_of[jobs->owners[i]])
		k++;
	return k == i;
}

static int join(struct orr_run *run, int s, const int *devices, int n, struct orr_error *err)
{
	struct orr_nccl *group = NULL;
	int first = run->jobs->first_owner[s], n_own = 0, code = 0;
	int64_t floats = orr_program_n_parameters(run->programs[s]);

	/* of one core there is no group */
	if ((n > 1 || starpu_cuda_worker_get_count()) &&
	    (code = find_group(run, s, devices, n, &group, err)))
		return code;
	for (int i = 0; i < n; i++) {
		struct orr_owned *o = &run->data.owned[first + i];
		starpu_data_handle_t *chain = &run->reduce.chain[devices[i]];

		o->joins = true;
		if (!orr_run_has(run, o->w))
			continue;
		n_own++;
		o->group = group;
		o->member = i;
		starpu_vector_data_register(&o->summed, -1, 0, (uint32_t)floats, sizeof(float));
		run->data.temporary_bytes += floats * (int64_t)sizeof(float);
		if (!*chain)
			starpu_void_data_register(chain);
		o->chain = *chain;
	}
	if (n_own)
		starpu_void_data_register(&run->data.owned[first].gate);
	/* a message without any data is none */
	for (int i = first; i < first + n && n_own && orr_ring_is_spread(run, s); i++)
		if (speaks(run, i))
			starpu_vector_data_register(&run->data.owned[i].ready, -1, 0, 1,
						    sizeof(float));
	return 0;
}

int orr_reduce_init(struct orr_run *run, struct orr_error *err)
{
	int n_workers = run->pipeline->n_workers, n_stages = run->pipeline->n_stages, code = 0;
	int *device_of = calloc((size_t)n_workers, sizeof(int));
	int *devices = calloc((size_t)run->data.n_owned + 1, sizeof(int));

	run->reduce.groups = calloc((size_t)n_stages, sizeof(*run->reduce.groups));
	run->reduce.chain = calloc((size_t)n_workers, sizeof(*run->reduce.chain));
	if (!device_of || !devices || !run->reduce.groups || !run->reduce.chain) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
		goto out;
	}
	code = find_devices(run, device_of, err);
	for (int s = 0; s < n_stages && !code && !run->hooks.policy; s++) {
		int n = orr_program_n_parameters(run->programs[s])
				? orr_reduce_devices(run->jobs, s, device_of,
						     run->hooks.reduce_alone, devices)
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
		if (o->ready)
			starpu_data_unregister_no_coherency(o->ready);
		if (o->gate)
			starpu_data_unregister(o->gate);
	}
	for (int w = 0; run->reduce.chain && w < run->pipeline->n_workers; w++)
		if (run->reduce.chain[w])
			starpu_data_unregister(run->reduce.chain[w]);
	for (int k = 0; k < run->reduce.n_groups; k++) {
		orr_nccl_destroy(run->reduce.groups[k].nccl);
		free(run->reduce.groups[k].devices);
	}
	free(run->reduce.groups);
	free(run->reduce.chain);
}

/* ---- a step ---- */

/* The gate of s opens when all gradients are there: those of this rank, or, where the owners are on
 * several, what each of them says. */
static int submit_gate(const struct orr_run *run, int first, int end, struct orr_error *err)
{
	struct starpu_task *task = starpu_task_create();
	bool spread = orr_ring_is_spread(run, run->data.owned[first].s);
	int n = end - first, code;

	task->cl = &gate_codelet;
	task->dyn_handles = calloc((size_t)n + 1, sizeof(*task->dyn_handles));
	task->dyn_modes = calloc((size_t)n + 1, sizeof(*task->dyn_modes));
	if (!task->dyn_handles || !task->dyn_modes) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for a task");
		goto fail;
	}
	for (int i = first; i < end; i++) {
		const struct orr_owned *o = &run->data.owned[i];

		if (spread && !o->ready)
			continue;
		task->dyn_handles[task->nbuffers] = spread ? o->ready : o->gradient;
		task->dyn_modes[task->nbuffers++] = STARPU_R;
	}
	task->dyn_handles[task->nbuffers] = run->data.owned[first].gate;
	task->dyn_modes[task->nbuffers++] = STARPU_W;
	if (!(code = starpu_task_submit(task)))
		return 0;
	code = orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses a gate");
fail:
	task->destroy = 0;
	starpu_task_destroy(task);
	return code;
}

/* The first float of each gradient here, one after the other, to what this rank says. */
static int say_ready(struct orr_run *run, struct orr_slot *slot, int first, int end, int q,
		     int *speaker, struct orr_error *err)
{
	int code = 0;

	*speaker = -1;
	for (int i = first; i < end && !code; i++) {
		const struct orr_owned *o = &run->data.owned[i];
		bool is_first = *speaker < 0;

		if (!orr_run_has(run, o->w))
			continue;
		*speaker = is_first ? i : *speaker;
		code = orr_submit_add(run, &slot->readies[q * run->data.n_owned + i], o->gradient,
				      run->data.owned[*speaker].ready, is_first, 0, 1, err);
	}
	return code;
}

/* Tell the other ranks that have owners, and hear them. */
static int meet(struct orr_run *run, struct orr_slot *slot, int first, int end, int q,
		struct orr_error *err)
{
	int64_t n = run->data.n_owned;
	int own, code = say_ready(run, slot, first, end, q, &own, err);

	for (int i = first; i < end && !code; i++) {
		const struct orr_owned *o = &run->data.owned[i];
		struct orr_message m;
		int other = run->rank_of[o->w];

		if (!o->ready || i == own)
			continue;
		m = orr_cross_message(slot, ORR_TAG_READY, (q * n + own) * run->n_ranks + other,
				      run->data.owned[own].ready, other);
		if ((code = orr_ranks_send_data(&m, err)))
			return code;
		m = orr_cross_message(slot, ORR_TAG_READY, (q * n + i) * run->n_ranks + run->rank,
				      o->ready, other);
		code = orr_ranks_receive_data(&m, NULL, NULL, err);
	}
	return code;
}

int orr_reduce_submit(struct orr_run *run, struct orr_slot *slot, int s, int q,
		      struct orr_error *err)
{
	int first = run->jobs->first_owner[s], end = run->jobs->first_owner[s + 1], code = 0;
	starpu_data_handle_t gate = run->data.owned[first].gate;

	if (!gate) /* all owners are elsewhere */
		return 0;
	if (orr_ring_is_spread(run, s))
		code = meet(run, slot, first, end, q, err);
	if (!code)
		code = submit_gate(run, first, end, err);
	for (int i = first; i < end && !code; i++)
		if (orr_run_has(run, run->data.owned[i].w))
			code = orr_submit_reduce(run, &slot->reduces[q * run->data.n_owned + i],
						 &run->data.owned[i], gate, err);
	return code;
}
