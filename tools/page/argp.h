#pragma once
/* The part of the C library's argp that the command uses, over getopt_long, for libraries without
 * it: Emscripten's. Help is left to the command outside of a page. */
#include <stdio.h>

typedef int error_t;

enum { OPTION_ARG_OPTIONAL = 1, OPTION_HIDDEN = 2, OPTION_ALIAS = 4 };
enum { ARGP_KEY_ARG = 0, ARGP_ERR_UNKNOWN = 7, ARGP_NO_ERRS = 2 };
enum { ARGP_HELP_USAGE = 1, ARGP_HELP_STD_HELP = 2 };

struct argp_option {
	const char *name;
	int key;
	const char *arg;
	int flags;
	const char *doc;
	int group;
};

struct argp_state {
	void *input;
};

struct argp {
	const struct argp_option *options; /* ends with one of zeros; without a name: a heading */
	error_t (*parser)(int key, char *arg, struct argp_state *state);
	const char *args_doc, *doc;
	const void *children, *help_filter, *argp_domain;
};

extern int argp_err_exit_status;

/* 0, or what the parser or getopt_long refuses; without a message. */
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *index,
		   void *input);
void argp_help(const struct argp *argp, FILE *file, unsigned flags, char *name);
