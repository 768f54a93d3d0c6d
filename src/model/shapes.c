/* Shapes, inferred from the operators and checked along every edge, and what follows from them: the
 * parameters, the floating-point operations and the stash of every operator, per sample.
 *
 * Operations of the elementwise kinds are counted per float of the output, every arithmetic
 * operation and every exp, tanh or root as one. They are small beside a matrix product; what counts
 * is that they are counted. */
#include "draft.h"

#include <stdlib.h>

#include "base/arrays.h"
#include "base/quantity.h"

#define SUM_MOST (INT64_C(1) << 60) /* of anything over a graph: leaves room for microbatches */

/* Has a sample's tensor, or all that o reads of one, this many floats? */
static int check_floats(const struct orr_graph *g, const struct orr_operator *o, int64_t floats,
			struct orr_error *err)
{
	if (floats <= ORR_MOST_FLOATS || o->instance->op->opaque)
		return 0;
	return orr_operator_fail(
		g->name, o, err,
		"%lld numbers a sample, which are %s, and 1 TiB are the most: make it smaller",
		(long long)floats, orr_size_text(floats * (int64_t)sizeof(float)));
}

/* "1 operator", "2 operators or more", "3 or 4 operators". */
static const char *count_text(const struct orr_op *op)
{
	if (!op->most_inputs)
		return orr_text("%d operators or more", op->least_inputs);
	return op->most_inputs > op->least_inputs
		       ? orr_text("%d or %d operators", op->least_inputs, op->most_inputs)
		       : orr_count_text(op->least_inputs, "operator");
}

static int check_n_inputs(const struct orr_graph *g, const struct orr_operator *o,
			  struct orr_error *err)
{
	const struct orr_op *op = o->instance->op;
	const char *are = o->n_inputs == 1 ? "is" : "are";

	if (op->input && o->n_inputs > 0)
		return orr_operator_fail(g->name, o, err,
					 "an input reads the data: take the edges into it away");
	if (o->n_inputs >= op->least_inputs && (!op->most_inputs || o->n_inputs <= op->most_inputs))
		return 0;
	if (op->inputs)
		return orr_operator_fail(
			g->name, o, err, "%s reads %s, %s, and there %s %d: give it %d edges",
			op->name, count_text(op), op->inputs, are, o->n_inputs, op->least_inputs);
	return orr_operator_fail(g->name, o, err, "%s reads %s, and there %s %d: %s", op->name,
				 count_text(op), are, o->n_inputs,
				 op->most_inputs == 1
					 ? "give it 1 edge (add or concat join several)"
					 : "give it more edges");
}

static int give_inputs(const struct orr_graph *g, struct orr_operator *o, const char **names,
		       struct orr_error *err)
{
	struct orr_instance *is = o->instance;
	int64_t floats = 0;

	if (!(is->inputs = calloc((size_t)o->n_inputs + 1, sizeof(*is->inputs))))
		return orr_no_memory(err, g->name);
	is->n_inputs = o->n_inputs;
	for (int i = 0; i < o->n_inputs; i++) {
		is->inputs[i] = g->operators[o->inputs[i]].instance->output;
		names[i] = g->operators[o->inputs[i]].name;
		floats += orr_shape_floats(is->inputs[i]);
	}
	if (o->columns)
		is->output = (struct orr_shape){1, o->width};
	return o->n_inputs > 1 ? check_floats(g, o, floats, err) : 0;
}

/* What a pass backward reads of the forward. */
static int64_t stash_of(const struct orr_graph *g, const struct orr_operator *o, unsigned reads)
{
	int64_t floats = o->saved_floats;

	for (int i = 0; i < o->n_inputs && (reads & ORR_READS_INPUTS); i++)
		floats += orr_operator_output_floats(&g->operators[o->inputs[i]]);
	return floats + (reads & ORR_READS_OUTPUT ? orr_operator_output_floats(o) : 0);
}

static void count_stash(const struct orr_graph *g, struct orr_operator *o)
{
	const struct orr_op *op = o->instance->op;

	if (op->input)
		return;
	o->saved_floats = orr_stored_floats(o->instance->saved,
					    op->in_place && g->operators[o->inputs[0]].half);
	o->input_stash_floats = stash_of(g, o, op->backward_reads);
	o->stash_floats = stash_of(g, o, op->backward_reads | op->weight_reads);
}

static int infer(const struct orr_graph *g, struct orr_operator *o, const char **names,
		 struct orr_error *err)
{
	struct orr_instance *is = o->instance;
	struct orr_refusal why = {.inputs = names};
	int code;

	if (!is)
		return 0;
	if ((code = check_n_inputs(g, o, err)) || (code = give_inputs(g, o, names, err)))
		return code;
	if (!orr_instance_infer(is, &why))
		return orr_operator_fail(g->name, o, err, "%s", why.text);
	o->gather = o->gather || is->op->whole_minibatch;
	o->width = orr_shape_floats(is->output);
	o->rows = is->output.rows;
	if ((code = check_floats(g, o, o->width, err)))
		return code;
	o->n_parameters = orr_instance_parameter_floats(is);
	o->forward_flops = is->forward_flops;
	o->backward_flops = is->backward_flops;
	o->weight_flops = is->weight_flops;
	count_stash(g, o);
	return 0;
}

/* Do only products read it? They round it themselves. The readers of o come after it. */
static void note_readers(struct orr_graph *g)
{
	for (int i = 0; i < g->n_operators; i++)
		g->operators[i].half = !!g->operators[i].instance;
	for (int i = g->n_operators - 1; i >= 0; i--) {
		const struct orr_operator *o = &g->operators[i];
		const struct orr_op *op = o->instance ? o->instance->op : NULL;
		bool rounds = op && (op->kept == ORR_OUTPUT_HALF || (op->moves && o->half));

		for (int k = 0; k < o->n_inputs && !rounds; k++)
			g->operators[o->inputs[k]].half = false;
	}
}

