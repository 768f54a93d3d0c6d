#include "work.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "orrery/figures.h"
#include "orrery/parameter_cost.h"
#include "orrery/partition.h"
#include "orrery/plan.h"
#include "plugin.h"
#include "orrery/quantity.h"
#include "output_file.h"
#include "searching.h"
#include "orrery/table.h"
#include "orrery/versions.h"

enum {
	KEY_STAGES = 256,
	KEY_BATCH,
	KEY_COSTS,
	KEY_ACTIVATION,
	KEY_STASH,
	KEY_PARAMETERS,
	KEY_LATENCY,
	KEY_BANDWIDTH,
	KEY_MEMORY,
	KEY_FLOPS,
	KEY_RECOMPUTE,
	KEY_SYNC,
	KEY_ACCUMULATE,
	KEY_OPTIMIZER,
	KEY_PRECISION
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Model and step:", 1},
	{"schedule", 's', "NAME[:k=v,...]|FILE.so|FILE.csv|PLAN.json", 0,
	 "`orrery schedules` lists them (1f1b)", 1},
	{"workers", 'w', "N", 0, "workers (one a stage; train: one a core)", 1},
	{"microbatches", 'm', "B", 0,
	 "microbatches in a minibatch (what the schedule's file has, or 8)", 1},
	{"stages", KEY_STAGES, "N", 0,
	 "cut a model that has no pins into so many stages (one a worker)", 1},
	{"recompute", KEY_RECOMPUTE, "all|none|0,3,5", 0,
	 "stages whose B runs F again, keeping their input alone "
	 "until then (none but what the schedule asks for)",
	 1},
	{"sync", KEY_SYNC, "WAY", 0,
	 "versions of the parameters under a schedule that never flushes, such as pipedream: "
	 "stashing "
	 "(a microbatch reads one in a stage), vertical (one in all stages) or none (whatever is "
	 "the "
	 "latest) (stashing)",
	 1},
	{"accumulate", KEY_ACCUMULATE, "K", 0,
	 "microbatches on each replica in an update, of a schedule that never flushes (1)", 1},
	{"batch", KEY_BATCH, "N", 0, "samples in a minibatch (96)", 1},
	{NULL, 0, NULL, 0, "Studies (chain:8, towers:3,3/2, nodes without op):", 2},
	{"costs", KEY_COSTS, "F,B[,W]", 0,
	 "durations of a stage's passes: units, or 12.96ms (1,1); with W, B is "
	 "the input gradient",
	 2},
	{"activation", KEY_ACTIVATION, "SIZE", 0, "what every edge carries per microbatch (0)", 2},
	{"stash", KEY_STASH, "SIZE", 0, "what a stage keeps of a microbatch (0)", 2},
	{"parameters", KEY_PARAMETERS, "SIZE", 0, "parameters of a stage (0)", 2},
	{NULL, 0, NULL, 0, "Machine:", 3},
	{"latency", KEY_LATENCY, "TIME", 0, "of a transfer between two workers (0)", 3},
	{"bandwidth", KEY_BANDWIDTH, "SIZE/s", 0, "of the link between two workers (infinite)", 3},
	{"memory", KEY_MEMORY, "SIZE", 0,
	 "of a worker, such as 16GB; what does not fit is refused (no limit)", 3},
	{"optimizer", KEY_OPTIMIZER, "NAME", 0,
	 "adamw, adam, momentum, sgd or none: what memory a parameter takes, and how train changes "
	 "it (what a "
	 "plan was made for, or adamw)",
	 3},
	{"precision", KEY_PRECISION, "NAME", 0,
	 "of matrix products, which add up in fp32: fp32, bf16, or tf32, which a CPU core computes "
	 "as fp32 (what "
	 "a plan was made for, or fp32)",
	 3},
	{"flops", KEY_FLOPS, "N", 0,
	 "FLOP per second, charged for operators without measured costs (1e10)", 3},
	{0},
};

