#include "delayed.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "orrery/graph.h"
#include "orrery/pipeline.h"
#include "../codelets/device.h"
#include "runtime/devices/compile.h"

struct stage {
	struct orr_program *program;
	int64_t n, n_trained; /* parameters */
	int every;            /* microbatches in an update */
	float **versions;     /* [n_versions + 1], all there ever were */
	int64_t n_versions;   /* updates so far */
	float *state, *stash, *scratch;
	float **gradients; /* [replicas] */
};

struct delayed {
	const struct orr_pipeline *p;
	const struct orr_dataset *data;
	const struct delayed_options *options;
	struct stage *stages;
	float **edges;
	int64_t *rows;
	struct orr_device device;
};

static float *floats(int64_t n)
{
	float *x = calloc((size_t)n + 1, sizeof(*x));

	ck_assert_ptr_nonnull(x);
	return x;
}

/* ---- which version ---- */

/* Microbatches whose backward has gone before the forward of b on b's replica; the replicas take
 * turns, so of the others it counts whole rounds. */
static int64_t gone_before(const struct delayed *t, int s, int64_t b)
{
	int64_t r = t->options->replicas[s], gone = (b / r - t->options->ahead[s] + 1) * r;

	return gone > 0 ? gone : 0;
}

/* Is stage s trained, and nothing before it? Of stages without parameters those count that read the
 * data alone. */
static bool begins(const struct delayed *t, int s)
{
	const struct orr_stage *stage = &t->p->stages[s];

	for (int i = 0; i < stage->n_in; i++)
		if (!t->p->edges[stage->in[i]].detached)
			return false;
	return !stage->frozen;
}

static int64_t forward_version(const struct delayed *t, int s, int64_t b)
{
	int64_t least = INT64_MAX;

	if (!t->stages[s].n_trained)
		return 0;
	if (t->options->sync != DELAYED_VERTICAL)
		return gone_before(t, s, b) / t->stages[s].every;
	for (int k = 0; k < t->p->n_stages; k++)
		if (begins(t, k)) {
			int64_t every = t->stages[k].every,
				seen = gone_before(t, k, b) / every * every;

			least = seen < least ? seen : least;
		}
	return least / t->stages[s].every;
}

static int64_t backward_version(const struct delayed *t, int s, int64_t b)
{
	return t->options->sync == DELAYED_NONE && t->stages[s].n_trained
		       ? b / t->stages[s].every
		       : forward_version(t, s, b);
}

/* ---- one microbatch ---- */

static float *columns(const struct delayed *t, const struct orr_program *program)
{
	int64_t n = 0, at = 0;
	float *x;

	for (int i = 0; i < program->n_inputs; i++)
		n += program->inputs[i].width * t->options->samples;
	x = floats(n);
	for (int i = 0; i < program->n_inputs; i++)
		for (int r = 0; r < t->options->samples; r++)
			for (int64_t c = 0; c < program->inputs[i].width; c++)
				x[at++] = t->data->values[t->rows[r] * t->data->n_columns +
							  program->inputs[i].columns[c]];
	return x;
}

static double forward(struct delayed *t, int s, int64_t b)
{
	const struct orr_stage *stage = &t->p->stages[s];
	struct stage *own = &t->stages[s];
	const float *in[16] = {NULL};
	float *out[16] = {NULL}, *data = columns(t, own->program);
	struct orr_metrics metrics[8] = {{0}};
	double loss = 0;

	ck_assert(own->program->n_in <= 16 && own->program->n_out <= 16);
	for (int i = 0; i < own->program->n_in; i++)
		in[i] = t->edges[orr_stage_received(stage, i)];
	for (int i = 0; i < own->program->n_out; i++)
		out[i] = t->edges[orr_stage_sent(stage, i)] =
			floats(t->options->samples * own->program->out[i].columns);
	orr_program_forward(own->program, &t->device, t->options->samples,
			    own->versions[forward_version(t, s, b)], data, in, out, own->stash,
			    own->scratch, metrics);
	for (int i = 0; i < own->program->n_in; i++) {
		int e = orr_stage_received(stage, i), k = e - t->p->n_edges;

		if (k >= 0 && t->p->outputs[k].readers[t->p->outputs[k].n_readers - 1] != s)
			continue; /* others read it after this one */
		free(t->edges[e]);
		t->edges[e] = NULL;
	}
	free(data);
	for (int l = 0; l < own->program->n_losses; l++)
		loss += metrics[l].loss; /* of weight 1 */
	return loss;
}

static void backward(struct delayed *t, int s, int64_t b)
{
	const struct orr_stage *stage = &t->p->stages[s];
	struct stage *own = &t->stages[s];
	int replica = (int)(b % t->options->replicas[s]);
	const float *from[16] = {NULL};
	float *to[16] = {NULL};

	if (orr_pipeline_last_pass(t->p, s, false) == ORR_PASS_F)
		return;
	for (int i = 0; i < stage->n_out; i++)
		from[i] = t->edges[stage->out[i]];
	for (int i = 0; i < stage->n_in; i++)
		if (!t->p->edges[stage->in[i]].detached)
			to[i] = t->edges[stage->in[i]] =
				floats(t->options->samples * own->program->in[i].gradients);
	orr_program_backward(own->program, &t->device, ORR_PART_BOTH, t->options->samples,
			     1.0f / (float)(t->options->samples * t->options->accumulate),
			     own->versions[backward_version(t, s, b)], own->stash, NULL, false,
			     from, to, own->gradients[replica],
			     b % own->every < t->options->replicas[s], own->scratch);
	for (int i = 0; i < stage->n_out; i++)
		free(t->edges[stage->out[i]]);
}

