#include "staged.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/pipeline.h"
#include "../codelets/device.h"
#include "../codelets/loops.h"
#include "runtime/devices/compile.h"

static float *poison(int64_t n)
{
	float *x = staged_allocate(16, (size_t)n * sizeof(*x) + 1);

	ck_assert_ptr_nonnull(x);
	for (int64_t i = 0; i < n; i++)
		x[i] = NAN;
	return x;
}

static void check_written(const float *x, int64_t n, const char *what, int s)
{
	int64_t i = 0;

	/* each assertion asks the kernel to write down where it stands: one of all floats */
	while (i < n && !isnan(x[i]))
		i++;
	ck_assert_msg(i == n, "stage %d leaves float %lld of its %s unwritten", s, (long long)i,
		      what);
}

#define MOST_LOSSES 8 /* of a graph */

struct stage {
	struct orr_program *program;
	float *parameters, *gradient;
	float **stash;               /* [n_microbatches] */
	struct orr_metrics *metrics; /* [MOST_LOSSES] */
};

/* In the n first parameters of a stage, or their gradient, each layer's begin at a multiple of 64,
 * behind zeros. */
static void check_places(const struct orr_program *program, int64_t n, const float *x)
{
	for (int k = 0; k < program->n_layers; k++) {
		const struct orr_layer *layer = &program->layers[k];
		int64_t at = layer->first_parameter + layer->n_parameters;

		ck_assert_int_eq(layer->first_parameter % 64, 0);
		for (; layer->n_parameters && at < n && at % 64; at++)
			ck_assert_double_eq((double)x[at], 0);
	}
}

/* Between the order of the graph and that of a stage's n first parameters. */
static void copy_parameters(const struct orr_graph *g, const struct orr_program *program, int64_t n,
			    float *all, float *own, bool to_all)
{
	for (int k = 0; k < g->n_operators; all += g->operators[k++].n_parameters) {
		int64_t first = orr_program_first_parameter(program, k);
		size_t bytes = (size_t)g->operators[k].n_parameters * sizeof(*all);

		if (first >= 0 && first < n)
			memcpy(to_all ? all : own + first, to_all ? own + first : all, bytes);
	}
}

struct staged {
	const struct orr_pipeline *p;
	const struct staged_options *options;
	int64_t n; /* of a microbatch */
	struct orr_device device;
	struct stage *stages;
	int b;         /* the microbatch at hand */
	float **edges; /* [n_microbatches * n_edges] activations forward, gradients backward */
};

/* Edges, and behind them outputs with several readers. */
static int n_sent(const struct staged *t)
{
	return t->p->n_edges + t->p->n_outputs;
}

/* Over edge e, of the microbatch at hand. */
static float **edge_of(const struct staged *t, int e)
{
	return &t->edges[t->b * n_sent(t) + e];
}

static float *gather(const struct orr_program *program, int64_t n, const float *rows,
		     int64_t n_columns)
{
	int64_t floats = 0, at = 0;
	float *data;

	for (int i = 0; i < program->n_inputs; i++)
		floats += n * program->inputs[i].width;
	data = poison(floats);
	for (int i = 0; i < program->n_inputs; i++)
		for (int64_t r = 0; r < n; r++)
			for (int64_t j = 0; j < program->inputs[i].width; j++)
				data[at++] = rows[r * n_columns + program->inputs[i].columns[j]];
	return data;
}

/* What the stage reads of the whole minibatch; NULL where the microbatch is all. */
static float *gather_minibatch(struct staged *t, int s)
{
	const struct orr_stage *stage = &t->p->stages[s];
	const struct orr_program *program = t->stages[s].program;
	int m = t->options->n_microbatches;
	const float *parts[32];

	if (m == 1 || !orr_program_gathers(program))
		return NULL;
	ck_assert_int_le(program->n_in * m, 32);
	for (int i = 0; i < program->n_in * m; i++)
		parts[i] = t->edges[i / program->n_in * n_sent(t) +
				    orr_stage_received(stage, i % program->n_in)];
	t->device.microbatch.first = t->b * t->n;
	t->device.microbatch.n_minibatch = t->options->n;
	t->device.microbatch.gathered = poison(t->options->n * program->gathered_columns);
	orr_program_gather(program, &t->device, m, parts);
	return t->device.microbatch.gathered;
}