static int parse_count(const char *text, int64_t low, int64_t high, const char *what)
{
	struct orr_error err;
	int64_t value;

	if (orr_count_parse(&value, text, low, high, what, &err))
		command_refuse(&err);
	return (int)value;
}

static int64_t parse_size(const char *text, const char *what)
{
	struct orr_error err;
	int64_t bytes;

	if (orr_size_parse(&bytes, text, what, &err))
		command_refuse(&err);
	return bytes;
}

/* To the engine 0 is no limit, which nobody means who writes it. */
static void refuse_zero(bool zero, const char *what)
{
	struct orr_error err;

	if (zero)
		command_refuse(
			(orr_fail(&err, ORR_E_INPUT, "%s: 0: leave it out for no limit", what),
			 &err));
}

/* 16 would be 16 bytes, which nobody means who writes it. */
static int64_t parse_memory(const char *text)
{
	int64_t bytes = parse_size(text, "--memory");
	struct orr_error err;

	refuse_zero(!bytes, "--memory");
	if (isdigit((unsigned char)text[strlen(text) - 1]))
		command_refuse((orr_fail(&err, ORR_E_INPUT,
					 "--memory: %.40s has no unit: say %.40sGB, or %.40sB",
					 text, text, text),
				&err));
	return bytes;
}

