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

struct names {
	struct name {
		const char *name;
		int operator;
	} * sorted; /* owned */
	int n;
};

/* The first line that is not empty says so. */
bool orr_pipedream_is(const char *text)
{
	const char *line = text + strspn(text, " \t\n\v\f\r");
	size_t length = strcspn(line, "\n");
	const char *dashes = memmem(line, length, DASHES, strlen(DASHES));

	return dashes && memmem(dashes, length - (size_t)(dashes - line), MARK, strlen(MARK));
}

static int fail_line(const struct orr_draft *draft, int line, struct orr_error *err,
		     const char *text)
{
	return orr_fail(err, ORR_E_INPUT, "%s:%d: %s", draft->name, line, text);
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
static int find_cost(char value[1024], char what[400], const char *text, const char *key,
		     const char *place, struct orr_error *err)
{
	(void)snprintf(what, 400, "%s: %.*s", place, (int)strlen(key) - 1, key);
	return find_value(text, key, value, 1022)
		       ? 0
		       : orr_fail(err, ORR_E_INPUT, "%s is missing: say %s and a number", what,
				  key);
}

static int read_time(int64_t *ns, const char *text, const char *key, const char *place,
		     struct orr_error *err)
{
	char value[1024], what[400];
	int code = find_cost(value, what, text, key, place, err);
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
	char value[1024], what[400], *next = value, *part;
	int64_t size;
	int code = find_cost(value, what, text, key, place, err);

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
static int read_operator(struct orr_draft *draft, char *line, int number, struct orr_error *err)
{
	char *label = strstr(line, DASHES), *costs = label ? strstr(label, DASHES MARK) : NULL;
	char value[32], place[256];
	struct orr_operator *o;
	int64_t stage;
	int code;

	if (!costs || costs == label)
		return fail_line(
			draft, number, err,
			"no operator: say NAME -- DESCRIPTION -- forward_compute_time=..., ...");
	*label = *costs = '\0';
	label += strlen(DASHES);
	costs += strlen(DASHES);
	if (!is_name(line))
		return fail_line(
			draft, number, err,
			"a name may not be empty or hold blanks, control characters, \" or \\");
	code = orr_draft_add_operator(draft, line, err);
	if (code)
		return code;
	o = &draft->operators[draft->n_operators - 1].is;
	o->line = number;
	o->label = strdup(label);
	if (!o->label)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its labels", draft->name);
	if (strncmp(label, "Input", 5) == 0)
		return 0;
	(void)orr_location(place, sizeof(place), draft->name, number, line);
	if ((code = read_time(&o->forward_ns, costs, MARK, place, err)) ||
	    (code = read_time(&o->backward_ns, costs, "backward_compute_time=", place, err)) ||
	    (code = read_size(&o->activation_bytes, costs, "activation_size=", place, err)) ||
	    (code = read_size(&o->parameter_bytes, costs, "parameter_size=", place, err)))
		return code;
	o->stash_bytes = o->activation_bytes;
	if (!find_value(costs, "stage_id=", value, sizeof(value)))
		return 0;
	code = orr_count_parse(&stage, value, 0, ORR_MOST_OPERATORS - 1, place, err);
	o->stage = code ? -1 : (int)stage;
	return code;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->name, ((const struct name *)b)->name);
}

/* Edges come after all operators, in PipeDream's own files too. */
static int sort_names(struct names *names, const struct orr_draft *draft, struct orr_error *err)
{
	names->sorted = calloc((size_t)draft->n_operators + 1, sizeof(*names->sorted));
	if (!names->sorted)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its names", draft->name);
	names->n = draft->n_operators;
	for (int i = 0; i < names->n; i++)
		names->sorted[i] = (struct name){draft->operators[i].is.name, i};
	qsort(names->sorted, (size_t)names->n, sizeof(*names->sorted), compare_names);
	for (int i = 1; i < names->n; i++)
		if (compare_names(&names->sorted[i - 1], &names->sorted[i]) == 0)
			return fail_line(
				draft, draft->operators[names->sorted[i].operator].is.line, err,
				"an operator of this name is there already: rename one");
	return 0;
}

static int read_edge(struct orr_draft *draft, const struct names *names, char *line, int number,
		     struct orr_error *err)
{
	char *dashes = strstr(line, DASHES);
	struct name from, to, *a, *b;

	if (!dashes)
		return fail_line(draft, number, err, "no edge: say NAME -- NAME");
	*dashes = '\0';
	from.name = line;
	to.name = dashes + strlen(DASHES);
	a = bsearch(&from, names->sorted, (size_t)names->n, sizeof(from), compare_names);
	b = bsearch(&to, names->sorted, (size_t)names->n, sizeof(to), compare_names);
	if (!a || !b)
		return orr_fail(err, ORR_E_INPUT, "%s:%d: no operator is called %.80s", draft->name,
				number, a ? to.name : from.name);
	return orr_draft_add_edge(draft, a->operator, b->operator, - 1, err);
}

int orr_pipedream_read(struct orr_draft *draft, const char *text, struct orr_error *err)
{
	struct names names = {NULL, 0};
	char *copy = strdup(text), *next = copy, *line;
	int number = 0, code = 0;
	size_t length;

	if (!copy)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory to read it", draft->name);
	while ((line = strsep(&next, "\n")) && !code) {
		number++;
		length = strlen(line);
		while (length > 0 && isspace((unsigned char)line[length - 1]))
			line[--length] = '\0';
		if (length == 0)
			continue;
		if (!isspace((unsigned char)*line)) {
			code = names.sorted ? fail_line(draft, number, err,
							"an operator after the edges: move it up, "
							"or indent it if it is an edge")
					    : read_operator(draft, line, number, err);
			continue;
		}
		if (!names.sorted)
			code = sort_names(&names, draft, err);
		if (!code)
			code = read_edge(draft, &names, line + strspn(line, " \t"), number, err);
	}
	if (!code && !names.sorted)
		code = sort_names(&names, draft, err);
	free(names.sorted);
	free(copy);
	return code;
}
