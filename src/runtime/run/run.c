#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "codelets/kernels.h"
#include "codelets/room.h"
#include "alike.h"
#include "runtime/devices/compile.h"
#include "options.h"
#include "runtime/devices/resident.h"

/* StarPU can be started once at a time in a process. */
static atomic_bool starpu_taken;
/* A run whose jobs did not end; StarPU keeps it, and no other can start. */
static struct orr_run *left_behind;

const char *orr_run_version(void)
{
	static char version[80];
	const char *what = "CPU worker";
	int major, minor, release, n = orr_hardware_cores();

	starpu_get_version(&major, &minor, &release);
	if (starpu_is_initialized() && starpu_cuda_worker_get_count()) {
		n = (int)starpu_cuda_worker_get_count();
		what = "CUDA worker";
	}
	snprintf(version, sizeof(version), "StarPU %d.%d.%d, %d %s%s", major, minor, release, n,
		 what, n == 1 ? "" : "s");
	return version;
}

/* ---- start ---- */

static int check_options(const struct orr_jobs *jobs, const struct orr_dataset *data,
			 const struct orr_run_options *options, struct orr_error *err)
{
	const struct orr_pipeline *p = jobs->pipeline;

	if (!p->graph)
		return orr_fail(err, ORR_E_INPUT,
				"run: these stages have costs and nothing to compute; "
				"train a graph whose operators all have an op");
	if (options->batch < p->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"run: a batch of %d cannot be cut into %d microbatches; "
				"take a batch of %d at least, or fewer microbatches",
				options->batch, p->n_microbatches, p->n_microbatches);
	if (jobs->stream && options->on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(err, ORR_E_INPUT,
				"run: schedule %s never flushes, so no step can be left out",
				jobs->schedule);
	if (!(options->timeout_s > 0))
		return orr_fail(err, ORR_E_INPUT, "run: a timeout of %g s; it must be above 0",
				options->timeout_s);
	return orr_program_check_data(p->graph, data, err);
}

static int create_programs(struct orr_run *run, struct orr_error *err)
{
	int code = orr_stream_plan(run, err);

	if (code)
		return code;
	run->programs = calloc((size_t)run->pipeline->n_stages, sizeof(struct orr_program *));
	run->sequence = calloc((size_t)run->jobs->n_jobs, sizeof(*run->sequence));
	run->rows = calloc((size_t)run->options.batch, sizeof(*run->rows));
	run->slots = calloc((size_t)run->window, sizeof(*run->slots));
	if (!run->programs || !run->sequence || !run->rows || !run->slots)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d jobs", run->jobs->n_jobs);
	for (int s = 0; s < run->pipeline->n_stages && !code; s++)
		code = orr_program_create(&run->programs[s], run->pipeline, s, err);
	if (code || (code = orr_jobs_sequence(run->jobs, run->sequence, err)))
		return code;
	return orr_cross_init(run, err);
}

/* Who has which worker. */
static int find_place(struct orr_run *run, struct orr_error *err)
{
	int n_workers = run->pipeline->n_workers, code = orr_ranks_start(NULL, err);

	if (code)
		return code;
	run->rank = orr_ranks_rank();
	run->n_ranks = orr_ranks_count();
	if (!(run->rank_of = calloc((size_t)n_workers, sizeof(*run->rank_of))))
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
	return orr_ranks_of_workers(run->rank_of, n_workers, run->n_ranks,
				    run->options.ranks_workers, err);
}

/* Weights first: what the worker's next jobs in the same step take from elsewhere starts to move
 * while this one runs. Not what this step's update has not reached: it would move in vain. */
static void fetch_ahead(void *user, const struct orr_queued *queued)
{
	struct orr_run *run = user;
	const struct orr_jobs *jobs = run->jobs;
	int w = queued->w, n = jobs->first[w + 1] - jobs->first[w];
	int64_t step = queued->turn / n, rank = queued->turn % n;
	unsigned node = starpu_worker_get_memory_node((unsigned)orr_policy_worker(run->policy, w));

	for (int64_t i = rank + 1; i <= rank + run->options.prefetch && i < n; i++) {
		int j = jobs->by_worker[jobs->first[w] + i];
		struct orr_owned *o = &run->data.owned[run->data.owned_of[j]];

		if (o->parameters && !run->data.fetched[j] && o->node != node &&
		    atomic_load(&o->version) == step) {
			starpu_data_prefetch_on_node(o->parameters, node, 1);
			atomic_fetch_add(&run->n_fetched, 1);
		}
	}
}

/* StarPU's idle workers spin; where they are more than the cores, that starves the others. */
static unsigned give_way(void *user)
{
	(void)user;
	sched_yield();
	return 1; /* it may also block */
}

static int start_starpu(struct orr_run *run, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->jobs;
	int n_workers = run->pipeline->n_workers, code;
	int64_t *most_ready = calloc((size_t)n_workers, sizeof(*most_ready));
	const char *other = run->hooks.policy;
	struct starpu_conf conf;

	if (!most_ready)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory for %d workers", n_workers);
	for (int w = 0; w < n_workers; w++)
		if (orr_run_has(run, w))
			most_ready[w] =
				(int64_t)run->window * (jobs->first[w + 1] - jobs->first[w]);
	code = orr_policy_create(&run->policy, n_workers, jobs->order, most_ready, err);
	free(most_ready);
	if (code)
		return code;
	unsetenv("STARPU_SCHED"); /* starpu_conf_init would take it for ours */
	starpu_conf_init(&conf);
	conf.sched_policy = orr_policy_starpu();
	conf.sched_policy_name = NULL;
	if ((code = orr_hardware_choose(run, &conf, err)))
		return code;
	conf.catch_signals = 0;
	setenv("STARPU_SILENT", "1", 0);
	run->pinned = other && !strcmp(other, "pinned");
	if (other && !run->pinned) {
		conf.sched_policy = NULL;
		conf.sched_policy_name = other;
	}
	orr_ranks_delay_data(run->hooks.link_delay_us);
	if ((code = orr_ranks_init_starpu(&conf)))
		return orr_fail(err, ORR_E_RUNTIME, "StarPU does not start: %s", strerror(-code));
	run->starpu_runs = true;
	if (conf.sched_policy_name)
		orr_policy_stand_by(run->policy);
	else if (!orr_policy_started(run->policy))
		return orr_fail(err, ORR_E_RUNTIME,
				"StarPU has not taken the scheduling policy; is a variable "
				"STARPU_NCPU in the environment?");
	starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
	run->hook = starpu_idle_hook_register(give_way, NULL);
	if (run->options.prefetch > 0 && jobs->order == ORR_ORDER_STRICT && !run->stream &&
	    starpu_memory_nodes_get_count() > 1)
		orr_policy_on_start(run->policy, fetch_ahead, run);
	orr_gemm_init();
	return 0;
}

static int64_t larger(int64_t x, int64_t y)
{
	return x > y ? x : y;
}

/* Every StarPU worker's own device and memory. */
static int create_rooms(struct orr_run *run, struct orr_error *err)
{
	struct orr_room_sizes sizes = {
		.precision = run->options.precision,
		.programs = (const struct orr_program *const *)run->programs,
		.n_programs = run->pipeline->n_stages,
		.most_samples = orr_run_samples(run, 0),
	};
	int most = orr_run_samples(run, 0), *n = &sizes.n_pointers;
	char why[200];

	for (int s = 0; s < run->pipeline->n_stages; s++) {
		const struct orr_stage *stage = &run->pipeline->stages[s];
		int n_owners = run->jobs->first_owner[s + 1] - run->jobs->first_owner[s];
		const struct orr_program *program = run->programs[s];

		sizes.scratch = larger(sizes.scratch, orr_program_scratch_floats(program, most));
		if (run->jobs->recompute[s]) {
			sizes.stash =
				larger(sizes.stash, orr_program_stash_floats(program, most, false));
			sizes.again = larger(sizes.again, orr_program_again_floats(program, most));
		}
		*n = stage->n_in > *n ? stage->n_in : *n;
		*n = stage->n_out > *n ? stage->n_out : *n;
		*n = n_owners > *n ? n_owners : *n;
	}
	for (unsigned i = 0; i < starpu_worker_get_count(); i++)
		if (orr_room_init(&run->common.room[i], i, &sizes, why, sizeof(why)))
			return orr_fail(err, ORR_E_RUNTIME, "run: worker %u: %s", i, why);
	for (int i = 0; i < run->n_sequence; i++) {
		int j = run->sequence[i];

		if (orr_run_computes(run, j) && !run->hooks.policy &&
		    orr_room_keep(&run->common.room[orr_policy_worker(run->policy,
								      run->jobs->compute[j])],
				  run->programs[orr_jobs_at(run->jobs, j).s]))
			return orr_fail(err, ORR_E_NOMEM, "run: no memory for rounded weights");
	}
	return 0;
}

/* StarPU keeps what it measures of a host in the user's home, and aborts where it cannot. */
static int check_home(struct orr_error *err)
{
	static const char *const names[] = {"XDG_CACHE_HOME", "STARPU_HOME", "HOME"};
	const char *home = NULL, *name = NULL;
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !home; i++)
		home = getenv(name = names[i]);
	if (getenv("STARPU_PERF_MODEL_DIR") || !home)
		return 0;
	snprintf(path, sizeof(path), "%s/.starpu", home);
	(void)mkdir(home, 0777);
	if (!mkdir(path, 0777) || (errno == EEXIST && !access(path, W_OK)))
		return 0;
	return orr_fail(
		err, ORR_E_INPUT,
		"%s: StarPU keeps its measurements there, and cannot: %s; set %s to a folder "
		"that can be written",
		path, strerror(errno), name == names[0] ? names[0] : names[1]);
}