/* F,B[,W], all in units or none. */
static void parse_costs(struct work_options *o, const char *text)
{
	int64_t *const fields[] = {&o->costs.forward_ns, &o->costs.backward_ns,
				   &o->costs.weight_ns};
	char *copy = strdup(text), *rest = copy, *part;
	bool units[3] = {false, false, false};
	struct orr_error err;
	int n = 0;

	if (!copy)
		command_refuse((orr_fail(&err, ORR_E_NOMEM, "--costs: no memory"), &err));
	for (; (part = strsep(&rest, ",")); n++) {
		if (n == 3)
			command_refuse((orr_fail(&err, ORR_E_INPUT,
						 "--costs: '%s': write F,B or F,B,W", text),
					&err));
		if (orr_duration_parse(fields[n], &units[n], part, "--costs", &err))
			command_refuse(&err);
		if (units[n] != units[0])
			command_refuse((orr_fail(&err, ORR_E_INPUT,
						 "--costs: '%s' mixes plain numbers and units: "
						 "give all the same unit",
						 text),
					&err));
	}
	if (n < 2)
		command_refuse(
			(orr_fail(&err, ORR_E_INPUT, "--costs: '%s': write F,B or F,B,W", text),
			 &err));
	o->costs.units = units[0];
	free(copy);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct work_options *o = state->input;
	struct orr_error err;

	switch (key) {
	case 's':
		o->schedule = arg;
		o->has_schedule = true;
		break;
	case 'w':
		o->machine.n_workers = parse_count(arg, 1, 1 << 20, "--workers");
		break;
	case 'm':
		o->n_microbatches = parse_count(arg, 1, 1 << 30, "-m");
		break;
	case KEY_STAGES:
		o->n_stages = parse_count(arg, 1, 1 << 20, "--stages");
		break;
	case KEY_RECOMPUTE:
		o->recompute = arg;
		break;
	case KEY_SYNC:
		o->versions = "--sync";
		if (orr_sync_parse(&o->sync, arg, &err))
			command_refuse(&err);
		break;
	case KEY_ACCUMULATE:
		o->versions = "--accumulate";
		o->accumulate = parse_count(arg, 1, 1 << 20, "--accumulate");
		break;
	case KEY_BATCH:
		o->batch = parse_count(arg, 1, 1 << 30, "--batch");
		o->has_batch = true;
		break;
	case KEY_COSTS:
		parse_costs(o, arg);
		o->has_costs = true;
		break;
	case KEY_ACTIVATION:
		o->costs.activation_bytes = parse_size(arg, "--activation");
		o->has_costs = true;
		break;
	case KEY_STASH:
		o->costs.stash_bytes = parse_size(arg, "--stash");
		o->has_costs = true;
		break;
	case KEY_PARAMETERS:
		o->costs.parameter_bytes = parse_size(arg, "--parameters");
		o->has_costs = true;
		break;
	case KEY_LATENCY:
		o->has_latency = true;
		if (orr_duration_parse(&o->machine.latency_ns, &o->latency_units, arg, "--latency",
				       &err))
			command_refuse(&err);
		break;
	case KEY_BANDWIDTH:
		if (orr_rate_parse(&o->machine.bandwidth_bytes_per_s, arg, "--bandwidth", &err))
			command_refuse(&err);
		refuse_zero(o->machine.bandwidth_bytes_per_s <= 0, "--bandwidth");
		break;
	case KEY_MEMORY:
		o->machine.memory_bytes = parse_memory(arg);
		break;
	case KEY_OPTIMIZER:
		o->has_optimizer = true;
		if (orr_optimizer_parse(&o->numerics.optimizer, arg, "--optimizer", &err))
			command_refuse(&err);
		break;
	case KEY_PRECISION:
		o->has_precision = true;
		if (orr_precision_parse(&o->numerics.precision, arg, "--precision", &err))
			command_refuse(&err);
		break;
	case KEY_FLOPS:
		o->has_flops = true;
		if (orr_real_parse(&o->machine.flops_per_s, arg, 1, 1e24, "--flops", &err))
			command_refuse(&err);
		break;
	case ARGP_KEY_ARG:
		if (o->source)
			command_refuse((orr_fail(&err, ORR_E_INPUT,
						 "one GRAPH at a time: '%s' is a second one", arg),
					&err));
		o->source = arg;
		break;
	case ARGP_KEY_END:
		if (!o->source && !o->no_source)
			command_refuse(
				(orr_fail(&err, ORR_E_INPUT,
					  "no GRAPH: name a model's file, or a study such as "
					  "chain:8 or towers:3,3/2"),
				 &err));
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp work_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

static bool is_hidden(const struct argp_option *option, const char *names)
{
	char name[40];

	(void)snprintf(name, sizeof(name), "%s ", option->name);
	return strstr(names, name) != NULL;
}

/* Is anything under the heading? */
static bool heads(const struct argp_option *heading, const char *names)
{
	for (const struct argp_option *o = options; o->name || o->doc; o++)
		if (o->name && o->group == heading->group && !is_hidden(o, names))
			return true;
	return false;
}

struct argp work_argp_without(const char *names)
{
	static struct argp_option shown[sizeof(options) / sizeof(*options)];
	struct argp argp = work_argp;
	size_t n = 0;

	memset(shown, 0, sizeof(shown));
	for (const struct argp_option *o = options; o->name || o->doc; o++) {
		if (!o->name && !heads(o, names))
			continue;
		shown[n] = *o;
		if (o->name && is_hidden(o, names))
			shown[n].flags |= OPTION_HIDDEN;
		n++;
	}
	argp.options = shown;
	return argp;
}

struct work_options work_options_default(void)
{
	return (struct work_options){
		.schedule = "1f1b",
		.machine = orr_machine_default(0),
		.batch = 96,
		.accumulate = 1,
		.timeout_s = PLUGIN_TIMEOUT_S,
		.costs = {-1, -1, -1, -1, -1, -1, false},
	};
}

/* Operators that compute and that no pin assigns: the model is cut into as many stages as wanted.
 */
static bool is_cut(const struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		if (g->operators[i].op == ORR_OP_COST || g->operators[i].stage >= 0)
			return false;
	return true;
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

/* What the options do not say of the machine and, where the plan's order is run, of a stream. */
static void settle_as_planned(const struct orr_plan_file *plan, bool order, struct work_options *o)
{
	if (!o->has_latency)
		o->machine.latency_ns = plan->latency_ns;
	if (!o->has_flops && plan->flops_per_s > 0)
		o->machine.flops_per_s = plan->flops_per_s;
	if (order && plan->accumulate && !o->versions) {
		o->sync = plan->sync;
		o->accumulate = plan->accumulate;
	}
}

/* The size of the step: what the options say, what the schedule's file lays out, or the defaults.
 */
static void settle(const struct work *work, struct work_options *o, int default_workers)
{
	const struct orr_plan_file *plan = plan_of(work);
	const struct orr_table *table = table_of(work);

	if (!o->n_microbatches)
		o->n_microbatches = table ? table->n_microbatches : 8;
	if (plan && !o->has_batch && plan->samples <= (1 << 30) / o->n_microbatches)
		o->batch = plan->batch && o->n_microbatches == plan->table->n_microbatches
				   ? plan->batch
				   : (int)plan->samples * o->n_microbatches;
	if (plan)
		settle_as_planned(plan, plan == work->choice.plan, o);
	if (plan && o->machine.bandwidth_bytes_per_s <= 0) {
		o->machine.bandwidth_bytes_per_s = plan->bandwidth_bytes_per_s;
		o->machine.levels = plan->levels;
	}
	if (plan && !o->has_optimizer)
		o->numerics.optimizer = plan->numerics.optimizer;
	if (plan && !o->has_precision)
		o->numerics.precision = plan->numerics.precision;
	if (!o->machine.n_workers)
		o->machine.n_workers = table ? table->n_workers : default_workers;
	if (!o->n_stages && table && is_cut(work->graph))
		o->n_stages = table->n_stages;
}

static bool is_file(const char *schedule)
{
	const char *ending = strrchr(schedule, '.');

	return ending &&
	       (!strcmp(ending, ".so") || !strcmp(ending, ".csv") || !strcmp(ending, ".json"));
}

/* The graph; that of a plan, where GRAPH is one, may stand in the plan itself. No output may be
 * what is read. */
static int read_graph(struct work *work, const struct work_options *o, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	const char *path = plan && !strcmp(o->source, plan->path) ? plan->graph : o->source;
	int code;

	if ((code = output_keep(o->source, err)) ||
	    (o->schedule && is_file(o->schedule) && (code = output_keep(o->schedule, err))))
		return code;
	if (path != o->source && plan->text)
		code = orr_graph_parse(&work->graph, path, plan->text, err);
	else if (!(code = output_keep(path, err)) &&
		 (code = orr_graph_read(&work->graph, path, err)) == ORR_E_INPUT &&
		 path != o->source)
		/* who wrote the plan may name any file: nothing of it is quoted */
		code = orr_fail(err, code,
				"%s: the graph that it names, %s, cannot be read: "
				"`orrery show %s` says why",
				o->source, path, path);
	return code ? code : output_keep(work->graph->data, err);
}

/* A unit is a second to the engine, and to nobody else. */
static int check_latency(const struct orr_graph *g, const struct work_options *o,
			 struct orr_error *err)
{
	if (!o->machine.latency_ns || o->latency_units == g->units)
		return 0;
	return g->units
		       ? orr_fail(err, ORR_E_INPUT,
				  "--latency has a unit, and the durations of %s have none: give a "
				  "plain number, or --costs 1ms,2ms",
				  g->name)
		       : orr_fail(err, ORR_E_INPUT,
				  "--latency has no unit, and the durations of %s have: say 5us",
				  g->name);
}

static int cut(struct orr_pipeline **out, const struct work *work, const struct work_options *o,
	       int n_stages, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	int64_t samples = work_samples(o);
	int *stage_of, code;

	if (!plan)
		return orr_partition(out, work->graph, &o->machine, n_stages, samples, err);
	if (!(stage_of = calloc((size_t)work->graph->n_operators, sizeof(*stage_of))))
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its stages", plan->path);
	if (!(code = orr_plan_file_stages(plan, work->graph, stage_of, err)))
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
	p->latency_ns = o->machine.latency_ns;
	p->bandwidth_bytes_per_s = o->machine.bandwidth_bytes_per_s;
	p->memory_bytes = o->machine.memory_bytes;
	if ((o->recompute && (code = orr_pipeline_set_recompute(p, o->recompute, err))) ||
	    (code = orr_pipeline_set_step(p,
					  o->machine.n_workers ? o->machine.n_workers : p->n_stages,
					  o->n_microbatches, err))) {
		orr_pipeline_destroy(p);
		return code;
	}
	*out = p;
	return 0;
}

static bool is_plan(const char *source)
{
	size_t length = strlen(source);

	return length > 5 && !strcmp(source + length - 5, ".json");
}

static int choose(struct work *work, const struct work_options *o, struct orr_error *err)
{
	int code;

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
	return g->operators[0].op != ORR_OP_COST;
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

int work_open(struct work *work, struct work_options *o, int default_workers, struct orr_error *err)
{
	int code;

	memset(work, 0, sizeof(*work));
	/* a plan has both; with another schedule its stages and their replicas remain */
	if (is_plan(o->source) && !o->has_schedule)
		o->schedule = o->source;
	else if (is_plan(o->source) && (code = orr_plan_file_read(&work->plan, o->source, err)))
		goto out;
	if ((code = choose(work, o, err)) ||
	    (work->plan && (code = orr_choice_set_replicas(&work->choice, work->plan, err))) ||
	    (code = read_graph(work, o, err)) ||
	    (o->has_costs && (code = orr_graph_set_costs(work->graph, &o->costs, err))) ||
	    (code = check_latency(work->graph, o, err)))
		goto out;
	settle(work, o, default_workers);
	if (!(code = work_check_batch(o, work->graph, err)) &&
	    !(code = work_cut(&work->pipeline, work, o, o->n_stages, err)))
		o->machine.n_workers = work->pipeline->n_workers;
	if (!code && work->choice.plan)
		orr_plan_file_prove(work->choice.plan, work->pipeline);
out:
	if (code)
		work_fini(work);
	return code;
}

int work_homes(int **out, const struct work *work, const struct work_options *o,
	       struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);

	*out = NULL;
	return plan && plan->table->n_workers == o->machine.n_workers
		       ? orr_plan_file_homes(out, plan, o->n_microbatches, err)
		       : 0;
}

int work_init(struct work *work, struct work_options *o, int default_workers, struct orr_error *err)
{
	int code = work_open(work, o, default_workers, err);

	if (!code && o->versions && !work->choice.schedule.stream) {
		code = orr_fail(err, ORR_E_INPUT,
				"%s: schedule %s flushes after every step, so its parameters have "
				"one version: leave it out, or take pipedream",
				o->versions, work->choice.schedule.name);
		work_fini(work);
	}
	if (!code && work->choice.schedule.stream && has_samples(work->graph) &&
	    o->batch % o->n_microbatches) {
		code = orr_fail(err, ORR_E_INPUT,
				"--batch %d is no multiple of -m %d, and under schedule %s every "
				"microbatch is a minibatch, all of one size: change one of them",
				o->batch, o->n_microbatches, work->choice.schedule.name);
		work_fini(work);
	}
	if (code)
		return code;
	/* a table says of every job where it is */
	if (!work->choice.table && (code = work_homes(&work->home, work, o, err))) {
		work_fini(work);
		return code;
	}
	searching_show(work->pipeline->units); /* the schedule may search */
	if ((code = orr_jobs_create_at(&work->jobs, work->pipeline, &work->choice.schedule,
				       work->home, err)))
		work_fini(work);
	searching_end();
	return code;
}

int work_check_memory(const struct work *work, const struct orr_figures *f,
		      const struct orr_machine *machine, struct orr_error *err)
{
	const struct orr_plan_file *plan = plan_of(work);
	struct orr_error why;
	int code = orr_figures_check_memory(f, machine, &why);

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
	orr_jobs_destroy(work->jobs);
	free(work->home);
	orr_choice_fini(&work->choice);
	orr_plan_file_destroy(work->plan);
	orr_pipeline_destroy(work->pipeline);
	orr_graph_destroy(work->graph);
	memset(work, 0, sizeof(*work));
}
