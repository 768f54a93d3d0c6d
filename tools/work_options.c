#include "work_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "orrery/parameter_cost.h"
#include "orrery/versions.h"
#include "plugin.h"

enum {
	KEY_STAGES = 256,
	KEY_SPLIT,
	KEY_BATCH,
	KEY_LENGTHS,
	KEY_MICROBATCH_COSTS,
	KEY_COSTS,
	KEY_ACTIVATION,
	KEY_STASH,
	KEY_PARAMETERS,
	KEY_LATENCY,
	KEY_BANDWIDTH,
	KEY_MEMORY,
	KEY_MACHINE,
	KEY_FLOPS,
	KEY_RECOMPUTE,
	KEY_ORDER,
	KEY_SYNC,
	KEY_ACCUMULATE,
	KEY_OPTIMIZER,
	KEY_PRECISION,
	KEY_SHARD_OPTIMIZER
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Model and step:", 1},
	{"schedule", 's', "NAME[:k=v,...]|FILE.so|FILE.csv|PLAN", 0,
	 "`orrery schedules` lists them (1f1b)", 1},
	{"workers", 'w', "N|4x2", 0,
	 "workers, as 4x2 level by level from the innermost outwards: 4 in a group, 2 groups (one "
	 "a "
	 "stage; train: one a core; plan: to be given)",
	 1},
	{"microbatches", 'm', "B", 0,
	 "microbatches in a minibatch (what the schedule's file has, or 8)", 1},
	{"split", KEY_SPLIT, "N", 0,
	 "split every operator among N workers; 2,image=1: those of encoders otherwise; 2:copied: "
	 "not "
	 "by rows; plan: any, what is shortest (what the graph says)",
	 1},
	{"stages", KEY_STAGES, "N", 0, "stages to cut a model without pins into (one per worker)",
	 1},
	{"recompute", KEY_RECOMPUTE, "all|none|0,3,5", 0,
	 "stages whose B runs F again, keeping their input alone until then (none but what the "
	 "schedule asks for)",
	 1},
	{"order", KEY_ORDER, "strict|greedy", 0,
	 "a worker waits for the next job of its order, or takes the first one that is ready, "
	 "never "
	 "holding more stashes than it would in strict order (as the schedule says)",
	 1},
	{"sync", KEY_SYNC, "WAY", 0,
	 "versions of the parameters under a schedule that never flushes, such as pipedream: "
	 "stashing (a microbatch reads one in a stage), vertical (one in all stages) or none "
	 "(whatever is the latest) (stashing)",
	 1},
	{"accumulate", KEY_ACCUMULATE, "K", 0,
	 "microbatches on each replica in an update, of a schedule that never flushes (1)", 1},
	{"batch", KEY_BATCH, "N", 0, "samples in a minibatch (96)", 1},
	{"lengths", KEY_LENGTHS, "N,N,...|FILE", 0,
	 "lengths of the microbatches, one each: costs grow with them, as length_exponent in the "
	 "graph says (all alike; train: for the order alone)",
	 1},
	{"microbatch-costs", KEY_MICROBATCH_COSTS, "FILE.csv", 0,
	 "what single jobs cost, with the columns stage, microbatch, pass, duration, bytes and "
	 "stash "
	 "(as the stage; train: for the order alone)",
	 1},
	{NULL, 0, NULL, 0, "Studies (chain:8, towers:3,3/2, nodes without op):", 2},
	{"costs", KEY_COSTS, "F,B[,W]", 0,
	 "durations of a stage's passes: units, or 12.96ms (1,1); with W, B is the input gradient",
	 2},
	{"activation", KEY_ACTIVATION, "SIZE", 0, "what every edge carries per microbatch (0)", 2},
	{"stash", KEY_STASH, "SIZE", 0, "what a stage keeps of a microbatch (0)", 2},
	{"parameters", KEY_PARAMETERS, "SIZE", 0, "parameters of a stage (0)", 2},
	{NULL, 0, NULL, 0, "Machine:", 3},
	{"machine", KEY_MACHINE, "FILE.dot", 0,
	 "workers with their speed and memory, and the links between them, instead of --latency, "
	 "--bandwidth and --memory (workers and links that are alike)",
	 3},
	{"latency", KEY_LATENCY, "TIME[,TIME...]", 0,
	 "of a transfer between two workers; one for each level of --workers 4x2, the innermost "
	 "first (0)",
	 3},
	{"bandwidth", KEY_BANDWIDTH, "SIZE/s[,SIZE/s...]", 0,
	 "of the link between two workers, each way; level by level (infinite)", 3},
	{"link", 0, NULL, OPTION_ALIAS, NULL, 3},
	{"memory", KEY_MEMORY, "SIZE", 0,
	 "of a worker, such as 16GB; what does not fit is refused (no limit)", 3},
	{"optimizer", KEY_OPTIMIZER, "NAME", 0,
	 "adamw, adam, momentum, sgd or none: what memory a parameter takes, and how train changes "
	 "it (what a plan was made for, or adamw)",
	 3},
	{"shard-optimizer", KEY_SHARD_OPTIMIZER, NULL, 0,
	 "the replicas of a stage divide the optimizer's state: each updates its part of the "
	 "parameters and sends it to the others (as a plan was made)",
	 3},
	{"precision", KEY_PRECISION, "NAME", 0,
	 "of matrix products, which add up in fp32: fp32, bf16, which also keeps and sends "
	 "activations so, or tf32, which a CPU core computes as fp32 (what a plan was made for, or "
	 "fp32)",
	 3},
	{"flops", KEY_FLOPS, "N", 0,
	 "FLOP per second, charged for operators without measured costs (1e10)", 3},
	{0},
};