static int init_waiting(struct orr_run *run, struct orr_error *err)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&run->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&run->mutex, NULL);
	run->waits = true;
	if (atomic_exchange(&starpu_taken, true) || left_behind)
		return orr_fail(err, ORR_E_RUNTIME,
				"run: this process has a run already; destroy it first (one "
				"that hung stays until the process ends)");
	run->took_starpu = true;
	return 0;
}

int orr_run_create_hooked(struct orr_run **out, const struct orr_jobs *jobs,
			  const struct orr_dataset *data, const struct orr_run_options *options,
			  const struct orr_run_hooks *hooks, struct orr_error *err)
{
	struct orr_run *run;
	int code = orr_ranks_start(NULL, err);

	/* what is wrong with the data, only those that have it see */
	if (code || (code = orr_ranks_agree(check_options(jobs, data, options, err), err)) ||
	    (code = orr_ranks_agree(check_home(err), err)) ||
	    (code = orr_run_check_alike(jobs, data, options, err)))
		return code;
	run = calloc(1, sizeof(*run));
	if (!run)
		return orr_fail(err, ORR_E_NOMEM, "run: no memory");
	run->jobs = jobs;
	run->pipeline = jobs->pipeline;
	run->dataset = data;
	run->options = *options;
	run->hooks = *hooks;
	run->hook = -1;
	run->common.rule = orr_run_rule(options);
	run->common.delay_us = hooks->delay_us;
	run->common.delay_seed = hooks->delay_seed;
	if ((code = init_waiting(run, err)) || (code = find_place(run, err)) ||
	    (code = create_programs(run, err)) || (code = start_starpu(run, err)) ||
	    (code = create_rooms(run, err)))
		goto out;
	malloc_trim(0); /* what is free is none of what is there already */
	run->resident_before = run->resident_peak = orr_resident_bytes();
	if ((code = orr_data_init(run, err)) || (code = orr_stream_init(run, err)) ||
	    (code = orr_slots_init(run, err)) || (code = orr_gather_init(run, err)))
		goto out;
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
	if (run->failed && !run->drained) {
		left_behind = run;
		return;
	}
	if (run->starpu_runs) {
		orr_slots_fini(run);
		orr_stream_fini(run);
		orr_data_fini(run);
		for (unsigned i = 0; i < starpu_worker_get_count(); i++)
			orr_room_fini(&run->common.room[i], i);
		if (run->hook >= 0)
			starpu_idle_hook_deregister(run->hook);
		orr_ranks_shutdown_starpu();
	}
	orr_policy_destroy(run->policy);
	for (int s = 0; run->programs && s < run->pipeline->n_stages; s++)
		orr_program_destroy(run->programs[s]);
	free(run->programs);
	free(run->rank_of);
	free(run->n_readers);
	free(run->arriving.of);
	free(run->leaving.of);
	free(run->report_bytes);
	free(run->report);
	free(run->sequence);
	free(run->rows);
	free(run->slots);
	free(run->turn);
	free(run->versions);
	free(run->first_update);
	if (run->waits) {
		pthread_mutex_destroy(&run->mutex);
		pthread_cond_destroy(&run->changed);
	}
	if (run->took_starpu)
		atomic_store(&starpu_taken, false);
	free(run);
}

