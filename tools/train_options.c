#include "train_options.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "hardware.h"
#include "options.h"
#include "orrery/jobs.h"
#include "orrery/parameter_cost.h"
#include "orrery/quantity.h"
#include "plugin.h"
#include "progress.h"
#include "session.h"

enum {
	KEY_STEPS = 512,
	KEY_EPOCHS,
	KEY_DATA,
	KEY_LR,
	KEY_MOMENTUM,
	KEY_WARMUP,
	KEY_DECAY,
	KEY_FINAL_RATE,
	KEY_CLIP,
	KEY_WEIGHT_DECAY,
	KEY_SPARE,
	KEY_SEED,
	KEY_PREFETCH,
	KEY_RANKS,
	KEY_ON_NAN,
	KEY_EVALUATE,
	KEY_INIT,
	KEY_INIT_PARTLY,
	KEY_SAVE_WEIGHTS,
	KEY_LOSS
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Training:", 4},
	{"epochs", KEY_EPOCHS, "N", 0, "passes over the training set (10)", 4},
	{"steps", KEY_STEPS, "N", 0,
	 "minibatches, instead of epochs; 0: evaluate the model as it is", 4},
	{"data", KEY_DATA, "FILE", 0,
	 "CSV, .npy or .safetensors of numbers, a sample a row (what the model's file names)", 4},
	{"lr", KEY_LR, "X", 0, "learning rate (momentum and sgd 0.1, others 0.002)", 4},
	{"momentum", KEY_MOMENTUM, "X", 0, "of --optimizer momentum (0.9)", 4},
	{"warmup", KEY_WARMUP, "STEPS", 0,
	 "the learning rate grows linearly to --lr in the first steps, step k of N having k/N of "
	 "it (0)",
	 4},
	{"decay", KEY_DECAY, "cosine|linear|none", 0,
	 "and then falls to --final-rate at the end of training (none)", 4},
	{"final-rate", KEY_FINAL_RATE, "X", 0, "learning rate at the end of --decay (0)", 4},
	{"clip", KEY_CLIP, "NORM", 0,
	 "gradients of a step whose norm, of all of them together, is larger are scaled down to "
	 "it; all updates wait for the last gradient (no clipping)",
	 4},
	{"weight-decay", KEY_WEIGHT_DECAY, "X", 0, "(0)", 4},
	{"spare", KEY_SPARE, NULL, 0,
	 "weight decay spares biases and what norms learn (all parameters decay)", 4},
	{"seed", KEY_SEED, "N", 0, "of parameters and shuffling (1)", 4},
	{"prefetch", KEY_PREFETCH, "N", 0, "jobs ahead for which parameters are fetched (2)", 4},
	{"ranks-workers", KEY_RANKS, "N,N,...", 0,
	 "under mpirun: how many of the workers each rank has (as evenly as can be)", 4},
	{"on-nan", KEY_ON_NAN, "stop|skip", 0,
	 "where a loss or a gradient is not finite: stop, or leave that step's update out, for "
	 "which all updates wait for the last gradient; 10 such steps in a row stop it, too (stop)",
	 4},
	{"evaluate-every", KEY_EVALUATE, "N[epochs]", 0,
	 "steps or epochs from one evaluation on the test rows to the next, and at the end (at the "
	 "end alone)",
	 4},
	{"init", KEY_INIT, "FILE", 0,
	 "initial weights, a .safetensors file with tensors \"operator.weight\" of F32, F16, BF16 "
	 "or "
	 "F64 (drawn from the seed)",
	 4},
	{"init-partly", KEY_INIT_PARTLY, NULL, 0,
	 "it may lack tensors, which are then drawn, and have others, which are left", 4},
	{"save-weights", KEY_SAVE_WEIGHTS, "FILE", 0,
	 "write the weights to one .safetensors file when training ends", 4},
	{"loss", KEY_LOSS, "FILE", 0,
	 "every step's loss as CSV: step, samples seen, loss, and each of several; the norm where "
	 "--clip is given, and test loss and accuracy at evaluations; with --resume, from there on",
	 4},
	{0},
};

