/* orrery: the command line. Reads the verb and hands over; nothing else. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "across.h"
#include "command.h"
#include "orrery/nearest.h"

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
	{"train", cmd_train, "train a model under a schedule, as StarPU tasks", true},
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

int command_status(int code)
{
	return code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED ? 2 : code != 0;
}

int command_end(int code, const struct orr_error *err)
{
	if (code)
		fprintf(stderr, "orrery: %s\n", err->msg);
	return command_status(code);
}

void command_refuse(const struct orr_error *err)
{
	across_refuse(err);
}

/* What was printed must have arrived. */
static int end_output(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	if (!code)
		fprintf(stderr, "orrery: standard output could not be written\n");
	return code ? code : 1;
}

/* Is the word, "--name", "--name=value" or "-xvalue", an option of argp or of one of its children?
 */
static bool is_option(const struct argp *argp, const char *word)
{
	size_t length = strcspn(word + 1, "=");

	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (word[1] != '-' ? o->key == word[1]
				   : o->name && !strncmp(o->name, word + 2, length - 1) &&
					     (o->arg || !strchr(word, '=')))
			return true;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		if (is_option(c->argp, word))
			return true;
	return false;
}

/* The word that could not be parsed: the first that is no option, else the last one, which wants a
 * value. */
static const char *find_bad(const struct argp *argp, int argc, char **argv)
{
	const char *last = argv[argc - 1];

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			continue;
		if (!is_option(argp, argv[i]))
			return argv[i];
		last = argv[i];
	}
	return last;
}

/* The long options of argp and its children, but hidden ones. */
static void try_options(struct orr_nearest *near, const struct argp *argp)
{
	char option[64];

	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (o->name && !(o->flags & OPTION_HIDDEN)) {
			(void)snprintf(option, sizeof(option), "--%s", o->name);
			orr_nearest_try(near, o->name, option);
		}
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		try_options(near, c->argp);
}

/* " (did you mean --workers?)" for "--num-workers=4". */
static const char *hint_option(char hint[ORR_HINT], const struct argp *argp, const char *word)
{
	/* what others call the workers */
	static const char *const workers[] = {"pp", "gpus", "devices", "nproc-per-node"};
	char option[64];
	struct orr_nearest near = orr_nearest_to(option + 2);

	(void)snprintf(option, sizeof(option), "%.*s", (int)strcspn(word, "="), word);
	if (strncmp(word, "--", 2) || is_option(argp, option)) /* its value is what is wrong */
		return "";
	try_options(&near, argp);
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers) && is_option(argp, "--workers=");
	     i++)
		orr_nearest_try(&near, workers[i], "--workers");
	return orr_nearest_hint(hint, &near);
}

void command_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	static char help[] = "--help";
	char hint[ORR_HINT];
	const char *bad;
	struct orr_error err;

	for (int i = 1; i < argc; i++) { /* argp's own help, which ARGP_NO_ERRS would swallow */
		if (!strcmp(argv[i], "-h"))
			argv[i] = help;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-?") ||
		    !strcmp(argv[i], "--usage")) {
			argp_help(argp, stdout,
				  strcmp(argv[i], "--usage") ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE,
				  argv[0]);
			exit(end_output(0));
		}
	}
	if (!argp_parse(argp, argc, argv, ARGP_NO_ERRS, NULL, input))
		return;
	bad = find_bad(argp, argc, argv);
	orr_fail(&err, ORR_E_INPUT,
		 "'%s'%s is no option of `%s`, or lacks its value, or takes none: `%s --help` "
		 "lists them",
		 bad, hint_option(hint, argp, bad), argv[0], argv[0]);
	command_refuse(&err);
}

/* mpirun has started this process beside a rank 0 which does, or says, the same. */
static bool repeats(int argc, char **argv)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	bool together = false;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return rank && atoi(rank) > 0;
	for (size_t i = 0; argc > 1 && i < N_COMMANDS; i++)
		together |= commands[i].on_every_rank && !strcmp(argv[1], commands[i].name);
	return !together && rank && atoi(rank) > 0;
}

/* Exit code 2. */
static int refuse_command(const char *word)
{
	struct orr_nearest near = orr_nearest_to(word);
	char hint[ORR_HINT];

	for (size_t i = 0; i < N_COMMANDS; i++)
		orr_nearest_try(&near, commands[i].name, NULL);
	fprintf(stderr, "orrery: no command '%s'%s: there are", word,
		orr_nearest_hint(hint, &near));
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
	fprintf(stderr, "\n");
	return 2;
}

int main(int argc, char **argv)
{
	char name[64];

	argp_err_exit_status = 2;
	if (repeats(argc, argv))
		return 0;
	if (argc > 1 &&
	    (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		print_help(stdout);
		return end_output(0);
	}
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		printf("orrery %s\n", ORR_VERSION);
		return end_output(0);
	}
	for (size_t i = 0; argc > 1 && i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name)) {
			snprintf(name, sizeof(name), "orrery %s", argv[1]);
			argv[1] = name;
			return end_output(commands[i].run(argc - 1, argv + 1));
		}
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	return refuse_command(argv[1]);
}
