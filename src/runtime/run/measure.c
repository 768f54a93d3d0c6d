#include "orrery/profile.h"

#include <stdlib.h>
#include <time.h>

#include "codelets/device.h"
#include "orrery/pipeline.h"
#include "base/sort.h"
#include "runtime/devices/compile.h"
#include "options.h"

/* Each part runs so often after a few times unmeasured, and the median counts. What takes long
 * varies little: a few times are enough of it. */
#define N_WARM 3
#define N_TIMES 15
#define FEWEST_TIMES 3
#define ENOUGH_NS INT64_C(300000000)

enum part { FORWARD, INPUT, WEIGHT, BOTH, UPDATE };

/* One stage, with everything that it reads and writes. */
struct bench {
	struct orr_program *program;
	struct orr_device device;
	int64_t n, n_parameters, n_trained; /* samples; floats */
	int64_t n_read;                     /* samples of its in-edges */
	struct orr_rule rule;
	float *parameters, *state, *gradient, *data, *stash, *scratch, *gathered;
	struct orr_metrics *metrics;
	float **in, **out; /* [n_in], [n_out] tensors; gradients have the same shapes */
};

static float *block(int64_t n)
{
	float *floats = malloc(((size_t)n + 1) * sizeof(*floats));

	for (int64_t i = 0; floats && i < n; i++)
		floats[i] = 0;
	return floats;
}

/* Tensors between stages hold something, data is zero: that is a class too. */
static float *tensor(int64_t n)
{
	float *floats = block(n);

	for (int64_t i = 0; floats && i < n; i++)
		floats[i] = (float)((i * 7919 + 104729) % 2000) * 1e-3f - 1;
	return floats;
}

static bool make_tensors(struct bench *t)
{
	const struct orr_program *p = t->program;
	int64_t columns = 0;

	for (int i = 0; i < orr_program_n_inputs(p); i++)
		columns += orr_program_input_width(p, i);
	t->parameters = block(t->n_parameters);
	t->gradient = block(t->n_trained);
	t->state = block(t->n_trained * orr_optimizer_floats(t->rule.optimizer));
	t->data = block(columns * t->n);
	t->stash = block(orr_program_stash_floats(p, t->n, true));
	t->scratch = block(orr_program_scratch_floats(p, t->n));
	t->gathered = block(orr_program_gathered_floats(p, t->n_read));
	t->device.workspace = malloc(orr_program_workspace_bytes(p, &t->device, t->n_read) + 1);
	t->metrics = calloc((size_t)orr_program_n_losses(p) + 1, sizeof(*t->metrics));
	t->in = calloc((size_t)orr_program_n_in(p) + 1, sizeof(float *));
	t->out = calloc((size_t)orr_program_n_out(p) + 1, sizeof(float *));
	if (!t->gathered || !t->device.workspace || !t->parameters || !t->gradient || !t->state ||
	    !t->data || !t->stash || !t->scratch || !t->metrics || !t->in || !t->out)
		return false;
	for (int i = 0; i < orr_program_n_in(p); i++)
		if (!(t->in[i] = tensor(orr_program_in_floats(p, i, t->n_read))))
			return false;
	for (int i = 0; i < orr_program_n_out(p); i++)
		if (!(t->out[i] = tensor(orr_program_out_floats(p, i, t->n))))
			return false;
	return true;
}

static void bench_fini(struct bench *t)
{
	for (int i = 0; t->in && t->program && i < orr_program_n_in(t->program); i++)
		free(t->in[i]);
	for (int i = 0; t->out && t->program && i < orr_program_n_out(t->program); i++)
		free(t->out[i]);
	free(t->in);
	free(t->out);
	free(t->parameters);
	free(t->gradient);
	free(t->state);
	free(t->data);
	free(t->stash);
	free(t->scratch);
	free(t->metrics);
	free(t->gathered);
	free(t->device.workspace);
	orr_program_destroy(t->program);
}

static void run_backward(struct bench *t, enum orr_part part)
{
	orr_program_backward(t->program, &t->device, part, t->n, 1.0f / (float)t->n, t->parameters,
			     t->stash, (const float *const *)t->out, t->in, t->gradient, true,
			     t->scratch);
}

