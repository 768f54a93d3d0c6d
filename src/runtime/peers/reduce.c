#include "reduce.h"

#include "codelets/cuda/collective.h"
#include "device_groups.h"
#include "runtime/tasks/stall.h"

/* Where all owners of a stage are on CUDA devices, of this rank or others, NCCL adds up their
 * gradients, after those of one device have been added there, in the order of their owners; else
 * the update does it (optimizer.h), or the ring between ranks (ring.c).
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

/* Of the owners of a stage on a rank, the first speaks for the others. */
static bool speaks(const struct orr_work *work, int i, int s)
{
	const struct orr_jobs *jobs = work->jobs;
	int k = jobs->first_owner[s];

	while (work->rank_of[jobs->owners[k]] != work->rank_of[jobs->owners[i]])
		k++;
	return k == i;
}

static void join(struct orr_reduce *r, int s, const int *devices, int n, const int *member_of)
{
	const struct orr_work *work = r->cross->work;
	struct orr_handles *handles = &r->slots->data->handles;
	struct orr_nccl *group = NULL;
	int first = work->jobs->first_owner[s], n_owners = orr_work_replicas(work, s), n_own = 0;

	/* of one core there is no group */
	if (n > 1 || starpu_cuda_worker_get_count())
		group = orr_device_groups_find(r->slots, r->policy, s, devices, n, member_of);
	for (int i = 0; i < n_owners; i++) {
		struct orr_member *m = &r->members[first + i];
		int k = 0;

		while (member_of[k] != member_of[i])
			k++;
		*m = (struct orr_member){.joins = true,
					 .speaker = first + k,
					 .group = group,
					 .number = member_of[i]};
		if (!orr_work_has(work, r->slots->data->owned[first + i].w))
			continue;
		n_own++;
		if (!r->chain[devices[member_of[i]]])
			orr_handles_void(handles, &r->chain[devices[member_of[i]]]);
		m->chain = r->chain[devices[member_of[i]]];
	}
	if (n_own)
		orr_handles_void(handles, &r->members[first].gate);
	/* a message without any data is none */
	for (int i = first; i < first + n_owners && n_own && orr_work_is_spread(work, s); i++)
		if (speaks(work, i, s))
			orr_handles_floats(handles, &r->members[i].ready, 1);
}

void orr_reduce_init(struct orr_reduce *r, struct orr_slots *slots, const struct orr_cross *cross,
		     const struct orr_policy *policy, bool alone)
{
	const struct orr_work *work = cross->work;
	const int n_workers = work->pipeline->n_workers, n_owned = slots->data->n_owned;
	int *device_of, *devices, *member_of;

	*r = (struct orr_reduce){.slots = slots, .cross = cross, .policy = policy};
	r->n_alone = alone ? 1 : 2; /* cores record no graphs */
	orr_reduce_starts_anew(r);
	orr_arrays_make(work->arrays, slots->groups, work->pipeline->n_stages);
	orr_arrays_make(work->arrays, r->chain, n_workers);
	orr_arrays_make(work->arrays, r->members, n_owned);
	orr_arrays_make(work->arrays, device_of, n_workers);
	orr_arrays_make(work->arrays, devices, n_owned);
	orr_arrays_make(work->arrays, member_of, n_owned);
	if (orr_work_fails(work) || !policy)
		return;
	orr_device_groups_locate(work, policy, alone, device_of);
	for (int s = 0; s < work->pipeline->n_stages && !orr_work_fails(work); s++) {
		int n = orr_work_n_trained(work, s)
				? orr_device_groups_choose(work->jobs, s, device_of, work->rank_of,
							   alone, devices, member_of)
				: 0;

		/* nothing would empty the gradient of an owner that only lends its parameters */
		for (int i = work->jobs->first_owner[s]; i < work->jobs->first_owner[s + 1]; i++)
			n = slots->data->owned[i].n_contributors ? n : 0;
		if (n)
			join(r, s, devices, n, member_of);
	}
}

/* Steps of each slot: one that allocates, and one that records graphs of what it starts. */
void orr_reduce_starts_anew(struct orr_reduce *r)
{
	r->alone_until = r->slots->n_submitted + r->n_alone * r->cross->work->window;
}

void orr_reduce_abort(struct orr_reduce *r)
{
	for (int k = 0; k < r->slots->n_groups; k++)
		if (r->slots->groups[k].nccl)
			orr_nccl_abort(r->slots->groups[k].nccl);
}

/* ---- a step ---- */

/* What a member brings to a sum, or has updated a part of. */
static starpu_data_handle_t brought(const struct orr_reduce *r, int i, bool gathers)
{
	const struct orr_owned *o = &r->slots->data->owned[i];

	return gathers ? o->parameters : o->gradient;
}

/* The gate of s opens when all gradients are there, or all updates have been made: those of this
 * rank, or, where the owners are on several, what each of them says. */
