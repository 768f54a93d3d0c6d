#include "command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "orrery/utf8.h"

/* What the library calls a quantity, and the option that gives it: no longer than "[name]". */
static const struct {
	const char *quantity, *option;
} options[] = {
	{"[accumulate]", "--accumulate"},
	{"[bandwidth]", "--bandwidth"},
	{"[batch]", "--batch"},
	{"[contiguous]", "--contiguous"},
	{"[costs]", "--costs"},
	{"[data]", "--data"},
	{"[flops]", "--flops"},
	{"[init]", "--init"},
	{"[init-partly]", "--init-partly"},
	{"[latency]", "--latency"},
	{"[lengths]", "--lengths"},
	{"[machine]", "--machine"},
	{"[memory]", "--memory"},
	{"[microbatches]", "-m"},
	{"[operators]", "--operators"},
	{"[order]", "--order"},
	{"[ranks-workers]", "--ranks-workers"},
	{"[rate]", "--lr"},
	{"[recompute]", "--recompute"},
	{"[resume]", "--resume"},
	{"[search]", "--search"},
	{"[stages]", "--stages"},
	{"[straight]", "--straight"},
	{"[sync]", "--sync"},
	{"[unpin]", "--unpin"},
	{"[workers]", "--workers"},
};
#define N_OPTIONS (sizeof(options) / sizeof(*options))

/* The library writes its markers as words; brackets in the name of a file or a node are its own. */
static bool is_word(char before, char after)
{
	return (before == ' ' || before == '(') && (!after || strchr(" ,;:)", after));
}

char *command_name_options(char *text)
{
	char *to = text, before = ' ';

	for (const char *at = text; *at;) {
		size_t i = 0, length = 0;

		for (; i < N_OPTIONS; i++)
			if (!strncmp(at, options[i].quantity,
				     length = strlen(options[i].quantity)) &&
			    is_word(before, at[length]))
				break;
		before = *at;
		if (i == N_OPTIONS) {
			*to++ = *at++;
			continue;
		}
		at += length;
		length = strlen(options[i].option);
		memcpy(to, options[i].option, length);
		to += length;
	}
	*to = '\0';
	return text;
}

const char *command_text(char *to, size_t size, const char *text)
{
	size_t left = strlen(text), used = 0, n;

	for (; left && used + 5 < size; text += n, left -= n) {
		if ((n = orr_utf8_shown(text, left)))
			memcpy(to + used, text, n);
		else
			(void)snprintf(to + used, 5, "\\x%02x", (unsigned char)*text);
		used += n ? n : 4;
		n += !n;
	}
	to[used] = '\0';
	return to;
}

void command_say(const char *message)
{
	char text[1024], shown[4 * sizeof(text)];

	(void)snprintf(text, sizeof(text), "%s", message);
	fprintf(stderr, "orrery: %s\n",
		command_text(shown, sizeof(shown), command_name_options(text)));
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
