#include "reduce.h"

#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/collective.h"
#include "orrery/ranks.h"
#include "runtime/devices/hardware.h"
#include "runtime/tasks/stall.h"

/* Where all owners of a stage are on CUDA devices, of this rank or others, NCCL adds up their
 * gradients, after those of one device have been added there, in the order of their owners; else
 * the update does it (orr_rule_step), or the ring between ranks (ring.c).
 *
 * A collective blocks its stream until all members have come, so two things must hold, and hold by
 * construction. No member starts before the gradients of all of them are there: a gate, which each
 * collective reads, follows all of the gradients, those of other ranks by a message from each; a
 * device that waits in one thus waits for nobody who waits for it. And all devices start the
 * collectives in one order, that of their submission, which is the same on all ranks: in a step
 * that of the stages (run/step.c), without a flush that of the jobs, all of which every rank walks
 * along.
 * One thread submits, and each device has a chain handle that its collectives write. They run on a
 * stream of their own, a StarPU worker that computes no jobs (policy.h): backward passes go on
 * while gradients that are complete are added up. StarPU starts a task when those that it waits for
 * have ended, on whichever stream, so that no events are needed between the two.
 *
 * While a member waits in a collective, CUDA may keep a thread that takes memory of another device,
 * or frees it, until the collective has ended, and with it the member that is waited for. All that
 * a step needs is there after the first steps, one for each slot, whose sums therefore run alone:
 * nothing else is in flight before them, and nothing is submitted until they have ended. Where
 * memory comes and goes in every step, because it is limited or copies of parameters are given
 * back, that holds for all steps. */

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

int orr_reduce_devices(const struct orr_jobs *jobs, int s, const int *device_of, const int *rank_of,
		       bool alone, int *devices, int *member_of)
{
	int first = jobs->first_owner[s], n_owners = jobs->first_owner[s + 1] - first, n = 0;
	const int *owners = jobs->owners + first;

	for (int i = 0; i < n_owners; i++) {
		int k = 0;

		if (device_of[owners[i]] < 0)
			return 0;
		while (k < n && devices[k] != device_of[owners[i]])
			k++;
		member_of[i] = k;
		devices[k] = device_of[owners[i]];
		n = k == n ? n + 1 : n;
		for (int before = 0; before < i; before++)
			if (member_of[before] == k && rank_of[owners[before]] != rank_of[owners[i]])
				return 0;
	}
	/* the parts of a sharded stage are as many as its owners */
	if (n < n_owners && orr_jobs_shards(jobs, s))
		return 0;
	return n > 1 || (alone && n_owners == 1) ? n : 0;
}

/* The device that serves each worker, known by the first worker that it serves; -1: a core. (tests)
 * alone: cores count, so that the way of a gradient can be tried without a device. */
