#include "option_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "schedule/versions.h"

#define SHOW VERB_SHOW
#define SIMULATE VERB_SIMULATE
#define COMPARE VERB_COMPARE
#define PROFILE VERB_PROFILE
#define PLAN VERB_PLAN
#define TRAIN VERB_TRAIN
#define FIT VERB_FIT
#define SCHEDULED (SIMULATE | COMPARE | TRAIN | FIT)
#define PLANNED (SCHEDULED | PLAN)
#define ALL (PLANNED | PROFILE)
#define AT(field) offsetof(struct options, field)
#define TRILLION 1e12

/* ---- values that no kind reads ---- */

static int read_sync(struct options *o, const char *text, struct orr_error *err)
{
	return orr_sync_parse(&o->open.sync, text, err);
}

static int read_host(struct options *o, const char *text, struct orr_error *err)
{
	return orr_link_parse(&o->open.machine.host, &o->open.latency_units, text, "--host", err);
}

#define READER(name, parse, field) \
	static int read_##name(struct options *o, const char *text, struct orr_error *err) \
	{ \
		return parse(&o->field, text, "--" #name, err); \
	}

READER(costs, orr_study_costs_parse, open.costs)
READER(optimizer, orr_optimizer_parse, open.numerics.optimizer)
READER(precision, orr_precision_parse, open.numerics.precision)
READER(jitter, orr_noise_parse, jitter.noise)
READER(mtbf, orr_failures_parse, failures)
READER(lose, orr_outage_parse, outage)

static int read_within(struct options *o, const char *text, struct orr_error *err)
{
	int code = orr_duration_parse(&o->compare.within_ns, &o->compare.within_units, text,
				      "--within", err);

	return code || o->compare.within_ns
		       ? code
		       : orr_fail(err, ORR_E_INPUT, "--within: a step takes longer than 0");
}

static int read_silence(struct options *o, const char *text, struct orr_error *err)
{
	bool units = false;
	int code = orr_duration_parse(&o->supervise.silence_ns, &units, text, "--silence", err);

	return code || (!units && o->supervise.silence_ns)
		       ? code
		       : orr_fail(err, ORR_E_INPUT, "--silence: give a time with a unit, 5s");
}

static int read_search(struct options *o, const char *text, struct orr_error *err)
{
	o->plan.search = true;
	return text ? orr_count_parse(&o->plan.seconds, text, 1, 1 << 20, "--search", err) : 0;
}

static int read_constants(struct options *o, const char *text, struct orr_error *err)
{
	while (text) {
		const char *name = orr_part_next(&text, ',');
		int c = 0;

		while (c < ORR_CONSTANTS && strcmp(orr_constant_name(c), name))
			c++;
		if (c == ORR_CONSTANTS)
			return orr_fail(
				err, ORR_E_INPUT,
				"--constants: '%.40s' is none: give some of compute, overhead, "
				"bandwidth and latency",
				name);
		o->fit.asked[c] = true;
	}
	return 0;
}

static int read_checkpoint(struct options *o, const char *text, struct orr_error *err)
{
	o->keep.folder = text;
	return *text ? 0 : orr_fail(err, ORR_E_INPUT, "--checkpoint '': name a folder");
}

/* "100", "1epoch", "2epochs". */
static int read_evaluate(struct options *o, const char *text, struct orr_error *err)
{
	size_t n = strlen(text);
	size_t unit = n > 6 && !strcmp(text + n - 6, "epochs")  ? 6
		      : n > 5 && !strcmp(text + n - 5, "epoch") ? 5
								: 0;
	char *number = strndup(text, n - unit);
	int code;

	if (!number)
		return orr_fail(err, ORR_E_NOMEM, "--evaluate-every: no memory");
	o->evaluate.epochs = unit;
	code = orr_count_parse(&o->evaluate.every, number, 1, 1000000000, "--evaluate-every", err);
	free(number);
	return code;
}

/* how a value is read, and where to; parted: by commas, where there are several */
#define HOW(kind, to, low, high, words, read, parted) \
	{ \
		KIND_##kind, to, low, high, words, read, parted \
	}
#define FLAG(field) HOW(FLAG, AT(field), 0, 0, NULL, NULL, false)
#define TEXT(field) HOW(TEXT, AT(field), 0, 0, NULL, NULL, false)
#define TEXTS(field) HOW(TEXTS, AT(field), 0, 0, NULL, NULL, false)
#define INT(field, low, high) HOW(INT, AT(field), low, high, NULL, NULL, false)
#define INTS(field, low, high) HOW(INT, AT(field), low, high, NULL, NULL, true)
#define COUNT(field, low, high) HOW(COUNT, AT(field), low, high, NULL, NULL, false)
#define COUNTS(field, high) HOW(COUNTS, AT(field), 1, high, NULL, NULL, true)
#define REAL(field, low, high) HOW(REAL, AT(field), low, high, NULL, NULL, false)
#define SIZE(field) HOW(SIZE, AT(field), 0, 0, NULL, NULL, false)
#define MEMORY(field) HOW(MEMORY, AT(field), 0, 0, NULL, NULL, false)
#define MEMORIES(field) HOW(MEMORY, AT(field), 0, 0, NULL, NULL, true)
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define WORD(field, ...) HOW(WORD, AT(field), 0, 0, WORDS(__VA_ARGS__), NULL, false)
#define READ(read) HOW(READ, 0, 0, 0, NULL, read, false)
#define MAY_READ(read) HOW(MAY_READ, 0, 0, 0, NULL, read, false)
#define ALIAS HOW(ALIAS, 0, 0, 0, NULL, NULL, false)

const struct row option_rows[] = {
	{"split", "N", 0, SHOW, 0, TEXT(open.splits), 0,
	 "Show the graph as it is split among N workers, or trunk=2,image=1 by encoders"},
	{"dot", NULL, 'd', SHOW, 0, FLAG(dot), 0, "Write the graph as DOT, repeats unfolded"},
	{"json", NULL, 'j', SHOW, 0, FLAG(output.json), 0, "Write one JSON object"},
	{"operators", NULL, 'o', SHOW, 0, FLAG(operators), 0,
	 "List the operators that a graph may have, with their attributes"},
	{"table", NULL, 0, VERB_SCHEDULES, 0, FLAG(table), 0,
	 "a line a schedule: name, tab, summary, tab, paper"},
	{"fewer", "N", 'f', VERB_SUPERVISE, 0, COUNT(supervise.fewer, 1, 1 << 20), 0,
	 "go on with N ranks at least, where hosts are lost (mpirun --host a:2,b:2), or ranks "
	 "again "
	 "and again (--restarts); to the same bits (as many as mpirun -n says)"},
	{"memory", "DIR", 'm', VERB_SUPERVISE, 0, TEXT(supervise.memory), 0,
	 "a folder in memory on every host, for the copies (/dev/shm)"},
	{"restarts", "N", 'r', VERB_SUPERVISE, 0, COUNT(supervise.restarts, 0, 1000000), 0,
	 "at most, without a later step to go on from (3)"},
	{"silence", "T", 's', VERB_SUPERVISE, 0, READ(read_silence), 0,
	 "of a rank between two steps, after which it hangs (5 times the longest of late, and 2s "
	 "at least)"},
	{.help = "Model and step:"},
	{"schedule", "NAME[:k=v,...]|FILE.so|FILE.csv|PLAN", 's', SCHEDULED & ~COMPARE,
	 PLAN | PROFILE, TEXT(open.schedule), AT(open.given.schedule),
	 "`orrery schedules` lists them (1f1b)"},
	{"workers", "N|4x2", 'w', ALL, 0, TEXT(machine.workers), 0,
	 "workers, as 4x2 level by level from the innermost outwards: 4 in a group, 2 groups (one "
	 "a stage; train: one a core; plan: to be given)"},
	{"microbatches", "B", 'm', ALL & ~COMPARE, 0, INT(open.n_microbatches, 1, 1 << 30), 0,
	 "microbatches in a minibatch (what the schedule's file has, or 8)"},
	{"split", "N", 0, PLANNED, PROFILE, TEXT(open.splits), 0,
	 "split every operator among N workers; 2,image=1: those of encoders otherwise; 2:copied: "
	 "not by rows; plan: any, what is shortest (what the graph says)"},
	{"stages", "N", 0, SIMULATE | TRAIN | FIT, PLAN | PROFILE, INT(open.n_stages, 1, 1 << 20),
	 0, "stages to cut a model without pins into (one per worker)"},
	{"replicas", "R", 0, SCHEDULED, 0, INT(open.replicas, 1, 1 << 20), 0,
	 "the schedule is that of W/R workers and B/R microbatches, R times side by side, and the "
	 "R workers of a stage add up its gradient (1)"},
	{"recompute", "all|none|0,3,5", 0, SCHEDULED, PLAN | PROFILE, TEXT(open.recompute), 0,
	 "stages whose B runs F again, keeping their input alone until then (none but what the "
	 "schedule asks for)"},
	{"park", "0,1[=host|=WORKER]", 0, SCHEDULED, PLAN | PROFILE, TEXT(open.park), 0,
	 "stages (or all) whose stashes leave their worker after F and come back before the "
	 "backward, beside the --prefetch jobs after F and before the backward (none but what the "
	 "schedule asks for; in memory of the host)"},
	{"prefetch", "N", 0, SIMULATE | COMPARE, 0, INT(open.prefetch, 0, 1000), 0,
	 "jobs ahead for which parameters and parked stashes are fetched (2)"},
	{"order", "strict|greedy", 0, SCHEDULED, PLAN | PROFILE,
	 WORD(open.order, "", "strict", "greedy"), 0,
	 "a worker waits for the next job of its order, or takes the first one that is ready, "
	 "never holding more stashes than it would in strict order (as the schedule says)"},
	{"sync", "WAY", 0, SCHEDULED, PLAN | PROFILE, READ(read_sync), AT(open.given.sync),
	 "versions of the parameters under a schedule that never flushes, such as pipedream: "
	 "stashing (a microbatch reads one in a stage), vertical (one in all stages) or none "
	 "(whatever is the latest) (stashing)"},
	{"accumulate", "K", 0, SCHEDULED, PLAN | PROFILE, INT(open.accumulate, 1, 1 << 20),
	 AT(open.given.accumulate),
	 "microbatches on each replica in an update, of a schedule that never flushes (1)"},
	{"buckets", "N", 0, SIMULATE | COMPARE, 0, INT(open.buckets, 1, 1 << 16), 0,
	 "parts of a stage's gradient that its owners add up one by one, each when the last W has "
	 "computed it; such a W does so evenly (1)"},
	{"batch", "N", 0, ALL, 0, INT(open.batch, 1, 1 << 30), AT(open.given.batch),
	 "samples in a minibatch (96)"},
	{"lengths", "N,N,...|FILE", 0, PLANNED & ~FIT, PROFILE, TEXT(open.lengths), 0,
	 "lengths of the microbatches, one each: costs grow with them, as length_exponent in the "
	 "graph says (all alike; train: for the order alone)"},
	{"microbatch-costs", "FILE.csv", 0, SCHEDULED & ~FIT, PLAN | PROFILE,
	 TEXT(open.microbatch_costs), 0,
	 "what single jobs cost, with the columns stage, microbatch, pass, duration, bytes and "
	 "stash (as the stage; train: for the order alone)"},
	{"timeout", "SECONDS", 0, SCHEDULED, 0, REAL(timeout_s, 0.01, 1e9), 0,
	 "end with a line when a plug-in has not answered, or training has made no progress, for "
	 "this long (60)"},
	{.help = "Studies (chain:8, towers:3,3/2, nodes without op):"},
	{"costs", "F,B[,W]", 0, PLANNED & ~TRAIN, PROFILE | TRAIN, READ(read_costs),
	 AT(open.given.costs),
	 "durations of a stage's passes: units, or 12.96ms (1,1); with W, B is the input gradient"},
	{"activation", "SIZE", 0, PLANNED & ~TRAIN, PROFILE | TRAIN,
	 SIZE(open.costs.activation_bytes), AT(open.given.costs),
	 "what every edge carries per microbatch (0)"},
	{"stash", "SIZE", 0, PLANNED & ~TRAIN, PROFILE | TRAIN, SIZE(open.costs.stash_bytes),
	 AT(open.given.costs), "what a stage keeps of a microbatch (0)"},
	{"parameters", "SIZE", 0, PLANNED & ~TRAIN, PROFILE | TRAIN,
	 SIZE(open.costs.parameter_bytes), AT(open.given.costs), "parameters of a stage (0)"},
	{.help = "Machine:"},
	{"machine", "FILE.dot", 0, PLANNED & ~FIT, PROFILE, TEXT(open.machine_file), 0,
	 "workers with their speed and memory, and the links between them, instead of --latency, "
	 "--bandwidth and --memory (workers and links that are alike)"},
	{"latency", "TIME[,TIME...]", 0, PLANNED, PROFILE, TEXT(machine.latencies),
	 AT(open.given.latency),
	 "of a transfer between two workers; one for each level of --workers 4x2, the innermost "
	 "first (0)"},
	{"bandwidth", "SIZE/s[,SIZE/s...]", 0, PLANNED, PROFILE, TEXT(machine.bandwidths),
	 AT(open.given.bandwidth),
	 "of the link between two workers, each way; level by level (infinite)"},
	{"link", NULL, 0, PLANNED, PROFILE, ALIAS, 0, NULL},
	{"host", "SIZE/s[,TIME]", 0, SIMULATE | COMPARE, 0, READ(read_host), 0,
	 "bandwidth and latency of a worker's own link with the memory of its host, each way, for "
	 "stashes parked there (infinite, 0)"},
	{"memory", "SIZE", 0, PLANNED & ~COMPARE & ~FIT, PROFILE, MEMORY(open.machine.memory_bytes),
	 0, "of a worker, such as 16GB; what does not fit is refused (no limit)"},
	{"optimizer", "NAME", 0, ALL, 0, READ(read_optimizer), AT(open.given.optimizer),
	 "adamw, adam, momentum, sgd or none: what memory a parameter takes, and how train changes "
	 "it (what a plan was made for, or adamw)"},
	{"shard-optimizer", NULL, 0, PLANNED, PROFILE, FLAG(open.numerics.shard_optimizer),
	 AT(open.given.shard_optimizer),
	 "the replicas of a stage divide the optimizer's state: each updates its part of the "
	 "parameters and sends it to the others (as a plan was made)"},
	{"precision", "NAME", 0, ALL, 0, READ(read_precision), AT(open.given.precision),
	 "of matrix products, which add up in fp32: fp32, bf16, which also keeps and sends "
	 "activations so where autocast of PyTorch does, or tf32, which a CPU core computes as "
	 "fp32 "
	 "(what a plan was made for, or fp32)"},
	{"flops", "N", 0, PLANNED, PROFILE, REAL(open.machine.flops_per_s, 1, 1e24),
	 AT(open.given.flops),
	 "FLOP per second, charged for operators without measured costs (1e10)"},
	{"device", "NAME", 0, PROFILE | TRAIN, 0, WORD(run.hardware, "auto", "cpu", "cuda"), 0,
	 "cuda, cpu, or auto: CUDA devices if there are any (auto)"},
	{"streams", "N", 0, PROFILE | TRAIN, 0, INT(run.streams, 1, 8), 0,
	 "workers of a CUDA device that compute side by side (1)"},
	{.help = "Comparison:"},
	{"schedule", "NAME[:k=v,...]|FILE.so|FILE.csv|PLAN|all", 's', COMPARE, 0,
	 TEXTS(compare.schedules), 0,
	 "what is compared, given as often as there are several; all: every built-in one (all)"},
	{"microbatches", "B,..", 'm', COMPARE, 0, INTS(open.n_microbatches, 1, 1 << 30), 0,
	 "microbatches in a minibatch, a table for each (what the schedule's file has, or 8)"},
	{"stages", "N,..", 0, COMPARE, 0, COUNTS(compare.stages, 1 << 20), 0,
	 "stages to cut a model without pins into, a row for every number (one and two a worker, "
	 "with a row for the better)"},
	{"memory", "SIZE,..", 0, COMPARE, 0, MEMORIES(open.machine.memory_bytes), 0,
	 "of a worker, such as 16GB or 8GB,16GB, a table for each; what does not fit is refused "
	 "(no limit)"},
	{"plan", NULL, 0, COMPARE, 0, FLAG(compare.plan), 0,
	 "what `orrery plan --makespan` finds, as a row of its own"},
	{"front", NULL, 0, COMPARE, 0, FLAG(compare.front), 0,
	 "also `auto` in up to 16 memories, from the least in which it finds an order to enough "
	 "for as many stashes as any schedule holds, without those that gain nothing"},
	{"within", "TIME", 0, COMPARE, 0, READ(read_within), 0,
	 "with --front, the least memory that was found for a step of this length"},
	{.help = "Fitting:"},
	{"constants", "NAME,..", 0, FIT, 0, READ(read_constants), 0,
	 "of compute, overhead, bandwidth and latency those that are fitted; others are as given, "
	 "or "
	 "free (all that the steps tell apart)"},
	{.help = "Planning:"},
	{"straight", NULL, 0, PLAN, 0, FLAG(plan.straight), 0, "no replicas: one worker a stage"},
	{"free-activations", NULL, 0, PLAN, 0, FLAG(plan.free_activations), 0,
	 "count parameters' traffic only"},
	{"transfers", "overlapped|added", 0, PLAN, 0, WORD(plan.added, "overlapped", "added"), 0,
	 "how the time of links counts: overlapped with computing, as it is simulated, or added to "
	 "it, as older planners do (overlapped)"},
	{"makespan", NULL, 0, PLAN, 0, FLAG(plan.makespan), 0,
	 "of the plans that it tries, with fewer stages too, the one whose step of -m microbatches "
	 "is shortest, instead of the fastest slowest stage"},
	{"contiguous", NULL, 0, PLAN, 0, FLAG(plan.contiguous), 0,
	 "stages of neighbours alone, each on workers of its own; else also workers that have "
	 "several stages, where that shares the work better"},
	{"unpin", NULL, 0, PLAN, 0, FLAG(plan.unpin), 0,
	 "cut anew, whatever stages the model's file pins (stage=)"},
	{"search", "SECONDS", 0, PLAN, 0, MAY_READ(read_search), 0,
	 "the shortest step that a search finds in this memory: cuts, workers and the order of the "
	 "jobs, with a split backward. Every run finds the same; with SECONDS it starts again from "
	 "other seeds until they have passed, so how often is left to the machine"},
	{"restarts", "N", 0, PLAN, 0, INT(plan.restarts, 0, 1 << 20), AT(plan.search),
	 "start the search again from N other seeds: the same in every run, and never a longer "
	 "step"},
	{.help = "Training:"},
	{"epochs", "N", 0, TRAIN, 0, COUNT(train.epochs, 1, 1e9), 0,
	 "passes over the training set (10)"},
	{"steps", "N", 0, TRAIN, 0, COUNT(train.steps, 0, TRILLION), 0,
	 "minibatches, instead of epochs; 0: evaluate the model as it is"},
	{"data", "FILE", 0, TRAIN, 0, TEXT(train.data), 0,
	 "CSV, .npy or .safetensors of numbers, a sample a row (what the model's file names)"},
	{"lr", "X", 0, TRAIN, 0, REAL(run.learning_rate, 0, 1e6), AT(train.has_lr),
	 "learning rate (momentum and sgd 0.1, others 0.002)"},
	{"momentum", "X", 0, TRAIN, 0, REAL(run.momentum, 0, 1), AT(train.has_momentum),
	 "of --optimizer momentum (0.9)"},
	{"warmup", "STEPS", 0, TRAIN, 0, COUNT(run.warmup, 0, TRILLION), 0,
	 "the learning rate grows linearly to --lr in the first steps, step k of N having k/N of "
	 "it (0)"},
	{"decay", "cosine|linear|none", 0, TRAIN, 0, WORD(run.decay, "none", "cosine", "linear"), 0,
	 "and then falls to --final-rate at the end of training (none)"},
	{"final-rate", "X", 0, TRAIN, 0, REAL(run.final_rate, 0, 1e6), AT(train.has_final_rate),
	 "learning rate at the end of --decay (0)"},
	{"clip", "NORM", 0, TRAIN, 0, REAL(run.clip, 0, 1e30), 0,
	 "gradients of a step whose norm, of all of them together, is larger are scaled down to "
	 "it; all updates wait for the last gradient (no clipping)"},
	{"weight-decay", "X", 0, TRAIN, 0, REAL(run.weight_decay, 0, 1e6), 0, "(0)"},
	{"spare", NULL, 0, TRAIN, 0, FLAG(run.spare), 0,
	 "weight decay spares biases and what norms learn (all parameters decay)"},
	{"seed", "N", 0, TRAIN, 0, COUNT(run.seed, 0, 0), 0, "of parameters and shuffling (1)"},
	{"prefetch", "N", 0, TRAIN, 0, INT(run.prefetch, 0, 1000), 0,
	 "jobs ahead for which parameters are fetched (2)"},
	{"ranks-workers", "N,N,...", 0, TRAIN, 0, TEXT(run.ranks_workers), 0,
	 "under mpirun: how many of the workers each rank has (as evenly as can be)"},
	{"on-nan", "stop|skip", 0, TRAIN, 0, WORD(run.on_nan, "stop", "skip"), 0,
	 "where a loss or a gradient is not finite: stop, or leave that step's update out, for "
	 "which all updates wait for the last gradient; 10 such steps in a row stop it, too "
	 "(stop)"},
	{"evaluate-every", "N[epochs]", 0, TRAIN, 0, READ(read_evaluate), 0,
	 "steps or epochs from one evaluation on the test rows to the next, and at the end (at the "
	 "end alone)"},
	{"init", "FILE", 0, TRAIN, 0, TEXT(train.init), 0,
	 "initial weights, a .safetensors file with tensors \"operator.weight\" of F32, F16, BF16 "
	 "or F64 (drawn from the seed)"},
	{"init-partly", NULL, 0, TRAIN, 0, FLAG(train.init_partly), 0,
	 "it may lack tensors, which are then drawn, and have others, which are left"},
	{"save-weights", "FILE", 0, TRAIN, 0, TEXT(train.weights), 0,
	 "write the weights to one .safetensors file when training ends"},
	{"loss", "FILE", 0, TRAIN, 0, TEXT(train.losses), 0,
	 "every step's loss as CSV: step, samples seen, loss, and each of several; the norm where "
	 "--clip is given, and test loss and accuracy at evaluations; with --resume, from there "
	 "on"},
	{.help = "Links:"},
	{"links", NULL, 0, PROFILE, 0, FLAG(links), 0,
	 "under mpirun, without GRAPH: latency and bandwidth between every two ranks"},
	{.help = "Noise:"},
	{"jitter", "KIND:WIDTH", 0, SIMULATE | COMPARE, 0, READ(read_jitter), AT(jitter.given),
	 "durations of jobs and updates times a drawn factor of mean 1: lognormal:0.2 (the "
	 "standard deviation of its logarithm), uniform:0.1 (0.9 to 1.1) or normal:0.1 (none is "
	 "below 0)"},
	{"samples", "N", 0, SIMULATE | COMPARE, 0, INT(jitter.noise.n_samples, 1, 10000000), 0,
	 "steps drawn (1000)"},
	{"seed", "N", 0, SIMULATE | COMPARE, 0, COUNT(jitter.noise.seed, 0, 0), 0,
	 "of the draws (1)"},
	{.help = "Failures:"},
	{"mtbf", "T:copy=T,restart=T", 0, SIMULATE | COMPARE, 0, READ(read_mtbf), 0,
	 "one failure in T on average, the time of a copy of the state, and from a failure until "
	 "steps are run again: how many steps there should be between two copies"},
	{"lose", "W@T:copy=T,restart=T[,every=N][,for=T]", 0, SIMULATE | COMPARE, 0,
	 READ(read_lose), 0,
	 "worker W is lost T after the first step began, with a copy after every N steps (1): when "
	 "training has caught up; for T steps run on one worker fewer (a spare takes its place)"},
	{"rank", "FIGURE", 0, COMPARE, 0,
	 WORD(compare.rank, "makespan", "median", "p95", "worst", "greedy-median", "greedy-p95",
	      "greedy-worst"),
	 0,
	 "with --jitter, rows in the order of the strict median, p95 or worst, or of "
	 "greedy-median, greedy-p95 or greedy-worst (makespan)"},
	{.help = "Checkpoints:"},
	{"checkpoint", "DIR", 0, TRAIN, 0, READ(read_checkpoint), 0,
	 "write checkpoints there, the last one when training ends"},
	{"every", "N", 0, TRAIN, 0, COUNT(keep.every, 1, TRILLION), 0,
	 "steps from one to the next (100)"},
	{"keep", "K", 0, TRAIN, 0, INT(keep.keep, 0, 1000000), 0,
	 "checkpoints that stay, the newest; 0: all (3)"},
	{"keep-best", NULL, 0, TRAIN, 0, FLAG(keep.best), 0,
	 "also keep the one with the lowest test loss of --evaluate-every, in DIR/best"},
	{"resume", NULL, 0, TRAIN, 0, FLAG(keep.resume), 0,
	 "go on from the newest one that is whole; --steps and --epochs count from the start of "
	 "training, and --lr may be another"},
	{"copy-every", "N", 0, TRAIN, 0, COUNT(keep.copy_every, 1, TRILLION), 0,
	 "under `orrery supervise`: steps from one copy of the state in main memory to the next; a "
	 "training goes on from the newest that has lost a process (no copies)"},
	{.help = "Output (FILE may be -, standard output; the report then goes to standard "
		 "error):"},
	{"json", NULL, 0, ALL, 0, FLAG(output.json), 0,
	 "one JSON object on standard output, and nothing else"},
	{"svg", "FILE", 0, SIMULATE | TRAIN, 0, TEXT(output.svg), 0,
	 "the timeline as SVG; of a training, that of an ordinary step"},
	{"svg", "FILE", 0, COMPARE, 0, TEXT(output.svg), 0, "memory against makespan as SVG"},
	{"csv", "FILE", 0, SIMULATE | TRAIN, 0, TEXT(output.csv), 0,
	 "the schedule as PyTorch's CSV, which --schedule FILE.csv reads; beside FILE.csv, its "
	 "stages as FILE.stages.json"},
	{"csv", "FILE", 0, COMPARE, 0, TEXT(output.csv), 0, "all rows as CSV"},
	{"figures", "FILE", 0, SIMULATE, 0, TEXT(output.figures), 0,
	 "the figures as CSV: a line for each worker, with those of the step in every one"},
	{"strict-csv", NULL, 0, SIMULATE | TRAIN, 0, FLAG(output.strict_csv), 0,
	 "refuse --csv where that cannot say all of the schedule, instead of saying what is "
	 "missing"},
	{"trace", "FILE", 0, SIMULATE | TRAIN, 0, TEXT(output.trace), 0,
	 "the timeline as Chrome trace JSON, for Perfetto; of a training, with the prediction"},
	{"html", "FILE", 0, SIMULATE | TRAIN, 0, TEXT(output.html), 0,
	 "all of it as a page in one file: hover over a gap to see why the worker waits; of a "
	 "training, with the prediction and the losses"},
	{"html", "FILE", 0, COMPARE, 0, TEXT(output.html), 0,
	 "all rows as a page to look at, sorted by any column, with a drawing of any column "
	 "against "
	 "any other"},
	{"html", "FILE", 0, PLAN, 0, TEXT(output.html), 0,
	 "the plan and its simulated step as a page to look at"},
	{"output", "FILE.json", 'o', SIMULATE, 0, TEXT(out), 0,
	 "all of the schedule, as a plan for simulate and train, which give the same timeline "
	 "again"},
	{"output", "FILE.json", 'o', PLAN, 0, TEXT(out), 0,
	 "the plan, for simulate and train; - is standard output"},
	{"output", "FILE.dot", 'o', FIT, 0, TEXT(out), 0, "the machine, for --machine"},
	{"output", "FILE.dot", 'o', PROFILE, 0, TEXT(out), 0,
	 "the graph with what was measured, for plan and the rest; - is standard output"},
	{"measured", "FILE.json", 0, SIMULATE, 0, TEXT(measured), 0,
	 "a step of this plan as it ran, which orrery_torch's Runner writes: drawn beside the "
	 "simulated one"},
};

const int n_option_rows = sizeof(option_rows) / sizeof(*option_rows);

#define NOISE_OF(option) \
	option ": of noise, and there is none: give --jitter lognormal:0.2, or leave it out"

const struct rule option_rules[] = {
	{"link", "bandwidth", true, "--link and --bandwidth are two names of one option: give one"},
	{"dot", "json", true, "--dot and --json both write to standard output: choose one"},
	{"steps", "epochs", true, "--steps and --epochs say the same thing: give one of them"},
	{"init", "resume", true,
	 "--init gives the weights that a training begins with, and --resume those of a "
	 "checkpoint: leave one of them out"},
	{"front", "memory", true, "--front goes through the memories itself: leave --memory out"},
	{"within", "front", false,
	 "--within: the least memory is looked for along the front: give --front too"},
	{"init-partly", "init", false, "--init-partly: with what? give --init FILE"},
	{"keep-best", "evaluate-every", false,
	 "--keep-best: nothing says when the model is evaluated: give --evaluate-every N"},
	{"every keep keep-best resume", "checkpoint", false,
	 "--every, --keep, --keep-best and --resume are of checkpoints: say where with "
	 "--checkpoint DIR"},
	{"strict-csv", "csv", false, "--strict-csv is about --csv: give both"},
	{"seed", "jitter", false, NOISE_OF("--seed")},
	{"samples", "jitter", false, NOISE_OF("--samples")},
};

const int n_option_rules = sizeof(option_rules) / sizeof(*option_rules);

#define NO_PLAN(option, why) \
	{ \
		PLAN, option, "--" option " is nothing for a plan: " why \
	}
#define GIVE_LATER "give it to simulate or train with the plan"

const struct refusal option_refusals[] = {
	NO_PLAN("schedule",
		"it finds the order itself: leave it out, and simulate the plan with another one"),
	NO_PLAN("stages", "it finds how many: leave it out, or pin them (stage=)"),
	NO_PLAN("order", GIVE_LATER),
	NO_PLAN("recompute", GIVE_LATER),
	NO_PLAN("park", "give it to simulate with the plan"),
	NO_PLAN("sync", GIVE_LATER),
	NO_PLAN("accumulate", GIVE_LATER),
	NO_PLAN("microbatch-costs", "its stages are not known before: give --lengths, or give the "
				    "file to simulate with the plan"),
	{PROFILE, "schedule stages order recompute park sync accumulate",
	 "profile measures operators, which no schedule and no cut changes: leave out --schedule, "
	 "--stages, --order, --recompute, --park, --sync and --accumulate"},
	{PROFILE, "lengths microbatch-costs",
	 "profile measures microbatches of as many samples each: leave out --lengths and "
	 "--microbatch-costs"},
	{PROFILE,
	 "machine latency bandwidth link memory flops shard-optimizer costs activation stash "
	 "parameters",
	 "profile measures this machine: leave out --machine, --link, --latency, --bandwidth, "
	 "--memory, --flops, --shard-optimizer, --costs, --activation, --stash and --parameters"},
	{PROFILE, "split",
	 "profile measures operators as they are, and splits take their costs in parts: give "
	 "--split to simulate, plan or train with the profile"},
};

const int n_option_refusals = sizeof(option_refusals) / sizeof(*option_refusals);
