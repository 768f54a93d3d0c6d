#include "train_options.h"

#include <unistd.h>

#include "hardware.h"
#include "orrery/jobs.h"
#include "base/input_file.h"
#include "base/quantity.h"
#include "session.h"

/* What is no file is refused before a run begins, which takes seconds. */
static int check_weights(const char *path, struct orr_error *err)
{
	int64_t n_bytes;
	int fd, code;

	if (!path)
		return 0;
	if (!(code = orr_input_open(&fd, &n_bytes, path, "a file of safetensors", err)))
		(void)close(fd);
	return code;
}

int train_options_check(struct options *a, struct orr_error *err)
{
	int code;

	if (a->train.has_final_rate && a->run.decay == ORR_DECAY_NONE)
		return orr_fail(err, ORR_E_INPUT,
				"--final-rate: the learning rate stays: say how it falls, with "
				"--decay cosine or linear");
	a->run.timeout_s = a->timeout_s;
	if ((code = output_protect(a->train.init, err)) ||
	    (code = check_weights(a->train.init, err)) ||
	    (code = output_check_file("--loss", a->train.losses, err)) ||
	    (code = output_check_file("--save-weights", a->train.weights, err)) ||
	    (code = output_check(&a->output, err)) || (code = output_protect(a->train.data, err)))
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
int train_options_workers(struct options *a, const struct session *session)
{
	const struct orr_run_options *o = &a->run;

	if (o->ranks_workers && sum_of(o->ranks_workers)) {
		a->train.workers = "as --ranks-workers says";
		return sum_of(o->ranks_workers);
	}
	if (session->n_ranks > 1) {
		a->train.workers = "one a rank";
		return session->n_ranks;
	}
	return hardware_workers(o, &a->train.workers);
}

int train_options_settle(struct options *a, struct orr_opened *x, struct orr_error *err)
{
	enum orr_optimizer optimizer = x->settled.numerics.optimizer;
	bool plain = optimizer == ORR_OPTIMIZER_MOMENTUM || optimizer == ORR_OPTIMIZER_SGD;

	a->run.batch = x->settled.batch;
	a->run.optimizer = optimizer;
	a->run.precision = x->settled.numerics.precision;
	if (!a->train.has_lr)
		a->run.learning_rate = plain ? 0.1 : 0.002;
	x->pipeline->prefetch = a->run.prefetch;
	if (a->train.has_momentum && optimizer != ORR_OPTIMIZER_MOMENTUM)
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
