/* orrery schedules: the list of schedules, with their parameters. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "orrery/open.h"
#include "base/quantity.h"

#define NAME_COLUMNS 23
#define COLUMNS 100

/* In the second column, broken between words. */
static void print_wrapped(const char *text)
{
	int room = COLUMNS - NAME_COLUMNS;

	while (strlen(text) > (size_t)room) {
		int length = room;

		while (length > 1 && text[length] != ' ')
			length--;
		printf("%.*s\n%*s", length, text, NAME_COLUMNS, "");
		text += length;
		while (*text == ' ')
			text++;
	}
	printf("%s\n", text);
}

static void print_parameter(const struct orr_parameter *parameter)
{
	const char *word = parameter->words;
	const char *range = NULL;
	char text[512];

	switch (parameter->kind) {
	case ORR_PARAMETER_WORD:
		for (int i = 0; i < (int)parameter->otherwise; i++)
			word = strchr(word, '|') + 1;
		range = orr_text("%s (%.*s)", parameter->words, (int)strcspn(word, "|"), word);
		break;
	case ORR_PARAMETER_LIST:
		range = orr_text("%.0f..%.0f-...", parameter->low, parameter->high);
		break;
	case ORR_PARAMETER_MEMORY:
		range = orr_text("0..%.0f, or a size (%.0f)", parameter->high,
				 parameter->otherwise);
		break;
	case ORR_PARAMETER_DURATION:
		range = orr_text("a duration (%s)",
				 orr_duration_text((int64_t)parameter->otherwise, false));
		break;
	case ORR_PARAMETER_SIZE:
		range = orr_text("a size (%s)", orr_size_text((int64_t)parameter->otherwise));
		break;
	case ORR_PARAMETER_REAL:
	case ORR_PARAMETER_INTEGER:
	case ORR_PARAMETER_MICROBATCHES:
	case ORR_PARAMETER_WORKERS:
	case ORR_PARAMETER_STASHES:
		range = orr_text("%.15g..%.15g (%.15g)", parameter->low, parameter->high,
				 parameter->otherwise);
		break;
	}
	snprintf(text, sizeof(text), "%s=%s: %s", parameter->key, range, parameter->summary);
	printf("%*s", NAME_COLUMNS, "");
	print_wrapped(command_name_options(text));
}

/* "also called: afab, f-then-b" */
static void print_aliases(const char *name)
{
	const char *text = "";
	size_t length = strlen(name);

	for (const struct orr_schedule_alias *a = orr_schedule_aliases; a->alias; a++) {
		if (strncmp(a->means, name, length) ||
		    (a->means[length] && a->means[length] != ':'))
			continue;
		text = orr_text("%s%s%s", text, *text ? ", " : "also called: ", a->alias);
		if (a->means[length])
			text = orr_text("%s (%s)", text, a->means + length + 1);
	}
	if (!*text)
		return;
	printf("%*s", NAME_COLUMNS, "");
	print_wrapped(text);
}

int cmd_schedules(int argc, char **argv)
{
	const bool table =
		options_read(VERB_SCHEDULES, NULL,
			     "List the schedules: name, parameters with their range and default, "
			     "paper. Give one as --schedule NAME:key=value,... or load your own as "
			     "--schedule ./mine.so. In a name, neither case nor - nor _ counts.",
			     argc, argv)
			.table;

	for (int i = 0; orr_schedules[i]; i++) {
		const struct orr_schedule *schedule = orr_schedules[i];

		if (table) {
			printf("%s\t%s\t%s\n", schedule->name, schedule->summary,
			       schedule->paper ? schedule->paper : "");
			continue;
		}
		printf("%-*s", NAME_COLUMNS, schedule->name);
		print_wrapped(schedule->summary);
		for (int k = 0; schedule->parameters && schedule->parameters[k].key; k++)
			print_parameter(&schedule->parameters[k]);
		print_aliases(schedule->name);
		if (schedule->paper)
			printf("%*s%s\n", NAME_COLUMNS, "", schedule->paper);
	}
	return 0;
}
