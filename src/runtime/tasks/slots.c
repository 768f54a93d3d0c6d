#include "slots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Is job j the first of an update that o's gradient is made of? */
static bool is_first(const struct orr_work *work, const struct orr_owned *o, int j)
{
	int n = work->pipeline->n_microbatches / orr_jobs_n_updates(work->jobs, o->s), i = 0;

	while (o->contributors[i] != j)
		i++;
	return !i || orr_jobs_at(work->jobs, o->contributors[i - 1]).b / n !=
			     orr_jobs_at(work->jobs, j).b / n;
}

/* Tasks that follow one another in the order of submission, which is the same in every step. */
enum { TASKS = 64 };
struct orr_batch {
	struct orr_batch *next;
	int n; /* tasks of the step so far */
	struct orr_task tasks[TASKS];
};

static void lay_out_job(const struct orr_slots *slots, struct orr_slot *slot, int j)
{
	const struct orr_submitter *submitter = slots->submitter;
	const struct orr_work *work = slots->data->work;
	const struct orr_jobs *jobs = work->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	struct orr_task *t = &slot->jobs[j];
	const struct orr_program *program = work->programs[job.s];
	bool first = job.d != ORR_PASS_F && job.d == orr_jobs_first_backward(jobs, job.s);

	orr_task_init(t, submitter, &slot->flight, jobs->compute[j]);
	t->arg = (struct orr_codelet_arg){
		.common = submitter->common,
		.started = &t->state,
		.job = j,
		.program = program,
		.n = orr_work_samples(work, job.b),
		.n_minibatch = work->batch,
		.first = orr_work_first_sample(work, job.b),
		.microbatch = orr_work_n_read(work, job.s) > 1 ? job.b : 0,
		.n_microbatches = orr_work_n_read(work, job.s),
		.has_parameters = orr_work_reads(work, j),
		.has_data = job.d == ORR_PASS_F && program->n_inputs > 0,
		.has_stash = orr_work_has_backward(work, job.s),
		.has_gradient = orr_work_makes_gradient(work, j),
		.recompute = (job.d == ORR_PASS_F || first) && jobs->recompute[job.s],
		.part = !orr_work_splits(work, job.s) ? ORR_PART_BOTH
			: job.d == ORR_PASS_W         ? ORR_PART_WEIGHT
						      : ORR_PART_INPUT,
		.packed = orr_work_packs(work, job.s, job.b),
		/* without a flush every microbatch is a minibatch */
		.loss_scale = 1.0f / (float)(jobs->async ? orr_work_samples(work, job.b) *
								   work->pipeline->accumulate
							 : work->batch),
	};
	if (job.d == ORR_PASS_F && program->n_losses)
		t->arg.metrics = &slot->metrics[orr_work_loss_at(work, 0, job.b)];
	if (t->arg.has_gradient) {
		const struct orr_owned *o = &slots->data->owned[slots->data->owned_of[j]];

		/* A partial gradient starts over in every step; a sum with its first part. */
		t->arg.overwrite = !o->in_place || is_first(work, o, j);
	}
}

static void lay_out_update(const struct orr_slots *slots, struct orr_slot *slot, int i)
{
	const struct orr_work *work = slots->data->work;
	int owned = i % slots->data->n_owned;
	struct orr_owned *o = &slots->data->owned[owned];
	struct orr_task *t = &slot->updates[i];

	orr_task_init(t, slots->submitter, &slot->flight, o->w);
	t->arg.n_floats = orr_work_n_trained(work, o->s);
	t->arg.rule = slots->rule;
	t->arg.rule.part = o->partial ? &o->part : NULL;
	t->arg.own = owned - work->jobs->first_owner[o->s];
	/* without a flush each replica has brought a minibatch of its own */
	t->arg.rule.n_averaged = work->jobs->async ? orr_work_replicas(work, o->s) : 1;
	t->n_updated = &o->version;
	if (!slots->skips) /* else a task of its own looks before */
		t->arg.wild = &slot->wild[i];
}

int orr_slots_timeline(struct orr_timeline **out, const struct orr_data *data,
		       struct orr_error *err)
{
	const struct orr_jobs *jobs = data->work->jobs;
	int code = orr_timeline_create(out, jobs, err);
	struct orr_timeline *t = *out;

	if (code)
		return code;
	t->measured = true;
	t->updates = calloc((size_t)data->n_updates + 1, sizeof(*t->updates));
	if (!t->updates)
		return orr_no_memory(err, "run");
	t->n_updates = data->n_updates;
	for (int i = 0; i < data->n_owned; i++) {
		const struct orr_owned *o = &data->owned[i];

		for (int q = 0; o->update >= 0 && q < orr_jobs_n_updates(jobs, o->s); q++)
			t->updates[o->update + q] = (struct orr_update){o->s, o->w, q + 1, -1, -1};
	}
	return 0;
}

static int n_metrics(const struct orr_work *work)
{
	return orr_work_loss_at(work, 0, work->pipeline->n_microbatches);
}

static int n_wild(const struct orr_data *data)
{
	return data->n_owned * data->work->n_updates;
}

static void allocate(struct orr_slot *slot, struct orr_data *data)
{
	const struct orr_work *work = data->work;
	struct orr_arrays *all = work->arrays;

	orr_arrays_make(all, slot->jobs, work->jobs->n_jobs);
	orr_arrays_make(all, slot->updates, n_wild(data));
	orr_arrays_make(all, slot->submitted, work->jobs->n_jobs);
	orr_arrays_make(all, slot->n_added, data->n_owned);
	orr_arrays_make(all, slot->n_left, work->pipeline->n_stages);
	slot->metrics =
		orr_handles_pinned(&data->handles, (size_t)n_metrics(work), sizeof(*slot->metrics));
	slot->wild = orr_handles_pinned(&data->handles, (size_t)n_wild(data), sizeof(*slot->wild));
}

