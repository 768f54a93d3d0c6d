#include "start.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/max.h"
#include "base/spin.h"
#include "codelets/workspace.h"
#include "orrery/run.h"
#include "runtime/devices/calibrate.h"
#include "runtime/devices/hardware.h"
#include "runtime/peers/messages.h"
#include "runtime/tasks/fits_host.h"
#include "runtime/tasks/simulated.h"

static atomic_bool starpu_taken;

int orr_session_take(struct orr_session *session, struct orr_error *err)
{
	if (atomic_exchange(&starpu_taken, true))
		return orr_fail(err, ORR_E_RUNTIME,
				"run: this process has a run already; destroy it first (one that "
				"hung stays until the process ends)");
	session->taken = true;
	session->idle_hook = -1;
	return 0;
}

/* StarPU's idle workers spin; where they are more than the cores, that starves the others. */
static unsigned give_way(void *user)
{
	(void)user;
	orr_spin_wait();
	return 1; /* it may also block */
}

/* Do replicas add up gradients? With one owner a stage there is nothing to. */
static bool adds_up(const struct orr_work *work)
{
	for (int s = 0; s < work->pipeline->n_stages; s++)
		if (orr_work_replicas(work, s) > 1 && orr_work_n_trained(work, s))
			return true;
	return false;
}

/* Threads that start here get no signals but those of their own faults: during some products of
 * oneDNN the stack's pointer is in the heap, where a handler's frame would overwrite data. The
 * kernel prefers the first thread, unless it is stopped. */
static int init_without_signals(struct starpu_conf *conf, const struct orr_run_hooks *hooks)
{
	static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t others, before;
	int code;

	sigfillset(&others);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		sigdelset(&others, faults[i]);
	pthread_sigmask(SIG_BLOCK, &others, &before);
	code = orr_ranks_init_starpu(conf, hooks->received);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return code;
}

static int start_starpu(struct orr_session *session, const struct orr_work *work,
			const struct orr_run_options *options, const struct orr_run_hooks *hooks,
			struct orr_error *err)
{
	const char *other = hooks->policy;
	struct starpu_conf conf;
	bool reserves = !other && (adds_up(work) || hooks->reduce_alone);
	int n_own = 0, code;

	for (int w = 0; w < work->pipeline->n_workers; w++)
		n_own += orr_work_has(work, w);
	unsetenv("STARPU_SCHED"); /* starpu_conf_init would take it for ours */
	starpu_conf_init(&conf);
	conf.sched_policy = orr_policy_starpu();
	conf.sched_policy_name = NULL;
	if ((code = orr_hardware_choose(options->hardware, options->streams, options->memory_bytes,
					n_own, &reserves, hooks->reduce_alone, &conf, err)))
		return code;
	if (!conf.ncuda && (code = orr_fits_host(work, orr_optimizer_floats(options->optimizer),
						 orr_host_bytes(), err)))
		return code;
	if (reserves)
		orr_policy_reserve(session->policy);
	conf.catch_signals = 0;
	setenv("STARPU_SILENT", "1", 0);
	if (other && strcmp(other, "pinned")) {
		conf.sched_policy = NULL;
		conf.sched_policy_name = other;
	}
	/* SimGrid's StarPU measures nothing, and starts once */
	code = ORR_IS_SIMULATED ? 0 : orr_calibrate_first(&conf, err);
	if (code || orr_ranks_count() > 1) /* these start together: none may wait for another */
		orr_calibrate_end();
	if ((code = orr_ranks_agree(code, err))) {
		orr_hardware_started();
		return code;
	}
	orr_calibrate_others();
	code = init_without_signals(&conf, hooks);
	orr_calibrate_end();
	orr_hardware_started();
	if (code)
		return orr_fail(err, ORR_E_RUNTIME, "StarPU does not start: %s", strerror(-code));
	session->runs = true;
	if (conf.sched_policy_name)
		orr_policy_stand_by(session->policy);
	else if (!orr_policy_started(session->policy))
		return orr_fail(err, ORR_E_RUNTIME,
				"StarPU has not taken the scheduling policy; is a variable "
				"STARPU_NCPU in the environment?");
	starpu_profiling_status_set(STARPU_PROFILING_ENABLE);
	session->idle_hook = starpu_idle_hook_register(give_way, NULL);
	return 0;
}

static struct orr_workspace_sizes find_sizes(const struct orr_work *work,
					     enum orr_precision precision)
{
	struct orr_workspace_sizes sizes = {
		.precision = precision,
		.programs = (const struct orr_program *const *)work->programs,
		.n_programs = work->pipeline->n_stages,
		.most_samples = orr_work_samples(work, 0),
		.n_minibatch = work->batch,
	};
	int64_t most = sizes.most_samples, n = 0;

