#include "orrery/open.h"

#include <stdlib.h>
#include <string.h>

#include "base/arrays.h"
#include "base/grow.h"
#include "base/input_file.h"
#include "base/max.h"
#include "base/quantity.h"
#include "model/draft.h"
#include "orrery/figures.h"
#include "pipeline/microbatches.h"
#include "pipeline/partition.h"
#include "plan/plan_file.h"
#include "rewrite/rewrite.h"
#include "schedule/functions.h"
#include "schedule/table.h"

struct orr_open_options orr_open_options_default(void)
{
	return (struct orr_open_options){
		.schedule = "1f1b",
		.machine = orr_machine_default(0),
		.batch = 96,
		.accumulate = 1,
		.prefetch = -1,
		.replicas = 1,
		.costs = {-1, -1, -1, -1, -1, -1, false},
	};
}

/* Operators that compute and that no pin assigns: the model is cut into as many stages as wanted.
 */
static bool is_cut(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (orr_operator_is_study(&g->operators[i]) || g->operators[i].stage >= 0)
			return false;
	return true;
}

const struct orr_plan_file *orr_opened_plan(const struct orr_opened *x)
{
	return x->plan ? x->plan : x->choice.plan;
}

const struct orr_table *orr_opened_table(const struct orr_opened *x)
{
	const struct orr_plan_file *plan = orr_opened_plan(x);

	return x->choice.table ? x->choice.table : plan ? plan->table : NULL;
}

static void settle_links(const struct orr_plan_file *plan, struct orr_open_options *o)
{
	struct orr_machine *m = &o->machine;
	const struct orr_levels given = m->levels;

	if (m->cluster)
		return;
	if (!o->given.bandwidth) {
		m->bandwidth_bytes_per_s = plan->bandwidth_bytes_per_s;
		m->levels = plan->levels;
	}
	if (!o->given.latency)
		m->latency_ns = plan->latency_ns;
	if (!(m->host.bytes_per_s > 0))
		m->host = plan->host;
	for (int l = 0; l < m->levels.n; l++)
		m->levels.latency_ns[l] = o->given.latency && given.n == m->levels.n
						  ? given.latency_ns[l]
					  : !o->given.latency && plan->levels.n == m->levels.n
						  ? plan->levels.latency_ns[l]
						  : m->latency_ns;
}

/* What the options do not say of the machine and, where the plan's order is run, of an asynchronous
 * schedule. */
static void settle_as_planned(const struct orr_plan_file *plan, bool order,
			      struct orr_open_options *o)
{
	if (!o->given.flops && plan->flops_per_s > 0)
		o->machine.flops_per_s = plan->flops_per_s;
	if (order && o->prefetch < 0)
		o->prefetch = plan->prefetch;
	if (order && !o->buckets)
		o->buckets = plan->buckets;
	if (order && plan->stream.accumulate && !o->given.sync && !o->given.accumulate) {
		o->sync = plan->stream.sync;
		o->accumulate = plan->stream.accumulate;
	}
}

/* What the file says, no option says too. */
static int refuse_beside_machine(const struct orr_open_options *o, const char *path,
				 const char *cure, struct orr_error *err)
{
	const char *option = o->given.latency                  ? "[latency]"
			     : o->given.bandwidth              ? "[bandwidth]"
			     : o->machine.host.bytes_per_s > 0 ? "[host]"
			     : o->given.levels                 ? "[workers] by level"
			     : o->machine.memory_bytes         ? "[memory]"
							       : NULL;

	return option ? orr_fail(err, ORR_E_INPUT, "%s: the machine %s says that: %s", option, path,
				 cure)
		      : 0;
}

int orr_open_machine(struct orr_cluster **out, struct orr_machine *machine,
		     const struct orr_open_options *o, const struct orr_plan_file *plan,
		     struct orr_error *err)
{
	const char *path = o->machine_file;
	double flops_per_s = machine->flops_per_s;
	int n = machine->n_workers, code;

	*out = NULL;
	if (!path && (!plan || !plan->machine.name))
		return 0;
	if ((code = refuse_beside_machine(o, path ? path : plan->machine.name,
					  path ? "change it there" : "give another one ([machine])",
					  err)) ||
	    (code = path ? orr_cluster_read(out, path, err)
			 : orr_cluster_parse(out, plan->machine.name, plan->machine.text, err)))
		return code;
	if (n > (*out)->n_workers)
		return orr_fail(err, ORR_E_INPUT,
				"[workers] %d: the machine %s has %d: give that, fewer, or leave "
				"it out",
				n, (*out)->name, (*out)->n_workers);
	if (!n && plan && plan->n_workers <= (*out)->n_workers / o->replicas)
		n = plan->n_workers * o->replicas;
	*machine = orr_machine_of(*out, n);
	machine->flops_per_s = flops_per_s;
	return 0;
}

