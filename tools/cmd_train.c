/* orrery train: file -> graph -> pipeline -> jobs -> run, with the simulator's prediction beside.
 */
#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "across.h"
#include "command.h"
#include "orrery/dataset.h"
#include "orrery/figures.h"
#include "hardware.h"
#include "keep.h"
#include "output.h"
#include "orrery/parameter_cost.h"
#include "plugin.h"
#include "progress.h"
#include "orrery/quantity.h"
#include "orrery/profile.h"
#include "orrery/ranks.h"
#include "orrery/run.h"
#include "orrery/state.h"
#include "orrery/simulate.h"
#include "stream.h"
#include "orrery/timeline.h"
#include "trained.h"
#include "work.h"

enum {
	KEY_STEPS = 512,
	KEY_EPOCHS,
	KEY_DATA,
	KEY_LR,
	KEY_MOMENTUM,
	KEY_DECAY,
	KEY_SEED,
	KEY_PREFETCH,
	KEY_RANKS,
	KEY_ON_NAN,
	KEY_LOSS
};

struct arguments {
	struct work_options work;
	struct orr_run_options run;
	struct keep_options keep;
	struct output_options output;
	int64_t steps, epochs; /* 0: not given */
	bool has_lr, has_momentum;
	const char *data, *losses, *workers;
};

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Training:", 4},
	{"epochs", KEY_EPOCHS, "N", 0, "passes over the training set (10)", 4},
	{"steps", KEY_STEPS, "N", 0, "minibatches, instead of epochs", 4},
	{"data", KEY_DATA, "FILE", 0,
	 "CSV of numbers, a sample a row (what the model's file names)", 4},
	{"lr", KEY_LR, "X", 0, "learning rate (momentum and sgd 0.1, others 0.002)", 4},
	{"momentum", KEY_MOMENTUM, "X", 0, "of --optimizer momentum (0.9)", 4},
	{"weight-decay", KEY_DECAY, "X", 0, "(0)", 4},
	{"seed", KEY_SEED, "N", 0, "of parameters and shuffling (1)", 4},
	{"prefetch", KEY_PREFETCH, "N", 0, "fetch the parameters of so many jobs ahead (2)", 4},
	{"ranks-workers", KEY_RANKS, "N,N,...", 0,
	 "under mpirun: how many of the workers each rank has (as evenly "
	 "as can be)",
	 4},
	{"on-nan", KEY_ON_NAN, "stop|skip", 0,
	 "where a loss or a gradient is not finite: stop, or leave that step's update out, for "
	 "which "
	 "all updates wait for the last gradient; 10 such steps in a row stop it, too (stop)",
	 4},
	{"loss", KEY_LOSS, "FILE", 0,
	 "every step's loss as CSV: step, samples seen, loss; with --resume, from there on", 4},
	{0},
};

static double parse_real(const char *text, double low, double high, const char *what)
{
	struct orr_error err;
	double value;

	if (orr_real_parse(&value, text, low, high, what, &err))
		command_refuse(&err);
	return value;
}

static int64_t parse_count(const char *text, int64_t low, int64_t high, const char *what)
{
	struct orr_error err;
	int64_t value;

	if (orr_count_parse(&value, text, low, high, what, &err))
		command_refuse(&err);
	return value;
}

static enum orr_on_nan parse_on_nan(const char *text)
{
	struct orr_error err;