static void submit_gate(const struct orr_reduce *r, struct orr_slot *slot, int first, int end,
			bool gathers)
{
	const struct orr_data *data = r->slots->data;
	bool spread = orr_work_is_spread(data->work, data->owned[first].s);

	for (int i = first; i < end; i++)
		if (!spread || r->members[i].ready)
			orr_task_add(r->slots->submitter,
				     spread ? r->members[i].ready : brought(r, i, gathers),
				     STARPU_R);
	orr_task_add(r->slots->submitter, r->members[first].gate, STARPU_W);
	orr_task_submit(r->slots->submitter, orr_slots_task(r->slots, slot, data->owned[first].w),
			ORR_CODELET_JOIN);
}

/* The first float of each gradient here, one after the other, to what this rank says. Returns who
 * speaks. */
static int say_ready(struct orr_reduce *r, struct orr_slot *slot, int first, int end, bool gathers)
{
	const struct orr_data *data = r->slots->data;
	int speaker = -1;

	for (int i = first; i < end; i++) {
		bool is_first = speaker < 0;

		if (!orr_work_has(data->work, data->owned[i].w) || r->members[i].speaker != i)
			continue;
		speaker = is_first ? i : speaker;
		orr_slots_add(r->slots, slot, data->owned[i].w, is_first ? ORR_ADD_ALL : ORR_ADD_TO,
			      brought(r, i, gathers), 0, r->members[speaker].ready, 0, 1);
	}
	return speaker;
}

/* Tell the other ranks that have owners, and hear them. */
static void meet(struct orr_reduce *r, struct orr_slot *slot, int first, int end, int q,
		 bool gathers)
{
	const struct orr_work *work = r->cross->work;
	int64_t n = r->slots->data->n_owned, at = (2 * q + gathers) * n;
	int own = say_ready(r, slot, first, end, gathers);

	for (int i = first; i < end; i++) {
		int other = work->rank_of[r->slots->data->owned[i].w];

		if (!r->members[i].ready || i == own)
			continue;
		orr_cross_pass(r->cross, slot->number, ORR_TAG_READY,
			       (at + own) * work->n_ranks + other, r->members[own].ready, other,
			       true);
		orr_cross_pass(r->cross, slot->number, ORR_TAG_READY,
			       (at + i) * work->n_ranks + work->rank, r->members[i].ready, other,
			       false);
	}
}

/* To the gradient of the owner that joins for i: on their device, one after the other. */
static void submit_add(struct orr_reduce *r, struct orr_slot *slot, int i)
{
	const struct orr_data *data = r->slots->data;
	int speaker = r->members[i].speaker;

	orr_slots_add(r->slots, slot, data->owned[speaker].w, ORR_ADD_TO, brought(r, i, false), 0,
		      brought(r, speaker, false), 0,
		      orr_work_n_trained(data->work, data->owned[i].s));
}

/* Owner i's part in the sum, after gate and its device's chain so far. */
static void submit_sum(struct orr_reduce *r, struct orr_slot *slot, int i,
		       starpu_data_handle_t gate, bool part, bool gathers)
{
	const struct orr_owned *o = &r->slots->data->owned[i];
	struct orr_submitter *submitter = r->slots->submitter;
	struct orr_task *t = orr_slots_task(r->slots, slot, o->w);

	t->queued.apart = true;
	t->s = o->s;
	t->arg.n_floats = orr_work_n_trained(r->cross->work, o->s);
	t->arg.group = r->members[i].group;
	t->arg.member = r->members[i].number;
	t->arg.started = &t->state;
	t->arg.sharded = part;
	t->arg.gathers = gathers;
	orr_task_add(submitter, brought(r, i, gathers), STARPU_RW);
	orr_task_add(submitter, gate, STARPU_R);
	orr_task_add(submitter, r->members[i].chain, STARPU_RW);
	orr_task_submit(submitter, t, ORR_CODELET_REDUCE);
}

void orr_reduce_submit(struct orr_reduce *r, struct orr_slot *slot, int s, int q, bool part,
		       bool gathers)
{
	const struct orr_work *work = r->cross->work;
	int first = work->jobs->first_owner[s], end = work->jobs->first_owner[s + 1];
	bool holds = r->holds || r->slots->n_submitted <= r->alone_until;
	starpu_data_handle_t gate = r->members[first].gate;

	if (!gate) /* all owners are elsewhere */
		return;
	for (int i = first; i < end && !gathers; i++)
		if (orr_work_has(work, r->slots->data->owned[i].w) && r->members[i].speaker != i)
			submit_add(r, slot, i);
	if (holds)
		orr_stall_all(r->slots);
	if (orr_work_is_spread(work, s))
		meet(r, slot, first, end, q, gathers);
	submit_gate(r, slot, first, end, gathers);
	for (int i = first; i < end; i++)
		if (orr_work_has(work, r->slots->data->owned[i].w) && r->members[i].speaker == i)
			submit_sum(r, slot, i, gate, part, gathers);
	if (holds)
		orr_stall_all(r->slots);
}