/* Those of one replica, of all; what cannot be counted is refused where the step is set. */
static int times(int n, int replicas)
{
	return (int)smaller((int64_t)n * replicas, INT32_MAX);
}

/* The size of the step: what the options say, what the schedule's file lays out, or the defaults.
 */
static void settle(struct orr_opened *x)
{
	struct orr_open_options *o = &x->settled;
	const struct orr_plan_file *plan = orr_opened_plan(x);
	const struct orr_table *table = orr_opened_table(x);
	int widest = orr_partition_widest(x->graph), r = o->replicas, least = times(widest, r);

	if (!o->n_microbatches)
		o->n_microbatches = x->graph->n_lengths ? x->graph->n_lengths
				    : table             ? times(table->n_microbatches, r)
							: 8;
	if (plan && !o->given.batch && plan->samples <= (1 << 30) / o->n_microbatches)
		o->batch = plan->batch && o->n_microbatches == plan->table->n_microbatches
				   ? plan->batch
				   : (int)plan->samples * o->n_microbatches;
	if (plan) {
		settle_as_planned(plan, plan == x->choice.plan, o);
		if (o->park && plan == x->choice.plan) { /* in place of what the plan parks */
			free(x->choice.plan->table->park);
			x->choice.plan->table->park = NULL;
		}
		settle_links(plan, o);
	}
	if (plan && !o->given.optimizer)
		o->numerics.optimizer = plan->numerics.optimizer;
	if (plan && !o->given.precision)
		o->numerics.precision = plan->numerics.precision;
	if (plan && !o->given.shard_optimizer)
		o->numerics.shard_optimizer = plan->numerics.shard_optimizer;
	if (!o->machine.n_workers) /* to a schedule workers are groups of them */
		o->machine.n_workers =
			plan && plan->splits && !o->splits ? times(plan->n_workers, r)
			: table                            ? times(table->n_workers * widest, r)
			: o->default_workers > least ? o->default_workers - o->default_workers % r
			: o->default_workers         ? least
						     : 0;
	if (!o->n_stages && table && is_cut(orr_graph_whole(x->graph)))
		o->n_stages = table->n_stages;
}

/* The graph; that of a plan, where GRAPH is one, may stand in the plan itself. */
static int read_graph(struct orr_opened *x, struct orr_error *err)
{
	const char *source = x->settled.source;
	const struct orr_plan_file *plan = orr_opened_plan(x);
	const char *path = plan && !strcmp(source, plan->path) ? plan->graph : source;
	int code;

	if (path != source && plan->text)
		code = orr_graph_parse(&x->graph, path, plan->text, err);
	else if ((code = orr_graph_read(&x->graph, path, err)) == ORR_E_INPUT && path != source)
		/* a plan from elsewhere may name any file: nothing of it is quoted */
		code = orr_fail(err, code,
				"%s: the graph that it names, %s, cannot be read: `orrery show %s` "
				"says why",
				source, path, path);
	return code;
}

static int cut(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
	       struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	const struct orr_graph *g = orr_graph_whole(x->graph);
	const struct orr_plan_file *plan = orr_opened_plan(x);
	struct orr_machine machine = o->machine;
	int64_t samples = orr_open_samples(o);
	int *stage_of, code;

	machine.n_workers /= o->replicas;
	if (!plan)
		return orr_partition(out, x->graph, &machine, n_stages, samples, err);
	if (!(stage_of = calloc((size_t)g->n_operators, sizeof(*stage_of))))
		return orr_no_memory(err, plan->path);
	if (!(code = orr_plan_file_stages(plan, g, stage_of, err)))
		code = orr_partition_as(out, x->graph, &machine, stage_of, plan->n_stages, samples,
					err);
	free(stage_of);
	return code;
}

/* The first of replicas that are alike, if there are too many to look at. */
static int take_first(struct orr_pipeline *p, const struct orr_open_options *o,
		      struct orr_error *err)
{
	int r = p->replicas;

	if (!o->first_alone || p->n_workers <= ORR_MOST_SHOWN || !orr_replicas_are_alike(p))
		return 0;
	p->replicas = 1;
	p->alike = r;
	return orr_pipeline_set_step(p, p->n_workers / r, p->n_microbatches / r, err);
}