static int find_devices(const struct orr_work *work, const struct orr_policy *policy, bool alone,
			int *device_of, struct orr_error *err)
{
	enum { N = 17 }; /* is there one, and its identity */
	int n_workers = work->pipeline->n_workers, code;
	double *all = calloc((size_t)n_workers * N, sizeof(*all));

	if (!all)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
	for (int w = 0; w < n_workers && (alone || orr_nccl_is_built()); w++) {
		unsigned char identity[N - 1];

		if (!orr_work_has(work, w) || !orr_hardware_identity(orr_policy_worker(policy, w),
								     work->rank, alone, identity))
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
static int share_id(const struct orr_work *work, int s, struct orr_nccl_id *id,
		    struct orr_error *err)
{
	double bytes[sizeof(*id)] = {0};
	char why[160];
	int code = 0;

	if (orr_work_has(work, work->jobs->owners[work->jobs->first_owner[s]]) &&
	    orr_nccl_name(id, why, sizeof(why)))
		return orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	if (!orr_work_is_spread(work, s))
		return 0;
	for (size_t i = 0; i < sizeof(*id); i++)
		bytes[i] = (unsigned char)id->bytes[i];
	code = orr_ranks_sum(bytes, sizeof(*id), err);
	for (size_t i = 0; i < sizeof(*id); i++)
		id->bytes[i] = (char)(unsigned char)bytes[i];
	return code;
}

/* What this rank has of the group of n devices of the owners of s; NULL: nothing. */
static int make_group(const struct orr_reduce *r, int s, int n, const int *member_of,
		      struct orr_nccl **group, struct orr_error *err)
{
	const struct orr_work *work = r->cross->work;
	struct orr_nccl_id id = {{0}};
	int *members = calloc((size_t)n * 2, sizeof(int)), *devices = members + n;
	int first = work->jobs->first_owner[s], next = 0, n_own = 0, code;
	char why[160];

	if (!members)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d devices", n);
	for (int i = 0; i < orr_work_replicas(work, s); i++) {
		int w = work->jobs->owners[first + i];

		if (member_of[i] < next)
			continue; /* another owner is on that device */
		next++;
		if (!orr_work_has(work, w))
			continue;
		members[n_own] = member_of[i];
		devices[n_own++] = starpu_worker_get_devid(orr_policy_worker(r->policy, w));
	}
	if (!(code = share_id(work, s, &id, err)) && n_own &&
	    orr_nccl_create(group, &id, n, members, devices, n_own, why, sizeof(why)))
		code = orr_fail(err, ORR_E_RUNTIME, "run: %s", why);
	free(members);
	return code;
}

/* The group of these devices, made when it is first asked for, by all ranks in the same order. */
static int find_group(struct orr_reduce *r, int s, const int *devices, int n, const int *member_of,
		      struct orr_nccl **group, struct orr_error *err)
{
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
		r->groups[k].s = s;
		r->n_groups++;
		if ((code = make_group(r, s, n, member_of, &r->groups[k].nccl, err)))
			return code;
	}
	*group = r->groups[k].nccl;
	return 0;
}

/* Of the owners of a stage on a rank, the first speaks for the others. */
static bool speaks(const struct orr_work *work, int i, int s)
{
	const struct orr_jobs *jobs = work->jobs;
	int k = jobs->first_owner[s];

	while (work->rank_of[jobs->owners[k]] != work->rank_of[jobs->owners[i]])
		k++;
	return k == i;
}

/* Of a task for a sum the one for the parameters afterwards. */
static struct orr_task *task_of_gather(const struct orr_reduce *r, struct orr_task *t)
{
	const struct orr_data *data = r->slots->data;

	return t + data->work->window * data->work->n_updates * data->n_owned;
}

/* Member i of the group of an owner that is here. */
static void lay_out(struct orr_reduce *r, int i, int member, struct orr_nccl *group)
{
	const struct orr_data *data = r->slots->data;
	int n_updates = data->work->n_updates;

	for (int k = 0; k < data->work->window * n_updates; k++) {
		struct orr_task *t = &r->tasks[k * data->n_owned + i],
				*ready = &r->ready[k * data->n_owned + i];

		orr_task_init(t, r->slots->submitter, &r->slots->slots[k / n_updates].flight,
			      data->owned[i].w);
		*ready = *t;
		r->adds[k * data->n_owned + i] = *t;
		r->adds[k * data->n_owned + i].queued.w = data->owned[r->members[i].speaker].w;
		t->queued.apart = true;
		t->arg.n_floats = orr_work_n_trained(data->work, data->owned[i].s);
		t->arg.group = group;
		t->arg.started = &t->state;
		t->arg.member = member;
		t->arg.sharded = r->parts && data->owned[i].sharded;
		task_of_gather(r, ready)[0] = *ready;
		task_of_gather(r, t)[0] = *t;
		task_of_gather(r, t)->arg.gathers = true;
		task_of_gather(r, t)->arg.started = &task_of_gather(r, t)->state;
	}
}

static void join_here(struct orr_reduce *r, int i, int member, int device, struct orr_nccl *group)
{
	starpu_data_handle_t *chain = &r->chain[device];

	if (!*chain)
		starpu_void_data_register(chain);
	r->members[i].chain = *chain;
	lay_out(r, i, member, group);
}

static int join(struct orr_reduce *r, int s, const int *devices, int n, const int *member_of,
		struct orr_error *err)
{
	const struct orr_work *work = r->cross->work;
	struct orr_nccl *group = NULL;
	int first = work->jobs->first_owner[s], n_owners = orr_work_replicas(work, s);
	int n_own = 0, code = 0;

	/* of one core there is no group */
	if ((n > 1 || starpu_cuda_worker_get_count()) &&
	    (code = find_group(r, s, devices, n, member_of, &group, err)))
		return code;
	for (int i = 0; i < n_owners; i++) {
		int k = 0;

		while (member_of[k] != member_of[i])
			k++;
		r->members[first + i].joins = true;
		r->members[first + i].speaker = first + k;
		if (!orr_work_has(work, r->slots->data->owned[first + i].w))
			continue;
		n_own++;
		join_here(r, first + i, member_of[i], devices[member_of[i]], group);
	}
	if (n_own)
		starpu_void_data_register(&r->members[first].gate);
	/* a message without any data is none */
	for (int i = first; i < first + n_owners && n_own && orr_work_is_spread(work, s); i++)
		if (speaks(work, i, s))
			starpu_vector_data_register(&r->members[i].ready, -1, 0, 1, sizeof(float));
	return code;
}

static int allocate(struct orr_reduce *r, struct orr_error *err)
{
	const struct orr_work *work = r->cross->work;
	size_t n_owned = (size_t)r->slots->data->n_owned;
	size_t n_tasks = n_owned * (size_t)work->window * (size_t)work->n_updates;

	r->groups = calloc((size_t)work->pipeline->n_stages, sizeof(*r->groups));
	r->chain = calloc((size_t)work->pipeline->n_workers, sizeof(starpu_data_handle_t));
	r->members = calloc(n_owned, sizeof(*r->members));
	r->tasks = calloc(2 * n_tasks, sizeof(*r->tasks));
	r->ready = calloc(2 * n_tasks, sizeof(*r->ready));
	r->adds = calloc(n_tasks, sizeof(*r->adds));
	if (r->groups && r->chain && r->members && r->tasks && r->ready && r->adds)
		return 0;
	return orr_fail(err, ORR_E_NOMEM, "run: no memory to add up the gradients of %zu owners",
			n_owned);
}

int orr_reduce_init(struct orr_reduce *r, struct orr_slots *slots, const struct orr_cross *cross,
		    const struct orr_policy *policy, bool clips, bool alone, struct orr_error *err)
{
	const struct orr_work *work = cross->work;
	int n_stages = work->pipeline->n_stages, code;
	int *device_of = calloc((size_t)work->pipeline->n_workers, sizeof(int));
	int *devices = calloc(2 * (size_t)slots->data->n_owned + 1, sizeof(int));
	int *member_of = devices + slots->data->n_owned;

	*r = (struct orr_reduce){.slots = slots, .cross = cross, .policy = policy, .parts = !clips};
	r->n_alone = alone ? 1 : 2; /* cores record no graphs */
	orr_reduce_starts_anew(r);
	if ((code = allocate(r, err)) || !policy)
		goto out;
	if (!device_of || !devices) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers",
				work->pipeline->n_workers);
		goto out;
	}
	code = find_devices(work, policy, alone, device_of, err);
	for (int s = 0; s < n_stages && !code; s++) {
		int n = orr_work_n_trained(work, s)
				? orr_reduce_devices(work->jobs, s, device_of, work->rank_of, alone,
						     devices, member_of)
				: 0;

		/* nothing would empty the gradient of an owner that only lends its parameters */
		for (int i = work->jobs->first_owner[s]; i < work->jobs->first_owner[s + 1]; i++)
			n = slots->data->owned[i].n_contributors ? n : 0;
		if (n)
			code = join(r, s, devices, n, member_of, err);
	}
