/* orrery compare: file -> graph -> pipelines -> every schedule on each -> one row each. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "command.h"
#include "options.h"
#include "report/compare.h"
#include "schedule/table.h"
#include "orrery/graph.h"
#include "report/html.h"
#include "output.h"
#include "orrery/plan.h"
#include "pipeline/numbering.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "progress.h"
#include "work.h"

/* ---- the entries ---- */

/* A schedule that was asked for, or every built-in one, with a plan's own where GRAPH is one. */
struct field {
	struct orr_opened x;
	struct orr_schedule own; /* name NULL: none */
	bool all;
	char name[256];
	int *home;             /* owned, see orr_opened_homes() */
	int first_cut, n_cuts; /* of the contest's */
};

/* All that is tried with one combination of options. */
struct contest {
	struct options a;
	struct field fields[MOST_LISTED];
	int n_fields;
	struct orr_pipeline *cuts[MOST_LISTED * MOST_LISTED];  /* owned */
	struct orr_pipeline *fewer[MOST_LISTED * MOST_LISTED]; /* owned; without --lose's worker */
	int n_cuts;
	struct orr_plan *plan; /* owned, or NULL: there is none */
	struct orr_schedule planned;
	struct orr_error no_plan; /* why */
	json_t *axes;             /* owned */
	struct orr_compared result;
};

static void contest_fini(struct contest *c)
{
	orr_comparison_destroy(c->result.rows);
	for (int i = 0; i < c->n_cuts; i++) {
		orr_pipeline_destroy(c->cuts[i]);
		orr_pipeline_destroy(c->fewer[i]);
	}
	orr_plan_destroy(c->plan);
	for (int i = 0; i < c->n_fields; i++) {
		orr_opened_fini(&c->fields[i].x);
		free(c->fields[i].home);
	}
	json_decref(c->axes);
}

/* Do the file, or the schedule's, say which operators make a stage? */
static bool is_fixed(const struct orr_opened *x)
{
	return x->plan || x->choice.table || orr_graph_has_pins(x->graph);
}

/* n_fewer: the stages of the workers that remain where one is lost. */
static int add_cut(struct contest *c, const struct orr_opened *x, int n_stages, int n_fewer,
		   struct orr_error *err)
{
	struct orr_pipeline **fewer = &c->fewer[c->n_cuts];
	int code = orr_opened_cut(&c->cuts[c->n_cuts], x, n_stages, err);

	c->n_cuts += !code;
	if (code || !c->a.outage.for_ns)
		return code;
	code = work_cut_fewer(fewer, x, n_fewer, err);
	return code == ORR_E_INPUT || code == ORR_E_UNSUPPORTED ? 0 : code;
}

/* A stage a worker, or as many fewer as makes connected stages, and where that goes two a worker.
 */
static int cut_to_workers(struct contest *c, const struct orr_opened *x, struct orr_error *err)
{
	int w = x->settled.machine.n_workers / x->settled.replicas,
	    n = is_fixed(x) ? 0 : orr_graph_n_computed(x->graph);
	int k = w < n ? w : 0, code;

	while ((code = add_cut(c, x, k, k < w ? k : w - 1, err)) == ORR_E_INPUT && k > 1)
		k--;
	if (code == ORR_E_INPUT && k) /* parts that nothing connects */
		code = add_cut(c, x, 0, 0, err);
	if (code || 2 * (int64_t)w > n)
		return code;
	code = add_cut(c, x, 2 * w, 2 * (w - 1), err);
	return code == ORR_E_INPUT ? 0 : code;
}

static int make_cuts(struct contest *c, const struct orr_opened *x, struct orr_error *err)
{
	const struct list *stages = &c->a.compare.stages;
	int code = 0;

	if (!stages->n)
		return cut_to_workers(c, x, err);
	if (x->plan || x->choice.plan)
		return orr_fail(err, ORR_E_INPUT,
				"--stages: the plan has its own: leave it out, or compare the "
				"graph with --plan");
	for (int i = 0; i < stages->n && !code; i++)
		code = add_cut(c, x, (int)stages->values[i], (int)stages->values[i], err);
	return code;
}

