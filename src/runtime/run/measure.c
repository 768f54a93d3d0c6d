#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/pipeline.h"
#include "base/clock.h"
#include "base/grow.h"
#include "base/max.h"
#include "base/sort.h"
#include "runtime/devices/alone.h"
#include "runtime/devices/compile.h"
#include "options.h"

/* Each part runs so often after a few times unmeasured, and the median counts. What takes long
 * varies little: a few times are enough of it. */
#define N_WARM 3
#define N_TIMES 15
#define FEWEST_TIMES 3
#define ENOUGH_NS INT64_C(300000000)
/* Where a device is waited for, a part is started several times before, for so long at least: as in
 * a job of many operators, starting one takes no time while another runs. */
#define GROUP_NS 1000000
#define MOST_IN_GROUP 64

enum part { FORWARD, INPUT, WEIGHT, BOTH, UPDATE };

/* One stage, with everything that it reads and writes, in the device's memory. */
struct bench {
	struct orr_program *program;
	struct orr_device *device;
	int64_t n, n_parameters, n_trained; /* samples; floats */
	int64_t n_read;                     /* samples of its in-edges */
	struct orr_rule rule;
	uint64_t seed;
	float *parameters, *state, *gradient, *data, *stash, *scratch, *gathered;
	void *rounded; /* NULL: products of this precision read the parameters */
	struct orr_metrics *metrics;
	float **in, **out; /* [n_in], [n_out] tensors, with room for their gradients */
	void **blocks;     /* [n_blocks] all of the device's memory above */
	int n_blocks, room;
	bool failed; /* there was none */
};

static void *allocate(struct bench *t, size_t bytes)
{
	void *at = orr_grow(&t->blocks, t->n_blocks, &t->room, sizeof(*t->blocks))
			   ? t->device->kernels->allocate(bytes)
			   : NULL;

	if (at)
		t->blocks[t->n_blocks++] = at;
	t->failed = t->failed || !at;
	return at;
}

static float *zeros(struct bench *t, int64_t n)
{
	float *at = allocate(t, (size_t)(n + 1) * sizeof(*at));

	if (at)
		t->device->kernels->elements->zero(t->device, n, at);
	return at;
}