/* Is its output kept as bfloat16 where activations are? As autocast of PyTorch has it: products
 * are, what is added to float32 is not. */
static bool is_half(const struct orr_graph *g, const struct orr_operator *o)
{
	const struct orr_op *op = o->instance ? o->instance->op : NULL;

	if (!op || op->input || op->loss || op->kept == ORR_OUTPUT_EXACT)
		return false;
	if (o->half || op->kept != ORR_OUTPUT_AS_READ)
		return o->half || op->kept == ORR_OUTPUT_HALF;
	for (int i = 0; i < o->n_inputs; i++)
		if (!g->operators[o->inputs[i]].half)
			return false;
	return true;
}

void orr_graph_set_precision(struct orr_graph *g, enum orr_precision precision)
{
	g->precision = precision;
	note_readers(g);
	for (int i = 0; i < g->n_operators; i++) {
		struct orr_operator *o = &g->operators[i];

		o->half = precision == ORR_PRECISION_BF16 && is_half(g, o);
		if (o->instance)
			count_stash(g, o);
	}
	if (g->whole)
		orr_graph_set_precision(g->whole, precision);
}

/* -1, not given, counts as 0. */
static bool add(int64_t *sum, int64_t cost)
{
	if (cost > SUM_MOST)
		return false;
	*sum += cost > 0 ? cost : 0;
	return *sum <= SUM_MOST;
}

enum { COUNTS, COSTS, READS = COSTS + 7, N_SUMS };

/* Add what o counts, costs and reads to the sums. */
static bool adds_up(const struct orr_operator *o, int64_t sums[N_SUMS])
{
	const int64_t counts[] = {o->forward_flops, o->backward_flops, o->weight_flops,
				  o->stash_floats,  o->n_parameters,   o->width};
	const int64_t costs[READS - COSTS] = {
		o->forward_ns,  o->backward_ns,     o->weight_ns, o->activation_bytes,
		o->stash_bytes, o->parameter_bytes, o->update_ns};

	for (int i = 0; i < 6; i++)
		if (!add(&sums[COUNTS], counts[i]))
			return false;
	for (int i = 0; i < READS - COSTS; i++)
		if (!add(&sums[COSTS + i], costs[i]))
			return false;
	for (int i = 0; o->reads && i < o->n_inputs; i++)
		if (!add(&sums[READS], o->reads[i].bytes) ||
		    !add(&sums[READS], o->reads[i].gradient_bytes))
			return false;
	return true;
}

int orr_graph_check_sums(const struct orr_graph *g, struct orr_error *err)
{
	int64_t sums[N_SUMS] = {0};

	for (int i = 0; i < g->n_operators; i++)
		if (!adds_up(&g->operators[i], sums))
			return orr_operator_fail(g->name, &g->operators[i], err,
						 "the costs of the graph add up to more than 2^60 "
						 "up to here: make it smaller");
	if (g->overhead_ns > SUM_MOST / g->n_operators)
		return orr_fail(
			err, ORR_E_INPUT,
			"%s: overhead: that of all operators is more than 2^60 ns: make it smaller",
			g->name);
	return 0;
}

/* A model that computes ends in losses, and only there; a study has no such rules. */
static int check_ends(const struct orr_graph *g, const int *n_readers, struct orr_error *err)
{
	bool study = orr_graph_is_study(g), loss = false;

	for (int i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if (orr_operator_is_study(o) != study)
			return orr_operator_fail(
				g->name, o, err,
				study ? "computes, and other operators have costs only: give every "
					"operator an op, or none"
				      : "has costs only, and other operators compute: give every "
					"operator an op, or none");
	}
	for (int i = 0; i < g->n_operators && !study; i++) {
		const struct orr_operator *o = &g->operators[i];

		loss = loss || orr_operator_is_loss(o) ||
		       (o->instance->op->opaque && n_readers[i] == 0);
		if (orr_operator_is_loss(o) && n_readers[i] > 0)
			return orr_operator_fail(
				g->name, o, err,
				"a loss ends the model: take the edges out of it away");
		if (!orr_operator_is_loss(o) && !o->instance->op->opaque && n_readers[i] == 0)
			return orr_operator_fail(
				g->name, o, err,
				"nothing reads it: add an edge to what should, or take it away (a "
				"model ends in a loss, such as mse)");
	}
	if (!study && !loss)
		return orr_fail(err, ORR_E_INPUT,
				"%s: no loss: end the model in a loss, such as mse", g->name);
	return 0;
}

int orr_graph_infer(struct orr_graph *g, struct orr_error *err)
{
	size_t n = (size_t)g->n_operators;
	struct orr_arrays all = {0};
	int *n_readers = orr_arrays_add(&all, n, sizeof(*n_readers));
	const char **names = orr_arrays_add(&all, n, sizeof(*names));
	int code = orr_arrays_check(&all, g->name, err);

	for (int i = 0; i < g->n_operators && !code; i++)
		for (int k = 0; k < g->operators[i].n_inputs; k++)
			n_readers[g->operators[i].inputs[k]]++;
	if (!code)
		code = check_ends(g, n_readers, err);
	for (int i = 0; i < g->n_operators && !code; i++)
		code = infer(g, &g->operators[i], names, err);
	if (!code)
		code = orr_graph_check_sums(g, err);
	orr_arrays_free(&all);
	return code;
}
