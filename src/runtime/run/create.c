#include "orrery/run.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "checkpoint/checksum.h"
#include "orrery/graph.h"
#include "orrery/pipeline.h"
#include "options.h"
#include "parts.h"
#include "runtime/devices/calibrate.h"
#include "runtime/devices/compile.h"
#include "runtime/peers/device_groups.h"
#include "save.h"
#include "schedule/gathers.h"

/* A run whose jobs did not end: StarPU keeps it, and no other can start. */
static struct orr_run *left_behind;

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
				"run: these stages have costs and nothing to compute; train a "
				"graph whose operators all have an op");
	if (options->batch < p->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"run: a batch of %d cannot be cut into %d microbatches; take a "
				"batch of %d at least, or fewer microbatches",
				options->batch, p->n_microbatches, p->n_microbatches);
	if (jobs->async && options->on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(err, ORR_E_INPUT,
				"run: schedule %s never flushes, so no step can be left out",
				jobs->schedule);
	if (jobs->park)
		return orr_fail(err, ORR_E_INPUT,
				"run: schedule %s parks stashes, which `simulate` alone can: leave "
				"[park] out",
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
	if ((code = orr_gathers_check_trained(jobs, err)) ||
	    (code = orr_rounds_check(jobs, options->batch, err)))
		return code;
	return orr_program_check_data(p->graph, data, err);
}

/* ---- do all ranks have the same? ---- */

enum { MODEL, DATA, SCHEDULE, OPTIONS, N };

static const char *const what[N] = {
	[MODEL] = "model or cut: every host needs the same files",
	[DATA] = "data: every host needs the same file",
	[SCHEDULE] =
		"schedule: every host needs the same file, and a plug-in's functions must be pure",
	[OPTIONS] = "options: give all ranks the same",
};

/* 32 bits of a checksum: sums of those over ranks are exact. */
static double digest(const void *bytes, size_t n)
{
	char text[ORR_CHECKSUM];

	orr_checksum(text, bytes, n);
	text[8] = '\0';
	return (double)strtoul(text, NULL, 16);
}

static double digest_schedule(const struct orr_jobs *jobs)
{
	size_t n = (size_t)jobs->n_jobs;
	const struct orr_pipeline *p = jobs->pipeline;
	const int sizes[] = {p->n_workers,
			     p->n_microbatches,
			     jobs->n_passes,
			     (int)jobs->order,
			     (int)p->sync,
			     p->accumulate,
			     p->numerics.shard_optimizer};

	return digest(sizes, sizeof(sizes)) + digest(jobs->compute, n * sizeof(*jobs->compute)) +
	       digest(jobs->weights, n * sizeof(*jobs->weights)) +
	       digest(jobs->by_worker, n * sizeof(*jobs->by_worker)) +
	       digest(jobs->recompute, (size_t)p->n_stages * sizeof(*jobs->recompute));
}

static double digest_options(const struct orr_run_options *o)
{
	double numbers[] = {o->batch,
			    (double)o->optimizer,
			    o->learning_rate,
			    o->momentum,
			    o->beta1,
			    o->beta2,
			    o->epsilon,
			    o->weight_decay,
			    o->precision,
			    (double)o->warmup,
			    (double)o->decay_steps,
			    o->decay,
			    o->final_rate,
			    o->clip,
			    o->spare,
			    o->prefetch,
			    (double)o->seed,
			    o->on_nan};
	const char *workers = o->ranks_workers ? o->ranks_workers : "";

	return digest(numbers, sizeof(numbers)) + digest(workers, strlen(workers));
}

/* Every rank unrolls the jobs by itself. Refuses, on every rank alike, what is not the same on all
 * of them: another file on another host, or a plug-in whose functions are not pure. Before anything
 * waits for what never comes. */
static int check_alike(const struct orr_jobs *jobs, const struct orr_dataset *data,
		       const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;
	double mine[N], sums[N];
	char graph[24] = "";
	int code;

	orr_graph_fingerprint(p->graph, graph);
	mine[MODEL] = digest(graph, sizeof(graph)) +
		      digest(p->stage_of, (size_t)p->graph->n_operators * sizeof(*p->stage_of));
	mine[DATA] = digest(&data->checksum, sizeof(data->checksum));
	mine[SCHEDULE] = digest_schedule(jobs);
	mine[OPTIONS] = digest_options(options);
	memcpy(sums, mine, sizeof(sums));
	if ((code = orr_ranks_sum(sums, N, err)))
		return code;
	for (int k = 0; k < N && !code; k++)
		if (sums[k] != orr_ranks_count() * mine[k])
			code = orr_fail(err, ORR_E_INPUT, "the ranks do not have the same %s",
					what[k]);
	return orr_ranks_agree(code, err);
}

static int check_all(const struct orr_jobs *jobs, const struct orr_dataset *data,
		     const struct orr_run_options *options, struct orr_error *err)
{
	int code = orr_ranks_start(NULL, err);

	/* only the ranks that have the data see what is wrong with it */
	if (code || (code = orr_ranks_agree(check_options(jobs, data, options, err), err)) ||
	    (code = orr_ranks_agree(orr_calibrate_check(err), err)))
		return code;
	return check_alike(jobs, data, options, err);
}

/* Handles and tasks, once StarPU runs. */
static int lay_out(struct orr_run *run, const struct orr_run_hooks *hooks, struct orr_error *err)
{
	const struct orr_run_options *options = &run->options;
	struct orr_policy *policy = run->session.policy;
	bool pinned = hooks->policy && !strcmp(hooks->policy, "pinned");

	run->submitter = (struct orr_submitter){
		.common = &run->session.common,
		.policy = policy,
		.fault = run->work.fault,
		.flushes = !run->work.jobs->async,
		.orders = run->work.jobs->order == ORR_ORDER_STRICT && (!hooks->policy || pinned),
		.pinned = pinned,
	};
	run->slots = (struct orr_slots){
		.data = &run->data,
		.submitter = &run->submitter,
		.watch = &run->watch,
		.dataset = run->dataset,
		.rule = orr_run_rule(options),
		.seed = options->seed,
		.timeout_s = options->timeout_s,
		.skips = options->on_nan == ORR_ON_NAN_SKIP,
	};
	orr_data_init(&run->data, &run->work, policy, options);
	orr_scoring_init(&run->scoring, &run->work);
	orr_slots_init(&run->slots);
	orr_version_buffers_init(&run->versions, &run->slots);
	orr_cross_init(&run->cross, &run->data, options->prefetch);
	orr_sum_init(&run->sum, &run->slots, &run->cross, hooks->policy ? NULL : policy,
		     options->clip > 0, hooks->reduce_alone);
	orr_clip_init(&run->clip, &run->data, options->clip,
		      !options->spare || !(options->weight_decay > 0));
	orr_prefetch_init(&run->prefetch, &run->data, policy, options->prefetch);
	orr_gather_init(&run->gather, &run->slots);
	run->sum.reduce.holds = options->memory_bytes > 0 || (!orr_work_fails(&run->work) &&
							      orr_prefetch_copies(&run->prefetch));
	return orr_fault_tell(run->work.fault, err);
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
		return orr_no_memory(err, "run");
	run->dataset = data;
	run->options = *options;
	run->copying = hooks->copying;
	orr_watch_init(&run->watch);
	if ((code = orr_session_take(&run->session, err)) ||
	    (code = orr_work_init(&run->work, jobs, options->batch, orr_ranks_rank(),
				  orr_ranks_count(), options->ranks_workers, err)) ||
	    (code = orr_fits_check(&run->work, err)) ||
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
	orr_saving_join(run); /* it waits for no job */
	/* A job that never ends still uses all of this, and StarPU would wait for it: leave both to
	 * the end of the process. */
	if (run->trained.failed && !run->trained.drained) {
		left_behind = run;
		return;
	}
	orr_saving_destroy(run->saving);
	orr_hosts_fini(&run->hosts);
	orr_timeline_destroy(run->gather.timeline);
	orr_device_groups_fini(&run->slots);
	orr_slots_fini(&run->slots);
	orr_handles_fini(&run->data.handles);
	orr_session_stop(&run->session);
	orr_work_fini(&run->work);
	orr_watch_fini(&run->watch);
	free(run->submitter.buffers);
	free(run);
}