/* What gathers is not recomputed. */
static bool recomputes(const struct staged *t, int s)
{
	return t->options->recompute && !orr_program_gathers(t->stages[s].program);
}

/* The in-edges of stage s have been read, or its out-edges. */
static void free_edges(struct staged *t, const int *edges, int n, bool all)
{
	for (int i = 0; i < n; i++)
		for (int b = all ? 0 : t->b; b <= t->b; b++) {
			staged_free(t->edges[b * n_sent(t) + edges[i]]);
			t->edges[b * n_sent(t) + edges[i]] = NULL;
		}
}

/* Of outputs with several readers those that no stage after s reads. */
static void free_inputs(struct staged *t, int s, bool all)
{
	const struct orr_stage *stage = &t->p->stages[s];

	free_edges(t, stage->in, stage->n_in, all);
	for (int i = 0; i < stage->n_read; i++) {
		const struct orr_fanout *x = &t->p->outputs[stage->read[i] - t->p->n_edges];

		if (x->readers[x->n_readers - 1] == s)
			free_edges(t, &stage->read[i], 1, all);
	}
}

/* Are B and W of stage s apart? */
static bool splits(const struct staged *t, int s)
{
	return orr_pipeline_first_backward(t->p, s, t->options->split) !=
	       orr_pipeline_last_pass(t->p, s, t->options->split);
}

/* The samples of the microbatch at hand. */
static void tell(struct staged *t)
{
	t->device.microbatch.sample = t->b * t->n;
}

static void forward(struct staged *t, int s, const float *rows, int64_t n_columns)
{
	const struct orr_stage *stage = &t->p->stages[s];
	struct stage *own = &t->stages[s];
	float *data = gather(own->program, t->n, rows, n_columns), *out[32] = {NULL};
	float *scratch = poison(orr_program_scratch_floats(own->program, t->n));
	const float *in[32] = {NULL};
	float *inputs, *stash, *gathered = gather_minibatch(t, s);
	bool gathers = orr_program_gathers(own->program);

	tell(t);
	ck_assert_int_eq(own->program->n_in, stage->n_in + stage->n_read);
	ck_assert_int_eq(own->program->n_out, stage->n_out + stage->n_sent);
	for (int i = 0; i < own->program->n_in; i++)
		in[i] = *edge_of(t, orr_stage_received(stage, i));
	for (int i = 0; i < own->program->n_out; i++)
		out[i] = *edge_of(t, orr_stage_sent(stage, i)) =
			poison(t->n * own->program->out[i].columns);
	stash = poison(orr_program_stash_floats(own->program, t->n, splits(t, s)));
	orr_program_forward(own->program, &t->device, t->n, own->parameters, data, in, out, stash,
			    scratch, own->metrics);
	staged_wait(&t->device);
	t->device.microbatch.gathered = NULL;
	staged_free(gathered);
	for (int i = 0; i < own->program->n_out; i++)
		check_written(out[i], t->n * own->program->out[i].columns, "activations", s);
	check_written(stash, orr_program_stash_floats(own->program, t->n, false), "stash", s);
	if (recomputes(t, s)) {
		inputs = poison(orr_program_input_floats(own->program, t->n));
		orr_program_keep_inputs(own->program, &t->device, t->n, data, in, inputs);
		staged_wait(&t->device);
		check_written(inputs, orr_program_input_floats(own->program, t->n), "inputs", s);
		staged_free(stash);
		stash = inputs;
	}
	own->stash[t->b] = stash;
	if (!gathers || t->b + 1 == t->options->n_microbatches)
		free_inputs(t, s, gathers);
	staged_free(data);
	staged_free(scratch);
}

/* Does B leave W all that it reads? */
static bool packs(const struct staged *t, int s, int b)
{
	return splits(t, s) && (s + b) % 2;
}

