#include "orrery/run.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "alike.h"
#include "orrery/ranks.h"
#include "parts.h"
#include "rounds.h"
#include "runtime/devices/compile.h"
#include "runtime/devices/resident.h"
#include "runtime/peers/fits.h"

/* A run whose jobs did not end: StarPU keeps it, and no other can start. */
static struct orr_run *left_behind;

/* A stage that gathers has one worker for all its Fs, which has the minibatch, and one for its Bs,
 * which send it back. */
static int check_gathers(const struct orr_jobs *jobs, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	for (int j = 0; j < jobs->n_jobs; j++) {
		struct orr_job job = orr_jobs_at(jobs, j);
		int first = orr_jobs_index(jobs, job.s, 0, job.d);

		if (p->stages[job.s].gather && job.d != ORR_PASS_W && orr_jobs_has(jobs, j) &&
		    jobs->compute[j] != jobs->compute[first])
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s: workers %d and %d both compute stage %d, "
					"which gathers the minibatch (gather=), and train has one "
					"worker for it: take gpipe or auto",
					jobs->schedule, jobs->compute[first], jobs->compute[j],
					job.s);
	}
	return 0;
}

static int check_rate(const struct orr_run_options *o, struct orr_error *err)
{
	if (o->warmup < 0 || !(o->final_rate >= 0) || !(o->clip >= 0))
		return orr_fail(err, ORR_E_INPUT,
				"run: a warm-up of %lld steps, a final rate of %g, gradients "
				"clipped to %g: none can be below 0",
				(long long)o->warmup, o->final_rate, o->clip);
	if (o->decay != ORR_DECAY_NONE && o->decay_steps <= o->warmup)
		return orr_fail(err, ORR_E_INPUT,
				"run: the learning rate falls after a warm-up of %lld steps, and "
				"there are only %lld steps: take a shorter warm-up or no decay",
				(long long)o->warmup, (long long)o->decay_steps);
	return 0;
}