	for (int s = 0; s < work->pipeline->n_stages; s++) {
		const struct orr_program *program = work->programs[s];

		sizes.scratch = larger(sizes.scratch, orr_program_scratch_floats(program, most));
		sizes.gathered = larger(sizes.gathered, work->batch * program->gathered_columns);
		if (work->jobs->recompute[s]) {
			sizes.stash =
				larger(sizes.stash, orr_program_stash_floats(program, most, false));
			sizes.again = larger(sizes.again, orr_program_again_floats(program, most));
		}
		n = larger(n,
			   larger(larger(program->n_in * orr_work_n_read(work, s), program->n_out),
				  orr_work_replicas(work, s)));
	}
	sizes.n_pointers = (int)n;
	return sizes;
}

/* Does job j read a copy of parameters that are in another memory, or on another rank? */
static bool reads_copy(const struct orr_policy *policy, const struct orr_work *work, int j)
{
	int owner = work->jobs->weights[j], w = work->jobs->compute[j];

	return !orr_work_has(work, owner) ||
	       orr_policy_node(policy, owner) != orr_policy_node(policy, w);
}

/* Rounded weights on StarPU's worker id: a place for each stage whose parameters are there, and of
 * others for the job that runs and the `prefetch` ones after it, as there are copies of them.
 * foreign: [n_stages] to work in. -1: no memory. */
static int keep_rounded(struct orr_session *session, const struct orr_work *work, int id,
			int prefetch, const struct orr_program **foreign)
{
	struct orr_workspace *own = &session->common.workspaces[id];
	int n = 0, code = 0;

	for (int i = 0; i < work->n_sequence && !code; i++) {
		int j = work->sequence[i], k = 0;
		const struct orr_program *program = work->programs[orr_jobs_at(work->jobs, j).s];

		if (!orr_work_computes(work, j) || !orr_work_reads(work, j) ||
		    orr_policy_worker(session->policy, work->jobs->compute[j]) != id)
			continue;
		if (!reads_copy(session->policy, work, j)) {
			code = orr_workspace_keep(own, program);
			continue;
		}
		while (k < n && foreign[k] != program)
			k++;
		foreign[k] = program;
		n = k == n ? n + 1 : n;
	}
	return code ? code : orr_workspace_share(own, foreign, n, prefetch + 1);
}

/* Every StarPU worker's own device and memory. */
static int create_workspaces(struct orr_session *session, const struct orr_work *work,
			     const struct orr_run_options *options, bool places,
			     struct orr_error *err)
{
	struct orr_workspace_sizes sizes = find_sizes(work, options->precision);
	struct orr_workspace_sizes none = {.precision = options->precision,
					   .n_pointers = sizes.n_pointers};
	struct orr_workspace *workspaces = session->common.workspaces;
	const struct orr_program **foreign;
	char why[200];
	int code = 0;

	if (ORR_IS_SIMULATED) /* nothing is computed */
		return 0;
	for (unsigned i = 0; i < starpu_worker_get_count(); i++) {
		bool reserved = orr_policy_is_reserved(session->policy, (int)i);

		if (orr_workspace_init(&workspaces[i], i, NULL, reserved ? &none : &sizes, why,
				       sizeof(why)))
			return orr_fail(err, ORR_E_RUNTIME, "run: worker %u: %s", i, why);
	}
	orr_arrays_make(work->arrays, foreign, work->pipeline->n_stages);
	if (!foreign)
		return orr_no_memory(err, "run");
	for (unsigned i = 0; i < starpu_worker_get_count() && places && !code; i++)
		code = keep_rounded(session, work, (int)i, options->prefetch, foreign);
	return code ? orr_no_memory(err, "run") : 0;
}

int orr_session_start(struct orr_session *session, const struct orr_work *work,
		      const struct orr_run_options *options, const struct orr_run_hooks *hooks,
		      struct orr_error *err)
{
	int code;

	session->common.seed = options->seed;
	session->common.lost = options->lost;
	session->common.delay_us = hooks->delay_us;
	session->common.delay_seed = hooks->delay_seed;
	if (!(session->policy = orr_policy_create(work)))
		return orr_no_memory(err, "run");
	if ((code = start_starpu(session, work, options, hooks, err)))
		return code;
	return create_workspaces(session, work, options, !hooks->policy, err);
}

void orr_session_stop(struct orr_session *session)
{
	if (session->runs) {
		for (unsigned i = 0; i < starpu_worker_get_count(); i++)
			orr_workspace_fini(&session->common.workspaces[i], i);
		if (session->idle_hook >= 0)
			starpu_idle_hook_deregister(session->idle_hook);
		orr_ranks_shutdown_starpu();
	}
	if (session->taken)
		atomic_store(&starpu_taken, false);
}
