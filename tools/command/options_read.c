#include "options.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "option_rows.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "plugin.h"
#include "progress.h"
#include "session.h"

#define FIRST_KEY 256 /* of rows without a letter */
#define MOST_COMBINATIONS 1024
#define NO_SOURCE (VERB_SCHEDULES | VERB_SUPERVISE) /* they work on no GRAPH */

static struct {
	enum verb verb;
	struct texts *given;        /* [n_option_rows] values, with n 0 for none */
	const char *source, *place; /* place: of the words that are read; NULL: the command line */
	json_t *words;              /* {name: value or null}, to the end of the command */
} reading;

void options_refuse(const char *format, ...)
{
	struct orr_error err;
	va_list args;
	size_t n = 0;

	if (reading.place)
		n = (size_t)snprintf(err.msg, sizeof(err.msg), "%.200s: ", reading.place);
	va_start(args, format);
	(void)vsnprintf(err.msg + n, sizeof(err.msg) - n, format, args);
	va_end(args);
	session_refuse(&err);
}

static void check(int code, const struct orr_error *err)
{
	if (code)
		options_refuse("%s", err->msg);
}

static bool has(const struct row *row)
{
	return (row->verbs | row->heard) & (unsigned)reading.verb;
}

/* ---- values ---- */

/* As users write it. */
static const char *name_of(const struct row *row)
{
	return row->letter == 'm' ? "-m" : orr_text("--%s", row->name);
}

/* Only compare takes several values; another row says so, or of compare the row itself. */
static void refuse_list(const struct row *row, const char *name, const char *text)
{
	for (int i = 0; i < n_option_rows && strchr(text, ','); i++)
		if (option_rows[i].how.parted && !strcmp(option_rows[i].name, row->name))
			options_refuse("%s %.60s: lists are for `orrery compare`, which shows all "
				       "values side by side: give one",
				       name, text);
}

static int64_t read_number(const struct row *row, const char *name, const char *text)
{
	bool memory = row->how.kind == KIND_MEMORY;
	int64_t value = 0, high = row->how.high > 0 ? (int64_t)row->how.high : INT64_MAX;
	struct orr_error err;

	refuse_list(row, name, text);
	check(memory ? orr_memory_parse(&value, text, name, &err)
		     : orr_count_parse(&value, text, (int64_t)row->how.low, high, name, &err),
	      &err);
	return value;
}

static void read_value(const struct row *row, struct options *o, const char *text)
{
	const char *name = name_of(row);
	char *to = (char *)o + row->how.to;
	struct list *list;
	struct orr_error err;

	if (row->given)
		*(bool *)((char *)o + row->given) = true;
	switch (row->how.kind) {
	case KIND_FLAG:
		*(bool *)to = true;
		return;
	case KIND_TEXT:
		*(const char **)to = text;
		return;
	case KIND_INT:
		*(int *)to = (int)read_number(row, name, text);
		return;
	case KIND_COUNT:
	case KIND_MEMORY:
		*(int64_t *)to = read_number(row, name, text);
		return;
	case KIND_REAL:
		check(orr_real_parse((double *)to, text, row->how.low, row->how.high, name, &err),
		      &err);
		return;
	case KIND_SIZE:
		check(orr_size_parse((int64_t *)to, text, name, &err), &err);
		return;
	case KIND_WORD:
		check(orr_word_find((int *)to, row->how.words, text, name, &err), &err);
		return;
	case KIND_COUNTS:
		list = (struct list *)to;
		list->values[list->n++] = read_number(row, name, text);
		return;
	case KIND_READ:
	case KIND_MAY_READ:
		check(row->how.read(o, text, &err), &err);
		return;
	case KIND_ALIAS:
	case KIND_TEXTS:
		return;
	}
}

/* ---- what values mean together ---- */

