#include "plugin.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "options.h"
#include "orrery/quantity.h"
#include "orrery/ranks.h"
#include "orrery/schedule.h"
#include "orrery/utf8.h"

#define N_TICKS 20 /* of a watch, in --timeout */

static struct {
	char path[400];
	double timeout_s;
	struct orr_schedule own;  /* with the functions that it has itself */
	_Atomic(const char *) at; /* the function that runs, "in compute()"; NULL: none */
	atomic_llong n_calls;
} plugin;

/* ---- the option ---- */

enum { KEY_TIMEOUT = 3072 };

static const struct argp_option options[] = {
	{"timeout", KEY_TIMEOUT, "SECONDS", 0,
	 "end with a line when a plug-in has not answered, or training has made no progress, for "
	 "so "
	 "long (60)",
	 1},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	double *timeout_s = state->input;

	if (key != KEY_TIMEOUT)
		return ARGP_ERR_UNKNOWN;
	*timeout_s = options_real("--timeout", arg, 0.01, 1e9);
	return 0;
}

const struct argp plugin_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

/* ---- plug-ins that end the process, crash or hang ---- */

static _Noreturn void leave(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/* A schedule that cannot be evaluated is wrong input. */
static _Noreturn void refuse(const char *message)
{
	if (orr_ranks_count() > 1) /* rank 0 says it, and all end */
		orr_ranks_fail(2, message);
	command_say(message);
	leave(2);
}

static _Noreturn void refuse_end(const char *at)
{
	char message[600];

	atomic_store(&plugin.at, NULL);
	snprintf(
		message, sizeof(message),
		"the plug-in %s ended the process %s: a schedule returns, and refuses with check()",
		plugin.path, at);
	refuse(message);
}

/* Plug-ins find this one before that of the C library. */
void _exit(int status)
{
	const char *at = atomic_load(&plugin.at);

	if (at)
		refuse_end(at);
	leave(status);
}

void _Exit(int status)
{
	_exit(status);
}

/* exit() and quick_exit(). After it come the plug-in's destructors, if it is still loaded. */
static void check_end(void)
{
	const char *at = atomic_load(&plugin.at);

	if (at)
		refuse_end(at);
	plugin_unload();
}

/* In ticks that this thread has seen: where the process was stopped for a while, none went by. */
static void *watch(void *unused)
{
	const double tick_s = plugin.timeout_s / N_TICKS;
	const struct timespec tick = {(time_t)tick_s,
				      (long)((tick_s - (double)(time_t)tick_s) * 1e9)};
	long long seen = -1;
	int n_ticks = 0;

	(void)unused;
	for (;;) {
		const char *at = atomic_load(&plugin.at);
		long long n = atomic_load(&plugin.n_calls);

		if (!at || n != seen) {
			seen = n;
			n_ticks = 0;
		} else if (n_ticks++ == N_TICKS) {
			char message[600];

			snprintf(
				message, sizeof(message),
				"the plug-in %s has not answered for %g s %s: correct it, or raise "
				"--timeout",
				plugin.path, plugin.timeout_s, at);
			refuse(message);
		}
		nanosleep(&tick, NULL);
	}
	return NULL;
}

/* The signal comes again when this returns, and ends the process as it would have. Where none of
 * the plug-in's functions runs, nothing says that the crash is its own: it may be StarPU's, or
 * MPI's. */
static void tell_crash(int signal)
{
	static char text[sizeof(plugin.path) + 200]; /* the stack may be used up */
	const char *at = atomic_load(&plugin.at);
	char *end = stpcpy(stpcpy(text, "orrery: crashed with the plug-in "), plugin.path);
	ssize_t n;

	if (at) {
		end = stpcpy(stpcpy(stpcpy(end, " "), at), ": gdb --args shows where\n");
		n = write(STDERR_FILENO, text, (size_t)(end - text));
		(void)n;
	}
	raise(signal);
}

/* Who else catches signals, as MPI and sanitizers do, says more. */
static void catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	static char stack[1 << 16];
	stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)}, before;
	struct sigaction old,
		mine = {.sa_handler = tell_crash, .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};

	if (!sigaltstack(NULL, &before) && before.ss_flags & SS_DISABLE)
		sigaltstack(&other, NULL);
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &mine, NULL);
}

