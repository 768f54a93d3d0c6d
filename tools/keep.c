#include "keep.h"

#include <signal.h>
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "command.h"
#include "progress.h"
#include "orrery/quantity.h"
#include "runtime/ranks.h"
#include "runtime/run.h"
#include "runtime/state.h"

enum { KEY_CHECKPOINT = 768, KEY_EVERY, KEY_KEEP, KEY_RESUME };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Checkpoints:", 6},
	{"checkpoint", KEY_CHECKPOINT, "DIR", 0, "write checkpoints there, the last one when training ends", 6},
	{"every", KEY_EVERY, "N", 0, "steps from one to the next (100)", 6},
	{"keep", KEY_KEEP, "K", 0, "of the last so many; older ones are removed; 0: all (3)", 6},
	{"resume", KEY_RESUME, NULL, 0, "go on from the newest one that is whole; --steps and --epochs count from the "
	 "start of training", 6},
	{0},
};

static int64_t parse_count(const char *text, int64_t low, int64_t high, const char *what)
{
	struct orr_error err;
	int64_t value;

	if (orr_count_parse(&value, text, low, high, what, &err))
		command_refuse(&err);
	return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct keep_options *o = state->input;
	struct orr_error err;

	switch (key) {
	case KEY_CHECKPOINT:
		if (!*arg)
			command_refuse((orr_fail(&err, ORR_E_INPUT, "--checkpoint '': name a folder"), &err));
		o->folder = arg;
		break;
	case KEY_EVERY:
		o->every = parse_count(arg, 1, INT64_C(1000000000000), "--every");
		o->is_set = true;
		break;
	case KEY_KEEP:
		o->keep = (int)parse_count(arg, 0, 1000000, "--keep");
		o->is_set = true;
		break;
	case KEY_RESUME:
		o->resume = o->is_set = true;
		break;
	case ARGP_KEY_END:
		if (o->is_set && !o->folder)
			command_refuse((orr_fail(&err, ORR_E_INPUT, "--every, --keep and --resume are of checkpoints: "
			                         "say where with --checkpoint DIR"), &err));
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const struct argp keep_argp = {options, parse, NULL, NULL, NULL, NULL, NULL};

struct keep_options keep_options_default(void)
{
	return (struct keep_options){.every = 100, .keep = 3};
}

static void report_damaged(const char *line)
{
	fprintf(stderr, "orrery: %s; the one before it is tried\n", line);
}

/* One process looks; what it finds is for all. */
static int open_first(struct orr_checkpoint **out, const struct keep_options *o, struct orr_error *err)
{
	int64_t newest;
	int code;

	if (o->resume && (code = orr_checkpoint_open(out, o->folder, -1, report_damaged, err)))
		return code;
	if ((code = orr_checkpoint_lock(o->folder, err)) ||
	    (code = orr_checkpoint_prepare(o->folder, &newest, err)))
		return code;
	if (newest >= 0 && !o->resume)
		return orr_fail(err, ORR_E_INPUT, "%s: has checkpoints, up to step %lld: give --resume to go on from "
		                "them, or another folder", o->folder, (long long)newest);
	return 0;
}

int keep_open(struct orr_checkpoint **out, const struct keep_options *o, struct orr_error *err)
{
	double step = 0; /* on rank 0 that of the checkpoint, or -1 */
	int code;

	*out = NULL;
	if (!o->folder)
		return 0;
	/* a limit on the size of files is to be an error of write() as a full disk is */
	signal(SIGXFSZ, SIG_IGN);
	if ((code = orr_ranks_start(NULL, err)))
		return code;
	if (!orr_ranks_rank()) {
		code = open_first(out, o, err);
		step = *out ? (double)orr_checkpoint_step(*out) : -1;
	}
	if ((code = orr_ranks_agree(code, err)) || (code = orr_ranks_sum(&step, 1, err)))
		return code;
	if (orr_ranks_rank() && step >= 0)
		code = orr_checkpoint_open(out, o->folder, (int64_t)step, NULL, err);
	return orr_ranks_agree(code, err);
}

/* The first step after this one at which a checkpoint is due. */
static int64_t next_stop(const struct keep_options *o, int64_t step, int64_t end)
{
	int64_t stop = step + o->every - step % o->every;

	return o->folder && stop < end ? stop : end;
}

int keep_train(const struct keep_options *o, struct orr_run *run, int64_t end, struct progress *progress,
               int *unsaved, struct orr_error *why, struct orr_error *err)
{
	int64_t step;
	int code = 0;

	*unsaved = 0;
	while (!code && (step = orr_run_step(run)) < end) {
		int64_t stop = next_stop(o, step, end);

		if ((code = orr_run_train(run, stop - step, progress->silent ? NULL : progress_visit, progress, err)) ||
		    !o->folder)
			continue;
		if ((*unsaved = orr_run_save(run, o->folder, o->keep, why)) && stop < end && !orr_ranks_rank())
			fprintf(stderr, "%sorrery: no checkpoint of step %lld: %s; training goes on\n",
			        progress->terminal ? "\n" : "", (long long)stop, why->msg);
	}
	return code;
}