	if (!strcmp(text, "stop"))
		return ORR_ON_NAN_STOP;
	if (!strcmp(text, "skip"))
		return ORR_ON_NAN_SKIP;
	orr_fail(&err, ORR_E_INPUT, "--on-nan: no '%s': there are stop and skip", text);
	command_refuse(&err);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->work;
		state->child_inputs[1] = &a->keep;
		state->child_inputs[2] = &a->output;
		state->child_inputs[3] = &a->run;
		state->child_inputs[4] = &a->work.timeout_s;
		break;
	case KEY_EPOCHS:
		a->epochs = parse_count(arg, 1, 1000000000, "--epochs");
		break;
	case KEY_STEPS:
		a->steps = parse_count(arg, 1, INT64_C(1000000000000), "--steps");
		break;
	case KEY_DATA:
		a->data = arg;
		break;
	case KEY_LR:
		a->run.learning_rate = parse_real(arg, 0, 1e6, "--lr");
		a->has_lr = true;
		break;
	case KEY_MOMENTUM:
		a->run.momentum = parse_real(arg, 0, 1, "--momentum");
		a->has_momentum = true;
		break;
	case KEY_DECAY:
		a->run.weight_decay = parse_real(arg, 0, 1e6, "--weight-decay");
		break;
	case KEY_SEED:
		a->run.seed = (uint64_t)parse_count(arg, 0, INT64_MAX, "--seed");
		break;
	case KEY_PREFETCH:
		a->run.prefetch = (int)parse_count(arg, 0, 1000, "--prefetch");
		break;
	case KEY_RANKS:
		a->run.ranks_workers = arg;
		break;
	case KEY_ON_NAN:
		a->run.on_nan = parse_on_nan(arg);
		break;
	case KEY_LOSS:
		a->losses = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* What diverged is no model, and says so. */
static int check_loss(double loss, struct orr_error *err)
{
	if (isfinite(loss))
		return 0;
	return orr_fail(err, ORR_E_RUNTIME,
			"training diverged: the test loss is no finite number; lower --lr, or "
			"scale the inputs (scale= in the graph)");
}

/* --memory holds for what the simulator counts, before anything is allocated. */
static int check_memory(const struct work *work, const struct orr_timeline *t,
			const struct orr_machine *machine, struct orr_error *err)
{
	struct orr_figures *figures = NULL;
	int code = orr_figures_create(&figures, t, err);

	if (!code)
		code = work_check_memory(work, figures, machine, err);
	orr_figures_destroy(figures);
	return code;
}

/* A schedule's own bound holds for the costs that it was given: check it by those, and forget it,
 * since costs are measured anew. */
static int check_bound(struct work *work, const struct orr_machine *machine, struct orr_error *err)
{
	struct orr_figures *figures = NULL;
	struct orr_timeline *timeline = NULL;
	int code;

	if (!work->jobs->bound_ns)
		return 0;
	if (!(code = orr_simulate(&timeline, work->jobs, machine, err)))
		code = orr_figures_create(&figures, timeline, err);
	work->jobs->bound_ns = 0;
	orr_figures_destroy(figures);
	orr_timeline_destroy(timeline);
	return code;
}

/* On devices the stages' times are those that the jobs of the measured step had on average: alone
 * on a core they would tell nothing. */
static int predict_after(struct orr_timeline **predicted, struct work *work,
			 const struct arguments *a, const struct orr_timeline *measured,
			 struct orr_error *err)
{
	orr_timeline_costs(measured, work->pipeline);
	return orr_simulate(predicted, work->jobs, &a->work.machine, err);
}

static int end_at_once(struct orr_run *run, struct trained *r, struct orr_error *err)
{
	int code = orr_run_evaluate(run, true, &r->loss, &r->accuracy, err);

	if (code || orr_ranks_rank() || (code = check_loss(r->loss, err)))
		return code;
	return trained_print_short(r, err);
}

static int end(const struct arguments *a, struct orr_run *run, const struct orr_dataset *data,
	       struct trained *r, struct orr_error *err)
{
	int code;

	if ((code = orr_run_evaluate(run, true, &r->loss, &r->accuracy, err)))
		return code;
	if (orr_ranks_count() > 1 && !(r->ranks = across_gather(run, data, err)))
		return ORR_E_NOMEM;
	if ((code = stream_gather(&r->versions, r->jobs, run, err)) ||
	    (code = hardware_init(&r->hardware, run, a->work.machine.n_workers, err)))
		return code;
	if (orr_ranks_rank())
		return 0;
	if (r->ranks && (code = across_predict(r->ranks, r->predicted, &a->run, err)))
		return code;
	if ((code = check_loss(r->loss, err)))
		return code;
	if (!r->measured) /* a stream that had been drained before its first round was whole */
		return trained_print_short(r, err);
	return trained_print(r, err);
}

/* A failure after the ranks have agreed is this rank's alone: the others would wait for it. */
static int fail_alone(int code, const struct orr_error *err)
{
	if (code)
		orr_ranks_fail(err->msg);
	return code;
}

/* As much of the data as this rank reads. */
static int find_data(const struct arguments *a, const struct work *work, struct orr_dataset **data,
		     struct orr_error *err)
{
	const struct orr_graph *g = work->graph;
	int64_t *columns, n;
	int code;
	const char *path = a->data ? a->data : g->data;

	if (g->operators[0].op == ORR_OP_COST)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: has costs and nothing to compute: simulate it, or train a model "
			"whose nodes have an op",
			g->name);
	if (!path)
		return orr_fail(err, ORR_E_INPUT,
				"%s: names no data: give --data FILE, or write data=\"file.csv\" "
				"in the graph",
				g->name);
	if ((!a->data && (code = orr_graph_check_data(g, err))) ||
	    (code = orr_run_columns(&columns, &n, work->jobs, &a->run, err)))
		return code;
	code = orr_dataset_read_columns(data, path, columns, n, err);
	free(columns);
	return code;
}

static int64_t count_steps(const struct arguments *a, const struct orr_dataset *data, int samples)
{
	if (a->steps)
		return a->steps;
	return ((a->epochs ? a->epochs : 10) * data->n_train + samples - 1) / samples;
}