/* text NULL: every built-in one. */
static int add_field(struct contest *c, const char *text, struct orr_error *err)
{
	struct field *f = &c->fields[c->n_fields++];
	struct orr_opened *x = &f->x;
	struct options a = c->a;
	int code;

	a.open.schedule = text;
	a.open.given.schedule = text;
	a.open.first_alone = !a.jitter.given; /* noise differs among replicas */
	if ((code = work_open(x, &a, err)) || (code = work_check_failures(&a, x, err)) ||
	    (code = orr_opened_homes(&f->home, x, err)))
		return code;
	f->own = x->choice.schedule;
	f->all = !text;
	/* as it was asked for, with its parameters if any; a file has a name of its own */
	if (text && !x->choice.table && (!x->choice.module || strchr(text, ':')))
		f->own.name = orr_utf8_print(f->name, sizeof(f->name), text);
	if (!is_fixed(x) && c->n_cuts && !is_fixed(&c->fields[0].x)) {
		f->n_cuts = c->fields[0].n_cuts;
		return 0;
	}
	f->first_cut = c->n_cuts;
	code = make_cuts(c, x, err);
	f->n_cuts = c->n_cuts - f->first_cut;
	return code;
}

static int add_fields(struct contest *c, struct orr_error *err)
{
	const struct texts *asked = &c->a.compare.schedules;
	int code = asked->n ? 0 : add_field(c, NULL, err);

	for (int i = 0; i < asked->n && !code; i++)
		code = add_field(c, strcmp(asked->values[i], "all") ? asked->values[i] : NULL, err);
	return code;
}

/* What the planner makes of it, for the same memory and links. Where nothing fits that is a reason,
 * and no failure. */
static int make_plan(struct contest *c, const struct orr_opened *x, struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	const struct orr_plan_options plan_options = {
		.levels = o->machine.levels.n
				  ? o->machine.levels
				  : (struct orr_levels){1,
							{o->machine.n_workers},
							{o->machine.bandwidth_bytes_per_s},
							{o->machine.latency_ns}},
		.cluster = o->machine.cluster,
		.activations = true,
		.by_makespan = true,
		.memory_bytes = o->machine.memory_bytes,
		.numerics = o->numerics,
		.n_microbatches = o->n_microbatches,
		.samples = orr_open_samples(o),
		.flops_per_s = o->machine.flops_per_s,
	};
	int code;

	if (o->microbatch_costs)
		return orr_fail(err, ORR_E_INPUT,
				"--plan makes stages of its own, and --microbatch-costs names "
				"those of this cut: leave one of them out, or give --lengths");
	if (x->graph->whole)
		return orr_fail(err, ORR_E_INPUT,
				"--plan does not look at splits: leave it or --split out, or ask "
				"`orrery plan` with --split");
	code = orr_plan_create(&c->plan, x->graph, &plan_options, &c->no_plan);
	if (code && code != ORR_E_INPUT && code != ORR_E_UNSUPPORTED)
		return orr_fail(err, code, "%s", c->no_plan.msg);
	if (!code)
		orr_table_schedule(&c->planned, c->plan->table);
	c->planned.name = "plan";
	return 0;
}

/* ", --latency 2ms"; replicas and a number of workers stand in the title anyhow. */
static const char *axes_text(json_t *axes)
{
	const char *name, *text = "";
	json_t *value;

	json_object_foreach(axes, name, value)
	{
		bool number = json_is_integer(value);

		if (strcmp(name, "replicas") && (!number || strcmp(name, "workers")))
			text = orr_text(
				"%s, --%s %s", text, name,
				number ? orr_text("%lld", (long long)json_integer_value(value))
				       : json_string_value(value));
	}
	return text;
}