static void settle_links(struct options *o)
{
	const struct machine_options *m = &o->machine;
	bool grouped = m->workers && strchr(m->workers, 'x');
	const char *list = m->bandwidths && strchr(m->bandwidths, ',') ? m->bandwidths
			   : m->latencies && strchr(m->latencies, ',') ? m->latencies
								       : NULL;
	int64_t n = 0;
	struct orr_error err;

	if (m->workers && !grouped)
		check(orr_count_parse(&n, m->workers, 1, 1 << 20, "--workers", &err), &err);
	if (list && !grouped)
		options_refuse("%s %.60s: of links by level: say the levels, such as --workers 4x2",
			       list == m->bandwidths ? "--bandwidth" : "--latency", list);
	check(orr_levels_parse(&o->machine.levels, grouped ? m->workers : "1", m->bandwidths,
			       m->latencies, &o->open.latency_units, &err),
	      &err);
	o->open.given.levels = m->levels.n > 1;
	orr_machine_set_levels(&o->open.machine, &m->levels);
	/* the library takes 0 for no limit, but a user who writes 0 does not mean that */
	if (m->bandwidths && o->open.machine.bandwidth_bytes_per_s <= 0)
		options_refuse("--bandwidth: 0: leave it out for no limit");
	if (!grouped)
		o->open.machine.n_workers = (int)n;
}

/* The verb's row of this name; NULL: it has none. */
static const struct row *find(const char *name)
{
	for (const struct row *row = option_rows; row < option_rows + n_option_rows; row++)
		if (has(row) && !strcmp(row->name, name))
			return row;
	return NULL;
}

/* One of these, parted by blanks? */
static bool is_given(const char *names)
{
	for (size_t n; *names; names += n + (names[n] == ' ')) {
		n = strcspn(names, " ");
		for (int r = 0; r < n_option_rows; r++)
			if (reading.given[r].n && strlen(option_rows[r].name) == n &&
			    !strncmp(option_rows[r].name, names, n))
				return true;
	}
	return false;
}

static void check_rules(void)
{
	const struct refusal *refusal = option_refusals;

	for (; refusal < option_refusals + n_option_refusals; refusal++)
		if (refusal->verb == (unsigned)reading.verb && is_given(refusal->options))
			options_refuse("%s", refusal->message);
	for (const struct rule *rule = option_rules; rule < option_rules + n_option_rules; rule++)
		if (find(rule->other) && is_given(rule->options) &&
		    is_given(rule->other) == rule->together)
			options_refuse("%s", rule->message);
}

static void settle(struct options *o)
{
	if (o->compare.stages.n)
		o->open.n_stages = (int)o->compare.stages.values[0];
	check_rules();
	settle_links(o);
	if (!o->open.source && reading.verb == VERB_FIT)
		options_refuse("no MEASURED.csv: name a table of steps");
	if (!o->open.source && !(reading.verb & NO_SOURCE) && !o->links && !o->operators)
		options_refuse("no GRAPH: name a model's file, or a study such as chain:8 or "
			       "towers:3,3/2");
}

json_t *options_words(void)
{
	return json_incref(reading.words);
}

/* ---- several values ---- */

/* Is it below the last heading? */
static bool is_output(const struct row *row)
{
	while (row < option_rows + n_option_rows && row->name)
		row++;
	return row == option_rows + n_option_rows;
}

/* The row itself, or of an alias that which has its place. */
static const struct row *named(const struct row *row)
{
	return row - (row->how.kind == KIND_ALIAS);
}

/* The options whose values are compared, the later the faster they vary. */
static bool is_axis(const struct row *row)
{
	return row->how.kind != KIND_TEXTS && row->how.kind != KIND_COUNTS &&
	       reading.given[row - option_rows].n > 1;
}

static int n_values(int r)
{
	return is_axis(&option_rows[r]) ? reading.given[r].n : 1;
}

int options_n_combinations(void)
{
	int n = 1;

	for (int r = 0; r < n_option_rows; r++)
		if ((n *= n_values(r)) > MOST_COMBINATIONS)
			options_refuse("--%s: more than %d combinations of values: give fewer",
				       option_rows[r].name, MOST_COMBINATIONS);
	return n;
}

/* Which value of row r combination i has. */
static int choose(int r, int i)
{
	for (int k = n_option_rows - 1; k > r; k--)
		i /= n_values(k);
	return i % n_values(r);
}

static struct options defaults(void)
{
	struct options o = {.open = orr_open_options_default(),
			    .timeout_s = PLUGIN_TIMEOUT_S,
			    .run = orr_run_options_default(),
			    .keep = {.every = 100, .keep = 3},
			    .jitter.noise = {.n_samples = 1000, .seed = 1},
			    .train.steps = -1,
			    .supervise = {"/dev/shm", 3, 0, 0}};