out:
	free(device_of);
	free(devices);
	return code;
}

void orr_reduce_fini(struct orr_reduce *r)
{
	for (int i = 0; r->members && i < r->slots->data->n_owned; i++) {
		orr_data_forget(r->members[i].ready);
		if (r->members[i].gate)
			starpu_data_unregister(r->members[i].gate);
	}
	for (int w = 0; r->chain && w < r->cross->work->pipeline->n_workers; w++)
		if (r->chain[w])
			starpu_data_unregister(r->chain[w]);
	for (int k = 0; k < r->n_groups; k++) {
		orr_nccl_destroy(r->groups[k].nccl);
		free(r->groups[k].devices);
	}
	free(r->groups);
	free(r->chain);
	free(r->members);
	free(r->tasks);
	free(r->ready);
	free(r->adds);
}

void orr_reduce_hold(struct orr_reduce *r)
{
	r->holds = true;
}

/* Steps of each slot: one that allocates, and one that records graphs of what it starts. */
void orr_reduce_starts_anew(struct orr_reduce *r)
{
	r->alone_until = r->slots->n_submitted + r->n_alone * r->cross->work->window;
}

/* The stage that a group adds up at the moment, or the first one that it can. */
static int stage_of(const struct orr_reduce *r, int k)
{
	const struct orr_data *data = r->slots->data;
	int n = 2 * data->work->window * data->work->n_updates * data->n_owned;

	for (int i = 0; i < n; i++)
		if (r->tasks[i].arg.group == r->groups[k].nccl &&
		    atomic_load(&r->tasks[i].state) == ORR_STATE_STARTED)
			return data->owned[i % data->n_owned].s;
	return r->groups[k].s;
}