static void weights(struct staged *t, int s, int b, enum orr_part part, const float *const *from,
		    float *const *to, float *left)
{
	struct stage *own = &t->stages[s];
	int64_t n_trained = own->program->n_trained;
	float *scratch = poison(orr_program_scratch_floats(own->program, t->n));
	float *gradient = t->options->partials ? poison(n_trained) : own->gradient;
	bool weight = part != ORR_PART_INPUT;

	orr_program_backward(own->program, &t->device, part, t->n, 1.0f / (float)t->options->n,
			     own->parameters,
			     part == ORR_PART_WEIGHT && packs(t, s, b) ? NULL : own->stash[b], left,
			     packs(t, s, b), from, to, weight ? gradient : NULL,
			     t->options->partials || b == 0, scratch);
	staged_wait(&t->device);
	if (weight && t->options->partials) {
		if (b == 0)
			memcpy(own->gradient, gradient, (size_t)n_trained * sizeof(*gradient));
		else
			orr_add(n_trained, gradient, own->gradient);
	}
	if (t->options->partials)
		staged_free(gradient);
	staged_free(scratch);
}

/* From the inputs that F kept to the stash that B reads. */
static void forward_again(struct staged *t, int s)
{
	struct stage *own = &t->stages[s];
	float *stash = poison(orr_program_stash_floats(own->program, t->n, splits(t, s)));
	float *again = poison(orr_program_again_floats(own->program, t->n)), *out[32];
	float *scratch = poison(orr_program_scratch_floats(own->program, t->n));
	const float *in[32];

	orr_program_forward_again(own->program, &t->device, t->n, own->parameters, own->stash[t->b],
				  in, out, again, stash, scratch);
	staged_wait(&t->device);
	check_written(stash, orr_program_stash_floats(own->program, t->n, false), "stash", s);
	staged_free(own->stash[t->b]);
	staged_free(again);
	staged_free(scratch);
	own->stash[t->b] = stash;
}

static void backward(struct staged *t, int s, int b)
{
	const struct orr_stage *stage = &t->p->stages[s];
	struct stage *own = &t->stages[s];
	const float *from[32] = {NULL};
	float *to[32] = {NULL}, *left = NULL;

	if (orr_pipeline_last_pass(t->p, s, t->options->split) == ORR_PASS_F) {
		ck_assert_int_eq(orr_program_stash_floats(own->program, t->n, true), 0);
		staged_free(own->stash[b]);
		return;
	}
	tell(t);
	for (int i = 0; i < stage->n_out; i++)
		from[i] = *edge_of(t, stage->out[i]);
	for (int i = 0; i < stage->n_in; i++) {
		int64_t floats = t->n * own->program->in[i].gradients;

		if (floats)
			to[i] = *edge_of(t, stage->in[i]) = poison(floats);
		ck_assert_int_eq(floats, t->n * t->p->edges[stage->in[i]].gradient_bytes / 4);
	}
	if (recomputes(t, s))
		forward_again(t, s);
	if (splits(t, s))
		left = poison(orr_program_left_floats(own->program, t->n, packs(t, s, b)));
	weights(t, s, b, left ? ORR_PART_INPUT : ORR_PART_BOTH, from, to, left);
	for (int i = 0; i < stage->n_in; i++)
		check_written(to[i], t->n * own->program->in[i].gradients, "gradients", s);
	free_edges(t, stage->out, stage->n_out, false);
	if (left) {
		check_written(left, orr_program_left_floats(own->program, t->n, packs(t, s, b)),
			      "stash for W", s);
		weights(t, s, b, ORR_PART_WEIGHT, NULL, NULL, left);
	}
	staged_free(left);
	staged_free(own->stash[b]);
}

