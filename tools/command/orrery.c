/* orrery: the command line. Reads the verb and hands over; nothing else. */
#include <argp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "orrery/orrery.h"
#include "progress.h"
#include "output_file.h"
#include "plugin.h"
#ifdef ORR_TRAIN_PROGRAM
#include <errno.h>
#include <limits.h>
#include <unistd.h>
#endif

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
	bool on_every_rank; /* under mpirun; of the others rank 0 alone is enough */
} commands[] = {
	{"show", cmd_show, "operators, stages, parameters, FLOP, encoders of a model", false},
	{"schedules", cmd_schedules, "what there is, with its parameters", false},
	{"simulate", cmd_simulate, "a schedule's timeline and figures, without running it", false},
	{"compare", cmd_compare, "every schedule that fits, side by side", false},
	{"profile", cmd_profile, "measure every operator on this machine", true},
	{"plan", cmd_plan, "the best stages, their workers and orders, for a model with costs",
	 false},
	{"fit", cmd_fit, "a machine's constants, from steps that were measured", false},
	{"train", cmd_train, "train a model under a schedule, as StarPU tasks", true},
	{"supervise", cmd_supervise, "start a training again when a process of it dies or hangs",
	 false},
};
#define N_COMMANDS (sizeof(commands) / sizeof(*commands))

static void print_help(FILE *file)
{
	fprintf(file, "usage: orrery COMMAND [ARGUMENTS]\n\n"
		      "Schedules for training neural networks that are not chains.\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(file, "\norrery COMMAND --help says more.\n");
}

/* mpirun has started this process beside a rank 0. */
static bool is_other_rank(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");

	return rank && atoi(rank) > 0;
}

/* Rank 0 does, or says, the same. */
static bool repeats(int argc, char **argv)
{
	bool together = false;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return is_other_rank();
	for (size_t i = 0; argc > 1 && i < N_COMMANDS; i++)
		together |= commands[i].on_every_rank && !strcmp(argv[1], commands[i].name);
	return !together && is_other_rank();
}

static int refuse_command(const char *word)
{
	struct orr_nearest near = orr_nearest_to(word);
	const char *text;

	for (size_t i = 0; i < N_COMMANDS; i++)
		orr_nearest_try(&near, commands[i].name, NULL);
	text = orr_text("no command '%.200s'%s: there are", word, orr_nearest_hint(&near));
	for (size_t i = 0; i < N_COMMANDS; i++)
		text = orr_text("%s%s %s", text, i ? "," : "", commands[i].name);
	command_say(text);
	return 2;
}

/* oneDNN's products keep numbers where the stack of the thread ends: a handler there writes over
 * the heap. Signals to a process come to this thread, so that handlers with SA_ONSTACK run
 * elsewhere. */
static void give_handlers_a_stack(void)
{
	static char room[1 << 16];
	const stack_t own = {.ss_sp = room, .ss_size = sizeof(room)};
	stack_t old;

	if (!sigaltstack(NULL, &old) && old.ss_flags & SS_DISABLE)
		sigaltstack(&own, NULL);
}

/* The program beside this one that has what runs a model, under the same name. Returns where there
 * is none. */
static void start_train_program(char **argv)
{
#ifdef ORR_TRAIN_PROGRAM
	char own[PATH_MAX], other[PATH_MAX], path[PATH_MAX + sizeof(ORR_TRAIN_PROGRAM)];
	const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	own[n > 0 ? n : 0] = '\0';
	strcpy(path, own);
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, ORR_TRAIN_PROGRAM);
	if (!realpath(path, other) || strcmp(own, other) != 0)
		execv(path, argv);
	else
		errno = ELOOP; /* this program under that name, which would start itself */
	command_say(orr_text("%s: cannot start it: %s: it runs what trains; install it beside this "
			     "command",
			     path, strerror(errno)));
	exit(2);
#else
	(void)argv;
#endif
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	char name[64];
	int status;

	argp_err_exit_status = 2;
	give_handlers_a_stack();
	(void)signal(SIGPIPE, SIG_DFL); /* Python, from which a wheel starts it, ignores it */
	output_watch();
	if (repeats(argc, argv))
		return 0;
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		print_help(stdout);
		return command_flush(0);
	}
	if (!strcmp(word, "--version")) {
		printf("orrery %s\n", orr_version());
		return command_flush(0);
	}
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(word, commands[i].name)) {
			if (commands[i].on_every_rank)
				start_train_program(argv);
			snprintf(name, sizeof(name), "orrery %s", word);
			if (!is_other_rank())
				progress_start(commands[i].name);
			argv[1] = name;
			status = command_flush(commands[i].run(argc - 1, argv + 1));
			plugin_end(status);
			return status;
		}
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	return refuse_command(word);
}