int orr_reduce_ask(void *user, struct orr_error *err)
{
	const struct orr_reduce *r = user;
	int code = 0;

	for (int k = 0; k < r->n_groups && !code; k++) {
		const char *what = r->groups[k].nccl ? orr_nccl_failure(r->groups[k].nccl) : NULL;

		if (what)
			code = orr_fail(err, ORR_E_RUNTIME,
					"run: gradients of stage %d, rank %d: %s", stage_of(r, k),
					r->cross->work->rank, what);
	}
	return code;
}

void orr_reduce_abort(struct orr_reduce *r)
{
	for (int k = 0; k < r->n_groups; k++)
		if (r->groups[k].nccl)
			orr_nccl_abort(r->groups[k].nccl);
}

/* ---- a step ---- */

/* What a member brings to a sum, or has updated a part of. */
static starpu_data_handle_t brought(const struct orr_reduce *r, int i, bool gathers)
{
	const struct orr_owned *o = &r->slots->data->owned[i];

	return gathers ? o->parameters.handle : o->gradient.handle;
}

/* The gate of s opens when all gradients are there, or all updates have been made: those of this
 * rank, or, where the owners are on several, what each of them says. */
static int submit_gate(const struct orr_reduce *r, int first, int end, bool gathers,
		       struct orr_error *err)
{
	const struct orr_data *data = r->slots->data;
	struct starpu_task *task = starpu_task_create();
	bool spread = orr_work_is_spread(data->work, data->owned[first].s);
	int n = end - first, code;

	task->cl = &gate_codelet;
	task->dyn_handles = calloc((size_t)n + 1, sizeof(*task->dyn_handles));
	task->dyn_modes = calloc((size_t)n + 1, sizeof(*task->dyn_modes));
	if (!task->dyn_handles || !task->dyn_modes) {
		code = orr_fail(err, ORR_E_NOMEM, "run: no memory for a task");
		goto fail;
	}
	for (int i = first; i < end; i++) {
		starpu_data_handle_t ready = r->members[i].ready;

		if (spread && !ready)
			continue;
		task->dyn_handles[task->nbuffers] = spread ? ready : brought(r, i, gathers);
		task->dyn_modes[task->nbuffers++] = STARPU_R;
	}
	task->dyn_handles[task->nbuffers] = r->members[first].gate;
	task->dyn_modes[task->nbuffers++] = STARPU_W;
	if (!(code = starpu_task_submit(task)))
		return 0;
	code = orr_fail(err, ORR_E_RUNTIME, "run: StarPU refuses a gate");
fail:
	task->destroy = 0;
	starpu_task_destroy(task);
	return code;
}

/* The task of owner i for update q of the slot's step. */
static struct orr_task *task_of(const struct orr_reduce *r, struct orr_task *tasks,
				const struct orr_slot *slot, int i, int q, bool gathers)
{
	const struct orr_data *data = r->slots->data;
	struct orr_task *t = &tasks[(slot->number * data->work->n_updates + q) * data->n_owned + i];

	return gathers ? task_of_gather(r, t) : t;
}

/* The first float of each gradient here, one after the other, to what this rank says. */
static int say_ready(struct orr_reduce *r, const struct orr_slot *slot, int first, int end, int q,
		     bool gathers, int *speaker, struct orr_error *err)
{
	const struct orr_data *data = r->slots->data;
	int code = 0;

	*speaker = -1;
	for (int i = first; i < end && !code; i++) {
		bool is_first = *speaker < 0;

		if (!orr_work_has(data->work, data->owned[i].w) || r->members[i].speaker != i)
			continue;
		*speaker = is_first ? i : *speaker;
		code = orr_task_submit_add(
			r->slots->submitter, task_of(r, r->ready, slot, i, q, gathers),
			brought(r, i, gathers), r->members[*speaker].ready, is_first, 0, 1, err);
	}
	return code;
}

