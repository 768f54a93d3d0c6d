#include "plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/input_file.h"
#include "orrery/schedule.h"
#include "plan/plan_file.h"

static int check_headers(const struct orr_plugin *plugin, const char *path, struct orr_error *err)
{
	static const struct orr_size sizes[ORR_N_SIZES] = ORR_SIZES;

	if (!plugin)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: no symbol orr_plugin: end the file with ORR_PLUGIN(your_schedule);",
			path);
	if (plugin->version != ORR_SCHEDULE_VERSION)
		return orr_fail(err, ORR_E_INPUT,
				"%s: made for version %d of schedule.h, this is version %d: "
				"compile it again",
				path, plugin->version, ORR_SCHEDULE_VERSION);
	for (int i = 0; i < ORR_N_SIZES; i++)
		if (plugin->sizes[i].bytes != sizes[i].bytes)
			return orr_fail(err, ORR_E_INPUT,
					"%s: %s has %zu bytes in the headers of version %d that it "
					"was compiled with, and %zu here: compile it again with "
					"the headers of this orrery",
					path, sizes[i].name, plugin->sizes[i].bytes,
					plugin->version, sizes[i].bytes);
	return 0;
}

static int check_parameter(const struct orr_parameter *parameter, int i, const char *path,
			   struct orr_error *err)
{
	bool is_word = parameter->kind == ORR_PARAMETER_WORD;
	double low = is_word ? 0 : parameter->low, high = is_word ? 0 : parameter->high;

	if (i == ORR_MOST_PARAMETERS)
		return orr_fail(err, ORR_E_INPUT, "%s: more than %d parameters: take fewer", path,
				ORR_MOST_PARAMETERS);
	if ((unsigned)parameter->kind > ORR_PARAMETER_LIST)
		return orr_fail(err, ORR_E_INPUT,
				"%s: the kind of its parameter %d is not one of enum "
				"orr_parameter_kind: correct it",
				path, i);
	if (is_word != (parameter->words != NULL))
		return orr_fail(err, ORR_E_INPUT,
				"%s: its parameter %d has %s: words belong to "
				"ORR_PARAMETER_WORD: correct it",
				path, i, is_word ? "no words" : "words");
	for (const char *at = is_word ? parameter->words : ""; *at; at++)
		high += *at == '|';
	if (parameter->kind != ORR_PARAMETER_LIST &&
	    !(low <= parameter->otherwise && parameter->otherwise <= high))
		return orr_fail(err, ORR_E_INPUT,
				"%s: the default of its parameter %d is out of its range: "
				"correct it",
				path, i);
	return 0;
}

static int check_schedule(const struct orr_schedule *schedule, const char *path,
			  struct orr_error *err)
{
	int code = 0;

	if (!schedule || !schedule->name ||
	    (!schedule->place && (!schedule->compute || !schedule->priority)))
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: a schedule needs name, compute and priority (or place): set them",
			path);
	for (const char *at = schedule->name; *at; at++)
		if (*at <= ' ' || *at > '~')
			return orr_fail(err, ORR_E_INPUT,
					"%s: a schedule's name is printable ASCII: change it",
					path);
	if (schedule->order != ORR_ORDER_STRICT && schedule->order != ORR_ORDER_GREEDY &&
	    schedule->order != ORR_ORDER_BOUNDED)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: order is none of ORR_ORDER_STRICT, _GREEDY and _BOUNDED: set it",
			path);
	for (int i = 0; !code && schedule->parameters && schedule->parameters[i].key; i++)
		code = check_parameter(&schedule->parameters[i], i, path, err);
	return code;
}

bool orr_plugin_is(const char *text)
{
	size_t length = strcspn(text, ":");

	return length > 3 && !strncmp(text + length - 3, ".so", 3) && !orr_plan_is(text);
}

int orr_plugin_load(void **module, struct orr_schedule *schedule, const char *path,
		    struct orr_error *err)
{
	const struct orr_plugin *plugin;
	char *file = NULL;
	int code = orr_input_open(NULL, NULL, path, "a plug-in, FILE.so", err);

	if (code)
		return code;
	/* a name without a slash would be looked for among the system's libraries */
	if (asprintf(&file, "%s%s", strchr(path, '/') ? "" : "./", path) < 0)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to load it", path);
	*module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	free(file);
	if (!*module) {
		const char *why = dlerror();

		return orr_fail(err, ORR_E_INPUT, "%s: cannot load the plug-in: %s", path,
				why ? why : "unknown");
	}
	plugin = dlsym(*module, "orr_plugin");
	if ((code = check_headers(plugin, path, err)) ||
	    (code = check_schedule(plugin->schedule, path, err)))
		return code;
	*schedule = *plugin->schedule;
	return 0;
}
