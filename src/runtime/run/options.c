#include "options.h"

#include <math.h>

#include "orrery/jobs.h"
#include "schedule/versions.h"

struct orr_run_options orr_run_options_default(void)
{
	return (struct orr_run_options){
		.batch = 64,
		.optimizer = ORR_OPTIMIZER_ADAMW,
		.learning_rate = 1e-3,
		.momentum = 0.9,
		.beta1 = 0.9,
		.beta2 = 0.999,
		.epsilon = 1e-8,
		.weight_decay = 0,
		.seed = 1,
		.prefetch = 2,
		.timeout_s = 60,
		.streams = 1,
		.keep_bytes = INT64_C(64) << 20,
	};
}

struct orr_rule orr_run_rule(const struct orr_run_options *options)
{
	return (struct orr_rule){
		.optimizer = options->optimizer,
		.learning_rate = options->learning_rate,
		.momentum = options->momentum,
		.beta1 = options->beta1,
		.beta2 = options->beta2,
		.epsilon = options->epsilon,
		.weight_decay = options->weight_decay,
	};
}

double orr_run_rate(const struct orr_run_options *o, int64_t step)
{
	double all = (double)(o->decay_steps - o->warmup), done = (double)(step - o->warmup), left;

	if (step < o->warmup)
		return o->learning_rate * (double)(step + 1) / (double)o->warmup;
	if (o->decay == ORR_DECAY_NONE)
		return o->learning_rate;
	if (done >= all)
		return o->final_rate;
	left = o->decay == ORR_DECAY_LINEAR ? 1 - done / all : (1 + cos(M_PI * done / all)) / 2;
	return o->final_rate + (o->learning_rate - o->final_rate) * left;
}

int orr_run_step_samples(const struct orr_jobs *jobs, const struct orr_run_options *options)
{
	const struct orr_versions *v = jobs->versions;

	return v ? options->batch / v->n_microbatches * orr_versions_step(v) : options->batch;
}