/* "chain:8: 4 or 8 stages on 4 workers of 16 GB, 8 microbatches" */
static void give_title(struct contest *c)
{
	const struct orr_open_options *o = &c->fields[0].x.settled;
	/* of --memory: workers of --machine have their own */
	bool limited = o->machine.memory_bytes > 0 && !o->machine.cluster;
	const char *cuts = "";
	char source[128];

	for (int i = 0; i < c->fields[0].n_cuts; i++)
		cuts = orr_text("%s%s%d", cuts,
				!i                             ? ""
				: i + 1 == c->fields[0].n_cuts ? " or "
							       : ", ",
				c->cuts[i]->n_stages);
	(void)snprintf(
		c->result.title, sizeof(c->result.title), "%s: %s stage%s on %s%s%s, %s%s%s%s",
		orr_utf8_print(source, sizeof(source), o->source), cuts,
		strcmp(cuts, "1") ? "s" : "", orr_count_text(o->machine.n_workers, "worker"),
		limited ? " of " : "", limited ? orr_size_text(o->machine.memory_bytes) : "",
		orr_count_text(o->n_microbatches, "microbatch"),
		o->replicas > 1 ? orr_text(" in %d replicas", o->replicas) : "",
		c->a.compare.front ? orr_text("; auto in up to %d memories", ORR_MOST_FRONT) : "",
		axes_text(c->axes));
}

/* ---- the result ---- */

/* files: and what --svg, --csv and --html ask for. */
static int print(const struct contest *contests, const struct orr_compared *tables, int n,
		 bool files, struct orr_error *err)
{
	const struct options *a = &contests->a;
	bool wanted = a->output.json || a->output.csv || a->output.html;
	json_t *report =
		wanted ? orr_compared_json(tables, n, contests->fields[0].x.graph->name, err)
		       : NULL;
	const struct orr_page page = {.command = "compare", .report = report};
	struct output_stream s;
	int code = 0;

	if (wanted && !report)
		return ORR_E_NOMEM;
	if (a->output.json)
		code = output_json(json_incref(report), err);
	for (int i = 0; i < n && !a->output.json; i++) {
		printf("%s", i ? "\n" : "");
		orr_compared_write(stdout, &tables[i]);
	}
	if (!code && fflush(stdout))
		code = orr_fail(err, ORR_E_IO, "standard output could not be written");
	if (!code && files && a->output.svg && !(code = output_begin(&s, a->output.svg, err)))
		code = output_end(&s, orr_comparison_svg(s.file, tables->rows, tables->title, err),
				  err);
	if (!code && files && a->output.csv && !(code = output_begin(&s, a->output.csv, err)))
		code = output_end(&s, orr_compared_csv(s.file, report, tables, n, err), err);
	if (!code && files)
		code = output_html(&a->output, &page, err);
	json_decref(report);
	return code;
}

static void rank(struct orr_comparison *rows, const struct options *a)
{
	orr_comparison_rank(rows, a->compare.rank);
	for (int i = rows->n_fitting; i < rows->n; i++)
		command_name_options(rows->contenders[i].reason);
}

/* ---- Ctrl-C ---- */

static struct so_far {
	struct contest *contests;
	char *text; /* what a handler of signals can write at once: the rows so far; or NULL */
	size_t size;
	int out;
} so_far;

/* The signal comes again when this returns, and ends the process. */
static void give_so_far(int number)
{
	static const char said[] = "orrery: interrupted: the rows so far, and no files\n";
	ssize_t n = 1;
	for (size_t at = 0; at < so_far.size && n > 0; at += (size_t)n)
		n = write(so_far.out, so_far.text + at, so_far.size - at);
	if (!so_far.size || write(STDERR_FILENO, said, sizeof(said) - 1) > 0)
		signal(number, SIG_DFL);
	raise(number);
}

