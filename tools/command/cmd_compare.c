/* orrery compare: file -> graph -> pipelines -> every schedule on each -> one row each. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* All that is tried with one number of microbatches and one memory. */
struct contest {
	struct orr_pipeline *cuts[MOST_LISTED]; /* owned */
	int n_cuts;
	struct orr_plan *plan; /* owned, or NULL: there is none */
	int *home;             /* owned, see orr_opened_homes() */
	struct orr_schedule planned;
	char own[256];            /* name of the schedule that was asked for */
	struct orr_error no_plan; /* why */
	struct orr_compared result;
};

static void contest_fini(struct contest *c)
{
	orr_comparison_destroy(c->result.rows);
	for (int i = 0; i < c->n_cuts; i++)
		orr_pipeline_destroy(c->cuts[i]);
	orr_plan_destroy(c->plan);
	free(c->home);
}

/* A stage a worker, or as many fewer as makes connected stages, and where that goes two a worker.
 */
static int cut_to_workers(struct contest *c, const struct orr_opened *x, struct orr_error *err)
{
	/* the file, or the schedule's, may say which operators make a stage */
	bool fixed = x->plan || x->choice.table || orr_graph_has_pins(x->graph);
	int w = x->settled.machine.n_workers / x->settled.replicas,
	    n = fixed ? 0 : orr_graph_n_computed(x->graph);
	int k = w < n ? w : 0, code;

	while ((code = orr_opened_cut(&c->cuts[0], x, k, err)) == ORR_E_INPUT && k > 1)
		k--;
	if (code == ORR_E_INPUT && k) /* parts that nothing connects */
		code = orr_opened_cut(&c->cuts[0], x, 0, err);
	if (code)
		return code;
	c->n_cuts = 1;
	if (2 * (int64_t)w > n)
		return 0;
	code = orr_opened_cut(&c->cuts[1], x, 2 * w, err);
	c->n_cuts += !code;
	return code == ORR_E_INPUT ? 0 : code;
}

static int make_cuts(struct contest *c, const struct options *a, const struct orr_opened *x,
		     struct orr_error *err)
{
	int code = 0;

	if (!a->compare.stages.n)
		return cut_to_workers(c, x, err);
	if (x->plan || x->choice.plan)
		return orr_fail(err, ORR_E_INPUT,
				"--stages: the plan has its own: leave it out, or compare the "
				"graph with --plan");
	for (int i = 0; i < a->compare.stages.n && !code; i++) {
		code = orr_opened_cut(&c->cuts[i], x, (int)a->compare.stages.values[i], err);
		c->n_cuts += !code;
	}
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
	code = orr_plan_create(&c->plan, x->graph, &plan_options, &c->no_plan);
	if (code && code != ORR_E_INPUT && code != ORR_E_UNSUPPORTED)
		return orr_fail(err, code, "%s", c->no_plan.msg);
	if (!code)
		orr_table_schedule(&c->planned, c->plan->table);
	c->planned.name = "plan";
	return 0;
}

/* "chain:8: 4 or 8 stages on 4 workers of 16 GB, 8 microbatches" */
static void give_title(struct contest *c, const struct options *a, const struct orr_opened *x)
{
	const struct orr_open_options *o = &x->settled;
	/* of --memory: workers of --machine have their own */
	bool limited = o->machine.memory_bytes > 0 && !o->machine.cluster;
	char source[128], cuts[14 * MOST_LISTED] = "", front[40] = "", in[40] = "";

	for (int i = 0, used = 0; i < c->n_cuts; i++)
		used += snprintf(cuts + used, sizeof(cuts) - (size_t)used, "%s%d",
				 !i                   ? ""
				 : i + 1 == c->n_cuts ? " or "
						      : ", ",
				 c->cuts[i]->n_stages);
	if (a->compare.front)
		(void)snprintf(front, sizeof(front), "; auto in up to %d memories", ORR_MOST_FRONT);
	if (o->replicas > 1)
		(void)snprintf(in, sizeof(in), " in %d replicas", o->replicas);
	(void)snprintf(c->result.title, sizeof(c->result.title), "%s: %s stage%s on %s%s%s, %s%s%s",
		       orr_utf8_print(source, sizeof(source), o->source), cuts,
		       c->n_cuts == 1 && c->cuts[0]->n_stages == 1 ? "" : "s",
		       orr_count_text(o->machine.n_workers, "worker"), limited ? " of " : "",
		       limited ? orr_size_text(o->machine.memory_bytes) : "",
		       orr_count_text(o->n_microbatches, "microbatch"), in, front);
}

