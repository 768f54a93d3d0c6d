/* What a node of a DOT file may say. */
#include "dot.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/operator.h"
#include "base/arrays.h"
#include "base/nearest.h"
#include "base/quantity.h"

#define MOST_WORKERS (1 << 20) /* that a gang may name */

/* What a node of any op may say; that of one op: its descriptor's. */
static const struct attribute {
	const char *name;
	enum { DURATION, SIZE, NAME, TRUTH, EXPONENT, STAGE, REPEAT, GATHER, GANG, SPLIT } kind;
	size_t offset; /* in struct orr_operator; 0: it has more than one field, or is none of it */
} attributes[] = {
	{"stage", STAGE, 0},
	{"repeat", REPEAT, 0},
	{"frozen", TRUTH, offsetof(struct orr_operator, frozen)},
	{"recompute", TRUTH, offsetof(struct orr_operator, recompute)},
	{"share", NAME, offsetof(struct orr_operator, share)},
	{"gather", GATHER, offsetof(struct orr_operator, gather)},
	{"gang", GANG, 0},
	{"with", NAME, offsetof(struct orr_operator, with)},
	{"split", SPLIT, 0},
	{"forward", DURATION, offsetof(struct orr_operator, forward_ns)},
	{"backward", DURATION, offsetof(struct orr_operator, backward_ns)},
	{"weight", DURATION, offsetof(struct orr_operator, weight_ns)},
	{"update", DURATION, offsetof(struct orr_operator, update_ns)},
	{"activation", SIZE, offsetof(struct orr_operator, activation_bytes)},
	{"stash", SIZE, offsetof(struct orr_operator, stash_bytes)},
	{"parameters", SIZE, offsetof(struct orr_operator, parameter_bytes)},
	{"length_exponent", EXPONENT, offsetof(struct orr_operator, length_exponent)},
};
#define N_ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static const struct attribute *find(const char *name)
{
	for (size_t i = 0; i < N_ATTRIBUTES; i++)
		if (strcmp(attributes[i].name, name) == 0)
			return &attributes[i];
	return NULL;
}

/* Of edges; and of graphs and subgraphs. */
static const char edge_own[] = " bytes gradient_bytes gradient ";
static const char graph_own[] =
	" data overhead samples profiled repeat frozen split length_exponent ";

/* From Graphviz's own list, attributes of single layouts included. Separated by blanks. */
static const char node_drawing[] =
	" URL area class color colorscheme comment distortion fillcolor fixedsize "
	"fontcolor fontname fontsize gradientangle group height href id image imagepos "
	"imagescale label labelloc layer margin nojustify ordering orientation penwidth "
	"peripheries pin pos rects regular root samplepoints shape shapefile showboxes "
	"sides skew sortv style target tooltip vertices width xlabel xlp z ";
static const char edge_drawing[] =
	" URL arrowhead arrowsize arrowtail class color colorscheme comment constraint "
	"decorate dir edgeURL edgehref edgetarget edgetooltip fillcolor fontcolor "
	"fontname fontsize headURL head_lp headclip headhref headlabel headport "
	"headtarget headtooltip href id label labelURL labelangle labeldistance "
	"labelfloat labelfontcolor labelfontname labelfontsize labelhref labeltarget "
	"labeltooltip layer len lhead lp ltail minlen nojustify penwidth pos samehead "
	"sametail showboxes style tailURL tail_lp tailclip tailhref taillabel tailport "
	"tailtarget tailtooltip target tooltip weight xlabel xlp key ";
static const char graph_drawing[] =
	" Damping K URL _background area bb beautify bgcolor center charset class "
	"cluster clusterrank color colorscheme comment compound concentrate defaultdist "
	"dim dimen diredgeconstraints dpi epsilon esep fillcolor fontcolor fontname "
	"fontnames fontpath fontsize forcelabels gradientangle href id imagepath "
	"inputscale label label_scheme labeljust labelloc landscape layer layerlistsep "
	"layers layerselect layersep layout levels levelsgap lheight linelength lp "
	"lwidth margin maxiter mclimit mindist mode model newrank nodesep nojustify "
	"normalize notranslate nslimit nslimit1 oneblock ordering orientation "
	"outputorder overlap overlap_scaling overlap_shrink pack packmode pad page "
	"pagedir pencolor penwidth peripheries quadtree quantum rank rankdir ranksep "
	"ratio remincross repulsiveforce resolution root rotate rotation scale "
	"searchsize sep showboxes size smoothing sortv splines start style stylesheet "
	"target tooltip truecolor viewport voro_margin xdotversion ";