/* An entry's next. Where there is no memory for it, what was kept before remains. */
static void keep_so_far(void *contest, const char *schedule, struct orr_comparison *rows)
{
	struct contest *c = contest;
	int n = (int)(c - so_far.contests) + (rows->n > 0);
	struct orr_compared *tables = calloc((size_t)n + 1, sizeof(*tables));
	FILE *stream = NULL;
	char *text = NULL, *before = so_far.text;
	sigset_t interrupt;
	size_t size;

	progress_doing("trying ", schedule);
	if (n && tables && (stream = open_memstream(&text, &size))) {
		rank(rows, &c->a);
		give_title(c);
		for (int i = 0; i < n; i++)
			tables[i] = so_far.contests[i].result;
		tables[n - 1].rows = rows->n ? rows : tables[n - 1].rows;
#ifdef __GLIBC__ /* others have a stdout that is fixed, and in a page nobody interrupts */
		FILE *out = stdout;

		stdout = stream;
		(void)print(so_far.contests, tables, n, false, NULL);
		stdout = out;
#endif
	}
	if (stream && !fclose(stream)) {
		sigemptyset(&interrupt);
		sigaddset(&interrupt, SIGINT);
		sigprocmask(SIG_BLOCK, &interrupt, NULL);
		so_far.text = text;
		so_far.size = size;
		sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
		free(before);
	}
	free(tables);
}

/* ---- contests ---- */

/* The rows that the contest's fields, plan and front ask for. */
static int list_entries(struct orr_entry *entries, const struct contest *c)
{
	const struct compare_options *asked = &c->a.compare;
	int n = 0;

	for (int i = 0; i < c->n_cuts; i++)
		for (const struct field *f = c->fields; f < c->fields + c->n_fields; f++) {
			if (i < f->first_cut || i >= f->first_cut + f->n_cuts)
				continue;
			if (f->own.name)
				entries[n++] = (struct orr_entry){
					.pipeline = c->cuts[i],
					.fewer = c->fewer[i],
					.schedule = &f->own,
					.home = f->x.choice.table ? NULL : f->home};
			if (f->all)
				entries[n++] = (struct orr_entry){.pipeline = c->cuts[i],
								  .fewer = c->fewer[i],
								  .home = f->home};
		}
	if (asked->plan)
		entries[n++] =
			(struct orr_entry){.pipeline = c->plan ? c->plan->pipeline : c->cuts[0],
					   .schedule = &c->planned,
					   .refused = c->plan ? NULL : c->no_plan.msg};
	for (int i = 0; i < c->fields[0].n_cuts && asked->front; i++)
		entries[n++] = (struct orr_entry){/* up to the memory of those before */
						  .pipeline = c->cuts[i],
						  .front = true,
						  .within_ns = asked->within_ns,
						  .home = c->fields[0].home};
	return n;
}

static int hold(struct contest *c, struct orr_error *err)
{
	const struct orr_opened *x = &c->fields[0].x;
	struct orr_entry *entries;
	int code = c->a.compare.plan ? make_plan(c, x, err) : 0, n;

	if (code)
		return code;
	if (!(entries = calloc((size_t)(2 * c->n_fields + 2) * MOST_LISTED, sizeof(*entries))))
		return orr_fail(err, ORR_E_NOMEM, "compare: no memory");
	n = list_entries(entries, c);
	for (int i = 0; i < n; i++) {
		entries[i].order = x->settled.order;
		entries[i].noise = c->result.noise;
		entries[i].failures = c->result.failures;
		entries[i].outage = c->result.outage;
		entries[i].next = keep_so_far;
		entries[i].user = c;
	}
	code = orr_compare(&c->result.rows, entries, n, c->a.compare.stages.n > 1, err);
	free(entries);
	if (!code)
		rank(c->result.rows, &c->a);
	return code;
}

static int check_any_fits(const struct orr_compared *tables, int n, struct orr_error *err)
{
	const struct orr_contender *first = &tables[0].rows->contenders[0];

	for (int i = 0; i < n; i++)
		if (tables[i].rows->n_fitting)
			return 0;
	return orr_fail(err, ORR_E_INPUT, "no schedule fits; %s: %s", first->schedule,
			first->reason);
}

static int check_within(const struct options *a, bool units, struct orr_error *err)
{
	if (a->compare.within_ns && a->compare.within_units != units)
		return orr_fail(err, ORR_E_INPUT, "--within: %s",
				units ? "the costs are units, so it is a plain number"
				      : "it has no unit, and the costs are times: say 1.5s");
	return 0;
}

