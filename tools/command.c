#include "command.h"

#include <stdio.h>

void command_say(const char *message)
{
	fprintf(stderr, "orrery: %s\n", message);
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
