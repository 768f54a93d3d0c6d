#include "options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "orrery/nearest.h"
#include "orrery/quantity.h"
#include "session.h"

/* ---- the words of the command line ---- */

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
	/* other words for workers */
	static const char *const workers[] = {"pp", "gpus", "devices", "nproc-per-node"};
	char option[64];
	struct orr_nearest near = orr_nearest_to(option + 2);

	(void)snprintf(option, sizeof(option), "%.*s", (int)strcspn(word, "="), word);
	if (strncmp(word, "--", 2) || is_option(argp, option)) /* its value is wrong */
		return "";
	try_options(&near, argp);
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers) && is_option(argp, "--workers=");
	     i++)
		orr_nearest_try(&near, workers[i], "--workers");
	return orr_nearest_hint(hint, &near);
}

void options_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	static char help[] = "--help";
	char hint[ORR_HINT];
	const char *bad;

	for (int i = 1; i < argc; i++) { /* argp's own help, which ARGP_NO_ERRS would swallow */
		if (!strcmp(argv[i], "-h"))
			argv[i] = help;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-?") ||
		    !strcmp(argv[i], "--usage")) {
			argp_help(argp, stdout,
				  strcmp(argv[i], "--usage") ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE,
				  argv[0]);
			exit(command_flush(0));
		}
	}
	if (!argp_parse(argp, argc, argv, ARGP_NO_ERRS, NULL, input))
		return;
	bad = find_bad(argp, argc, argv);
	options_refuse("'%s'%s is no option of `%s`, or lacks its value, or takes none: `%s "
		       "--help` lists them",
		       bad, hint_option(hint, argp, bad), argv[0], argv[0]);
}

/* ---- values ---- */

void options_refuse(const char *format, ...)
{
	struct orr_error err;
	va_list args;

	va_start(args, format);
	(void)vsnprintf(err.msg, sizeof(err.msg), format, args);
	va_end(args);
	session_refuse(&err);
}

void options_check(int code, const struct orr_error *err)
{
	if (code)
		session_refuse(err);
}

int64_t options_count(const char *option, const char *text, int64_t low, int64_t high)
{
	struct orr_error err;
	int64_t value = 0;

	options_check(orr_count_parse(&value, text, low, high, option, &err), &err);
	return value;
}

/* One more value of a list; how many there are now. */
static int append(int64_t *values, int n, int most, int64_t value, const char *option)
{
	if (n == most)
		options_refuse("%s: at most %d values", option, most);
	for (int i = 0; i < n; i++)
		if (values[i] == value)
			options_refuse("%s: value %d is value %d again: leave one of them out",
				       option, n + 1, i + 1);
	values[n] = value;
	return n + 1;
}

int options_counts(int64_t *counts, int most, const char *option, const char *text, int64_t high)
{
	struct orr_error err;
	int64_t value = 0;
	int n = 0;

	while (text) {
		options_check(orr_count_next(&value, &text, ',', 1, high, option, &err), &err);
		n = append(counts, n, most, value, option);
	}
	return n;
}

int options_memories(int64_t *bytes, int most, const char *option, const char *text)
{
	char *copy = strdup(text), *rest = copy, *part;
	int n = 0;

	if (!copy)
		options_refuse("%s: no memory", option);
	while ((part = strsep(&rest, ",")))
		n = append(bytes, n, most, options_memory(option, part), option);
	free(copy);
	return n;
}

void options_refuse_list(const char *option, const char *text)
{
	if (strchr(text, ','))
		options_refuse("%s %.60s: lists are for `orrery compare`, which shows all values "
			       "side by side: give one",
			       option, text);
}

double options_real(const char *option, const char *text, double low, double high)
{
	struct orr_error err;
	double value = 0;

	options_check(orr_real_parse(&value, text, low, high, option, &err), &err);
	return value;
}

int64_t options_size(const char *option, const char *text)
{
	struct orr_error err;
	int64_t bytes = 0;

	options_check(orr_size_parse(&bytes, text, option, &err), &err);
	return bytes;
}

int64_t options_memory(const char *option, const char *text)
{
	struct orr_error err;
	int64_t bytes = 0;

	options_check(orr_memory_parse(&bytes, text, option, &err), &err);
	return bytes;
}

double options_rate(const char *option, const char *text)
{
	struct orr_error err;
	double bytes_per_s = 0;

	options_check(orr_rate_parse(&bytes_per_s, text, option, &err), &err);
	return bytes_per_s;
}

int64_t options_duration(bool *units, const char *option, const char *text)
{
	struct orr_error err;
	int64_t ns = 0;

	options_check(orr_duration_parse(&ns, units, text, option, &err), &err);
	return ns;
}
