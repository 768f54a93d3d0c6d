#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/max.h"
#include "base/tensor_header.h"
#include "checkpoint/checkpoint.h"
#include "codelets/operator.h"
#include "model/whole.h"
#include "orrery/graph.h"
#include "orrery/run.h"
#include "parts.h"
#include "save.h"
#include "shard.h"
#include "tensors.h"

int64_t orr_run_step(const struct orr_run *run)
{
	return run->trained.n_steps;
}

/* ---- what the state is of ---- */

/* Besides what every optimizer has its own numbers; and how the learning rate goes, what clips
 * gradients and what does not decay, as far as something does: what was saved before these were
 * there goes on. */
static json_t *about_optimizer(const struct orr_run_options *o)
{
	static const char *const decays[] = {
		[ORR_DECAY_COSINE] = "cosine", [ORR_DECAY_LINEAR] = "linear"};
	json_t *about =
		json_pack("{s:s,s:f,s:f}", "name", orr_optimizer_name(o->optimizer),
			  "learning_rate", o->learning_rate, "weight_decay", o->weight_decay);

	if (o->optimizer == ORR_OPTIMIZER_ADAMW || o->optimizer == ORR_OPTIMIZER_ADAM) {
		orr_json_set(&about, "beta1", json_real(o->beta1));
		orr_json_set(&about, "beta2", json_real(o->beta2));
		orr_json_set(&about, "epsilon", json_real(o->epsilon));
	}
	if (o->optimizer == ORR_OPTIMIZER_MOMENTUM)
		orr_json_set(&about, "momentum", json_real(o->momentum));
	if (o->warmup)
		orr_json_set(&about, "warmup", json_integer(o->warmup));
	if (o->decay != ORR_DECAY_NONE) {
		orr_json_set(&about, "decay", json_string(decays[o->decay]));
		orr_json_set(&about, "decay_steps", json_integer(o->decay_steps));
		orr_json_set(&about, "final_rate", json_real(o->final_rate));
	}
	if (o->spare && o->weight_decay > 0)
		orr_json_set(&about, "spare", json_true());
	if (o->clip > 0)
		orr_json_set(&about, "clip", json_real(o->clip));
	return about;
}

/* Has the text about an operator said it already? */
static bool says_the_shape(const struct orr_operator *o, const char *attribute)
{
	return strcmp(attribute, "features") == 0 ||
	       (o->columns && (strcmp(attribute, "rows") == 0 || strcmp(attribute, "scale") == 0));
}

/* "linear 64 of left, right": what it computes, and of what. */
static json_t *about_operator(const struct orr_graph *g, int k)
{
	const struct orr_operator *o = &g->operators[k];
	char *text = NULL, checksum[ORR_CHECKSUM], value[ORR_VALUE];
	const char *name;
	bool usual;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	json_t *about = NULL;

	if (!file)
		return NULL;
	fprintf(file, "%s ", orr_operator_op(o));
	if (o->rows > 1)
		fprintf(file, "%lld x ", (long long)o->rows);
	fprintf(file, "%lld", (long long)(o->width / o->rows));
	for (int i = 0; i < o->n_inputs; i++)
		fprintf(file, "%s%s", i ? ", " : " of ", g->operators[o->inputs[i]].name);
	if (o->frozen && o->n_parameters)
		(void)fputs(", frozen", file);
	if (o->share)
		(void)fprintf(file, ", share %s", o->share);
	if (o->columns) {
		orr_checksum(checksum, o->columns, (size_t)o->width * sizeof(*o->columns));
		fprintf(file, ", columns %.16s, scale %.17g", checksum, orr_operator_factor(o));
		if (o->tensor)
			(void)fprintf(file, ", tensor %s", o->tensor);
	}
	for (int i = 0; (name = orr_operator_attribute(o, i, value, &usual)); i++)
		if (!usual && !says_the_shape(o, name))
			fprintf(file, ", %s %s", name, value);
	if (!fclose(file))
		about = json_string(text);
	free(text);
	return about;
}