/* ---- the result ---- */

/* files: and what --svg, --csv and --html ask for. */
static int print(const struct options *a, const struct orr_compared *tables, int n,
		 const struct orr_opened *x, bool files, struct orr_error *err)
{
	bool wanted = a->output.json || a->output.csv || a->output.html;
	json_t *report =
		wanted ? orr_compared_json(tables, n, x->graph->name, &x->settled.machine, err)
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
	const struct options *a;
	const struct orr_opened *x;
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
		rank(rows, so_far.a);
		give_title(c, so_far.a, so_far.x);
		for (int i = 0; i < n; i++)
			tables[i] = so_far.contests[i].result;
		tables[n - 1].rows = rows->n ? rows : tables[n - 1].rows;
#ifdef __GLIBC__ /* others have a stdout that is fixed, and in a page nobody interrupts */
		FILE *out = stdout;

		stdout = stream;
		(void)print(so_far.a, tables, n, so_far.x, false, NULL);
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

static int hold(struct contest *c, const struct options *a, const struct orr_opened *x,
		struct orr_error *err)
{
	struct orr_entry entries[3 * MOST_LISTED + 1];
	struct orr_schedule own = x->choice.schedule;
	int n = 0, code;

	/* as it was asked for, with its parameters if any; a file has a name of its own */
	if (own.name && !x->choice.table && (!x->choice.module || strchr(x->settled.schedule, ':')))
		own.name = orr_utf8_print(c->own, sizeof(c->own), x->settled.schedule);

	if ((code = make_cuts(c, a, x, err)) || (code = orr_opened_homes(&c->home, x, err)) ||
	    (a->compare.plan && (code = make_plan(c, x, err))))
		return code;
	for (int i = 0; i < c->n_cuts; i++) {
		if (own.name)
			entries[n++] = (struct orr_entry){.pipeline = c->cuts[i],
							  .schedule = &own,
							  .home = x->choice.table ? NULL : c->home};
		entries[n++] = (struct orr_entry){.pipeline = c->cuts[i], .home = c->home};
	}
	if (a->compare.plan)
		entries[n++] =
			(struct orr_entry){.pipeline = c->plan ? c->plan->pipeline : c->cuts[0],
					   .schedule = &c->planned,
					   .refused = c->plan ? NULL : c->no_plan.msg};
	for (int i = 0; i < c->n_cuts && a->compare.front;
	     i++) /* up to the memory of those before */
		entries[n++] = (struct orr_entry){.pipeline = c->cuts[i],
						  .front = true,
						  .within_ns = a->compare.within_ns,
						  .home = c->home};
	for (int i = 0; i < n; i++) {
		entries[i].order = x->settled.order;
		entries[i].noise = options_noise(a);
		entries[i].next = keep_so_far;
		entries[i].user = c;
	}
	if ((code = orr_compare(&c->result.rows, entries, n, a->compare.stages.n > 1, err)))
		return code;
	rank(c->result.rows, a);
	return 0;
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

/* One contest, with the options as they are now. */
static int hold_titled(struct contest *c, const struct options *a, const struct orr_opened *x,
		       struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	int code;

	c->result = (struct orr_compared){.noise = options_noise(a),
					  .n_microbatches = o->n_microbatches,
					  .limit_bytes = o->machine.memory_bytes,
					  .front = a->compare.front,
					  .within_ns = a->compare.within_ns,
					  .within_by = "--within",
					  .defined_by = "`orrery simulate --help`"};
	if ((code = orr_open_check_batch(o, x->graph, err)) || (code = hold(c, a, x, err)) ||
	    (code = check_within(a, c->result.rows->units, err)))
		return code;
	give_title(c, a, x);
	return 0;
}

/* One contest for each number of microbatches and each memory. */
static int hold_all(struct contest *contests, const struct options *a, struct orr_opened *x,
		    struct orr_error *err)
{
	struct orr_open_options *o = &x->settled;
	int64_t samples = orr_open_samples(o);
	int code = 0;

	for (int i = 0; i < (a->compare.microbatches.n ? a->compare.microbatches.n : 1); i++) {
		if (a->compare.microbatches.n)
			o->n_microbatches = (int)a->compare.microbatches.values[i];
		/* a plan is for microbatches of its own size */
		if (i && (x->plan || x->choice.plan) && !o->given.batch &&
		    samples <= (1 << 30) / o->n_microbatches)
			o->batch = (int)(samples * o->n_microbatches);
		for (int k = 0; k < (a->compare.memories.n ? a->compare.memories.n : 1); k++) {
			if (a->compare.memories.n)
				o->machine.memory_bytes = a->compare.memories.values[k];
			if ((code = hold_titled(contests++, a, x, err)))
				return code;
		}
	}
	return 0;
}

static int compare(const struct options *a, struct orr_opened *x, struct orr_error *err)
{
	int n = (a->compare.microbatches.n ? a->compare.microbatches.n : 1) *
		(a->compare.memories.n ? a->compare.memories.n : 1);
	struct contest *contests = calloc((size_t)n, sizeof(*contests));
	struct orr_compared *tables = calloc((size_t)n, sizeof(*tables));
	struct sigaction mine = {.sa_handler = give_so_far}, old;
	int code;

	so_far = (struct so_far){a, x, contests, .out = fileno(stdout)};
	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &mine, NULL);
	if (!contests || !tables)
		code = orr_fail(err, ORR_E_NOMEM, "compare: no memory for %d tables", n);
	else if (!(code = hold_all(contests, a, x, err))) {
		sigaction(SIGINT, &old, NULL); /* all of it will be printed */
		progress_doing(NULL, NULL);
		for (int i = 0; i < n; i++)
			tables[i] = contests[i].result;
		if (!(code = print(a, tables, n, x, true, err)))
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
	if (a->output.svg && (a->compare.microbatches.n > 1 || a->compare.memories.n > 1))
		return orr_fail(err, ORR_E_INPUT,
				"--svg draws one number of microbatches and one memory: give one "
				"-m and one --memory");
	return 0;
}

int cmd_compare(int argc, char **argv)
{
	struct options a =
		options_read(VERB_COMPARE, "GRAPH",
			     "Simulate every schedule that fits the workers and the memory, side "
			     "by side; --schedule adds one of your own.",
			     argc, argv);
	struct orr_opened x = {0};
	struct orr_error err = {""};
	int code;

	a.open.first_alone = !a.jitter.given; /* noise differs among replicas */
	if (!(code = check(&a, &err)) && !(code = output_check(&a.output, &err)) &&
	    !(code = work_choose(&x, &a, &err)) && !(code = orr_open_graph(&x, &err)) &&
	    !(code = orr_open_pipeline(&x, &err)))
		code = a.compare.front && x.settled.machine.memory_bytes
			       ? orr_fail(&err, ORR_E_INPUT,
					  "--front goes through the memories itself: leave "
					  "`memory` out of the file of --machine")
			       : compare(&a, &x, &err);
	orr_opened_fini(&x);
	return command_end(code, &err);
}