/* Contest i of all combinations of options. */
static int hold_titled(struct contest *c, int i, struct orr_error *err)
{
	const struct orr_opened *x = &c->fields[0].x;
	int code;

	c->a = options_combination(i);
	c->axes = options_axes(i);
	if ((code = add_fields(c, err)))
		return code;
	if (c->a.compare.front && x->settled.machine.memory_bytes)
		return orr_fail(err, ORR_E_INPUT,
				"--front goes through the memories itself: leave `memory` out of "
				"the file of --machine");
	c->result = (struct orr_compared){.machine = &x->settled.machine,
					  .noise = options_noise(&c->a),
					  .failures = c->a.failures.mtbf_ns ? &c->a.failures : NULL,
					  .outage = c->a.outage.every ? &c->a.outage : NULL,
					  .n_microbatches = x->settled.n_microbatches,
					  .limit_bytes = x->settled.machine.memory_bytes,
					  .front = c->a.compare.front,
					  .within_ns = c->a.compare.within_ns,
					  .within_by = "--within",
					  .defined_by = "`orrery simulate --help`",
					  .axes = c->axes};
	if ((code = orr_open_check_batch(&x->settled, x->graph, err)) || (code = hold(c, err)) ||
	    (code = check_within(&c->a, c->result.rows->units, err)))
		return code;
	give_title(c);
	return 0;
}

/* One contest for each combination. */
static int compare(int n, struct orr_error *err)
{
	struct contest *contests = calloc((size_t)n, sizeof(*contests));
	struct orr_compared *tables = calloc((size_t)n, sizeof(*tables));
	struct sigaction mine = {.sa_handler = give_so_far}, old;
	int code = 0;

	so_far = (struct so_far){contests, .out = fileno(stdout)};
	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &mine, NULL);
	if (!contests || !tables)
		code = orr_fail(err, ORR_E_NOMEM, "compare: no memory for %d tables", n);
	for (int i = 0; i < n && !code; i++)
		code = hold_titled(&contests[i], i, err);
	if (!code) {
		sigaction(SIGINT, &old, NULL); /* all of it will be printed */
		progress_doing(NULL, NULL);
		for (int i = 0; i < n; i++)
			tables[i] = contests[i].result;
		if (!(code = print(contests, tables, n, true, err)))
			code = check_any_fits(tables, n, err);
	}
	for (int i = 0; contests && i < n; i++)
		contest_fini(&contests[i]);
	free(contests);
	free(tables);
	return code;
}

static int check(const struct options *a, struct orr_error *err)
{
	if (a->compare.rank != ORR_RANK_MAKESPAN && !a->jitter.given)
		return orr_fail(err, ORR_E_INPUT,
				"--rank: by a figure of noise, and there is none: give --jitter "
				"lognormal:0.2, or leave it out");
	if (a->output.svg && options_n_combinations() > 1)
		return orr_fail(err, ORR_E_INPUT,
				"--svg draws one table: give one value of -m, of --memory, and of "
				"each other option, or take --html, which draws any two columns "
				"of all");
	for (int i = options_n_combinations() - 1; i > 0; i--)
		if (options_combination(i).open.costs.units != a->open.costs.units)
			return orr_fail(err, ORR_E_INPUT,
					"--costs: some are units and some times, which do not "
					"compare: write all as 1 or all as 1ms");
	return 0;
}

int cmd_compare(int argc, char **argv)
{
	const struct options a = options_read(
		VERB_COMPARE, "GRAPH",
		"Simulate every schedule that fits the workers and the memory, side "
		"by side, or those that --schedule names. Any option of the model, the "
		"step or the machine may be given several times: a table for each "
		"combination of values.",
		argc, argv);
	struct orr_error err = {""};
	int code;

	if (!(code = check(&a, &err)) && !(code = output_check(&a.output, &err)))
		code = compare(options_n_combinations(), &err);
	return command_end(code, &err);
}