int orr_opened_cut(struct orr_pipeline **out, const struct orr_opened *x, int n_stages,
		   struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	struct orr_pipeline *p;
	int code = cut(&p, x, n_stages, err);

	if (code)
		return code;
	p->numerics = o->numerics;
	p->sync = o->sync;
	p->accumulate = o->accumulate;
	p->buckets = (int)larger(o->buckets, 1);
	p->replicas = o->replicas;
	p->prefetch = o->prefetch < 0 ? p->prefetch : o->prefetch;
	if ((o->recompute && (code = orr_pipeline_set_recompute(p, o->recompute, err))) ||
	    (o->park && (code = orr_pipeline_set_park(p, o->park, err))) ||
	    (code = orr_pipeline_set_step(p,
					  o->machine.n_workers
						  ? o->machine.n_workers
						  : times(orr_pipeline_wants(p), p->replicas),
					  o->n_microbatches, err)) ||
	    (orr_opened_plan(x) && !o->lengths &&
	     (code = orr_plan_file_microbatches(orr_opened_plan(x), p, err))) ||
	    (o->microbatch_costs && (code = orr_microbatches_read(p, o->microbatch_costs, err))) ||
	    (code = take_first(p, o, err))) {
		orr_pipeline_destroy(p);
		return code;
	}
	*out = p;
	return 0;
}

/* A plan has both; with another schedule its stages and their replicas remain. A study is one
 * whatever files there are. */
int orr_open_schedule(struct orr_opened *x, const struct orr_open_options *o, struct orr_error *err)
{
	int code = 0;

	*x = (struct orr_opened){.settled = *o};
	x->settled.replicas = (int)larger(o->replicas, 1);
	if (!orr_study_is(o->source) && orr_plan_is(o->source) &&
	    (!o->given.schedule || (code = orr_plan_file_read(&x->plan, o->source, err))))
		return code ? code : orr_choice_init_plan(&x->choice, o->source, err);
	if (o->schedule && (code = orr_choice_init(&x->choice, o->schedule, err)))
		return code;
	return x->plan ? orr_choice_set_replicas(&x->choice, x->plan, err) : 0;
}

int orr_open_check_batch(const struct orr_open_options *o, const struct orr_graph *g,
			 struct orr_error *err)
{
	if (orr_graph_is_study(g) || o->batch >= o->n_microbatches)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"[batch] %d is less than a sample for each of [microbatches] %d "
			"microbatches: raise [batch] or lower [microbatches]",
			o->batch, o->n_microbatches);
}

bool orr_opened_is_embedded(const struct orr_opened *x)
{
	const struct orr_plan_file *plan = orr_opened_plan(x);

	return plan && plan->text && !strcmp(x->graph->name, plan->graph);
}

/* As the options say, or a plan that was made so, or else the file. */
static int split(struct orr_opened *x, struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	const struct orr_plan_file *plan = orr_opened_plan(x);
	bool planned = !o->splits && plan && plan->splits && *plan->splits;
	struct orr_error why = {""};
	int code = orr_graph_split(&x->graph, x->graph, planned ? plan->splits : o->splits,
				   planned ? &why : err);

	return code && planned ? orr_fail(err, code, "%s: %.200s", plan->path, why.msg) : code;
}

int orr_open_graph(struct orr_opened *x, struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	int code;

	if ((code = read_graph(x, err)) ||
	    (o->given.costs && (code = orr_graph_set_costs(x->graph, &o->costs, err))) ||
	    (code = orr_open_lengths(x->graph, o, err)))
		return code;
	return split(x, err);
}

int orr_open_pipeline(struct orr_opened *x, struct orr_error *err)
{
	struct orr_open_options *o = &x->settled;
	int code;

	if ((code = orr_open_machine(&x->cluster, &o->machine, o, orr_opened_plan(x), err)) ||
	    (code = orr_partition_check_times(x->graph, &o->machine, o->latency_units, err)))
		return code;
	settle(x);
	orr_graph_set_precision(x->graph, o->numerics.precision);
	if ((code = orr_open_check_batch(o, x->graph, err)) ||
	    (code = orr_opened_cut(&x->pipeline, x, o->n_stages, err)))
		return code;
	o->machine.n_workers = x->pipeline->n_workers * x->pipeline->alike;
	if (x->choice.plan)
		orr_plan_file_prove(x->choice.plan, x->pipeline);
	return 0;
}

int orr_opened_homes(int **out, const struct orr_opened *x, struct orr_error *err)
{
	const struct orr_plan_file *plan = orr_opened_plan(x);

	*out = NULL;
	return plan && plan->table->n_workers * orr_partition_widest(x->graph) ==
				       x->settled.machine.n_workers / x->settled.replicas
		       ? orr_plan_file_homes(out, plan,
					     x->settled.n_microbatches / x->settled.replicas, err)
		       : 0;
}

