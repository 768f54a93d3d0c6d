#include "orrery/open.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "base/max.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "plan/plan_file.h"
#include "schedule/table.h"
#include "plugin.h"
#include "schedule/parameter_values.h"

static int find_parameter(const struct orr_schedule *schedule, const char *key)
{
	for (int i = 0; schedule->parameters && schedule->parameters[i].key; i++)
		if (!strcmp(schedule->parameters[i].key, key))
			return i;
	return -1;
}

static int refuse_key(const struct orr_schedule *schedule, const char *key, struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(key);
	const char *known = "";

	for (int i = 0; schedule->parameters && schedule->parameters[i].key; i++) {
		known = orr_text("%s%s%s", known, *known ? ", " : "", schedule->parameters[i].key);
		orr_nearest_try(&near, schedule->parameters[i].key, NULL);
	}
	return orr_fail(err, ORR_E_INPUT, "schedule %s: no parameter '%s'%s: it takes %s",
			schedule->name, key, orr_nearest_hint(&near), *known ? known : "none");
}

/* "key=value,key=value"; text is cut up. */
static int set_each(struct orr_choice *choice, char *text, struct orr_error *err)
{
	const struct orr_schedule *schedule = &choice->schedule;
	char place[96], *rest = NULL;
	uint64_t given = 0;

	for (char *pair = strtok_r(text, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(pair, '=');
		int i, code;

		if (!value)
			return orr_fail(err, ORR_E_INPUT, "schedule %s: '%s': write key=value",
					schedule->name, pair);
		*value++ = '\0';
		if ((i = find_parameter(schedule, pair)) < 0)
			return refuse_key(schedule, pair, err);
		if (given & UINT64_C(1) << i)
			return orr_fail(err, ORR_E_INPUT,
					"schedule %s: %s is there twice: leave one", schedule->name,
					pair);
		given |= UINT64_C(1) << i;
		snprintf(place, sizeof(place), "schedule %s: %s", schedule->name, pair);
		if ((code = orr_parameter_parse(&choice->values[i], &schedule->parameters[i], value,
						place, err)))
			return code;
	}
	return 0;
}

static int set_parameters(struct orr_choice *choice, const char *text, struct orr_error *err)
{
	char *copy = strdup(text);
	int code = copy ? set_each(choice, copy, err)
			: orr_fail(err, ORR_E_NOMEM, "no memory for a schedule's parameters");

	free(copy);
	return code;
}

int orr_choice_init_plan(struct orr_choice *choice, const char *path, struct orr_error *err)
{
	int code;

	memset(choice, 0, sizeof(*choice));
	if ((code = orr_plan_file_read(&choice->plan, path, err)))
		return code;
	choice->table = choice->plan->table;
	orr_table_schedule(&choice->schedule, choice->table);
	return 0;
}

/* A file that lays out every job; a plan says more. */
static int read_file(struct orr_choice *choice, const char *path, struct orr_error *err)
{
	int code;

	if (orr_plan_is(path))
		return orr_choice_init_plan(choice, path, err);
	if (!(code = orr_exchange_read(&choice->table, path, err)))
		orr_table_schedule(&choice->schedule, choice->table);
	return code;
}

int orr_choice_init(struct orr_choice *choice, const char *text, struct orr_error *err)
{
	const struct orr_schedule *found;
	const char *fixed = NULL;
	char *name, *colon;
	bool plugin;
	int code;

	memset(choice, 0, sizeof(*choice));
	if (!(name = strdup(text)))
		return orr_fail(err, ORR_E_NOMEM, "no memory for a schedule's name");
	if ((colon = strchr(name, ':')))
		*colon = '\0';
	/* a plan may have any name that is no schedule's */
	if (!(plugin = orr_plugin_is(name)) &&
	    (strpbrk(name, "./") ||
	     (orr_schedule_find(&found, &fixed, name, NULL) && orr_plan_is(text)))) {
		free(name);
		return read_file(choice, text, err);
	}
	if (plugin)
		code = orr_plugin_load(&choice->module, &choice->schedule, name, err);
	else if (!(code = orr_schedule_find(&found, &fixed, name, err)))
		choice->schedule = *found;
	if (!code) {
		if (orr_parameters_default(choice->values, &choice->schedule))
			choice->schedule.data = choice->values;
		code = fixed ? set_parameters(choice, fixed, err) : 0;
		if (!code && colon)
			code = set_parameters(choice, colon + 1, err);
	}
	if (code)
		orr_choice_fini(choice);
	free(name);
	return code;
}

int orr_choice_set_replicas(struct orr_choice *choice, const struct orr_plan_file *plan,
			    struct orr_error *err)
{
	int i = find_parameter(&choice->schedule, "replicas"), most = 1;
	int64_t *list;

	for (int s = 0; s < plan->n_stages; s++)
		most = (int)larger(most, orr_plan_file_replicas(plan, s));
	if (i < 0 || choice->schedule.parameters[i].kind != ORR_PARAMETER_LIST ||
	    choice->values[i].n_list || most == 1)
		return 0;
	if (plan->n_stages > ORR_MOST_LISTED)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: schedule %s takes the replicas of %d stages at most, and there "
			"are %d: plan for fewer workers",
			plan->path, choice->schedule.name, ORR_MOST_LISTED, plan->n_stages);
	if (!(list = malloc((size_t)plan->n_stages * sizeof(*list))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory", plan->path);
	for (int s = 0; s < plan->n_stages; s++)
		list[s] = orr_plan_file_replicas(plan, s);
	choice->values[i].list = list;
	choice->values[i].n_list = plan->n_stages;
	return 0;
}

void orr_choice_fini(struct orr_choice *choice)
{
	if (choice->module)
		dlclose(choice->module);
	if (choice->plan)
		orr_plan_file_destroy(choice->plan); /* with its table */
	else
		orr_table_destroy(choice->table);
	for (int i = 0; i < ORR_MOST_PARAMETERS; i++)
		orr_value_fini(&choice->values[i]);
	choice->plan = NULL;
	choice->module = NULL;
	choice->table = NULL;
}
