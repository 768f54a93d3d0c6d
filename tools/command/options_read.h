#pragma once
/* Every option is a row of option_rows.c, from which it is found among the words, read, listed by
 * --help, and so written into the man page and the completions. What is wrong is refused in one
 * line on standard error, under mpirun by rank 0, with exit code 2. */
#include <jansson.h>
#include "options.h"

/* The options of a verb; what it works on is "GRAPH" or NULL; about: its help, with what stands
 * below the options after a \v. */
struct options options_read(enum verb verb, const char *works_on, const char *about, int argc,
			    char **argv);

/* What was given but for outputs, {name: value or null}; the caller's. NULL: no memory, or no
 * UTF-8. */
json_t *options_words(void);
/* NULL: none was asked for. */
const struct orr_noise *options_noise(const struct options *o);

void options_refuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