static int check_stream(const struct orr_opened *x, struct orr_error *err)
{
	const struct orr_open_options *o = &x->settled;
	const struct orr_schedule *schedule = &x->choice.schedule;

	if ((o->given.sync || o->given.accumulate) && !schedule->asynchronous)
		return orr_fail(err, ORR_E_INPUT,
				"%s: schedule %s flushes after every step, so its parameters have "
				"one version: leave it out, or take pipedream",
				o->given.accumulate ? "[accumulate]" : "[sync]", schedule->name);
	if (schedule->asynchronous && !orr_graph_is_study(x->graph) && o->batch % o->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"[batch] %d is no multiple of [microbatches] %d, and under "
				"schedule %s every "
				"microbatch is a minibatch, all of one size: change one of them",
				o->batch, o->n_microbatches, schedule->name);
	return 0;
}

int orr_open_jobs(struct orr_opened *x, struct orr_error *err)
{
	int code;

	if ((code = check_stream(x, err)) ||
	    /* a table says of every job where it is */
	    (!x->choice.table && (code = orr_opened_homes(&x->home, x, err))))
		return code;
	x->choice.schedule.observer = x->settled.observer;
	return orr_try_init_in(&x->tried, x->pipeline, &x->choice.schedule, x->home,
			       x->settled.order, err);
}

int orr_opened_check_memory(const struct orr_opened *x, struct orr_error *err)
{
	const struct orr_figures *f = x->tried.figures;
	const struct orr_plan_file *plan = orr_opened_plan(x);
	struct orr_error why;
	int code = orr_figures_check_memory(f, &x->pipeline->machine, &why);

	if (!code)
		return 0;
	if (!plan || (plan->numerics.optimizer == f->numerics.optimizer &&
		      plan->numerics.precision == f->numerics.precision))
		return orr_fail(err, code, "%s", why.msg);
	return orr_fail(err, code, "%.80s was made for %s in %s; with %s in %s %.320s", plan->path,
			orr_optimizer_name(plan->numerics.optimizer),
			orr_precision_name(plan->numerics.precision),
			orr_optimizer_name(f->numerics.optimizer),
			orr_precision_name(f->numerics.precision), why.msg);
}

void orr_opened_fini(struct orr_opened *x)
{
	orr_try_fini(&x->tried);
	free(x->home);
	orr_choice_fini(&x->choice);
	orr_plan_file_destroy(x->plan);
	orr_pipeline_destroy(x->pipeline);
	orr_graph_destroy(x->graph);
	orr_cluster_destroy(x->cluster);
	*x = (struct orr_opened){0};
}

/* ---- lengths of the microbatches: a list, or a file with a number a line ---- */

#define LEAST 1e-9
#define MOST 1e15

struct list {
	double *lengths; /* owned */
	int n, room;
};

/* Of a line of a file, blanks separate as well as commas, and there may be several. */
static int add_words(struct list *list, char *line, bool file, const char *what,
		     struct orr_error *err)
{
	int code = 0;

	for (char *word; !code && (word = strsep(&line, file ? ", \t\r" : ","));) {
		word += strspn(word, " ");
		if (file && !*word)
			continue;
		if (!orr_grow(&list->lengths, list->n, &list->room, sizeof(*list->lengths)))
			return orr_no_memory(err, what);
		code = orr_real_parse(&list->lengths[list->n++], word, LEAST, MOST, what, err);
	}
	return code;
}

/* path NULL: text is the list. */
static int add_lines(struct list *list, char *text, const char *path, struct orr_error *err)
{
	char *line;
	int code = 0;

	for (int n = 1; !code && (line = strsep(&text, "\n")); n++)
		code = add_words(list, line, path != NULL,
				 path ? orr_text("%.200s:%d", path, n) : "[lengths]", err);
	return code;
}

int orr_open_lengths(struct orr_graph *g, const struct orr_open_options *options,
		     struct orr_error *err)
{
	const char *given = options->lengths;
	bool file = given && strspn(given, "0123456789.,eE+- ") < strlen(given);
	struct list list = {NULL, 0, 0};
	char *text = NULL;
	int code = 0;

	if (!given)
		return 0;
	if (file)
		code = orr_input_read(&text, NULL, given,
				      "a file with one length a line ([lengths]), or give numbers, "
				      "such as 512,1024",
				      err);
	else if (!(text = strdup(given)))
		code = orr_no_memory(err, "[lengths]");
	if (!code)
		code = add_lines(&list, text, file ? given : NULL, err);
	if (!code && !list.n)
		code = orr_fail(err, ORR_E_INPUT, "[lengths]: %.200s: no number in it", given);
	if (!code)
		code = orr_graph_set_lengths(g, list.lengths, list.n, err);
	free(list.lengths);
	free(text);
	return code;
}