static bool is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || strchr(name, ' '))
		return false;
	for (; (list = strstr(list, name)); list++)
		if (list[-1] == ' ' && list[length] == ' ')
			return true;
	return false;
}

static const char *drawing_of(char kind)
{
	return kind == 'n' ? node_drawing : kind == 'e' ? edge_drawing : graph_drawing;
}

bool orr_attribute_draws(char kind, const char *name)
{
	return is_listed(drawing_of(kind), name);
}

bool orr_attribute_is_known(char kind, const char *name)
{
	return is_listed(kind == 'e' ? edge_own : graph_own, name) ||
	       orr_attribute_draws(kind, name);
}

/* The attributes that op alone has; op may be NULL. */
static const struct orr_attribute *own_of(const struct orr_op *op)
{
	static const struct orr_attribute none = {0};

	return op && op->attributes ? op->attributes : &none;
}

const char *orr_attribute_hint(char kind, const char *name, const struct orr_op *op)
{
	struct orr_nearest near = orr_nearest_to(name);

	if (kind == 'n') {
		orr_nearest_try(&near, "op", NULL);
		for (const struct orr_attribute *a = own_of(op); a->name; a++)
			orr_nearest_try(&near, a->name, NULL);
		for (size_t i = 0; i < N_ATTRIBUTES; i++)
			orr_nearest_try(&near, attributes[i].name, NULL);
	} else {
		orr_nearest_try_all(&near, kind == 'e' ? edge_own : graph_own);
	}
	orr_nearest_try_all(&near, drawing_of(kind));
	return orr_nearest_hint(&near);
}

bool orr_attribute_is_cost(const char *name)
{
	const struct attribute *a = find(name);

	return a && (a->kind == DURATION || a->kind == SIZE);
}

/* "0:4,8:12,20": half-open ranges and single numbers of columns or of workers, `things`. *out is
 * the caller's to free, after an error too. */
static int read_ranges(int64_t **out, int64_t *n, const char *text, int64_t most,
		       const char *things, const char *what, struct orr_error *err)
{
	char *copy = strdup(text), *next = copy, *range;
	int code = copy ? 0 : orr_no_memory(err, what);

	*n = 0;
	while (!code && (range = strsep(&next, ","))) {
		char *begin = strsep(&range, ":");
		int64_t low = 0, high = 0, *more;

		code = orr_count_parse(&low, begin, 0, most, what, err);
		high = low + 1;
		if (!code && range)
			code = orr_count_parse(&high, range, 0, most, what, err);
		if (!code && (high <= low || *n + high - low > most))
			code = orr_fail(err, ORR_E_INPUT,
					high <= low ? "%s: %lld:%lld is empty: the second number "
						      "is the first one that is not taken, "
						      "0:16 is 16 %s"
						    : "%s: %lld:%lld makes too many %s",
					what, (long long)low, (long long)high, things);
		if (code)
			break;
		if (!(more = realloc(*out, (size_t)(*n + high - low) * sizeof(**out))))
			code = orr_no_memory(err, what);
		else
			*out = more;
		while (!code && low < high)
			(*out)[(*n)++] = low++;
	}
	free(copy);
	return code;
}

static int set_name(char **name, const char *text, const char *what, struct orr_error *err)
{
	free(*name);
	*name = *text ? strdup(text) : NULL; /* "" takes back a default */
	return *name || !*text ? 0 : orr_no_memory(err, what);
}

static int fail_value(const struct orr_attribute *a, const char *text, const char *what,
		      struct orr_error *err)
{
	return orr_fail(err, ORR_E_INPUT, "%s: '%.60s': give %s", what, text,
			a->form == ORR_ATTRIBUTE_RANGE
				? "the first number and the one behind the last, as in 0:16"
				: a->choices);
}