static json_t *about_graph(const struct orr_graph *g)
{
	json_t *about = json_object();

	for (int k = 0; k < g->n_operators; k++)
		orr_json_set(&about, g->operators[k].name, about_operator(g, k));
	return about;
}

/* All that the next steps depend on, but nothing of schedule, workers, cut and split. */
json_t *orr_run_about(const struct orr_run *run, struct orr_error *err)
{
	const struct orr_dataset *data = run->dataset;
	char checksum[17];
	json_t *about;

	snprintf(checksum, sizeof(checksum), "%016llx", (unsigned long long)data->checksum);
	about = json_pack("{s:o,s:{s:I,s:I,s:I,s:s},s:i,s:I,s:o}", "graph",
			  about_graph(orr_graph_whole(run->work.pipeline->graph)), "data", "rows",
			  (json_int_t)data->n_rows, "columns", (json_int_t)data->n_columns,
			  "training_rows", (json_int_t)data->n_train, "checksum", checksum, "batch",
			  orr_run_step_samples(run->work.jobs, &run->options), "seed",
			  (json_int_t)run->options.seed, "optimizer",
			  about_optimizer(&run->options));
	if (!about)
		orr_fail(err, ORR_E_NOMEM,
			 "checkpoint: no memory to describe the run, or a name that is no UTF-8");
	return about;
}

/* ---- loading ---- */

/* Read parameter i of operator k and its optimizer state from a checkpoint, or where there is none,
 * it alone from initial weights: of a split operator, its part of the unsplit model's tensors. */
static int read_parameter(const struct orr_run *run, const struct orr_floats *floats, int k, int i,
			  const struct orr_checkpoint *c, const struct orr_tensor_file *weights,
			  struct orr_error *err)
{
	const struct orr_graph *g = run->work.pipeline->graph, *whole = orr_graph_whole(g);
	const struct orr_parameter_tensor *part = &g->operators[k].instance->parameters[i];
	int o = orr_graph_origin(g, k), j = orr_whole_parameter(g, k, i), n = 1, code = 0;
	struct orr_named_tensor tensors[ORR_MOST_KEPT];
	float *values[ORR_MOST_KEPT];

	if (!c)
		return orr_tensors_find(values, n, floats, k, i)
			       ? orr_weights_read(weights, whole, o, j, part, values[0], err)
			       : 0;
	n = orr_tensors_name(tensors, whole, o, j, run->options.optimizer);
	if (n < 0)
		return orr_no_memory(err, "checkpoint");
	for (int e = 0; e < n && orr_tensors_find(values, n, floats, k, i) && !code; e++) {
		tensors[e].values = values[e];
		tensors[e].portion = part->portion;
		memcpy(tensors[e].shape, part->dims, sizeof(tensors[e].shape));
		code = orr_checkpoint_read(c, &tensors[e], err);
	}
	orr_tensors_drop_names(tensors, n);
	return code;
}

/* One owner's parameters and state; replicas each read their own. */
static int read_owned(const struct orr_run *run, const struct orr_owned *o,
		      const struct orr_checkpoint *c, const struct orr_tensor_file *weights,
		      struct orr_error *err)
{
	const struct orr_graph *g = run->work.pipeline->graph;
	struct orr_floats floats;
	float *whole = NULL, *part;
	/* weights may be a part of the model's */
	int code = orr_floats_acquire(&floats, &run->work, o, c ? STARPU_W : STARPU_RW, c, err);

	part = floats.state;
	if (!code && c && part && o->partial && !(code = orr_shard_room(&whole, run, o, err)))
		floats.state = whole;
	for (int k = 0; k < g->n_operators && !code; k++)
		for (int i = 0; run->work.pipeline->stage_of[k] == o->s && !code &&
				orr_whole_parameter(g, k, i) >= 0;
		     i++)
			code = read_parameter(run, &floats, k, i, c, weights, err);
	if (whole && !code)
		orr_shard_copy(run, o, whole, part, false);
	free(whole);
	orr_floats_release(&floats);
	return code;
}

int orr_run_begin(struct orr_run *run, const char *path, bool partly, char *text, size_t size,
		  struct orr_error *err)
{
	struct orr_tensor_file w = {.fd = -1};
	int code = orr_weights_open(&w, path, orr_graph_whole(run->work.pipeline->graph), partly,
				    text, size, err);

