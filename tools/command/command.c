#include "command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* What the library calls quantities: each is the option of that name, but for two. */
static const char *const quantities[] = {
	"accumulate", "bandwidth", "batch",         "buckets", "contiguous",   "copy-every",
	"costs",      "data",      "flops",         "host",    "init-partly",  "latency",
	"lengths",    "lose",      "machine",       "memory",  "microbatches", "operators",
	"order",      "park",      "ranks-workers", "rate",    "recompute",    "replicas",
	"search",     "stages",    "straight",      "sync",    "unpin",        "workers"};

/* The library writes its markers as words; brackets in the name of a file or a node are its own. */
static bool is_word(char before, char after)
{
	return (before == ' ' || before == '(') && (!after || strchr(" ,;:)=", after));
}

/* The length of a quantity that text begins with, or 0; *option: what gives it, no longer. */
static size_t find_quantity(const char *text, char option[32])
{
	for (size_t i = 0; i < sizeof(quantities) / sizeof(*quantities); i++) {
		size_t length = strlen(quantities[i]);

		if (text[0] != '[' || strncmp(text + 1, quantities[i], length) ||
		    text[length + 1] != ']')
			continue;
		(void)snprintf(option, 32, "--%s", quantities[i]);
		if (!strcmp(option, "--microbatches"))
			strcpy(option, "-m");
		else if (!strcmp(option, "--rate"))
			strcpy(option, "--lr");
		return length + 2;
	}
	return 0;
}

char *command_name_options(char *text)
{
	char *to = text, before = ' ', option[32];

	for (const char *at = text; *at;) {
		size_t length = find_quantity(at, option);
		bool found = length && is_word(before, at[length]);

		before = *at;
		if (!found) {
			*to++ = *at++;
			continue;
		}
		memcpy(to, option, strlen(option));
		to += strlen(option);
		at += length;
	}
	*to = '\0';
	return text;
}

void command_say(const char *message)
{
	char text[1024], shown[4 * sizeof(text)];

	(void)snprintf(text, sizeof(text), "%s", message);
	fprintf(stderr, "orrery: %s\n",
		orr_utf8_print(shown, sizeof(shown), command_name_options(text)));
}

int command_status(int code)
{
	return code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED ? 2 : code != 0;
}

int command_end(int code, const struct orr_error *err)
{
	if (code)
		command_say(err->msg);
	return command_status(code);
}

int command_flush(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	if (!status)
		command_say("standard output could not be written");
	return status ? status : 1;
}