/* "sum" of "mean, sum": 1. */
static int set_choice(double *value, const struct orr_attribute *a, const char *text,
		      const char *what, struct orr_error *err)
{
	size_t length = strlen(text);
	const char *choice = a->choices;

	for (*value = 0; choice; ++*value) {
		if (length == strcspn(choice, ",") && strncmp(choice, text, length) == 0)
			return 0;
		choice = strchr(choice, ' ');
		choice += choice != NULL;
	}
	return fail_value(a, text, what, err);
}

static int set_range(double *values, const struct orr_attribute *a, const char *text,
		     const char *what, struct orr_error *err)
{
	int64_t *numbers = NULL, n;
	int code = read_ranges(&numbers, &n, text, ORR_MOST_COLUMNS, a->name, what, err);

	if (!code) {
		values[0] = (double)numbers[0];
		values[1] = (double)(numbers[n - 1] + 1);
		if (numbers[n - 1] + 1 - numbers[0] != n || strchr(text, ','))
			code = fail_value(a, text, what, err);
	}
	free(numbers);
	return code;
}

static int set_own(struct orr_operator *o, const struct orr_attribute *a, const char *text,
		   const char *what, struct orr_error *err)
{
	double *value = &o->instance->values[orr_op_value(o->instance->op, a)];
	int64_t count = 0;
	bool truth = false;
	int code = 0;

	switch (a->form) {
	case ORR_ATTRIBUTE_COUNT:
		code = orr_count_parse(&count, text, (int64_t)a->least, (int64_t)a->most, what,
				       err);
		*value = (double)count;
		break;
	case ORR_ATTRIBUTE_TRUTH:
		code = orr_attribute_truth(&truth, text, what, err);
		*value = truth;
		break;
	case ORR_ATTRIBUTE_REAL:
		return orr_real_parse(value, text, a->least, a->most, what, err);
	case ORR_ATTRIBUTE_CHOICE:
		return set_choice(value, a, text, what, err);
	case ORR_ATTRIBUTE_RANGE:
		return set_range(value, a, text, what, err);
	case ORR_ATTRIBUTE_COLUMNS:
		free(o->columns);
		o->columns = NULL;
		return read_ranges(&o->columns, &o->width, text, ORR_MOST_COLUMNS, "columns", what,
				   err);
	case ORR_ATTRIBUTE_TEXT:
		return set_name(&o->tensor, text, what, err);
	}
	return code;
}

/* A number, "4", or a set, "0:4" or "0,2,3". */
static int set_gang(struct orr_operator *o, const char *text, const char *what,
		    struct orr_error *err)
{
	int64_t n = 0, *workers = NULL;
	int code = strpbrk(text, ":,")
			   ? read_ranges(&workers, &n, text, MOST_WORKERS, "workers", what, err)
			   : orr_count_parse(&n, text, 1, MOST_WORKERS, what, err);

	free(o->gang);
	o->gang = NULL;
	o->n_gang = code ? 0 : (int)n;
	if (!code && workers && !(o->gang = malloc((size_t)n * sizeof(*o->gang))))
		code = orr_no_memory(err, what);
	for (int64_t i = 0; !code && workers && i < n; i++)
		o->gang[i] = (int)workers[i];
	free(workers);
	return code;
}

int orr_attribute_truth(bool *truth, const char *text, const char *what, struct orr_error *err)
{
	*truth = strcmp(text, "true") == 0;
	if (*truth || strcmp(text, "false") == 0)
		return 0;
	return orr_fail(err, ORR_E_INPUT, "%s: '%.60s': give true or false", what, text);
}

static int set_gather(bool *gather, const char *text, const char *what, struct orr_error *err)
{
	*gather = strcmp(text, "minibatch") == 0;
	return *gather || !*text
		       ? 0
		       : orr_fail(err, ORR_E_INPUT, "%s: '%.60s': give minibatch, or leave it out",
				  what, text);
}

int orr_attribute_set_edge(struct orr_read *read, const char *name, const char *text,
			   const char *what, struct orr_error *err)
{
	bool gradient;
	int code;

	if (strcmp(name, "bytes") == 0)
		return orr_size_parse(&read->bytes, text, what, err);
	if (strcmp(name, "gradient_bytes") == 0)
		return orr_size_parse(&read->gradient_bytes, text, what, err);
	if (!(code = orr_attribute_truth(&gradient, text, what, err)))
		read->detached = !gradient;
	return code;
}

