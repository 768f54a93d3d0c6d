#include "orrery/choice.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/exchange.h"
#include "orrery/nearest.h"
#include "orrery/plan.h"
#include "orrery/quantity.h"
#include "orrery/table.h"

#define MAX_PARAMETERS 8

static int find_parameter(const struct orr_schedule *schedule, const char *key)
{
	for (int i = 0; schedule->parameters && schedule->parameters[i].key; i++)
		if (!strcmp(schedule->parameters[i].key, key))
			return i;
	return -1;
}

/* Append "a, b, c" to text: what was allowed. */
static void append(char *text, size_t size, const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? ", " : "", word);
}

static int refuse_key(const struct orr_schedule *schedule, const char *key, struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(key);
	char known[200] = "", hint[ORR_HINT];

	for (int i = 0; schedule->parameters && schedule->parameters[i].key; i++) {
		append(known, sizeof(known), schedule->parameters[i].key);
		orr_nearest_try(&near, schedule->parameters[i].key, NULL);
	}
	return orr_fail(err, ORR_E_INPUT, "schedule %s: no parameter '%s'%s: it takes %s",
			schedule->name, key, orr_nearest_hint(hint, &near),
			*known ? known : "none");
}

/* The value that a word stands for: "1f1b|breadth|depth" are low, low + 1, low + 2. */
static int set_word(int64_t *value, const struct orr_schedule *schedule, int i, const char *text,
		    struct orr_error *err)
{
	const char *words = schedule->words[i];
	struct orr_nearest near = orr_nearest_to(text);
	size_t length = strlen(text);
	char hint[ORR_HINT];

	*value = schedule->parameters[i].low;
	for (const char *at = words; *at; at += *at == '|', ++*value) {
		size_t n = strcspn(at, "|");

		if (n == length && !strncmp(at, text, n))
			return 0;
		at += n;
	}
	orr_nearest_try_all(&near, words);
	return orr_fail(err, ORR_E_INPUT, "schedule %s: %s=%s%s: write one of %s", schedule->name,
			schedule->parameters[i].key, text, orr_nearest_hint(hint, &near), words);
}

static int set_value(int64_t *value, const struct orr_parameter *parameter, const char *text,
		     const char *what, struct orr_error *err)
{
	int64_t low = parameter->low;
	int code;

	if (low == ORR_COUNT_OR_SIZE && text[strspn(text, "0123456789")]) {
		if (!(code = orr_size_parse(value, text, what, err)))
			*value = -*value;
		return code;
	}
	return orr_count_parse(value, text, low == ORR_COUNT_OR_SIZE ? 0 : low, parameter->high,
			       what, err);
}

/* "2-1-1" */
static int set_list(int64_t *values, const struct orr_parameter *parameter, char *text,
		    const char *what, struct orr_error *err)
{
	char *number;
	int n = 0, code;

	memset(values, 0, ORR_MOST_LISTED * sizeof(*values));
	while ((number = strsep(&text, "-"))) {
		if (n == ORR_MOST_LISTED)
			return orr_fail(err, ORR_E_INPUT, "%s: at most %d values", what,
					ORR_MOST_LISTED);
		if ((code = set_value(&values[n++], parameter, number, what, err)))
			return code;
	}
	return 0;
}