/* ---- training ---- */

/* Times from the first start of the step on. */
static void settle_timeline(struct orr_timeline *t)
{
	int64_t first = INT64_MAX;

	for (int j = 0; j < t->jobs->n_jobs; j++)
		first = t->start_ns[j] < first ? t->start_ns[j] : first;
	for (int j = 0; j < t->jobs->n_jobs; j++) {
		t->start_ns[j] -= first;
		t->end_ns[j] -= first;
	}
	for (int u = 0; u < t->n_updates; u++) {
		t->updates[u].start_ns -= first;
		t->updates[u].end_ns -= first;
	}
}

int orr_run_end_slot(struct orr_run *run, struct orr_slot *slot, bool whole, struct orr_error *err)
{
	struct orr_timeline *timeline = slot->timeline;
	int code = orr_watch_wait(run, slot, 0, err);
	const char *failure = atomic_load(&run->common.failure);

	if (!code && failure)
		code = orr_fail(err, ORR_E_RUNTIME, "run: %s", failure);
	if (code || (code = orr_gather_step(run, slot, err)))
		return code;
	run->n_finished++;
	if (!whole || slot->skipped)
		return 0;
	if (!run->rank)
		settle_timeline(timeline);
	slot->timeline = run->timeline;
	run->timeline = timeline;
	run->has_timeline = true;
	return 0;
}

