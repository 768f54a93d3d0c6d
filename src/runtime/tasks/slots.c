#include "runtime/run/engine.h"

#include <stdlib.h>
#include <string.h>

/* A slot: everything that a step's tasks need, laid out once. */

/* Is job j the first of an update that o's gradient is made of? */
static bool is_first(const struct orr_run *run, const struct orr_owned *o, int j)
{
	int n = run->pipeline->n_microbatches / orr_jobs_n_updates(run->jobs, o->s), i = 0;

	while (o->contributors[i] != j)
		i++;
	return !i || orr_jobs_at(run->jobs, o->contributors[i - 1]).b / n !=
			     orr_jobs_at(run->jobs, j).b / n;
}

static void lay_out_job(struct orr_run *run, struct orr_slot *slot, int j)
{
	const struct orr_jobs *jobs = run->jobs;
	struct orr_job job = orr_jobs_at(jobs, j);
	struct orr_job_task *t = &slot->jobs[j];
	const struct orr_program *program = run->programs[job.s];
	bool last = job.d == orr_jobs_last_pass(jobs, job.s),
	     learns = orr_program_n_parameters(program) > 0;

	t->queued.w = jobs->compute[j];
	t->arg = (struct orr_codelet_arg){
		.common = &run->common,
		.started = &t->state,
		.job = j,
		.program = program,
		.n = orr_run_samples(run, job.b),
		.has_parameters = learns,
		.has_data = job.d == ORR_PASS_F && orr_program_n_inputs(program) > 0,
		.has_edges = job.d != ORR_PASS_W,
		.recompute = job.d != ORR_PASS_W && jobs->recompute[job.s],
		.part = jobs->n_passes == 2   ? ORR_PART_BOTH
			: job.d == ORR_PASS_W ? ORR_PART_WEIGHT
					      : ORR_PART_INPUT,
		/* in a stream every microbatch is a minibatch */
		.loss_scale = 1.0f / (float)(run->stream ? orr_run_samples(run, job.b) *
								   run->pipeline->accumulate
							 : run->options.batch),
	};
	if (job.d == ORR_PASS_F && orr_program_has_loss(program))
		t->arg.metrics = &slot->metrics[job.s * run->pipeline->n_microbatches + job.b];
	if (last && learns) {
		const struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];
		struct orr_job_task *add = &slot->adds[j];

		/* A partial gradient starts over in every step; a sum with its first part. */
		t->arg.overwrite = !o->in_place || is_first(run, o, j);
		add->queued.w = o->w;
		add->arg = (struct orr_codelet_arg){.common = &run->common, .job = -1};
	}
}

static void lay_out_task(struct orr_run *run, struct orr_slot *slot, struct orr_job_task *t)
{
	t->run = run;
	t->slot = slot;
	t->owned = -1;
	t->queued.turn = ORR_NO_TURN;
}

/* Update i, and what comes before it. */
static void lay_out_update(struct orr_run *run, struct orr_slot *slot, int i)
{
	int owned = i % run->data.n_owned;
	const struct orr_owned *o = &run->data.owned[owned];
	const int *first_owner = run->jobs->first_owner;
	struct orr_job_task *t = &slot->updates[i];

	lay_out_task(run, slot, t);
	t->queued.w = o->w;
	t->arg = (struct orr_codelet_arg){
		.common = &run->common,
		.job = -1,
		.n_floats = orr_program_n_parameters(run->programs[o->s]),
		/* in a stream each replica has brought a minibatch of its own */
		.n_averaged = run->stream ? first_owner[o->s + 1] - first_owner[o->s] : 1,
	};
	slot->copies[i] = slot->reduces[i] = slot->readies[i] = *t;
	slot->reduces[i].arg.group = o->group;
	slot->reduces[i].arg.member = o->member;
	t->owned = owned;
	if (run->options.on_nan == ORR_ON_NAN_SKIP) {
		slot->checks[owned] = slot->copies[i];
		t = &slot->checks[owned];
	}
	t->arg.wild = &slot->wild[i];
	t->arg.own = owned - first_owner[o->s];
}

/* Every step has the same updates, in the same places. */
static int create_timeline(struct orr_timeline **out, const struct orr_run *run,
			   struct orr_error *err)
{
	int code = orr_timeline_create(out, run->jobs, err);
	struct orr_timeline *t = *out;

	if (code)
		return code;
	t->measured = true;
	t->updates = calloc((size_t)run->data.n_updates + 1, sizeof(*t->updates));
	if (!t->updates)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for a timeline");
	t->n_updates = run->data.n_updates;
	for (int i = 0; i < run->data.n_owned; i++) {
		const struct orr_owned *o = &run->data.owned[i];

		for (int q = 0; o->update >= 0 && q < orr_jobs_n_updates(run->jobs, o->s); q++)
			t->updates[o->update + q] = (struct orr_update){o->s, o->w, q + 1, -1, -1};
	}
	return 0;
}

