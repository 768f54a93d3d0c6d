/* The built-in schedules and their names. */
#include "orrery/open.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "direct.h"

ORR_DECLARE_SCHEDULE(auto)

#define LIST(name) &orr_schedule_##name,
static const struct orr_schedule *const schedules[] = {ORR_DIRECT_SCHEDULES(LIST) LIST(auto) NULL};

static const struct orr_schedule_alias aliases[] = {
	{"dp", "ddp"},
	{"zero3", "fsdp"},
	{"afab", "gpipe"},
	{"f-then-b", "gpipe"},
	{"bfpp", "lpp:order=breadth"},
	{"looped-bfs", "lpp:order=breadth"},
	{"dapple", "1f1b"},
	{"pipedream-flush", "1f1b"},
	{"interleaved-1f1b", "interleaved"},
	{"vpp", "interleaved"},
	{"zbv", "v-zb"},
	{"zbv-zero-bubble", "v-zb"},
	{NULL, NULL},
};

/* pointers: an array's size would be a part of every program that is linked to the library */
const struct orr_schedule *const *const orr_schedules = schedules;
const struct orr_schedule_alias *const orr_schedule_aliases = aliases;

/* Neither case nor - nor _ counts: ZBH1 is zb-h1. */
static bool is_called(const char *name, const char *text)
{
	for (;;) {
		while (*name == '-' || *name == '_')
			name++;
		while (*text == '-' || *text == '_')
			text++;
		if (tolower((unsigned char)*name) != tolower((unsigned char)*text))
			return false;
		if (!*name++)
			return true;
		text++;
	}
}

static const struct orr_schedule *find(const char *text, size_t length)
{
	for (int i = 0; orr_schedules[i]; i++)
		if (strlen(orr_schedules[i]->name) == length &&
		    !strncmp(orr_schedules[i]->name, text, length))
			return orr_schedules[i];
	return NULL;
}

int orr_schedule_find(const struct orr_schedule **out, const char **parameters, const char *text,
		      struct orr_error *err)
{
	struct orr_nearest near = orr_nearest_to(text);
	char known[420] = "";
	size_t used = 0;

	*parameters = NULL;
	for (int i = 0; orr_schedules[i]; i++) {
		const char *name = orr_schedules[i]->name;

		*out = orr_schedules[i];
		if (is_called(name, text))
			return 0;
		orr_nearest_try(&near, name, NULL);
		if (used < sizeof(known))
			used += (size_t)snprintf(known + used, sizeof(known) - used, "%s, ", name);
	}
	for (const struct orr_schedule_alias *a = orr_schedule_aliases; a->alias; a++) {
		size_t length = strcspn(a->means, ":");

		orr_nearest_try(&near, a->alias, a->means);
		if (!is_called(a->alias, text))
			continue;
		*parameters = a->means[length] ? a->means + length + 1 : NULL;
		*out = find(a->means, length);
		return 0;
	}
	return orr_fail(err, ORR_E_INPUT,
			"no schedule '%.40s'%s: there are %splug-ins (./mine.so), tables "
			"(mine.csv) and plans (mine.json)",
			text, orr_nearest_hint(&near), known);
}