static void create_stages(struct staged *t, const float *parameters)
{
	struct orr_error err;
	size_t most = 0;
	int m = t->options ? t->options->n_microbatches : 1;

	t->stages = calloc((size_t)t->p->n_stages, sizeof(*t->stages));
	t->edges = calloc((size_t)(n_sent(t) * m) + 1, sizeof(*t->edges));
	ck_assert(t->stages && t->edges);
	for (int s = 0; s < t->p->n_stages; s++) {
		struct stage *own = &t->stages[s];

		ck_assert_msg(!orr_program_create(&own->program, t->p, s, &err), "%s", err.msg);
		ck_assert_ptr_nonnull(own->stash = calloc((size_t)m, sizeof(*own->stash)));
		own->metrics = staged_allocate(16, MOST_LOSSES * sizeof(*own->metrics));
		ck_assert_ptr_nonnull(own->metrics);
		memset(own->metrics, 0, MOST_LOSSES * sizeof(*own->metrics));
		own->parameters = poison(own->program->n_parameters);
		own->gradient = poison(own->program->n_trained);
		if (t->n) { /* exactly as much workspace as the largest asks for */
			size_t bytes = orr_program_workspace_bytes(
				own->program, &t->device,
				orr_program_gathers(own->program) ? t->options->n : t->n);

			most = bytes > most ? bytes : most;
		}
		if (parameters) {
			float *all = (float *)(uintptr_t)parameters; /* only read */

			copy_parameters(t->p->graph, own->program, own->program->n_parameters, all,
					own->parameters, false);
		}
	}
	if (most)
		ck_assert_ptr_nonnull(t->device.workspace =
					      staged_allocate(256, (most + 255) / 256 * 256));
}

static void destroy_stages(struct staged *t)
{
	for (int s = 0; s < t->p->n_stages; s++) {
		orr_program_destroy(t->stages[s].program);
		staged_free(t->stages[s].parameters);
		staged_free(t->stages[s].gradient);
		staged_free(t->stages[s].metrics);
		free(t->stages[s].stash);
	}
	staged_free(t->device.workspace);
	staged_device_fini(&t->device);
	free(t->stages);
	free(t->edges);
}

/* Those of stage s, each times its weight. */
static void add_losses(const struct staged *t, int s, struct orr_metrics *sum)
{
	const struct orr_graph *g = t->p->graph;
	const struct orr_metrics *own = t->stages[s].metrics;

	for (int k = 0; k < g->n_operators; k++) {
		if (!orr_operator_is_loss(&g->operators[k]))
			continue;
		if (t->p->stage_of[k] == s) {
			sum->loss += orr_operator_factor(&g->operators[k]) * own->loss;
			sum->correct += own->correct;
			sum->classified += own->classified;
		}
		own++;
	}
}

void staged_step(const struct orr_pipeline *p, const struct staged_options *options,
		 const float *values, int64_t n_columns, const float *parameters, float *gradient,
		 struct orr_metrics *metrics)
{
	struct staged t = {.p = p, .options = options, .n = options->n / options->n_microbatches};
	struct orr_kernels kernels;

	*metrics = (struct orr_metrics){0};
	t.device = staged_device(options->precision);
	t.device.kernels = options->kernels ? options->kernels : t.device.kernels;
	kernels = *t.device.kernels;
	kernels.unfolded = 1000; /* so that convolutions take their turns */
	t.device.kernels = &kernels;
	create_stages(&t, parameters);
	for (int s = 0; s < p->n_stages; s++)
		for (t.b = 0; t.b < options->n_microbatches; t.b++) {
			forward(&t, s, values + t.b * t.n * n_columns, n_columns);
			add_losses(&t, s, metrics);
		}
	for (int s = p->n_stages - 1; s >= 0; s--)
		for (t.b = 0; t.b < options->n_microbatches; t.b++)
			backward(&t, s, t.b);
	for (int s = 0; s < p->n_stages; s++) {
		const struct stage *own = &t.stages[s];
		int64_t n = own->program->n_trained;

		check_written(own->gradient, n, "weight gradient", s);
		check_places(own->program, n, own->gradient);
		copy_parameters(p->graph, own->program, n, gradient, own->gradient, true);
	}
	destroy_stages(&t);
}

void staged_init(const struct orr_pipeline *p, uint64_t seed, float *parameters)
{
	struct staged t = {.p = p};

	create_stages(&t, NULL);
	for (int s = 0; s < p->n_stages; s++) {
		orr_program_init(t.stages[s].program, seed, t.stages[s].parameters);
		check_places(t.stages[s].program, t.stages[s].program->n_parameters,
			     t.stages[s].parameters);
		copy_parameters(p->graph, t.stages[s].program, t.stages[s].program->n_parameters,
				parameters, t.stages[s].parameters, true);
	}
	destroy_stages(&t);
}