static void slot_init(const struct orr_slots *slots, struct orr_slot *slot)
{
	const struct orr_work *work = slots->data->work;
	struct orr_fault *fault = work->fault;

	allocate(slot, slots->data);
	orr_samples_init(&slot->samples, slots->data);
	if (orr_work_fails(work) ||
	    (fault->code = orr_slots_timeline(&slot->timeline, slots->data, &fault->err)))
		return;
	for (int i = 0; i < work->n_sequence; i++)
		lay_out_job(slots, slot, work->sequence[i]);
	for (int i = 0; i < n_wild(slots->data); i++)
		lay_out_update(slots, slot, i);
}

void orr_slots_init(struct orr_slots *slots)
{
	const struct orr_work *work = slots->data->work;

	orr_arrays_make(work->arrays, slots->slots, work->window);
	orr_arrays_make(work->arrays, slots->rows, work->batch);
	for (int k = 0; k < work->window && !orr_work_fails(work); k++) {
		slots->slots[k].number = k;
		slots->slots[k].flight.watch = slots->watch;
		slot_init(slots, &slots->slots[k]);
	}
}

void orr_slots_fini(struct orr_slots *slots)
{
	for (int k = 0; slots->slots && k < slots->data->work->window; k++)
		orr_timeline_destroy(slots->slots[k].timeline);
}

struct orr_slot *orr_slots_at(const struct orr_slots *slots, int64_t n)
{
	return &slots->slots[n % slots->data->work->window];
}

int orr_slots_begin(struct orr_slots *slots, struct orr_slot *slot, struct orr_error *err)
{
	const struct orr_work *work = slots->data->work;
	size_t n_stages = (size_t)work->pipeline->n_stages;
	int code;

	for (int i = 0; i < work->n_sequence; i++) {
		int j = work->sequence[i];

		slot->timeline->start_ns[j] = slot->timeline->end_ns[j] = -1;
		slot->submitted[j] = false;
		atomic_store_explicit(&slot->jobs[j].state, ORR_STATE_WAITING,
				      memory_order_relaxed);
	}
	for (struct orr_batch *b = slot->last = slot->first; b; b = b->next)
		b->n = 0;
	memset(slot->n_added, 0, (size_t)slots->data->n_owned * sizeof(*slot->n_added));
	memset(slot->metrics, 0, (size_t)n_metrics(work) * sizeof(*slot->metrics));
	for (int i = 0; i < n_wild(slots->data); i++)
		slot->wild[i] = INT64_MAX;
	slot->skipped = false;
	slot->norm = NAN;
	slot->scale = 1;
	memcpy(slot->n_left, work->n_readers, n_stages * sizeof(*slot->n_left));
	if ((code = orr_samples_gather(&slot->samples, work, slots->dataset, slots->seed,
				       slots->rows, err)))
		return code;
	slot->flight.sample = slot->samples.first;
	orr_watch_begin(&slot->flight, slots->n_submitted++);
	return 0;
}

void orr_slots_look_ahead(const struct orr_slots *slots)
{
	const struct orr_work *work = slots->data->work;
	struct orr_samples *next = &orr_slots_at(slots, slots->n_submitted)->samples;

	next->first = slots->n_submitted * work->batch;
	if (!work->fault->code)
		(void)orr_samples_gather(next, work, slots->dataset, slots->seed, slots->rows,
					 NULL);
}

struct orr_task *orr_slots_task(const struct orr_slots *slots, struct orr_slot *slot, int w)
{
	static struct orr_task none; /* it is not submitted */
	struct orr_batch *b = slot->last;
	struct orr_task *t;

	if (!b || b->n == TASKS) {
		struct orr_batch **next = b ? &b->next : &slot->first;

		if (!*next)
			*next = orr_arrays_add(slots->data->work->arrays, 1, sizeof(**next));
		if (!*next && orr_work_fails(slots->data->work))
			return &none;
		b = slot->last = *next;
	}
	t = &b->tasks[b->n++];
	orr_task_init(t, slots->submitter, &slot->flight, w);
	return t;
}

void orr_slots_add(const struct orr_slots *slots, struct orr_slot *slot, int w, enum orr_adding way,
		   starpu_data_handle_t block, int64_t from, starpu_data_handle_t into, int64_t to,
		   int64_t n_floats)
{
	struct orr_task *t = orr_slots_task(slots, slot, w);

	t->arg.overwrite = way != ORR_ADD_TO;
	t->arg.offset = from;
	t->arg.to = to;
	t->arg.n_floats = n_floats;
	orr_task_add(slots->submitter, block, STARPU_R);
	orr_task_add(slots->submitter, into, way == ORR_ADD_ALL ? STARPU_W : STARPU_RW);
	orr_task_submit(slots->submitter, t, ORR_CODELET_ADD);
}

int orr_slots_adds_up(const struct orr_slots *slots, const struct orr_device_group *group)
{
	for (int k = 0; k < slots->data->work->window; k++)
		for (const struct orr_batch *b = slots->slots[k].first; b; b = b->next)
			for (int i = 0; i < b->n; i++)
				if (b->tasks[i].arg.group == group->nccl &&
				    atomic_load(&b->tasks[i].state) == ORR_STATE_STARTED)
					return b->tasks[i].s;
	return group->s;
}