int orr_attribute_split(int *t, bool *copied, const char *text, const char *what,
			struct orr_error *err)
{
	size_t length = strcspn(text, ":");
	int64_t value;
	int code;

	if (text[length] && strcmp(text + length, ":copied") != 0)
		return orr_fail(err, ORR_E_INPUT,
				"%s: '%.60s': give a number of workers, 2, or 2:copied, where what "
				"lies between products is copied instead of split by rows",
				what, text);
	if ((code = orr_count_parse(&value, orr_text("%.*s", (int)length, text), 1, ORR_MOST_SPLIT,
				    what, err)))
		return code;
	*t = (int)value;
	*copied = text[length] != 0;
	return 0;
}

int orr_attribute_duration(int64_t *ns, struct orr_dot_durations *durations, const char *what,
			   int line, const char *text, struct orr_error *err)
{
	bool plain = false;
	int code = orr_duration_parse(ns, &plain, text, what, err);

	if (code)
		return code;
	if (plain && *ns == 0) {
		durations->plain_zero = true;
		return 0;
	}
	if (plain && !durations->plain_line)
		durations->plain_line = line;
	if (!plain && !durations->unit_line)
		durations->unit_line = line;
	if (durations->plain_line && durations->unit_line)
		return orr_fail(err, ORR_E_INPUT,
				"%s: %.60s %s, and the duration in line %d %s: give all "
				"durations units, or none",
				what, text, plain ? "has no unit" : "has a unit",
				plain ? durations->unit_line : durations->plain_line,
				plain ? "has one" : "has none");
	return 0;
}

static int fail_unknown(const struct orr_draft_operator *o, const char *place, const char *name,
			struct orr_error *err)
{
	const struct orr_op *op = o->is.instance ? o->is.instance->op : NULL;
	const char *known = "";

	for (const struct orr_attribute *a = own_of(op); a->name; a++)
		if (!find(a->name))
			known = orr_text("%s%s, ", known, a->name);
	for (size_t i = 0; i < N_ATTRIBUTES; i++)
		known = orr_text("%s%s, ", known, attributes[i].name);
	return orr_fail(err, ORR_E_INPUT,
			"%s%s is no attribute of %s%s: use op, %sor what Graphviz draws with",
			place, orr_attribute_hint('n', name, op), op ? "op=" : "a study operator",
			op ? op->name : "", known);
}

int orr_attribute_set(struct orr_draft_operator *o, struct orr_dot_durations *durations,
		      const char *file, int line, const char *name, const char *text,
		      struct orr_error *err)
{
	const struct attribute *a = find(name);
	const struct orr_attribute *own;
	/* "file.dot:12: node fc1: features" */
	const char *place = orr_text("%s: %.60s", orr_location(file, line, o->is.name), name);
	void *field = (char *)&o->is + (a ? a->offset : 0);
	int64_t stage = o->is.stage;
	int code;

	for (own = own_of(o->is.instance ? o->is.instance->op : NULL); own->name; own++)
		if (strcmp(own->name, name) == 0)
			return set_own(&o->is, own, text, place, err);
	if (!a)
		return orr_attribute_draws('n', name) ? 0 : fail_unknown(o, place, name, err);
	switch (a->kind) {
	case DURATION:
		return orr_attribute_duration(field, durations, place, line, text, err);
	case SIZE:
		return orr_size_parse(field, text, place, err);
	case NAME:
		return set_name(field, text, place, err);
	case TRUTH:
		return orr_attribute_truth(field, text, place, err);
	case EXPONENT:
		return orr_real_parse(field, text, 0, ORR_MOST_EXPONENT, place, err);
	case GATHER:
		return set_gather(field, text, place, err);
	case GANG:
		return set_gang(&o->is, text, place, err);
	case SPLIT:
		return orr_attribute_split(&o->is.split, &o->is.split_copied, text, place, err);
	case REPEAT:
		return orr_count_parse(&o->repeat, text, 1, ORR_MOST_OPERATORS, place, err);
	case STAGE:
		break;
	}
	code = orr_count_parse(&stage, text, 0, ORR_MOST_OPERATORS - 1, place, err);
	o->is.stage = (int)stage;
	return code;
}