/* A training from its data to its report. */
struct session {
	struct orr_timeline *predicted;
	struct orr_checkpoint *checkpoint;
	struct orr_dataset *data;
	struct orr_run *run;
	struct progress progress;
	struct trained result;
	struct keep_end end;
	double old_rate; /* the learning rate of the checkpoint */
	int n_devices;
};

static void session_fini(struct session *x)
{
	trained_fini(&x->result);
	progress_fini(&x->progress);
	orr_checkpoint_close(x->checkpoint);
	orr_run_destroy(x->run);
	orr_dataset_destroy(x->data);
	orr_timeline_destroy(x->predicted);
}

/* All that needs no run. Ranks agree on what comes of it. */
static int prepare(struct session *x, struct arguments *a, struct work *work, struct orr_error *err)
{
	int code;

	/* keep_open agrees with the other ranks by itself: all call it, or none */
	if (!(code = hardware_find(&a->run, &x->n_devices, err)) &&
	    !(code = check_bound(work, &a->work.machine, err)))
		code = find_data(a, work, &x->data, err);
	if ((code = orr_ranks_agree(code, err)) ||
	    (code = keep_open(&x->checkpoint, &a->keep, err)))
		return code;
	if (!orr_ranks_rank() && !x->n_devices &&
	    !(code = orr_run_measure(work->pipeline, &a->run, err)) &&
	    !(code = orr_simulate(&x->predicted, work->jobs, &a->work.machine, err)))
		code = check_memory(work, x->predicted, &a->work.machine, err);
	a->run.memory_bytes = a->work.machine.memory_bytes; /* of a device; what is over it moves */
	return orr_ranks_agree(code, err);
}

static void result_init(struct session *x, const struct arguments *a, const struct work *work)
{
	int samples = orr_run_step_samples(work->jobs, &a->run);

	x->result = (struct trained){
		.output = &a->output,
		.workers = a->workers,
		.step_samples = samples,
		.jobs = work->jobs,
		.steps = count_steps(a, x->data, samples),
		.first = orr_run_step(x->run),
		.on_devices = x->n_devices > 0,
	};
}

static int run_steps(struct session *x, const struct arguments *a, struct orr_error *err)
{
	int code, ended;

	if ((code = progress_init(&x->progress, x->run, x->result.steps, err)))
		return code;
	x->progress.silent = orr_ranks_rank() > 0;
	if (x->old_rate != a->run.learning_rate && !x->progress.silent)
		fprintf(stderr,
			"orrery: --lr %.15g from step %lld on; the checkpoint is of --lr %.15g\n",
			a->run.learning_rate, (long long)x->result.first + 1, x->old_rate);
	if ((code = progress_write(&x->progress, a->losses, err)))
		return code;
	code = keep_train(&a->keep, x->run, x->result.steps, &x->progress, &x->end, err);
	if (code && code != ORR_E_DIVERGED)
		return code;
	ended = progress_end(&x->progress, code ? NULL : err); /* losses are kept up to there */
	return code ? code : ended;
}

static int report(struct session *x, const struct arguments *a, struct work *work,
		  struct orr_error *err)
{
	struct trained *r = &x->result;
	int code;

	r->skipped = orr_run_skipped(x->run);
	if (!x->progress.silent)
		r->step_seconds = progress_median(&x->progress);
	if (!(r->measured = progress_timeline(&x->progress)))
		r->measured = orr_run_timeline(x->run);
	if (x->n_devices && !orr_ranks_rank() && r->measured &&
	    (code = predict_after(&x->predicted, work, a, r->measured, err)))
		return code;
	r->predicted = x->predicted;
	return end(a, x->run, x->data, r, err);
}

/* *signal: what stopped it, or 0. */
static int train(struct arguments *a, struct work *work, int *signal, struct orr_error *err)
{
	struct session x = {0};
	int code = prepare(&x, a, work, err);

	if (code)
		goto out;
	code = orr_run_create(&x.run, work->jobs, x.data, &a->run, err);
	if (code == ORR_E_INPUT) /* on every rank */
		goto out;
	if (code)
		goto alone;
	hardware_tell(&a->run);
	/* what does not fit, fits on no rank */
	x.old_rate = a->run.learning_rate;
	if (x.checkpoint &&
	    (code = orr_run_load(x.run, x.checkpoint, a->has_lr ? &x.old_rate : NULL, err)))
		goto out;
	result_init(&x, a, work);
	if (x.result.first >= x.result.steps) {
		code = end_at_once(x.run, &x.result, err);
		goto alone;
	}
	code = run_steps(&x, a, err);
	*signal = x.end.signal;
	if (code == ORR_E_DIVERGED || (!code && *signal)) /* on every rank */
		goto out;
	if (code || (code = report(&x, a, work, err)))
		goto alone;
	if (x.end.unsaved)
		code = orr_fail(err, x.end.unsaved, "no checkpoint of the last step: %s",
				x.end.why.msg);
	goto out;
alone:
	code = fail_alone(code, err);
out:
	session_fini(&x);
	return code;
}