/* "key=value,key=value"; text is cut up. */
static int set_each(struct orr_choice *choice, char *text, struct orr_error *err)
{
	const struct orr_schedule *schedule = &choice->schedule;
	char what[96], *rest = NULL;
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
		if (schedule->words && schedule->words[i]) {
			if ((code = set_word(&choice->values[i], schedule, i, value, err)))
				return code;
			continue;
		}
		snprintf(what, sizeof(what), "schedule %s: %s", schedule->name, pair);
		code = schedule->parameters[i].otherwise == ORR_LIST
			       ? set_list(&choice->values[i], &schedule->parameters[i], value, what,
					  err)
			       : set_value(&choice->values[i], &schedule->parameters[i], value,
					   what, err);
		if (code)
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

static void set_defaults(struct orr_choice *choice)
{
	const struct orr_parameter *parameter = choice->schedule.parameters;

	if (!parameter)
		return;
	for (int i = 0; i < MAX_PARAMETERS && parameter[i].key; i++)
		choice->values[i] = parameter[i].otherwise == ORR_LIST ? 0 : parameter[i].otherwise;
	choice->schedule.data = choice->values;
}

static int check_plugin(const struct orr_plugin *plugin, const char *path, struct orr_error *err)
{
	if (!plugin)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: no symbol orr_plugin: end the file with ORR_PLUGIN(your_schedule);",
			path);
	if (plugin->version != ORR_SCHEDULE_VERSION || plugin->size != sizeof(struct orr_schedule))
		return orr_fail(err, ORR_E_INPUT,
				"%s: made for version %d of schedule.h, this is version %d: "
				"compile it again",
				path, plugin->version, ORR_SCHEDULE_VERSION);
	if (!plugin->schedule || !plugin->schedule->name ||
	    (!plugin->schedule->place &&
	     (!plugin->schedule->compute ||
	      (!plugin->schedule->priority && !plugin->schedule->lay_out))))
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: a schedule needs name, compute and priority (or lay_out): set them",
			path);
	for (const char *at = plugin->schedule->name; *at; at++)
		if (*at <= ' ' || *at > '~')
			return orr_fail(err, ORR_E_INPUT,
					"%s: a schedule's name is printable ASCII: change it",
					path);
	if (plugin->schedule->order != ORR_ORDER_STRICT &&
	    plugin->schedule->order != ORR_ORDER_GREEDY)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: order is neither ORR_ORDER_STRICT nor ORR_ORDER_GREEDY: set it", path);
	for (int i = 0; plugin->schedule->parameters && plugin->schedule->parameters[i].key; i++) {
		const struct orr_parameter *parameter = &plugin->schedule->parameters[i];

		if (i == MAX_PARAMETERS)
			return orr_fail(err, ORR_E_INPUT, "%s: more than %d parameters: take fewer",
					path, MAX_PARAMETERS);
		if (parameter->otherwise == ORR_LIST) {
			if (!parameter[1].key)
				continue;
			return orr_fail(err, ORR_E_INPUT,
					"%s: its parameter %d is a list and not the last: put it "
					"there",
					path, i);
		}
		if (parameter->low > parameter->otherwise || parameter->otherwise > parameter->high)
			return orr_fail(err, ORR_E_INPUT,
					"%s: the default of its parameter %d is out of its range: "
					"correct it",
					path, i);
	}
	return 0;
}

static int load(struct orr_choice *choice, const char *path, struct orr_error *err)
{
	const struct orr_plugin *plugin;
	char *file = NULL;
	int code;

	/* a name without a slash would be looked for among the system's libraries */
	if (asprintf(&file, "%s%s", strchr(path, '/') ? "" : "./", path) < 0)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to load it", path);
	choice->module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	free(file);
	if (!choice->module) {
		const char *why = dlerror();

		return orr_fail(err, ORR_E_INPUT, "%s: cannot load the plug-in: %s", path,
				why ? why : "unknown");
	}
	plugin = dlsym(choice->module, "orr_plugin");
	if ((code = check_plugin(plugin, path, err)))
		return code;
	choice->schedule = *plugin->schedule;
	return 0;
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), n = strlen(end);

	return length > n && !strcmp(text + length - n, end);
}

/* A file that lays out every job. */
static int read_table(struct orr_choice *choice, const char *path, struct orr_error *err)
{
	int code = orr_exchange_read(&choice->table, path, err);

	if (!code)
		orr_table_schedule(&choice->schedule, choice->table);
	return code;
}

/* A plan lays out every job, and says more. */
static int read_plan(struct orr_choice *choice, const char *path, struct orr_error *err)
{
	int code = orr_plan_file_read(&choice->plan, path, err);

	if (code)
		return code;
	choice->table = choice->plan->table;
	orr_table_schedule(&choice->schedule, choice->table);
	return 0;
}

int orr_choice_init(struct orr_choice *choice, const char *text, struct orr_error *err)
{
	const struct orr_schedule *found;
	const char *fixed = NULL;
	char *name, *colon;
	int code;

	memset(choice, 0, sizeof(*choice));
	if (ends_in(text, ".csv"))
		return read_table(choice, text, err);
	if (ends_in(text, ".json"))
		return read_plan(choice, text, err);
	if (!(name = strdup(text)))
		return orr_fail(err, ORR_E_NOMEM, "no memory for a schedule's name");
	if ((colon = strchr(name, ':')))
		*colon = '\0';
	if (ends_in(name, ".so"))
		code = load(choice, name, err);
	else if (!(code = orr_schedule_find(&found, &fixed, name, err)))
		choice->schedule = *found;
	if (!code) {
		set_defaults(choice);
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

	for (int s = 0; s < plan->n_stages; s++)
		most = orr_plan_file_replicas(plan, s) > most ? orr_plan_file_replicas(plan, s)
							      : most;
	if (i < 0 || choice->schedule.parameters[i].otherwise != ORR_LIST || choice->values[i] ||
	    most == 1)
		return 0;
	if (plan->n_stages > ORR_MOST_LISTED)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: schedule %s takes the replicas of %d stages at most, and there "
			"are %d: plan for fewer workers",
			plan->path, choice->schedule.name, ORR_MOST_LISTED, plan->n_stages);
	for (int s = 0; s < plan->n_stages; s++)
		choice->values[i + s] = orr_plan_file_replicas(plan, s);
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
	choice->plan = NULL;
	choice->module = NULL;
	choice->table = NULL;
}
