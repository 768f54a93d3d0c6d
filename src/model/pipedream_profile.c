/* Profiles of PipeDream's: a line for each operator,
 *
 *   node8 -- ReLU(inplace) -- forward_compute_time=2.5, backward_compute_time=2.6,
 *            activation_size=822083584.0, parameter_size=0.000 -- stage_id=1
 *
 * (times in milliseconds, sizes in bytes, activation_size perhaps a list [a; b], the stage perhaps
 * absent), and a line for each edge, indented: node8 -- node9. Input nodes are free. Its optimizer
 * counts the activation as the stash, and so does this reader. */
#include "draft.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"

#define DASHES " -- "
#define MARK "forward_compute_time="

struct name {
	const char *name;
	int operator;
};

/* The first line that is not empty says so. */
bool orr_pipedream_is(const char *text)
{
	const char *line = text + strspn(text, " \t\n\v\f\r");
	size_t length = strcspn(line, "\n");
	const char *dashes = memmem(line, length, DASHES, strlen(DASHES));

	return dashes && memmem(dashes, length - (size_t)(dashes - line), MARK, strlen(MARK));
}

static void fail_line(struct orr_draft *draft, int line, const char *text)
{
	orr_draft_fail(draft, ORR_E_INPUT, "%s:%d: %s", draft->name, line, text);
}

/* The value of key in text, up to a comma outside brackets, in value. */
static bool find_value(const char *text, const char *key, char *value, size_t size)
{
	const char *at = strstr(text, key);
	size_t length;

	if (!at)
		return false;
	at += strlen(key);
	length = *at == '[' ? strcspn(at, "]") : strcspn(at, ", \t\r");
	(void)snprintf(value, size, "%.*s", (int)(length < 1000 ? length : 1000), at);
	return true;
}

/* The same of one that must be there; what: its place. */
static int find_cost(char value[1024], const char *what, const char *text, const char *key,
		     struct orr_error *err)
{
	return find_value(text, key, value, 1022)
		       ? 0
		       : orr_fail(err, ORR_E_INPUT, "%s is missing: say %s and a number", what,
				  key);
}

static int read_time(int64_t *ns, const char *text, const char *key, const char *place,
		     struct orr_error *err)
{
	const char *what = orr_text("%s: %.*s", place, (int)strlen(key) - 1, key);
	char value[1024];
	int code = find_cost(value, what, text, key, err);
	size_t length;
	bool units;

	if (code)
		return code;
	length = strlen(value);
	if (length == 0 || !isdigit((unsigned char)value[length - 1]))
		return orr_fail(err, ORR_E_INPUT, "%s: %.60s is no number of milliseconds", what,
				value);
	(void)snprintf(value + length, sizeof(value) - length, "ms");
	return orr_duration_parse(ns, &units, value, what, err);
}

/* A number, or the sum of [a; b; c]. */
static int read_size(int64_t *bytes, const char *text, const char *key, const char *place,
		     struct orr_error *err)
{
	const char *what = orr_text("%s: %.*s", place, (int)strlen(key) - 1, key);
	char value[1024], *next = value, *part;
	int64_t size;
	int code = find_cost(value, what, text, key, err);

	*bytes = 0;
	next += !code && *next == '[';
	while (!code && (part = strsep(&next, ";"))) {
		code = orr_size_parse(&size, part, what, err);
		if (!code && __builtin_add_overflow(*bytes, size, bytes))
			code = orr_fail(err, ORR_E_INPUT, "%s: %.60s: the sum is too large", what,
					value);
	}
	return code;
}

static int read_costs(struct orr_operator *o, const char *costs, const char *place,
		      struct orr_error *err)
{
	int code;

	if ((code = read_time(&o->forward_ns, costs, MARK, place, err)) ||
	    (code = read_time(&o->backward_ns, costs, "backward_compute_time=", place, err)) ||
	    (code = read_size(&o->activation_bytes, costs, "activation_size=", place, err)) ||
	    (code = read_size(&o->parameter_bytes, costs, "parameter_size=", place, err)))
		return code;
	o->stash_bytes = o->activation_bytes;
	return 0;
}