	code = orr_ranks_agree(code, err);
	for (int i = 0; i < run->data.n_owned && !code; i++)
		code = read_owned(run, &run->data.owned[i], NULL, &w, err);
	orr_tensor_file_close(&w);
	return orr_ranks_agree(code, err);
}

/* Can samples, and the jobs of each worker, be counted from the start of training to this step? */
static int check_step(const struct orr_run *run, int64_t step, struct orr_error *err)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int64_t most = orr_run_step_samples(jobs, &run->options), product;

	for (int w = 0; w < run->work.pipeline->n_workers; w++)
		most = larger(most, jobs->first[w + 1] - jobs->first[w]);
	/* as much again is left to be trained */
	if (!__builtin_mul_overflow(step, 2 * most, &product))
		return 0;
	return orr_fail(err, ORR_E_INPUT, "checkpoint: no training goes on from step %lld",
			(long long)step);
}

/* The learning rate and its course are no difference: about has those of the checkpoint, the rate
 * as *rate, where it has one. */
static int accept_rate(json_t *about, const struct orr_checkpoint *c, double *rate,
		       struct orr_error *err)
{
	static const char *const course[] = {"learning_rate", "warmup", "decay", "decay_steps",
					     "final_rate"};
	const json_t *there = json_object_get(orr_checkpoint_about(c), "optimizer");
	json_t *here = json_object_get(about, "optimizer");

	if (!json_is_number(json_object_get(there, *course))) /* a difference, then */
		return 0;
	*rate = json_number_value(json_object_get(there, *course));
	for (size_t i = 0; i < sizeof(course) / sizeof(*course); i++) {
		json_t *value = json_object_get(there, course[i]);

		if (!value)
			json_object_del(here, course[i]);
		else if (json_object_set(here, course[i], value))
			return orr_no_memory(err, "checkpoint");
	}
	return 0;
}

/* Where only the learning rate goes another way, the message says how to go on. */
static void explain_course(json_t *about, const struct orr_checkpoint *c, struct orr_error *err)
{
	double rate;
	size_t length = err ? strlen(err->msg) : 0;

	if (err && !accept_rate(about, c, &rate, NULL) && !orr_checkpoint_check(c, about, NULL))
		(void)snprintf(err->msg + length, sizeof(err->msg) - length,
			       ", or give [rate]: then the learning rate may go another way");
}

/* Refuses before it changes anything. */
static int check_fits(const struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		      struct orr_error *err)
{
	json_t *about;
	int code = orr_run_check_whole(run, err);

	if (code || (code = check_step(run, orr_checkpoint_step(c), err)))
		return code;
	if (!(about = orr_run_about(run, err)))
		return ORR_E_NOMEM;
	if (!rate || !(code = accept_rate(about, c, rate, err)))
		code = orr_checkpoint_check(c, about, err);
	if (code && !rate)
		explain_course(about, c, err);
	json_decref(about);
	return code;
}

int orr_run_load(struct orr_run *run, const struct orr_checkpoint *c, double *rate,
		 struct orr_error *err)
{
	const struct orr_jobs *jobs = run->work.jobs;
	int64_t step = orr_checkpoint_step(c);
	int code = check_fits(run, c, rate, err);

	if ((code = orr_ranks_agree(code, err)))
		return code;
	for (int i = 0; i < run->data.n_owned && !code; i++) {
		code = read_owned(run, &run->data.owned[i], c, NULL, err);
		atomic_store(&run->data.owned[i].version, step);
	}
	if ((code = orr_ranks_agree(code, err)))
		return code;
	run->trained.n_steps = step;
	if (jobs->async) /* its rounds are counted by the run, not from the start of training */
		return 0;
	for (int w = 0; w < run->work.pipeline->n_workers; w++)
		orr_policy_begin(run->session.policy, w,
				 step * (jobs->first[w + 1] - jobs->first[w]));
	run->slots.n_submitted = run->slots.n_finished = step;
	return 0;
}
