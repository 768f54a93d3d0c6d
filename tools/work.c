#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "orrery/figures.h"
#include "orrery/microbatches.h"
#include "orrery/parameter_cost.h"
#include "orrery/partition.h"
#include "orrery/rewrite.h"
#include "orrery/plan.h"
#include "plugin.h"
#include "output_file.h"
#include "lengths.h"
#include "progress.h"
#include "orrery/table.h"

/* Operators that compute and that no pin assigns: the model is cut into as many stages as wanted.
 */
static bool is_cut(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (orr_operator_is_study(&g->operators[i]) || g->operators[i].stage >= 0)
			return false;
	return true;
}

/* The graph that is cut into stages. */
static const struct orr_graph *before_split(const struct work *work)
{
	return work->graph->whole ? work->graph->whole : work->graph;
}

/* The plan that the stages are of, if any. */
static const struct orr_plan_file *plan_of(const struct work *work)
{
	return work->plan ? work->plan : work->choice.plan;
}

static const struct orr_table *table_of(const struct work *work)
{
	const struct orr_plan_file *plan = plan_of(work);

	return work->choice.table ? work->choice.table : plan ? plan->table : NULL;
}

bool work_has_table(const struct work *work)
{
	return table_of(work) != NULL;
}

/* The links of a plan, where the options do not say them. */
static void settle_links(const struct orr_plan_file *plan, struct work_options *o)
{
	struct orr_machine *m = &o->machine;
	const struct orr_levels given = m->levels;

	if (m->cluster)
		return;
	if (!o->bandwidths) {
		m->bandwidth_bytes_per_s = plan->bandwidth_bytes_per_s;
		m->levels = plan->levels;
	}
	if (!o->latencies)
		m->latency_ns = plan->latency_ns;
	for (int l = 0; l < m->levels.n; l++)
		m->levels.latency_ns[l] = o->latencies && given.n == m->levels.n
						  ? given.latency_ns[l]
					  : !o->latencies && plan->levels.n == m->levels.n
						  ? plan->levels.latency_ns[l]
						  : m->latency_ns;
}

/* What the options do not say of the machine and, where the plan's order is run, of an asynchronous
 * schedule. */
static void settle_as_planned(const struct orr_plan_file *plan, bool order, struct work_options *o)
{
	if (!o->given.flops && plan->flops_per_s > 0)
		o->machine.flops_per_s = plan->flops_per_s;
	if (order && plan->accumulate && !o->versions) {
		o->sync = plan->sync;
		o->accumulate = plan->accumulate;
	}
}

/* What the file says, no option says too. */
static int refuse_beside_machine(const struct work_options *o, const char *path, const char *cure,
				 struct orr_error *err)
{
	const char *option = o->latencies              ? "--latency"
			     : o->bandwidths           ? "--bandwidth"
			     : o->levels.n > 1         ? "--workers by level"
			     : o->machine.memory_bytes ? "--memory"
						       : NULL;

	return option ? orr_fail(err, ORR_E_INPUT, "%s: the machine %s says that: %s", option, path,
				 cure)
		      : 0;
}

int work_read_machine(struct orr_cluster **out, struct work_options *o,
		      const struct orr_plan_file *plan, struct orr_error *err)
{
	const char *path = o->machine_file;
	double flops_per_s = o->machine.flops_per_s;
	int n = o->machine.n_workers, code;

	*out = NULL;
	if (!path && (!plan || !plan->machine))
		return 0;
	if ((code = refuse_beside_machine(o, path ? path : plan->machine,
					  path ? "change it there" : "give another one (--machine)",
					  err)) ||
	    (code = path ? orr_cluster_read(out, path, err)
			 : orr_cluster_parse(out, plan->machine, plan->machine_text, err)))
		return code;
	if (n > (*out)->n_workers)
		return orr_fail(err, ORR_E_INPUT,
				"--workers %d: the machine %s has %d: give that, fewer, or leave "
				"it out",
				n, (*out)->name, (*out)->n_workers);
	if (!n && plan && plan->n_workers <= (*out)->n_workers)
		n = plan->n_workers;
	o->machine = orr_machine_of(*out, n);
	o->machine.flops_per_s = flops_per_s;
	return 0;
}

/* The size of the step: what the options say, what the schedule's file lays out, or the defaults.
 */