	o.run.tell = progress_tell;
	o.run.lost = command_say;
	if (reading.verb == VERB_COMPARE)
		o.open.schedule = NULL;
	return o;
}

struct options options_combination(int i)
{
	struct options o = defaults();

	o.open.source = reading.source;
	for (int r = 0; r < n_option_rows; r++)
		if (option_rows[r].how.kind == KIND_TEXTS)
			o.compare.schedules = reading.given[r];
		else
			for (int k = 0; k < reading.given[r].n; k++)
				if (option_rows[r].how.kind == KIND_COUNTS || k == choose(r, i))
					read_value(named(&option_rows[r]), &o,
						   reading.given[r].values[k]);
	settle(&o);
	return o;
}

static json_t *axis_json(const char *text)
{
	size_t n = strlen(text);

	return n < 10 && strspn(text, "0123456789") == n ? json_integer(atoll(text))
							 : json_string(text);
}

json_t *options_axes(int i)
{
	json_t *axes = json_object();

	for (int r = 0; r < n_option_rows; r++)
		if (is_axis(&option_rows[r]) && !option_rows[r].how.parted)
			orr_json_set(&axes, option_rows[r].name,
				     axis_json(reading.given[r].values[choose(r, i)]));
	return axes;
}

bool options_is_column(const char *name)
{
	const struct row *row = find(name);

	return row && row->how.kind != KIND_FLAG && !is_output(row);
}

struct options options_with(const char *place, int n, char **names, char **values)
{
	struct texts *given = reading.given;
	size_t bytes = (size_t)n_option_rows * sizeof(*given);
	struct options o;

	reading.place = place;
	if (!(reading.given = malloc(bytes)))
		options_refuse("no memory for the options");
	memcpy(reading.given, given, bytes);
	for (int i = 0; i < n; i++) {
		if (!strcmp(names[i], "graph"))
			reading.source = values[i];
		else
			reading.given[find(names[i]) - option_rows] =
				(struct texts){1, {values[i]}};
	}
	o = options_combination(0);
	free(reading.given);
	reading.given = given;
	reading.place = NULL;
	return o;
}

/* ---- the words of the command line ---- */

static int key_of(const struct row *row)
{
	return row->letter ? row->letter : FIRST_KEY + (int)(row - option_rows);
}

static bool is_same(const struct row *row, const char *a, const char *b)
{
	return row->how.parted
		       ? read_number(row, name_of(row), a) == read_number(row, name_of(row), b)
		       : !strcmp(a, b);
}

/* One more value, where several are compared; else the last one counts. */
static void keep_value(const struct row *row, const char *text)
{
	struct texts *given = &reading.given[row - option_rows];
	bool several =
		reading.verb == VERB_COMPARE && row->how.kind != KIND_FLAG && !is_output(row);

	given->n = several ? given->n : 0;
	for (int i = 0; i < given->n; i++)
		if (is_same(row, given->values[i], text))
			options_refuse("%s: value %d is value %d again: leave one of them out",
				       name_of(row), given->n + 1, i + 1);
	if (given->n == MOST_LISTED)
		options_refuse("%s: at most %d values", name_of(row), MOST_LISTED);
	given->values[given->n++] = text;
}

/* The values of a text in which commas part them. They stay to the end of the command. */
static void keep_values(const struct row *row, const char *text)
{
	char *rest = strdup(text), *part;

	if (!rest)
		options_refuse("--%s: no memory", row->name);
	while ((part = strsep(&rest, ",")))
		keep_value(row, part);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)state;
	for (const struct row *row = option_rows; row < option_rows + n_option_rows; row++)
		if (has(row) && key_of(row) == key) {
			if (!is_output(row))
				orr_json_set(&reading.words, named(row)->name,
					     arg ? json_string(arg) : json_null());
			if (row->how.parted && reading.verb == VERB_COMPARE)
				keep_values(row, arg);
			else
				keep_value(row, arg);
			return 0;
		}
	if (key != ARGP_KEY_ARG || reading.verb & NO_SOURCE)
		return ARGP_ERR_UNKNOWN;
	if (reading.source)
		options_refuse("one GRAPH at a time: '%s' is a second one", arg);
	reading.source = arg;
	return 0;
}