static enum orr_on_nan parse_on_nan(const char *text)
{
	if (!strcmp(text, "stop"))
		return ORR_ON_NAN_STOP;
	if (!strcmp(text, "skip"))
		return ORR_ON_NAN_SKIP;
	options_refuse("--on-nan: no '%s': there are stop and skip", text);
}

static enum orr_decay parse_decay(const char *text)
{
	static const char *const names[] = {[ORR_DECAY_NONE] = "none",
					    [ORR_DECAY_COSINE] = "cosine",
					    [ORR_DECAY_LINEAR] = "linear"};

	for (int i = 0; i < (int)(sizeof(names) / sizeof(*names)); i++)
		if (!strcmp(text, names[i]))
			return (enum orr_decay)i;
	options_refuse("--decay: no '%s': there are cosine, linear and none", text);
}

/* "100", "1epoch", "2epochs". */
static struct evaluations_options parse_every(const char *text)
{
	static const char *const units[] = {"epochs", "epoch"};
	struct evaluations_options o = {0};
	char *number = strdup(text);
	size_t n = strlen(text);

	if (!number)
		options_refuse("--evaluate-every: no memory");
	for (int i = 0; i < 2 && !o.epochs; i++)
		if (n > strlen(units[i]) && !strcmp(text + n - strlen(units[i]), units[i])) {
			o.epochs = true;
			number[n - strlen(units[i])] = '\0';
		}
	o.every = options_count("--evaluate-every", number, 1, 1000000000);
	free(number);
	return o;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct train_options *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		state->child_inputs[1] = &a->keep;
		state->child_inputs[2] = &a->output;
		state->child_inputs[3] = &a->run;
		state->child_inputs[4] = &a->work.timeout_s;
		break;
	case KEY_EPOCHS:
		a->epochs = options_count("--epochs", arg, 1, 1000000000);
		break;
	case KEY_STEPS:
		a->steps = options_count("--steps", arg, 0, INT64_C(1000000000000));
		break;
	case KEY_DATA:
		a->data = arg;
		break;
	case KEY_LR:
		a->run.learning_rate = options_real("--lr", arg, 0, 1e6);
		a->has_lr = true;
		break;
	case KEY_MOMENTUM:
		a->run.momentum = options_real("--momentum", arg, 0, 1);
		a->has_momentum = true;
		break;
	case KEY_WARMUP:
		a->run.warmup = options_count("--warmup", arg, 0, INT64_C(1000000000000));
		break;
	case KEY_DECAY:
		a->run.decay = parse_decay(arg);
		break;
	case KEY_FINAL_RATE:
		a->run.final_rate = options_real("--final-rate", arg, 0, 1e6);
		a->has_final_rate = true;
		break;
	case KEY_CLIP:
		a->run.clip = options_real("--clip", arg, 0, 1e30);
		break;
	case KEY_WEIGHT_DECAY:
		a->run.weight_decay = options_real("--weight-decay", arg, 0, 1e6);
		break;
	case KEY_SPARE:
		a->run.spare = true;
		break;
	case KEY_SEED:
		a->run.seed = (uint64_t)options_count("--seed", arg, 0, INT64_MAX);
		break;
	case KEY_PREFETCH:
		a->run.prefetch = (int)options_count("--prefetch", arg, 0, 1000);
		break;
	case KEY_RANKS:
		a->run.ranks_workers = arg;
		break;
	case KEY_ON_NAN:
		a->run.on_nan = parse_on_nan(arg);
		break;
	case KEY_EVALUATE:
		a->evaluate = parse_every(arg);
		break;
	case KEY_INIT:
		a->init = arg;
		break;
	case KEY_INIT_PARTLY:
		a->init_partly = true;
		break;
	case KEY_SAVE_WEIGHTS:
		a->weights = arg;
		break;
	case KEY_LOSS:
		a->losses = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp_child children[] = {
	{&work_argp, 0, NULL, 0},     {&checkpoints_argp, 0, NULL, 0}, {&output_argp, 0, NULL, 0},
	{&hardware_argp, 0, NULL, 0}, {&plugin_argp, 0, NULL, 0},      {0}};
const struct argp train_argp = {
	options,  parse, "GRAPH", "Train a model under a schedule, as StarPU tasks.",
	children, NULL,  NULL};

struct train_options train_options_default(void)
{
	struct train_options o = {.work = work_options_default(),
				  .steps = -1,
				  .run = orr_run_options_default(),
				  .keep = checkpoints_options_default()};