/* A new version of the last one. */
static void update(struct delayed *t, int s)
{
	struct stage *own = &t->stages[s];
	struct orr_rule rule = t->options->rule;
	float *next = floats(own->n);

	rule.n_averaged = t->options->replicas[s];
	memcpy(next, own->versions[own->n_versions], (size_t)own->n * sizeof(*next));
	orr_optimizer_cpu.step(&t->device, &rule, own->n_versions + 1, own->n_trained, next,
			       own->state, (const float *const *)own->gradients,
			       t->options->replicas[s], false);
	own->versions[++own->n_versions] = next;
}

/* ---- all of them ---- */

static void stage_init(struct delayed *t, int s, int64_t n_microbatches)
{
	const struct delayed_options *o = t->options;
	struct stage *own = &t->stages[s];

	ck_assert_int_eq(orr_program_create(&own->program, t->p, s, NULL), 0);
	own->n = own->program->n_parameters;
	own->n_trained = own->program->n_trained;
	own->every = o->accumulate * o->replicas[s];
	own->versions = calloc((size_t)(n_microbatches / own->every) + 1, sizeof(float *));
	own->gradients = calloc((size_t)o->replicas[s], sizeof(float *));
	ck_assert(own->versions && own->gradients);
	for (int k = 0; k < o->replicas[s]; k++)
		own->gradients[k] = floats(own->n_trained);
	own->versions[0] = floats(own->n);
	orr_program_init(own->program, o->seed, own->versions[0]);
	own->state = floats(own->n_trained * orr_optimizer_floats(o->rule.optimizer));
	own->stash = floats(orr_program_stash_floats(own->program, o->samples, false));
	own->scratch = floats(orr_program_scratch_floats(own->program, o->samples));
}

static void stage_fini(struct delayed *t, int s)
{
	struct stage *own = &t->stages[s];

	for (int64_t v = 0; v <= own->n_versions; v++)
		free(own->versions[v]);
	for (int k = 0; k < t->options->replicas[s]; k++)
		free(own->gradients[k]);
	free(own->versions);
	free(own->gradients);
	free(own->state);
	free(own->stash);
	free(own->scratch);
	orr_program_destroy(own->program);
}

/* The latest version of every stage, in the order of the operators. */
static void collect(const struct delayed *t, float *parameters)
{
	const struct orr_graph *g = t->p->graph;

	for (int s = 0; s < t->p->n_stages; s++) {
		const float *from = t->stages[s].versions[t->stages[s].n_versions];
		float *to = parameters;

		for (int k = 0; k < g->n_operators; k++) {
			int64_t n = g->operators[k].n_parameters;
			int64_t first = orr_program_first_parameter(t->stages[s].program, k);

			if (first >= 0)
				memcpy(to, from + first, (size_t)n * sizeof(*to));
			to += n;
		}
	}
}

void delayed_train(const struct orr_pipeline *p, const struct orr_dataset *data,
		   const struct delayed_options *options, int64_t n_microbatches, float *parameters,
		   double *losses)
{
	struct delayed t = {.p = p,
			    .data = data,
			    .options = options,
			    .device = orr_device_cpu(ORR_PRECISION_FP32)};
	size_t workspace = 0;

	t.stages = calloc((size_t)p->n_stages, sizeof(*t.stages));
	t.edges = calloc((size_t)(p->n_edges + p->n_outputs) + 1, sizeof(*t.edges));
	t.rows = calloc((size_t)options->samples, sizeof(*t.rows));
	ck_assert(t.stages && t.edges && t.rows);
	for (int s = 0; s < p->n_stages; s++) {
		size_t bytes;

		stage_init(&t, s, n_microbatches);
		bytes = orr_program_workspace_bytes(t.stages[s].program, &t.device,
						    options->samples);
		workspace = bytes > workspace ? bytes : workspace;
	}
	ck_assert_ptr_nonnull(t.device.workspace = malloc(workspace + 1));
	for (int64_t b = 0; b < n_microbatches; b++) {
		double loss = 0;

		ck_assert_int_eq(orr_dataset_rows(data, options->seed, b * options->samples,
						  options->samples, t.rows, NULL),
				 0);
		for (int s = 0; s < p->n_stages; s++)
			loss += forward(&t, s, b);
		for (int s = p->n_stages - 1; s >= 0; s--)
			backward(&t, s, b);
		for (int s = 0; s < p->n_stages; s++)
			if ((b + 1) % t.stages[s].every == 0 && t.stages[s].n_trained)
				update(&t, s);
		if (losses)
			losses[b] = loss / options->samples;
	}
	collect(&t, parameters);
	for (int s = 0; s < p->n_stages; s++)
		stage_fini(&t, s);
	free(t.device.workspace);
	free(t.stages);
	free(t.edges);
	free(t.rows);
}