static void settle(const struct work *work, struct work_options *o, int default_workers)
{
	const struct orr_plan_file *plan = plan_of(work);
	const struct orr_table *table = table_of(work);
	int widest = orr_partition_widest(work->graph);

	if (!o->n_microbatches)
		o->n_microbatches = work->graph->n_lengths ? work->graph->n_lengths
				    : table                ? table->n_microbatches
							   : 8;
	if (plan && !o->given.batch && plan->samples <= (1 << 30) / o->n_microbatches)
		o->batch = plan->batch && o->n_microbatches == plan->table->n_microbatches
				   ? plan->batch
				   : (int)plan->samples * o->n_microbatches;
	if (plan) {
		settle_as_planned(plan, plan == work->choice.plan, o);
		settle_links(plan, o);
	}
	if (plan && !o->given.optimizer)
		o->numerics.optimizer = plan->numerics.optimizer;
	if (plan && !o->given.precision)
		o->numerics.precision = plan->numerics.precision;
	if (plan && !o->given.shard_optimizer)
		o->numerics.shard_optimizer = plan->numerics.shard_optimizer;
	if (!o->machine.n_workers) /* to a schedule workers are groups of them */
		o->machine.n_workers = plan && plan->splits && !o->splits ? plan->n_workers
				       : table                    ? table->n_workers * widest
				       : default_workers > widest ? default_workers
				       : default_workers          ? widest
								  : 0;
	if (!o->n_stages && table && is_cut(before_split(work)))
		o->n_stages = table->n_stages;
}

/* The graph; that of a plan, where GRAPH is one, may stand in the plan itself. */
static int read_graph(struct work *work, const struct work_options *o, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	const char *path = plan && !strcmp(o->source, plan->path) ? plan->graph : o->source;
	int code;

	if (path != o->source && plan->text)
		code = orr_graph_parse(&work->graph, path, plan->text, err);
	else if ((code = orr_graph_read(&work->graph, path, err)) == ORR_E_INPUT &&
		 path != o->source && !output_was_refused())
		/* a plan from elsewhere may name any file: nothing of it is quoted */
		code = orr_fail(err, code,
				"%s: the graph that it names, %s, cannot be read: `orrery show %s` "
				"says why",
				o->source, path, path);
	return code;
}

void work_measured(struct work *work)
{
	for (int w = 0; work->cluster && w < work->cluster->n_workers; w++)
		work->cluster->workers[w].speed = 1;
}

