#include "argp.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>

int argp_err_exit_status;

static error_t parse_words(const struct argp *argp, int argc, char **argv,
			   const struct option *longs, const char *letters)
{
	struct argp_state state = {NULL};
	int key;
	error_t code;

	opterr = 0;
	optind = 1;
	while ((key = getopt_long(argc, argv, letters, longs, NULL)) != -1)
		if (key == '?' || key == ':')
			return ARGP_ERR_UNKNOWN;
		else if ((code = argp->parser(key, optarg, &state)))
			return code;
	while (optind < argc)
		if ((code = argp->parser(ARGP_KEY_ARG, argv[optind++], &state)))
			return code;
	return 0;
}

/* An alias has the key and the value of the option before it. */
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *index,
		   void *input)
{
	size_t n = 0, n_longs = 0, n_letters = 0;
	struct option *longs;
	char *letters;
	error_t code;

	(void)flags, (void)index, (void)input;
	while (argp->options[n].name || argp->options[n].doc)
		n++;
	longs = calloc(n + 1, sizeof(*longs));
	letters = calloc(3, n + 1);
	if (!longs || !letters) {
		free(longs);
		free(letters);
		return ARGP_ERR_UNKNOWN;
	}
	for (size_t i = 0; i < n; i++) {
		const struct argp_option *option = &argp->options[i], *of = option;

		if (!option->name)
			continue;
		while (of->flags & OPTION_ALIAS)
			of--;
		longs[n_longs++] =
			(struct option){option->name,
					!of->arg                          ? no_argument
					: of->flags & OPTION_ARG_OPTIONAL ? optional_argument
									  : required_argument,
					NULL, option->key};
		if (option->key > ' ' && option->key < 127) {
			letters[n_letters++] = (char)option->key;
			for (int k = longs[n_longs - 1].has_arg; k > 0; k--)
				letters[n_letters++] = ':';
		}
	}
	code = parse_words(argp, argc, argv, longs, letters);
	free(longs);
	free(letters);
	return code;
}

void argp_help(const struct argp *argp, FILE *file, unsigned flags, char *name)
{
	(void)argp, (void)flags;
	(void)fprintf(file, "%s --help lists options outside of a page\n", name);
}

/* There are no signals. */
int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	(void)stack, (void)old;
	return -1;
}