	o.run.tell = progress_tell;
	o.run.lost = command_say;
	return o;
}

int train_options_check(struct train_options *a, struct orr_error *err)
{
	int code;

	if (a->steps >= 0 && a->epochs)
		return orr_fail(err, ORR_E_INPUT,
				"--steps and --epochs say the same thing: give one of them");
	if (a->keep.best && !a->evaluate.every)
		return orr_fail(err, ORR_E_INPUT,
				"--keep-best: nothing says when the model is evaluated: give "
				"--evaluate-every N");
	if (a->init && a->keep.resume)
		return orr_fail(
			err, ORR_E_INPUT,
			"--init gives the weights that a training begins with, and --resume "
			"those of a checkpoint: leave one of them out");
	if (a->init_partly && !a->init)
		return orr_fail(err, ORR_E_INPUT, "--init-partly: with what? give --init FILE");
	if (a->has_final_rate && a->run.decay == ORR_DECAY_NONE)
		return orr_fail(err, ORR_E_INPUT,
				"--final-rate: the learning rate stays: say how it falls, with "
				"--decay cosine or linear");
	a->run.timeout_s = a->work.timeout_s;
	if ((code = output_protect(a->init, err)) ||
	    (code = output_check_file("--loss", a->losses, err)) ||
	    (code = output_check_file("--save-weights", a->weights, err)) ||
	    (code = output_check(&a->output, err)) || (code = output_protect(a->data, err)))
		return code;
	return output_protect_checkpoints(a->keep.folder, err);
}

/* 0: no list of numbers; refused later, where their number is known. */
static int sum_of(const char *list)
{
	int64_t sum = 0, n;

	while (list) {
		if (orr_count_next(&n, &list, ',', 1, 1 << 20, "", NULL) || (sum += n) > 1 << 20)
			return 0;
	}
	return (int)sum;
}

/* As --ranks-workers says, or one a rank; alone, one a stream of each device, or one a core. */
int train_options_workers(struct train_options *a, const struct session *session)
{
	const struct orr_run_options *o = &a->run;

	if (o->ranks_workers && sum_of(o->ranks_workers)) {
		a->workers = "as --ranks-workers says";
		return sum_of(o->ranks_workers);
	}
	if (session->n_ranks > 1) {
		a->workers = "one a rank";
		return session->n_ranks;
	}
	return hardware_workers(o, &a->workers);
}

int train_options_settle(struct train_options *a, struct orr_opened *x, struct orr_error *err)
{
	enum orr_optimizer optimizer = x->settled.numerics.optimizer;
	bool plain = optimizer == ORR_OPTIMIZER_MOMENTUM || optimizer == ORR_OPTIMIZER_SGD;

	a->run.batch = x->settled.batch;
	a->run.optimizer = optimizer;
	a->run.precision = x->settled.numerics.precision;
	if (!a->has_lr)
		a->run.learning_rate = plain ? 0.1 : 0.002;
	x->pipeline->prefetch = a->run.prefetch;
	if (a->has_momentum && optimizer != ORR_OPTIMIZER_MOMENTUM)
		return orr_fail(
			err, ORR_E_INPUT,
			"--momentum: %s has none: leave it out, or take --optimizer momentum",
			orr_optimizer_name(optimizer));
	if (x->tried.jobs->async && a->run.clip > 0)
		return orr_fail(
			err, ORR_E_INPUT,
			"--clip: schedule %s never flushes, so the gradients of a step are never "
			"all there before its first update: leave it out, or take a schedule that "
			"flushes",
			x->tried.jobs->schedule);
	if (x->tried.jobs->async && a->run.on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(
			err, ORR_E_INPUT,
			"--on-nan skip: schedule %s never flushes, so stages are never at one step "
			"which all could leave out: take stop, or a schedule that flushes",
			x->tried.jobs->schedule);
	return 0;
}