static int check_together(struct arguments *a, struct orr_error *err)
{
	if (a->steps && a->epochs)
		return orr_fail(err, ORR_E_INPUT,
				"--steps and --epochs say the same thing: give one of them");
	a->run.timeout_s = a->work.timeout_s;
	return 0;
}

/* What a plan or the schedule's file may have said. */
static void settle(struct arguments *a, struct work *work)
{
	enum orr_optimizer optimizer = a->work.numerics.optimizer;

	a->run.batch = a->work.batch;
	a->run.optimizer = optimizer;
	a->run.precision = a->work.numerics.precision;
	if (!a->has_lr)
		a->run.learning_rate =
			optimizer == ORR_OPTIMIZER_MOMENTUM || optimizer == ORR_OPTIMIZER_SGD
				? 0.1
				: 0.002;
	work->pipeline->prefetch = a->run.prefetch;
}

static int check_settled(const struct arguments *a, const struct work *work, struct orr_error *err)
{
	if (a->has_momentum && a->run.optimizer != ORR_OPTIMIZER_MOMENTUM)
		return orr_fail(
			err, ORR_E_INPUT,
			"--momentum: %s has none: leave it out, or take --optimizer momentum",
			orr_optimizer_name(a->run.optimizer));
	if (work->jobs->stream && a->run.on_nan == ORR_ON_NAN_SKIP)
		return orr_fail(err, ORR_E_INPUT,
				"--on-nan skip: schedule %s never flushes, so stages are never at "
				"one step which all could leave out: take stop, or a schedule that "
				"flushes",
				work->jobs->schedule);
	return 0;
}

/* 0: what this is, is refused later, where it is known how many numbers there must be. */
static int sum_of(const char *list)
{
	char *end;
	long sum = 0;

	do {
		sum += strtol(list, &end, 10);
		list = end + 1;
	} while (*end == ',' && sum > 0 && sum < 1 << 20);
	return sum > 0 && sum < 1 << 20 ? (int)sum : 0;
}

/* As --ranks-workers says, or one a rank; alone, one a stream of each device, or one a core. */
static int default_workers(const struct orr_run_options *o, const char **why)
{
	int n = o->hardware == ORR_HARDWARE_CPU ? 0 : orr_run_devices(NULL, 0);

	if (o->ranks_workers && sum_of(o->ranks_workers)) {
		*why = "as --ranks-workers says";
		return sum_of(o->ranks_workers);
	}
	if (orr_ranks_count() > 1) {
		*why = "one a rank";
		return orr_ranks_count();
	}
	*why = n > 0 ? o->streams > 1 ? "one a stream of a device" : "one a device" : "one a core";
	return n > 0 ? n * o->streams : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The model and the schedule; a->workers: why there are so many, where nothing that was given says
 * it. */
static int open_work(struct work *work, struct arguments *a, struct orr_error *err)
{
	bool given = a->work.machine.n_workers > 0;
	int n = default_workers(&a->run, &a->workers), code = work_init(work, &a->work, n, err);

	if (!code && (given || work_has_table(work)))
		a->workers = NULL;
	return code;
}

int cmd_train(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&work_argp, 0, NULL, 0},   {&keep_argp, 0, NULL, 0},
		{&output_argp, 0, NULL, 0}, {&hardware_argp, 0, NULL, 0},
		{&plugin_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		options,  parse, "GRAPH", "Train a model under a schedule, as StarPU tasks.",
		children, NULL,  NULL};
	struct arguments a = {.work = work_options_default(),
			      .run = orr_run_options_default(),
			      .keep = keep_options_default()};
	struct work work = {0};
	struct orr_error err = {""};
	int code, signal = 0;

	a.run.tell = progress_tell;
	command_parse(&argp, argc, argv, &a);
	if ((code = across_start(&err)) || (code = check_together(&a, &err)) ||
	    (code = output_check_file("--loss", a.losses, &err)) ||
	    (code = output_check(&a.output, &err)) || (code = output_keep(a.data, &err)) ||
	    (code = output_keep_checkpoints(a.keep.folder, &err)) ||
	    (code = open_work(&work, &a, &err)) ||
	    (code = output_check_jobs(&a.output, work.jobs, &err)))
		goto out;
	settle(&a, &work);
	code = check_settled(&a, &work, &err);
out:
	if ((code = orr_ranks_agree(code, &err)))
		goto end;
	code = train(&a, &work, &signal, &err);
end:
	work_fini(&work);
	code = across_end(code, &err);
	return code || !signal ? code : 128 + signal;
}
