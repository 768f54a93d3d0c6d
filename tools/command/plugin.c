#include "plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "orrery/open.h"
#include "orrery/pipeline.h"
#include "orrery/run.h"
#include "orrery/schedule.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "open/plugin.h"

#define N_TICKS 20 /* of a wait, in --timeout */

/* What a child says, in memory that both have. */
struct trial {
	_Atomic(const char *) at; /* what runs, "in compute()" */
	atomic_llong n_calls;
	bool done;
	int code;
	struct orr_error err;
};

static struct {
	char path[400];
	double timeout_s;
	struct orr_schedule own; /* as the plug-in has it */
	struct trial *trial;
	void *held; /* its module, to the end of the process; NULL: none */
} plugin;

/* ---- in the child ---- */

typedef int action(const void *on, const void *data, struct orr_error *err);

static void step(const char *at)
{
	atomic_store(&plugin.trial->at, at);
	atomic_fetch_add(&plugin.trial->n_calls, 1);
}

/* What it refuses, or cannot read, is said where the command does the same. */
static int load(const void *open, const void *data, struct orr_error *err)
{
	struct orr_opened x = {0};

	(void)data;
	step("while it was loaded");
	(void)orr_open_schedule(&x, open, err);
	step("while it was unloaded");
	orr_opened_fini(&x);
	return 0;
}

#define CALL(function, ...) \
	(step("in " #function "()"), plugin.own.function ? plugin.own.function(__VA_ARGS__) : 0)

/* Every function for every job, as the library calls them. Without a flush it looks at the next
 * round, too. */
static int evaluate(const void *pipeline, const void *data, struct orr_error *err)
{
	const struct orr_pipeline *p = pipeline;
	const bool split = plugin.own.split_backward;
	const int n_passes = split ? 3 : 2, m = p->n_microbatches;
	size_t n_jobs = (size_t)p->n_stages * (size_t)m * (size_t)n_passes;
	struct orr_placed step_of = {.worker = calloc(n_jobs, sizeof(int)),
				     .n = calloc(n_jobs, sizeof(int64_t))};
	int code = CALL(check, p, data, err);

	if (code || !step_of.worker || !step_of.n)
		return code ? code : orr_fail(err, ORR_E_NOMEM, "no memory for %zu jobs", n_jobs);
	for (int i = 0; i < p->n_stages * m * (plugin.own.asynchronous ? 2 : 1) * n_passes; i++) {
		enum orr_pass d = (enum orr_pass)(i % n_passes);
		int s = i / n_passes % p->n_stages, b = i / n_passes / p->n_stages;

		if (!orr_pipeline_has_pass(p, s, d, split))
			continue;
		int w = CALL(compute, p, s, b, d, data);
		int64_t n = CALL(priority, p, s, b, d, data);

		if (b < m) {
			step_of.worker[i] = plugin.own.compute ? w : -1;
			step_of.n[i] = n;
			(void)CALL(weights, p, s, b, d, data);
		}
	}
	for (int s = 0; s < p->n_stages; s++) {
		(void)CALL(in_flight, p, s, data);
		(void)CALL(recompute, p, s, data);
	}
	return CALL(place, p, data, &step_of, err);
}

/* exit() and quick_exit(): nothing of the command's is run there. */
static void ended(void)
{
	_exit(1);
}

static _Noreturn void child(action *act, const void *on, const void *data)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < NSIG; i++) /* what the command, or MPI, does about them */
		(void)signal(i, i == SIGINT ? SIG_IGN : SIG_DFL);
	atexit(ended);
	at_quick_exit(ended);
	plugin.trial->code = act(on, data, &plugin.trial->err);
	plugin.trial->done = true;
	_exit(0);
}

/* ---- in the command ---- */

/* A schedule that cannot be evaluated is wrong input. */
static _Noreturn void refuse(const char *what, const char *cure)
{
	char message[700];

	(void)snprintf(message, sizeof(message), "the plug-in %s %s %s: %s", plugin.path, what,
		       plugin.trial->at, cure);
	if (orr_ranks_count() > 1) /* rank 0 says it, and all end */
		orr_ranks_fail(2, message);
	command_say(message);
	_exit(2);
}

/* In ticks that were seen here: where the process was stopped for a while, none went by. */
static int wait_for(pid_t pid)
{
	struct pollfd end = {(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
	long long seen = -1;
	int status = 0, n_ticks = 0;
	char what[60];

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (poll(&end, 1, (int)(plugin.timeout_s * 1000 / N_TICKS) + 1))
			continue;
		if (atomic_load(&plugin.trial->n_calls) != seen) {
			seen = atomic_load(&plugin.trial->n_calls);
			n_ticks = 0;
		} else if (++n_ticks == N_TICKS) {
			kill(pid, SIGKILL);
			(void)snprintf(what, sizeof(what), "has not answered for %g s",
				       plugin.timeout_s);
			refuse(what, "correct it, or raise --timeout");
		}
	}
	if (end.fd >= 0)
		close(end.fd);
	return status;
}

/* What act does in a child. Returns where the plug-in did. */
static int attempt(action *act, const void *on, const void *data, struct orr_error *err)
{
	struct trial *t = plugin.trial;
	int status;
	pid_t pid;

	memset(t, 0, sizeof(*t));
	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		return orr_fail(err, ORR_E_RUNTIME, "%s: no process to try it in", plugin.path);
	if (!pid)
		child(act, on, data);
	status = wait_for(pid);
	if (WIFSIGNALED(status))
		refuse("crashed", "gdb --args, with set follow-fork-mode child, shows where");
	if (!t->done)
		refuse("ended the process", "a schedule returns, and refuses with check()");
	*err = t->err;
	err->msg[sizeof(err->msg) - 1] = '\0'; /* it may have been written by hand */
	return t->code;
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	return attempt(evaluate, p, data, err);
}

int plugin_try(const struct orr_open_options *open, double timeout_s, struct orr_error *err)
{
	const char *text = open->schedule, *before = orr_text("%s", plugin.path);

	if (!text || !orr_plugin_is(text))
		return 0;
	orr_utf8_print(plugin.path, sizeof(plugin.path),
		       orr_text("%.*s", (int)strcspn(text, ":"), text));
	if (*before && strcmp(before, plugin.path))
		return orr_fail(
			err, ORR_E_INPUT,
			"%.160s: one plug-in at a time, and %.160s is loaded: compare them in "
			"two commands",
			plugin.path, before);
	plugin.timeout_s = timeout_s;
	plugin.trial = mmap(NULL, sizeof(*plugin.trial), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (plugin.trial == MAP_FAILED)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to try it in", plugin.path);
	return attempt(load, open, NULL, err);
}

void plugin_loaded(struct orr_choice *choice)
{
	struct link_map *file;

	if (!choice->module)
		return;
	plugin.own = choice->schedule;
	choice->schedule.check = check;
	if (!dlinfo(choice->module, RTLD_DI_LINKMAP, &file))
		plugin.held = dlopen(file->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

void plugin_end(int status)
{
	if (!plugin.held)
		return;
	(void)fflush(NULL);
	quick_exit(status);
}