/* The same in both halves of a float, so that it is one number as well as two of bfloat16. */
static float doubled(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits = (bits & 0xffff0000u) | bits >> 16;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* Tensors between stages hold something, data is zero: that is a class too. */
static float *tensor(struct bench *t, int64_t n)
{
	float *floats = malloc(((size_t)n + 1) * sizeof(*floats)), *at = zeros(t, n);

	for (int64_t i = 0; floats && i < n; i++)
		floats[i] = doubled((float)((i * 7919 + 104729) % 2000) * 1e-3f - 1);
	if (floats && at)
		t->device->kernels->put(t->device, n, floats, at);
	free(floats);
	return floats ? at : NULL;
}

/* Drawn, and rounded as a worker that computes with them keeps them. */
static bool make_parameters(struct bench *t)
{
	size_t bytes = orr_program_rounded_bytes(t->program, t->device);
	float *drawn = malloc(((size_t)t->n_parameters + 1) * sizeof(*drawn));

	t->parameters = zeros(t, t->n_parameters);
	if (bytes)
		t->rounded = allocate(t, bytes);
	if (!drawn || t->failed) {
		free(drawn);
		return false;
	}
	orr_program_init(t->program, t->seed, drawn);
	t->device->kernels->put(t->device, t->n_parameters, drawn, t->parameters);
	free(drawn);
	if (bytes)
		orr_program_round(t->program, t->device, t->parameters, t->rounded);
	t->device->rounded = t->rounded;
	return true;
}

static bool make_tensors(struct bench *t)
{
	const struct orr_program *p = t->program;

	t->gradient = zeros(t, t->n_trained);
	t->state = zeros(t, t->n_trained * orr_optimizer_floats(t->rule.optimizer));
	t->data = zeros(t, orr_program_data_columns(p) * t->n);
	t->stash = zeros(t, orr_program_stash_floats(p, t->n, true));
	t->scratch = zeros(t, orr_program_scratch_floats(p, t->n));
	t->gathered = zeros(t, t->n_read * p->gathered_columns);
	t->device->workspace = allocate(t, orr_program_workspace_bytes(p, t->device, t->n_read));
	t->metrics = allocate(t, (size_t)(p->n_losses + 1) * sizeof(*t->metrics));
	t->in = calloc((size_t)p->n_in + 1, sizeof(float *));
	t->out = calloc((size_t)p->n_out + 1, sizeof(float *));
	if (t->failed || !t->in || !t->out)
		return false;
	for (int i = 0; i < p->n_in; i++)
		if (!(t->in[i] =
			      tensor(t, t->n_read * larger(p->in[i].columns, p->in[i].gradients))))
			return false;
	for (int i = 0; i < p->n_out; i++)
		if (!(t->out[i] = tensor(t, t->n * larger(p->out[i].columns, p->out[i].gradients))))
			return false;
	return make_parameters(t);
}

static void bench_fini(struct bench *t)
{
	if (t->device->kernels->wait) /* for what uses that memory */
		t->device->kernels->wait(t->device);
	while (t->n_blocks > 0)
		t->device->kernels->release(t->blocks[--t->n_blocks]);
	free(t->blocks);
	free(t->in);
	free(t->out);
	t->device->workspace = NULL;
	t->device->rounded = NULL;
	t->device->microbatch = (struct orr_microbatch){0};
	orr_program_destroy(t->program);
}

static void run_part(struct bench *t, enum part part)
{
	static const enum orr_part parts[] = {
		[INPUT] = ORR_PART_INPUT, [WEIGHT] = ORR_PART_WEIGHT, [BOTH] = ORR_PART_BOTH};
	const float *gradient = t->gradient;

	switch (part) {
	case FORWARD:
		if (orr_program_gathers(t->program)) {
			t->device->microbatch.gathered = t->gathered;
			t->device->microbatch.n_minibatch = t->n_read;
			orr_program_gather(t->program, t->device, 1, (const float *const *)t->in);
		}
		orr_program_forward(t->program, t->device, t->n, t->parameters, t->data,
				    (const float *const *)t->in, t->out, t->stash, t->scratch,
				    t->metrics);
		break;
	case INPUT:
	case WEIGHT:
	case BOTH: /* a factor of 1: what is scaled in its place shall not vanish when repeated */
		orr_program_backward(t->program, t->device, parts[part], t->n, 1.0f, t->parameters,
				     t->stash, NULL, false, (const float *const *)t->out, t->in,
				     t->gradient, true, t->scratch);
		break;
	case UPDATE: /* which is what makes rounding again necessary */
		t->device->kernels->optimizer->step(t->device, &t->rule, 1, t->n_trained,
						    t->parameters, t->state, &gradient, 1, false);
		if (t->rounded)
			orr_program_round(t->program, t->device, t->parameters, t->rounded);
		break;
	}
}

/* What one of n takes that are started one after the other. */
static int64_t time_group(struct bench *t, enum part part, int64_t n)
{
	int64_t start = orr_ns_now(CLOCK_MONOTONIC);

	for (int64_t i = 0; i < n; i++)
		run_part(t, part);
	if (t->device->kernels->wait)
		t->device->kernels->wait(t->device);
	return (orr_ns_now(CLOCK_MONOTONIC) - start) / n;
}

static int64_t group_of(const struct bench *t, int64_t one_ns)
{
	int64_t n = one_ns > 0 ? GROUP_NS / one_ns + 1 : MOST_IN_GROUP;

	if (!t->device->kernels->wait)
		return 1;
	return n < MOST_IN_GROUP ? n : MOST_IN_GROUP;
}

static int time_part(struct bench *t, enum part part, int64_t *median_ns, struct orr_error *err)
{
	int64_t begun = orr_ns_now(CLOCK_MONOTONIC), one_ns = 0, group, times[N_TIMES];
	int n = 0;

	for (int i = 0; i < N_WARM && (!i || orr_ns_now(CLOCK_MONOTONIC) - begun < ENOUGH_NS / 4);
	     i++)
		one_ns = time_group(t, part, 1);
	group = group_of(t, one_ns);
	begun = orr_ns_now(CLOCK_MONOTONIC);
	while (n < FEWEST_TIMES || (n < N_TIMES && orr_ns_now(CLOCK_MONOTONIC) - begun < ENOUGH_NS))
		times[n++] = time_group(t, part, group);
	if (t->device->failure)
		return orr_fail(err, ORR_E_RUNTIME, "measure: %s", t->device->failure);
	qsort(times, (size_t)n, sizeof(*times), orr_compare_numbers);
	*median_ns = times[n / 2];
	return 0;
}

static int measure_stage(struct orr_pipeline *p, int s, int64_t samples, struct orr_device *device,
			 const struct orr_run_options *options, struct orr_error *err)
{
	struct orr_stage *stage = &p->stages[s];
	struct bench bench = {.device = device,
			      .n = samples,
			      .rule = orr_run_rule(options),
			      .seed = options->seed};
	bool input_part = stage->has_input_gradient, weight_part = stage->has_weight_gradient;
	int64_t both = 0, weight = 0, update = 0;
	int code;

	if ((code = orr_program_create(&bench.program, p, s, err)))
		return code;
	bench.n_parameters = bench.program->n_parameters;
	bench.n_trained = bench.program->n_trained;
	bench.n_read = orr_program_gathers(bench.program) ? options->batch : samples;
	if (!make_tensors(&bench)) {
		code = orr_fail(err, ORR_E_NOMEM,
				"measure: no memory for stage %d with %lld parameters and %lld "
				"samples: cut the model into more stages, or lower [batch]",
				s, (long long)bench.n_parameters, (long long)samples);
		goto out;
	}
	orr_program_prepare(bench.program, device, bench.n_read);
	if ((code = time_part(&bench, FORWARD, &stage->forward_ns, err)) ||
	    ((input_part || weight_part) && (code = time_part(&bench, BOTH, &both, err))))
		goto out;
	run_part(&bench, INPUT); /* W reads what it leaves in the stash */
	if (bench.n_trained && ((code = time_part(&bench, WEIGHT, &weight, err)) ||
				(code = time_part(&bench, UPDATE, &update, err))))
		goto out;
	/* Their sum is what a backward in one piece takes, and either is all of it alone. */
	stage->weight_ns = weight < both && input_part ? weight : both;
	stage->backward_ns = both - stage->weight_ns;
	stage->update_ns = update;
out:
	bench_fini(&bench);
	return code;
}

static int measure_on(struct orr_pipeline *p, struct orr_device *device,
		      const struct orr_run_options *options, struct orr_error *err)
{
	int m = p->n_microbatches > 1 ? p->n_microbatches : 1, code = 0;
	int64_t samples = (options->batch + m - 1) / m;

	for (int s = 0; s < p->n_stages && !code; s++) {
		if (options->tell)
			options->tell("measuring", s, p->n_stages);
		code = measure_stage(p, s, samples, device, options, err);
	}
	if (options->tell)
		options->tell("measuring", p->n_stages, p->n_stages);
	if (!code) {
		p->has_weight = true;
		p->units = false;
		p->profiled = orr_profiled_of(device->cuda ? ORR_HARDWARE_CUDA : ORR_HARDWARE_CPU,
					      device->precision);
		orr_pipeline_set_overhead(p, p->overhead_ns);
	}
	return code;
}

int orr_run_measure(struct orr_pipeline *p, const struct orr_run_options *options,
		    struct orr_error *err)
{
	struct orr_alone alone;
	int code;

	if (!p->graph)
		return orr_fail(err, ORR_E_INPUT,
				"measure: these stages have costs and nothing to compute");
	if (options->batch < 1)
		return orr_fail(err, ORR_E_INPUT, "measure: a batch of %d; it must be 1 at least",
				options->batch);
	if ((code = orr_alone_init(&alone, options->hardware, options->precision, err)))
		return code;
	code = measure_on(p, &alone.device, options, err);
	orr_alone_fini(&alone);
	return code;
}