/* Tell the other ranks that have owners, and hear them. */
static int meet(struct orr_reduce *r, const struct orr_slot *slot, int first, int end, int q,
		bool gathers, struct orr_error *err)
{
	const struct orr_work *work = r->cross->work;
	int64_t n = r->slots->data->n_owned, at = (2 * q + gathers) * n;
	int own, code = say_ready(r, slot, first, end, q, gathers, &own, err);

	for (int i = first; i < end && !code; i++) {
		struct orr_message m;
		int other = work->rank_of[r->slots->data->owned[i].w];

		if (!r->members[i].ready || i == own)
			continue;
		m = orr_cross_message(r->cross, slot->number, ORR_TAG_READY,
				      (at + own) * work->n_ranks + other, r->members[own].ready,
				      other);
		if ((code = orr_ranks_send_data(&m, err)))
			return code;
		m = orr_cross_message(r->cross, slot->number, ORR_TAG_READY,
				      (at + i) * work->n_ranks + work->rank, r->members[i].ready,
				      other);
		code = orr_ranks_receive_data(&m, NULL, NULL, err);
	}
	return code;
}

/* To the gradient of the owner that joins for i: on their device, one after the other. */
static int submit_add(struct orr_reduce *r, const struct orr_slot *slot, int i, int q,
		      struct orr_error *err)
{
	const struct orr_data *data = r->slots->data;

	return orr_task_submit_add(r->slots->submitter, task_of(r, r->adds, slot, i, q, false),
				   brought(r, i, false), brought(r, r->members[i].speaker, false),
				   false, 0, orr_work_n_trained(data->work, data->owned[i].s), err);
}

/* Owner i's part in the sum, after gate and its device's chain so far. */
static int submit_sum(struct orr_reduce *r, struct orr_task *t, int i, starpu_data_handle_t gate,
		      struct orr_error *err)
{
	struct orr_buffers buffers;
	int code = orr_buffers_init(&buffers, ORR_CODELET_REDUCE, 3, err);

	if (code)
		return code;
	orr_buffers_add(&buffers, brought(r, i, t->arg.gathers), STARPU_RW);
	orr_buffers_add(&buffers, gate, STARPU_R);
	orr_buffers_add(&buffers, r->members[i].chain, STARPU_RW);
	return orr_task_submit(r->slots->submitter, t, &buffers, err);
}

static int submit(struct orr_reduce *r, const struct orr_slot *slot, int s, int q, bool gathers,
		  struct orr_error *err)
{
	const struct orr_work *work = r->cross->work;
	int first = work->jobs->first_owner[s], end = work->jobs->first_owner[s + 1], code = 0;
	bool holds = r->holds || r->slots->n_submitted <= r->alone_until;
	starpu_data_handle_t gate = r->members[first].gate;

	if (!gate) /* all owners are elsewhere */
		return 0;
	for (int i = first; i < end && !code && !gathers; i++)
		if (orr_work_has(work, r->slots->data->owned[i].w) && r->members[i].speaker != i)
			code = submit_add(r, slot, i, q, err);
	if (!code && holds)
		code = orr_stall_all(r->slots, err);
	if (!code && orr_work_is_spread(work, s))
		code = meet(r, slot, first, end, q, gathers, err);
	if (!code)
		code = submit_gate(r, first, end, gathers, err);
	for (int i = first; i < end && !code; i++)
		if (orr_work_has(work, r->slots->data->owned[i].w) && r->members[i].speaker == i)
			code = submit_sum(r, task_of(r, r->tasks, slot, i, q, gathers), i, gate,
					  err);
	return code || !holds ? code : orr_stall_all(r->slots, err);
}

int orr_reduce_submit(struct orr_reduce *r, const struct orr_slot *slot, int s, int q,
		      struct orr_error *err)
{
	return submit(r, slot, s, q, false, err);
}

int orr_reduce_gather(struct orr_reduce *r, const struct orr_slot *slot, int s, int q,
		      struct orr_error *err)
{
	return submit(r, slot, s, q, true, err);
}