/* Rows of the verb, with the headings of those that --help lists; options holds all rows, and an
 * end. */
static void list_options(struct argp_option *options)
{
	const char *heading = NULL;
	int group = 0;

	for (const struct row *row = option_rows; row < option_rows + n_option_rows; row++) {
		bool listed = row->verbs & (unsigned)reading.verb;

		if (!row->name) {
			heading = row->help;
			group++;
		}
		if (!has(row))
			continue;
		if (listed && heading) {
			*options++ = (struct argp_option){.doc = heading, .group = group};
			heading = NULL;
		}
		*options = (struct argp_option){row->name,  key_of(row),
						row->value, listed ? 0 : OPTION_HIDDEN,
						row->help,  group};
		if (row->how.kind == KIND_MAY_READ)
			options->flags |= OPTION_ARG_OPTIONAL;
		if (row->how.kind == KIND_ALIAS)
			options->flags |= OPTION_ALIAS;
		options++;
	}
}

/* Is the word, "--name", "--name=value" or "-xvalue", an option? */
static bool is_option(const char *word)
{
	size_t length = strcspn(word + 1, "=");

	for (const struct row *row = option_rows; row < option_rows + n_option_rows; row++)
		if (has(row) &&
		    (word[1] != '-' ? row->letter == word[1]
				    : !strncmp(row->name, word + 2, length - 1) &&
					      (row->how.kind != KIND_FLAG || !strchr(word, '='))))
			return true;
	return false;
}

/* The word that could not be parsed: the first that is no option, else the last one, which wants a
 * value. */
static const char *find_bad(int argc, char **argv)
{
	const char *last = argv[argc - 1];

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-')
			continue;
		if (!is_option(argv[i]))
			return argv[i];
		last = argv[i];
	}
	return last;
}

/* " (did you mean --workers?)" for "--num-workers=4". */
static const char *hint_option(const char *word)
{
	/* other words for workers */
	static const char *const workers[] = {"pp", "gpus", "devices", "nproc-per-node"};
	char option[64];
	struct orr_nearest near = orr_nearest_to(option + 2);

	(void)snprintf(option, sizeof(option), "%.*s", (int)strcspn(word, "="), word);
	if (strncmp(word, "--", 2) || is_option(option)) /* its value is wrong */
		return "";
	for (int i = 0; i < n_option_rows; i++)
		if (option_rows[i].verbs & (unsigned)reading.verb)
			orr_nearest_try(&near, option_rows[i].name,
					orr_text("--%s", option_rows[i].name));
	for (size_t i = 0; i < sizeof(workers) / sizeof(*workers) && is_option("--workers="); i++)
		orr_nearest_try(&near, workers[i], "--workers");
	return orr_nearest_hint(&near);
}

/* argp's own help, which ARGP_NO_ERRS would swallow. */
static void help(const struct argp *argp, int argc, char **argv)
{
	static char word[] = "--help";

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-h"))
			argv[i] = word;
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-?") ||
		    !strcmp(argv[i], "--usage")) {
			argp_help(argp, stdout,
				  strcmp(argv[i], "--usage") ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE,
				  argv[0]);
			exit(command_flush(0));
		}
	}
}

struct options options_read(enum verb verb, const char *works_on, const char *about, int argc,
			    char **argv)
{
	struct argp_option *options = calloc((size_t)n_option_rows + 1, sizeof(*options));
	const struct argp argp = {options, parse, works_on, about, NULL, NULL, NULL};

	reading.given = calloc((size_t)n_option_rows, sizeof(*reading.given));
	if (!options || !reading.given)
		options_refuse("no memory for the options");
	reading.verb = verb;
	reading.words = json_object();
	list_options(options);
	help(&argp, argc, argv);
	if (argp_parse(&argp, argc, argv, ARGP_NO_ERRS, NULL, NULL)) {
		const char *bad = find_bad(argc, argv);

		options_refuse(
			"'%s'%s is no option of `%s`, or lacks its value, or takes none: `%s "
			"--help` lists them",
			bad, hint_option(bad), argv[0], argv[0]);
	}
	free(options);
	for (int i = options_n_combinations() - 1; i > 0; i--) /* what is wrong is said at once */
		(void)options_combination(i);
	return options_combination(0);
}