static int check_options(const struct orr_jobs *jobs, const struct orr_dataset *data,
			 const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	int code;

	if (!p->graph)
		return orr_fail(err, ORR_E_INPUT,
				"run: these stages have costs and nothing to compute; "
				"train a graph whose operators all have an op");
	if (options->batch < p->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"run: a batch of %d cannot be cut into %d microbatches; "
				"take a batch of %d at least, or fewer microbatches",
				options->batch, p->n_microbatches, p->n_microbatches);
	if (jobs->async && options->on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(err, ORR_E_INPUT,
				"run: schedule %s never flushes, so no step can be left out",
				jobs->schedule);
	if ((code = check_rate(options, err)))
		return code;
	if (jobs->async && options->clip > 0)
		return orr_fail(err, ORR_E_INPUT,
				"run: schedule %s never flushes, so there is no norm of a step's "
				"gradients to clip; take one that flushes, or clip nothing",
				jobs->schedule);
	if (!(options->timeout_s > 0))
		return orr_fail(err, ORR_E_INPUT, "run: a timeout of %g s; it must be above 0",
				options->timeout_s);
	if ((code = check_gathers(jobs, err)) ||
	    (code = orr_rounds_check(jobs, options->batch, err)))
		return code;
	return orr_program_check_data(p->graph, data, err);
}

static int check_all(const struct orr_jobs *jobs, const struct orr_dataset *data,
		     const struct orr_run_options *options, struct orr_error *err)
{
	int code = orr_ranks_start(NULL, err);

	/* only the ranks that have the data see what is wrong with it */
	if (code || (code = orr_ranks_agree(check_options(jobs, data, options, err), err)) ||
	    (code = orr_ranks_agree(orr_session_check_home(err), err)))
		return code;
	return orr_run_check_alike(jobs, data, options, err);
}

/* Handles and tasks, once StarPU runs. */
static int lay_out(struct orr_run *run, const struct orr_run_hooks *hooks, struct orr_error *err)
{
	const struct orr_run_options *options = &run->options;
	struct orr_policy *policy = run->session.policy;
	int code;

	run->submitter = (struct orr_submitter){
		.common = &run->session.common,
		.policy = policy,
		.flushes = !run->work.jobs->async,
		.orders = run->work.jobs->order == ORR_ORDER_STRICT &&
			  (!hooks->policy || !strcmp(hooks->policy, "pinned")),
		.pinned = hooks->policy && !strcmp(hooks->policy, "pinned"),
	};
	run->slots = (struct orr_slots){
		.data = &run->data,
		.submitter = &run->submitter,
		.watch = &run->watch,
		.dataset = run->dataset,
		.seed = options->seed,
		.timeout_s = options->timeout_s,
		.skips = options->on_nan == ORR_ON_NAN_SKIP,
	};
	if ((code = orr_data_init(&run->data, &run->work, policy,
				  orr_optimizer_floats(options->optimizer), options->seed,
				  options->keep_bytes, err)) ||
	    (code = orr_slots_init(&run->slots, err)) ||
	    (code = orr_version_buffers_init(&run->versions, &run->slots, err)) ||
	    (code = orr_cross_init(&run->cross, &run->data, options->prefetch, err)) ||
	    (code = orr_reduce_init(&run->reduce, &run->slots, &run->cross,
				    hooks->policy ? NULL : policy, options->clip > 0,
				    hooks->reduce_alone, err)) ||
	    (code = orr_ring_init(&run->ring, &run->slots, &run->cross, &run->reduce, err)) ||
	    (code = orr_shards_init(&run->shards, &run->slots, &run->reduce, &run->ring, err)) ||
	    (code = orr_ties_init(&run->ties, &run->slots, &run->cross, err)) ||
	    (code = orr_clip_init(&run->clip, &run->slots, options->clip, err)) ||
	    (code = orr_spared_init(&run->spared, &run->work,
				    !options->spare || !(options->weight_decay > 0), err)) ||
	    (code = orr_prefetch_init(&run->prefetch, &run->data, policy, options->prefetch, err)))
		return code;
	run->slots.ask = orr_reduce_ask;
	run->slots.asked = &run->reduce;
	if (options->memory_bytes > 0 || orr_prefetch_copies(&run->prefetch))
		orr_reduce_hold(&run->reduce);
	return orr_gather_init(&run->gather, &run->slots, err);
}

int orr_run_create_hooked(struct orr_run **out, const struct orr_jobs *jobs,
			  const struct orr_dataset *data, const struct orr_run_options *options,
			  const struct orr_run_hooks *hooks, struct orr_error *err)
{
	struct orr_run *run;
	int code = check_all(jobs, data, options, err);

	if (code)
		return code;
	run = calloc(1, sizeof(*run));
	if (!run)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory");
	run->dataset = data;
	run->options = *options;
	orr_watch_init(&run->watch);
	if ((code = orr_session_take(&run->session, err)) ||
	    (code = orr_work_init(&run->work, jobs, options->batch, orr_ranks_rank(),
				  orr_ranks_count(), options->ranks_workers, err)) ||
	    (code = orr_fits_check(&run->work, err)) ||
	    (code = orr_scoring_init(&run->scoring, &run->work, err)) ||
	    (code = orr_session_start(&run->session, &run->work, options, hooks, err)))
		goto out;
	malloc_trim(0); /* free memory shall not count as resident before */
	run->resident_before = run->resident_peak = orr_resident_bytes();
	if ((code = lay_out(run, hooks, err))) {
		orr_ranks_fail(1, err ? err->msg : "a run cannot be made"); /* the others wait */
		goto out;
	}
	*out = run;
	run = NULL;
out:
	orr_run_destroy(run);
	return code;
}

int orr_run_create(struct orr_run **out, const struct orr_jobs *jobs,
		   const struct orr_dataset *data, const struct orr_run_options *options,
		   struct orr_error *err)
{
	static const struct orr_run_hooks none;

	return orr_run_create_hooked(out, jobs, data, options, &none, err);
}

void orr_run_destroy(struct orr_run *run)
{
	if (!run)
		return;
	/* A job that never ends still uses all of this, and StarPU would wait for it: leave both to
	 * the end of the process. */
	if (run->trained.failed && !run->trained.drained) {
		left_behind = run;
		return;
	}
	orr_scoring_fini(&run->scoring);
	orr_gather_fini(&run->gather);
	orr_prefetch_fini(&run->prefetch);
	orr_spared_fini(&run->spared);
	orr_clip_fini(&run->clip);
	orr_ties_fini(&run->ties);
	orr_shards_fini(&run->shards);
	orr_ring_fini(&run->ring);
	orr_reduce_fini(&run->reduce);
	orr_cross_fini(&run->cross);
	orr_version_buffers_fini(&run->versions);
	orr_slots_fini(&run->slots);
	orr_data_fini(&run->data);
	orr_session_stop(&run->session);
	orr_work_fini(&run->work);
	orr_watch_fini(&run->watch);
	free(run);
}