static void run_part(struct bench *t, enum part part)
{
	const float *gradient = t->gradient;

	switch (part) {
	case FORWARD:
		if (orr_program_gathers(t->program)) {
			t->device.microbatch.gathered = t->gathered;
			t->device.microbatch.n_minibatch = t->n_read;
			orr_program_gather(t->program, &t->device, 1, (const float *const *)t->in);
		}
		orr_program_forward(t->program, &t->device, t->n, t->parameters, t->data,
				    (const float *const *)t->in, t->out, t->stash, t->scratch,
				    t->metrics);
		break;
	case INPUT:
		run_backward(t, ORR_PART_INPUT);
		break;
	case WEIGHT:
		run_backward(t, ORR_PART_WEIGHT);
		break;
	case BOTH:
		run_backward(t, ORR_PART_BOTH);
		break;
	case UPDATE:
		orr_rule_step(&t->rule, 1, t->n_trained, t->parameters, t->state, &gradient, 1);
		break;
	}
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int time_part(struct bench *t, enum part part, int64_t *median_ns, struct orr_error *err)
{
	struct orr_keyed times[N_TIMES];
	int64_t begun = now_ns();
	int n = 0, code;

	for (int i = 0; i < N_WARM && (!i || now_ns() - begun < ENOUGH_NS / 4); i++)
		run_part(t, part);
	begun = now_ns();
	while (n < FEWEST_TIMES || (n < N_TIMES && now_ns() - begun < ENOUGH_NS)) {
		int64_t start = now_ns();

		run_part(t, part);
		times[n] = (struct orr_keyed){now_ns() - start, n};
		n++;
	}
	if ((code = orr_sort(times, n, err)))
		return code;
	*median_ns = times[n / 2].key;
	return 0;
}

static int measure_stage(struct orr_pipeline *p, int s, int64_t samples,
			 const struct orr_rule *rule, const struct orr_run_options *options,
			 struct orr_error *err)
{
	struct orr_stage *stage = &p->stages[s];
	struct bench bench = {
		.device = orr_device_cpu(options->precision), .n = samples, .rule = *rule};
	bool input_part = stage->has_input_gradient, weight_part = stage->has_weight_gradient;
	int64_t both = 0, weight = 0, update = 0;
	int code;

	if ((code = orr_program_create(&bench.program, p, s, err)))
		return code;
	bench.n_parameters = orr_program_n_parameters(bench.program);
	bench.n_trained = orr_program_n_trained(bench.program);
	bench.n_read = orr_program_gathers(bench.program) ? options->batch : samples;
	if (!make_tensors(&bench)) {
		code = orr_fail(err, ORR_E_NOMEM,
				"measure: no memory for stage %d with %lld parameters and %lld "
				"samples: cut the model into more stages, or lower [batch]",
				s, (long long)bench.n_parameters, (long long)samples);
		goto out;
	}
	orr_program_init(bench.program, options->seed, bench.parameters);
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

int orr_run_measure(struct orr_pipeline *p, const struct orr_run_options *options,
		    struct orr_error *err)
{
	int n_microbatches = p->n_microbatches > 1 ? p->n_microbatches : 1, code = 0;
	int64_t samples = (options->batch + n_microbatches - 1) / n_microbatches;
	struct orr_rule rule = orr_run_rule(options);

	if (!p->graph)
		return orr_fail(err, ORR_E_INPUT,
				"measure: these stages have costs and nothing to compute");
	if (samples < 1)
		return orr_fail(err, ORR_E_INPUT, "measure: a batch of %d; it must be 1 at least",
				options->batch);
	for (int s = 0; s < p->n_stages && !code; s++) {
		if (options->tell)
			options->tell("measuring", s, p->n_stages);
		code = measure_stage(p, s, samples, &rule, options, err);
	}
	if (options->tell)
		options->tell("measuring", p->n_stages, p->n_stages);
	if (!code) {
		p->has_weight = true;
		p->units = false;
		orr_pipeline_set_overhead(p, p->overhead_ns);
	}
	return code;
}