static int slot_init(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	size_t n_jobs = (size_t)run->jobs->n_jobs, n_stages = (size_t)run->pipeline->n_stages;
	size_t n_owned = (size_t)run->data.n_owned, n_updates = n_owned * (size_t)run->n_updates;
	size_t n_metrics = n_stages * (size_t)run->pipeline->n_microbatches;
	int code = create_timeline(&slot->timeline, run, err);

	if (code)
		return code;
	slot->jobs = calloc(n_jobs, sizeof(*slot->jobs));
	slot->adds = calloc(n_jobs, sizeof(*slot->adds));
	slot->updates = calloc(n_updates, sizeof(*slot->updates));
	slot->copies = calloc(n_updates, sizeof(*slot->copies));
	slot->submitted = calloc(n_jobs, sizeof(*slot->submitted));
	slot->reduces = calloc(n_updates, sizeof(*slot->reduces));
	slot->readies = calloc(n_updates, sizeof(*slot->readies));
	slot->checks = calloc(n_owned, sizeof(*slot->checks));
	slot->n_added = calloc(n_owned, sizeof(*slot->n_added));
	slot->n_left = calloc(n_stages, sizeof(*slot->n_left));
	if (!slot->jobs || !slot->adds || !slot->updates || !slot->copies || !slot->reduces ||
	    !slot->readies || !slot->checks || !slot->submitted || !slot->n_added ||
	    !slot->n_left ||
	    starpu_malloc_flags((void **)&slot->metrics, n_metrics * sizeof(*slot->metrics),
				STARPU_MALLOC_PINNED) ||
	    starpu_malloc_flags((void **)&slot->wild, n_updates * sizeof(*slot->wild),
				STARPU_MALLOC_PINNED))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for the tasks of %d jobs",
				run->jobs->n_jobs);
	for (int i = 0; i < run->n_sequence; i++) {
		lay_out_task(run, slot, &slot->jobs[run->sequence[i]]);
		lay_out_task(run, slot, &slot->adds[run->sequence[i]]);
		lay_out_job(run, slot, run->sequence[i]);
	}
	slot->jobs->run = run;
	for (int i = 0; i < run->data.n_owned * run->n_updates; i++)
		lay_out_update(run, slot, i);
	return orr_ring_slot_init(run, slot, err);
}

int orr_slots_init(struct orr_run *run, struct orr_error *err)
{
	int code = create_timeline(&run->timeline, run, err);

	if (code)
		return code;
	for (int k = 0; k < run->window; k++)
		if ((code = slot_init(run, &run->slots[k], err)))
			return code;
	return 0;
}

void orr_slots_fini(struct orr_run *run)
{
	for (int k = 0; k < run->window; k++) {
		struct orr_slot *slot = &run->slots[k];
		size_t n = (size_t)run->pipeline->n_stages * (size_t)run->pipeline->n_microbatches;

		if (slot->metrics)
			starpu_free_flags(slot->metrics, n * sizeof(*slot->metrics),
					  STARPU_MALLOC_PINNED);
		if (slot->wild)
			starpu_free_flags(slot->wild,
					  (size_t)(run->data.n_owned * run->n_updates) *
						  sizeof(*slot->wild),
					  STARPU_MALLOC_PINNED);
		orr_timeline_destroy(slot->timeline);
		for (int i = 0; slot->rings && i < run->data.n_owned * run->n_updates; i++)
			free(slot->rings[i]);
		free(slot->rings);
		free(slot->jobs);
		free(slot->adds);
		free(slot->updates);
		free(slot->copies);
		free(slot->reduces);
		free(slot->readies);
		free(slot->checks);
		free(slot->submitted);
		free(slot->n_added);
		free(slot->n_left);
	}
	orr_timeline_destroy(run->timeline);
}

int orr_slot_begin(struct orr_run *run, struct orr_slot *slot, struct orr_error *err)
{
	size_t n_stages = (size_t)run->pipeline->n_stages;
	size_t n_metrics = n_stages * (size_t)run->pipeline->n_microbatches;
	int code;

	slot->step = run->n_submitted;
	for (int i = 0; i < run->n_sequence; i++) {
		int j = run->sequence[i];

		slot->timeline->start_ns[j] = slot->timeline->end_ns[j] = -1;
		slot->submitted[j] = false;
		atomic_store_explicit(&slot->jobs[j].state, ORR_STATE_WAITING,
				      memory_order_relaxed);
	}
	memset(slot->n_added, 0, (size_t)run->data.n_owned * sizeof(*slot->n_added));
	memset(slot->metrics, 0, n_metrics * sizeof(*slot->metrics));
	for (int i = 0; i < run->data.n_owned * run->n_updates; i++)
		slot->wild[i] = INT64_MAX;
	slot->skipped = false;
	memcpy(slot->n_left, run->n_readers, n_stages * sizeof(*slot->n_left));
	if ((code = orr_data_gather(run, slot, err)))
		return code;
	/* The submission counts as a task, so that the step cannot end before all of it is there.
	 */
	slot->ended = false;
	atomic_store(&slot->n_running, 1);
	atomic_fetch_add(&run->n_tasks, 1);
	run->n_submitted++;
	return 0;
}