static error_t parse_study(struct work_options *o, int key, const char *arg)
{
	struct orr_error err;

	switch (key) {
	case KEY_COSTS:
		options_check(orr_study_costs_parse(&o->open.costs, arg, "--costs", &err), &err);
		break;
	case KEY_ACTIVATION:
		o->open.costs.activation_bytes = options_size("--activation", arg);
		break;
	case KEY_STASH:
		o->open.costs.stash_bytes = options_size("--stash", arg);
		break;
	case KEY_PARAMETERS:
		o->open.costs.parameter_bytes = options_size("--parameters", arg);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	o->open.given.costs = true;
	return 0;
}

static error_t parse_machine(struct work_options *o, int key, const char *arg)
{
	struct orr_error err;

	switch (key) {
	case KEY_LATENCY:
		o->latencies = arg;
		o->open.given.latency = true;
		break;
	case KEY_BANDWIDTH:
		o->bandwidths = arg;
		o->open.given.bandwidth = true;
		break;
	case KEY_MACHINE:
		o->open.machine_file = arg;
		break;
	case KEY_MEMORY:
		options_refuse_list("--memory", arg);
		o->open.machine.memory_bytes = options_memory("--memory", arg);
		break;
	case KEY_OPTIMIZER:
		o->open.given.optimizer = true;
		options_check(
			orr_optimizer_parse(&o->open.numerics.optimizer, arg, "--optimizer", &err),
			&err);
		break;
	case KEY_SHARD_OPTIMIZER:
		o->open.given.shard_optimizer = o->open.numerics.shard_optimizer = true;
		break;
	case KEY_PRECISION:
		o->open.given.precision = true;
		options_check(
			orr_precision_parse(&o->open.numerics.precision, arg, "--precision", &err),
			&err);
		break;
	case KEY_FLOPS:
		o->open.given.flops = true;
		o->open.machine.flops_per_s = options_real("--flops", arg, 1, 1e24);
		break;
	default:
		return parse_study(o, key, arg);
	}
	return 0;
}

static enum orr_run_order parse_order(const char *text)
{
	if (!strcmp(text, "strict"))
		return ORR_RUN_STRICT;
	if (!strcmp(text, "greedy"))
		return ORR_RUN_GREEDY;
	options_refuse("--order: no '%.40s': there are strict and greedy", text);
}

/* Workers and the links between them, in levels or all alike. */
static void settle_links(struct work_options *o)
{
	bool grouped = o->workers && strchr(o->workers, 'x');
	const char *list = o->bandwidths && strchr(o->bandwidths, ',') ? o->bandwidths
			   : o->latencies && strchr(o->latencies, ',') ? o->latencies
								       : NULL;
	int n = o->workers && !grouped ? (int)options_count("--workers", o->workers, 1, 1 << 20)
				       : 0;
	struct orr_error err;

	if (list && !grouped)
		options_refuse("%s %.60s: of links by level: say the levels, such as --workers 4x2",
			       list == o->bandwidths ? "--bandwidth" : "--latency", list);
	options_check(orr_levels_parse(&o->levels, grouped ? o->workers : "1", o->bandwidths,
				       o->latencies, &o->open.latency_units, &err),
		      &err);
	o->open.given.levels = o->levels.n > 1;
	orr_machine_set_levels(&o->open.machine, &o->levels);
	/* the library takes 0 for no limit, but a user who writes 0 does not mean that */
	if (o->bandwidths && o->open.machine.bandwidth_bytes_per_s <= 0)
		options_refuse("--bandwidth: 0: leave it out for no limit");
	if (!grouped)
		o->open.machine.n_workers = n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct work_options *o = state->input;
	struct orr_error err;

	switch (key) {
	case 's':
		o->open.schedule = arg;
		o->open.given.schedule = true;
		break;
	case 'w':
		o->workers = arg;
		break;
	case 'm':
		options_refuse_list("-m", arg);
		o->open.n_microbatches = (int)options_count("-m", arg, 1, 1 << 30);
		break;
	case KEY_SPLIT:
		o->open.splits = arg;
		break;
	case KEY_STAGES:
		options_refuse_list("--stages", arg);
		o->open.n_stages = (int)options_count("--stages", arg, 1, 1 << 20);
		break;
	case KEY_RECOMPUTE:
		o->open.recompute = arg;
		break;
	case KEY_ORDER:
		o->open.order = parse_order(arg);
		break;
	case KEY_SYNC:
		o->open.versions = "[sync]";
		options_check(orr_sync_parse(&o->open.sync, arg, &err), &err);
		break;
	case KEY_ACCUMULATE:
		o->open.versions = "[accumulate]";
		o->open.accumulate = (int)options_count("--accumulate", arg, 1, 1 << 20);
		break;
	case KEY_BATCH:
		o->open.batch = (int)options_count("--batch", arg, 1, 1 << 30);
		o->open.given.batch = true;
		break;
	case KEY_LENGTHS:
		o->open.lengths = arg;
		break;
	case KEY_MICROBATCH_COSTS:
		o->open.microbatch_costs = arg;
		break;
	case ARGP_KEY_ARG:
		if (o->open.source)
			options_refuse("one GRAPH at a time: '%s' is a second one", arg);
		o->open.source = arg;
		break;
	case ARGP_KEY_END:
		settle_links(o);
		if (!o->open.source && !o->no_source)
			options_refuse("no GRAPH: name a model's file, or a study such as chain:8 "
				       "or towers:3,3/2");
		break;
	default:
		return parse_machine(o, key, arg);
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
	return (struct work_options){.open = orr_open_options_default(),
				     .timeout_s = PLUGIN_TIMEOUT_S};
}
