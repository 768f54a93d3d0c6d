#include "../command/command.h"
#include "../command/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/open.h"
#include "open/plugin.h"

int plugin_try(const struct orr_open_options *open, double timeout_s, struct orr_error *err)
{
	char *path = open->schedule ? strndup(open->schedule, strcspn(open->schedule, ":")) : NULL;
	bool is_one = path && orr_plugin_is(path);

	(void)timeout_s;
	free(path);
	return !is_one ? 0
		       : orr_fail(err, ORR_E_UNSUPPORTED,
				  "a page loads no plug-in: use the command for '%.200s'",
				  open->schedule);
}

void plugin_loaded(struct orr_choice *choice)
{
	(void)choice;
}

void plugin_end(int status)
{
	(void)status;
}

int cmd_supervise(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	command_say("a page starts no processes: use the command");
	return 2;
}
