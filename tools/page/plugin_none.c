#include "../command/command.h"
#include "../command/plugin.h"

#include "orrery/open.h"
#include "open/plugin.h"

int plugin_try(const struct orr_open_options *open, double timeout_s, struct orr_error *err)
{
	(void)timeout_s;
	if (!open->schedule || !orr_plugin_is(open->schedule))
		return 0;
	return orr_fail(err, ORR_E_UNSUPPORTED,
			"a page loads no plug-in: use the command for '%.200s'", open->schedule);
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