void plugin_watch(const char *schedule, double timeout_s)
{
	size_t length = schedule ? strcspn(schedule, ":") : 0;
	char path[sizeof(plugin.path)];
	pthread_t thread;

	if (length < 3 || strncmp(schedule + length - 3, ".so", 3))
		return;
	snprintf(path, sizeof(path), "%.*s", (int)length, schedule);
	command_text(plugin.path, sizeof(plugin.path), path);
	plugin.timeout_s = timeout_s;
	atomic_store(&plugin.at, "while it was loaded");
	catch_crashes();
	atexit(check_end);
	at_quick_exit(check_end);
	if (!pthread_create(&thread, NULL, watch, NULL))
		pthread_detach(thread); /* it ends with the process */
}

/* ---- its functions, watched ---- */

static void begin(const char *at)
{
	atomic_fetch_add_explicit(&plugin.n_calls, 1, memory_order_relaxed);
	atomic_store_explicit(&plugin.at, at, memory_order_relaxed);
}

static void end(void)
{
	atomic_store_explicit(&plugin.at, NULL, memory_order_relaxed);
}

/* Its message goes to a terminal: '?' for each control character and each byte that is no UTF-8. */
static int refused(int code, struct orr_error *err)
{
	size_t length = strnlen(err->msg, sizeof(err->msg) - 1);

	err->msg[length] = '\0';
	for (size_t at = 0, n; code && at < length; at += n ? n : 1)
		if (!(n = orr_utf8_shown(&err->msg[at], length - at)))
			err->msg[at] = '?';
	return code;
}

static int check(const struct orr_pipeline *p, const void *data, struct orr_error *err)
{
	int code;

	begin("in check()");
	code = plugin.own.check(p, data, err);
	end();
	return refused(code, err);
}

static int compute(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int w;

	begin("in compute()");
	w = plugin.own.compute(p, s, b, d, data);
	end();
	return w;
}

static int weights(const struct orr_pipeline *p, int s, int b, enum orr_pass d, const void *data)
{
	int w;

	begin("in weights()");
	w = plugin.own.weights(p, s, b, d, data);
	end();
	return w;
}

static int64_t priority(const struct orr_pipeline *p, int s, int b, enum orr_pass d,
			const void *data)
{
	int64_t n;

	begin("in priority()");
	n = plugin.own.priority(p, s, b, d, data);
	end();
	return n;
}

static int place(const struct orr_pipeline *p, const void *data, struct orr_placed *out,
		 struct orr_error *err)
{
	int code;

	begin("in place()");
	code = plugin.own.place(p, data, out, err);
	end();
	return refused(code, err);
}

static int in_flight(const struct orr_pipeline *p, int s, const void *data)
{
	int cap;

	begin("in in_flight()");
	cap = plugin.own.in_flight(p, s, data);
	end();
	return cap;
}

static bool recompute(const struct orr_pipeline *p, int s, const void *data)
{
	bool again;

	begin("in recompute()");
	again = plugin.own.recompute(p, s, data);
	end();
	return again;
}

void plugin_unload(void)
{
	fflush(stdout); /* what the command has found is whole */
	begin("while it was unloaded");
}

void plugin_loaded(struct orr_schedule *schedule)
{
	end();
	if (!schedule || !*plugin.path)
		return;
	plugin.own = *schedule;
	schedule->check = schedule->check ? check : NULL;
	schedule->compute = schedule->compute ? compute : NULL;
	schedule->weights = schedule->weights ? weights : NULL;
	schedule->priority = schedule->priority ? priority : NULL;
	schedule->place = schedule->place ? place : NULL;
	schedule->in_flight = schedule->in_flight ? in_flight : NULL;
	schedule->recompute = schedule->recompute ? recompute : NULL;
}