static int cut(struct orr_pipeline **out, const struct work *work, const struct work_options *o,
	       int n_stages, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	int64_t samples = work_samples(o);
	int *stage_of, code;

	if (!plan)
		return orr_partition(out, work->graph, &o->machine, n_stages, samples, err);
	if (!(stage_of = calloc((size_t)before_split(work)->n_operators, sizeof(*stage_of))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its stages", plan->path);
	if (!(code = orr_plan_file_stages(plan, before_split(work), stage_of, err)))
		code = orr_partition_as(out, work->graph, &o->machine, stage_of, plan->n_stages,
					samples, err);
	free(stage_of);
	return code;
}

int work_cut(struct orr_pipeline **out, const struct work *work, const struct work_options *o,
	     int n_stages, struct orr_error *err)
{
	struct orr_pipeline *p;
	int code = cut(&p, work, o, n_stages, err);

	if (code)
		return code;
	p->numerics = o->numerics;
	p->sync = o->sync;
	p->accumulate = o->accumulate;
	if ((o->recompute && (code = orr_pipeline_set_recompute(p, o->recompute, err))) ||
	    (code = orr_pipeline_set_step(
		     p, o->machine.n_workers ? o->machine.n_workers : orr_pipeline_wants(p),
		     o->n_microbatches, err)) ||
	    (plan_of(work) && !o->lengths &&
	     (code = orr_plan_file_microbatches(plan_of(work), p, err))) ||
	    (o->microbatch_costs && (code = orr_microbatches_read(p, o->microbatch_costs, err)))) {
		orr_pipeline_destroy(p);
		return code;
	}
	*out = p;
	return 0;
}

/* A plan has both; with another schedule its stages and their replicas remain. */
static int choose(struct work *work, const struct work_options *o, struct orr_error *err)
{
	int code = 0;

	if (orr_plan_is(o->source) &&
	    (!o->given.schedule || (code = orr_plan_file_read(&work->plan, o->source, err))))
		return code ? code : orr_choice_init_plan(&work->choice, o->source, err);
	if (!o->schedule)
		return 0;
	plugin_watch(o->schedule, o->timeout_s);
	code = orr_choice_init(&work->choice, o->schedule, err);
	plugin_loaded(code ? NULL : &work->choice.schedule);
	return code;
}

int64_t work_samples(const struct work_options *o)
{
	return ((int64_t)o->batch + o->n_microbatches - 1) / o->n_microbatches;
}

static bool has_samples(const struct orr_graph *g)
{
	return !orr_operator_is_study(&g->operators[0]);
}

int work_check_batch(const struct work_options *o, const struct orr_graph *g, struct orr_error *err)
{
	if (!has_samples(g) || o->batch >= o->n_microbatches)
		return 0;
	return orr_fail(err, ORR_E_INPUT,
			"--batch %d is less than a sample for each of -m %d microbatches: raise "
			"--batch or lower -m",
			o->batch, o->n_microbatches);
}

bool work_is_embedded(const struct work *work)
{
	const struct orr_plan_file *plan = plan_of(work);

	return plan && plan->text && !strcmp(work->graph->name, plan->graph);
}

/* As the options say, or a plan that was made so, or else the file. */
static int split(struct work *work, const struct work_options *o, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	bool planned = !o->splits && plan && plan->splits && *plan->splits;
	struct orr_error why = {""};
	int code = orr_graph_split(&work->graph, work->graph, planned ? plan->splits : o->splits,
				   planned ? &why : err);

	return code && planned ? orr_fail(err, code, "%s: %.200s", plan->path, why.msg) : code;
}

int work_open(struct work *work, struct work_options *o, int default_workers, struct orr_error *err)
{
	int code;

	if ((code = choose(work, o, err)) ||
	    (work->plan && (code = orr_choice_set_replicas(&work->choice, work->plan, err))) ||
	    (code = read_graph(work, o, err)) ||
	    (o->given.costs && (code = orr_graph_set_costs(work->graph, &o->costs, err))) ||
	    (o->lengths && (code = lengths_set(work->graph, o->lengths, err))) ||
	    (code = split(work, o, err)) ||
	    (code = work_read_machine(&work->cluster, o, plan_of(work), err)) ||
	    (code = orr_partition_check_latency(work->graph, &o->machine, o->latency_units, err)))
		return code;
	settle(work, o, default_workers);
	orr_graph_set_precision(work->graph, o->numerics.precision);
	if ((code = work_check_batch(o, work->graph, err)) ||
	    (code = work_cut(&work->pipeline, work, o, o->n_stages, err)))
		return code;
	o->machine.n_workers = work->pipeline->n_workers;
	if (work->choice.plan)
		orr_plan_file_prove(work->choice.plan, work->pipeline);
	return 0;
}

int work_homes(int **out, const struct work *work, const struct work_options *o,
	       struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);

	*out = NULL;
	return plan && plan->table->n_workers * orr_partition_widest(work->graph) ==
				       o->machine.n_workers
		       ? orr_plan_file_homes(out, plan, o->n_microbatches, err)
		       : 0;
}

/* What depends on whether the schedule flushes. */
static int check_stream(const struct work *work, const struct work_options *o,
			struct orr_error *err)
{
	const struct orr_schedule *schedule = &work->choice.schedule;

	if (o->versions && !schedule->asynchronous)
		return orr_fail(err, ORR_E_INPUT,
				"%s: schedule %s flushes after every step, so its parameters have "
				"one version: leave it out, or take pipedream",
				o->versions, schedule->name);
	if (schedule->asynchronous && has_samples(work->graph) && o->batch % o->n_microbatches)
		return orr_fail(err, ORR_E_INPUT,
				"--batch %d is no multiple of -m %d, and under schedule %s every "
				"microbatch is a minibatch, all of one size: change one of them",
				o->batch, o->n_microbatches, schedule->name);
	return 0;
}

int work_init(struct work *work, struct work_options *o, int default_workers, struct orr_error *err)
{
	int code;

	if ((code = work_open(work, o, default_workers, err)) ||
	    (code = check_stream(work, o, err)) ||
	    /* a table says of every job where it is */
	    (!work->choice.table && (code = work_homes(&work->home, work, o, err))))
		return code;
	work->choice.schedule.observer = progress_search(work->pipeline->units);
	progress_doing("placing jobs under ", work->choice.schedule.name);
	code = orr_try_init_in(&work->tried, work->pipeline, &work->choice.schedule, work->home,
			       o->order, err);
	progress_search_end();
	progress_doing(NULL, NULL);
	return code;
}

void work_tell_profiled(const struct orr_graph *g, enum orr_hardware hardware,
			enum orr_precision precision)
{
	struct orr_profiled wanted = orr_profiled_of(hardware, precision);
	char seen[16], name[16], text[512];

	if (!g->profiled.hardware ||
	    (g->profiled.hardware == wanted.hardware && g->profiled.precision == wanted.precision))
		return;
	orr_profiled_print(seen, sizeof(seen), &g->profiled);
	orr_profiled_print(name, sizeof(name), &wanted);
	(void)snprintf(text, sizeof(text),
		       "%s: its costs were profiled for %s, and not for %s: profile it again with "
		       "--device %.*s --precision %s",
		       g->name, seen, name, (int)strcspn(name, ","), name,
		       orr_precision_name(wanted.precision));
	command_say(text);
}

int work_check_memory(const struct work *work, struct orr_error *err)
{
	const struct orr_figures *f = work->tried.figures;
	const struct orr_plan_file *plan = plan_of(work);
	struct orr_error why;
	int code = orr_figures_check_memory(f, &work->pipeline->machine, &why);

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

void work_fini(struct work *work)
{
	orr_try_fini(&work->tried);
	free(work->home);
	plugin_unload();
	orr_choice_fini(&work->choice);
	plugin_loaded(NULL);
	orr_plan_file_destroy(work->plan);
	orr_pipeline_destroy(work->pipeline);
	orr_graph_destroy(work->graph);
	orr_cluster_destroy(work->cluster);
	memset(work, 0, sizeof(*work));
}