/* Wait for the oldest step in flight and take its results. */
static int finish_step(struct orr_run *run, struct orr_step *step, struct orr_error *err)
{
	struct orr_slot *slot = &run->slots[run->n_finished % run->window];
	int n = run->pipeline->n_stages * run->pipeline->n_microbatches;
	struct orr_metrics sum = {0};
	int code = orr_run_end_slot(run, slot, true, err);

	if (code)
		return code;
	for (int i = 0; i < n; i++) {
		sum.loss += slot->metrics[i].loss;
		sum.correct += slot->metrics[i].correct;
		sum.classified += slot->metrics[i].classified;
	}
	run->n_steps++;
	run->n_skipped_last = slot->skipped ? run->n_skipped_last + 1 : 0;
	*step = (struct orr_step){
		.step = slot->step,
		.samples = (slot->step + 1) * run->options.batch,
		.loss = run->rank ? NAN : sum.loss / run->options.batch,
		.accuracy = sum.classified && !run->rank
				    ? (double)sum.correct / (double)sum.classified
				    : NAN,
		.skipped = slot->skipped,
		.seconds = (double)(slot->end_ns - run->last_end_ns) * 1e-9,
	};
	run->last_end_ns = slot->end_ns;
	return 0;
}

static int train_steps(struct orr_run *run, int64_t n,
		       void (*visit)(void *user, const struct orr_step *step), void *user,
		       struct orr_error *err)
{
	int64_t end = run->n_finished + n;
	int code = 0;

	while (!code && run->n_finished < end) {
		struct orr_slot *slot = &run->slots[run->n_finished % run->window];
		struct orr_step step;

		if (run->n_submitted < end && run->n_submitted < run->n_finished + run->window) {
			code = orr_submit_step(run, &run->slots[run->n_submitted % run->window],
					       err);
			continue;
		}
		if ((code = finish_step(run, &step, err)))
			return code;
		if (visit)
			visit(user, &step);
		code = orr_finite_check(run, slot, step.step, err);
		if (run->ends)
			end = run->n_submitted;
	}
	return code;
}

int orr_run_train(struct orr_run *run, int64_t n,
		  void (*visit)(void *user, const struct orr_step *step), void *user,
		  struct orr_error *err)
{
	int code;

	if (run->failed)
		return orr_fail(err, run->failed, "run: it has failed before and cannot go on");
	run->last_end_ns = orr_now_ns();
	orr_hardware_count(run, false);
	orr_resident_reset();
	code = run->stream ? orr_stream_train(run, n, visit, user, err)
			   : train_steps(run, n, visit, user, err);
	orr_hardware_count(run, true);
	run->resident_peak = larger(run->resident_peak, orr_resident_peak());
	if (code) {
		run->failed = code;
		orr_watch_drain(run);
	}
	return code;
}

void orr_run_stop(struct orr_run *run)
{
	atomic_store(&run->stop, true);
}

bool orr_run_stopped(const struct orr_run *run)
{
	return run->ends;
}

int64_t orr_run_skipped(const struct orr_run *run)
{
	return run->n_skipped;
}

int orr_run_skipped_last(const struct orr_run *run)
{
	return run->n_skipped_last;
}

const struct orr_timeline *orr_run_timeline(const struct orr_run *run)
{
	return run->has_timeline ? run->timeline : NULL;
}

int64_t orr_run_peak_bytes(const struct orr_run *run)
{
	return run->resident_before < 0 ? -1 : run->resident_peak - run->resident_before;
}

void orr_run_traffic(struct orr_run *run, struct orr_traffic *traffic)
{
	(void)run;
	orr_ranks_count_data(traffic);
}