/* One that can be written as DOT and read again. */
static bool is_name(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (iscntrl((unsigned char)*text) || strchr(" \"\\", *text))
			return false;
	return true;
}

/* line: "node1 -- description -- costs [-- stage_id=k]"; changed. */
static void read_operator(struct orr_draft *draft, char *line, int number)
{
	char *label = strstr(line, DASHES), *costs = label ? strstr(label, DASHES MARK) : NULL;
	struct orr_error *err = draft->err;
	struct orr_draft_operator *added;
	const char *place;
	char value[32];
	int64_t stage;

	if (!costs || costs == label) {
		fail_line(draft, number,
			  "no operator: say NAME -- DESCRIPTION -- forward_compute_time=..., ...");
		return;
	}
	*label = *costs = '\0';
	label += strlen(DASHES);
	costs += strlen(DASHES);
	if (!is_name(line))
		fail_line(draft, number,
			  "a name may not be empty or hold blanks, control characters, \" or \\");
	if (!(added = orr_draft_add_operator(draft, line)))
		return;
	added->is.line = number;
	if (!(added->is.label = strdup(label)))
		orr_draft_no_memory(draft);
	if (strncmp(label, "Input", 5) == 0)
		return;
	place = orr_location(draft->name, number, line);
	if (orr_draft_keep(draft, read_costs(&added->is, costs, place, err)) ||
	    !find_value(costs, "stage_id=", value, sizeof(value)))
		return;
	if (!orr_draft_keep(draft,
			    orr_count_parse(&stage, value, 0, ORR_MOST_OPERATORS - 1, place, err)))
		added->is.stage = (int)stage;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->name, ((const struct name *)b)->name);
}

/* Edges come after all operators, in PipeDream's own files too. */
static struct name *sort_names(struct orr_draft *draft)
{
	struct name *names = calloc((size_t)draft->n_operators + 1, sizeof(*names));
	int n = names ? draft->n_operators : 0;

	if (!names)
		orr_draft_no_memory(draft);
	for (int i = 0; i < n; i++)
		names[i] = (struct name){draft->operators[i].is.name, i};
	if (n)
		qsort(names, (size_t)n, sizeof(*names), compare_names);
	for (int i = 1; i < n; i++)
		if (compare_names(&names[i - 1], &names[i]) == 0)
			fail_line(draft, draft->operators[names[i].operator].is.line,
				  "an operator of this name is there already: rename one");
	return names;
}

static void read_edge(struct orr_draft *draft, const struct name *names, char *line, int number)
{
	size_t n = (size_t)draft->n_operators;
	char *dashes = strstr(line, DASHES);
	struct name from, to;
	const struct name *a, *b;

	if (!dashes) {
		fail_line(draft, number, "no edge: say NAME -- NAME");
		return;
	}
	*dashes = '\0';
	from.name = line;
	to.name = dashes + strlen(DASHES);
	a = bsearch(&from, names, n, sizeof(from), compare_names);
	b = bsearch(&to, names, n, sizeof(to), compare_names);
	if (a && b)
		orr_draft_add_edge(draft, a->operator, b->operator, - 1);
	else
		orr_draft_fail(draft, ORR_E_INPUT, "%s:%d: no operator is called %.80s",
			       draft->name, number, a ? to.name : from.name);
}

void orr_pipedream_read(struct orr_draft *draft, const char *text)
{
	struct name *names = NULL;
	char *copy = strdup(text), *next = copy, *line;
	size_t length;

	if (!copy)
		orr_draft_no_memory(draft);
	for (int number = 1; !draft->code && (line = strsep(&next, "\n")); number++) {
		length = strlen(line);
		while (length > 0 && isspace((unsigned char)line[length - 1]))
			line[--length] = '\0';
		if (length == 0)
			continue;
		if (!isspace((unsigned char)*line)) {
			if (names)
				fail_line(draft, number,
					  "an operator after the edges: move it up, or indent it "
					  "if it is an edge");
			else
				read_operator(draft, line, number);
			continue;
		}
		if (!names)
			names = sort_names(draft);
		if (!draft->code)
			read_edge(draft, names, line + strspn(line, " \t"), number);
	}
	if (!draft->code && !names)
		names = sort_names(draft);
	free(names);
	free(copy);
}
