/* Shapes, inferred from the operators and checked along every edge, and what follows from them: the
 * parameters, the floating-point operations and the stash of every operator, per sample.
 *
 * Operations of the elementwise kinds are counted per float of the output, every arithmetic
 * operation and every exp, tanh or root as one. They are small beside a matrix product; what counts
 * is that they are counted. */
#include "draft.h"

#include <stdlib.h>

#define SUM_MOST (INT64_C(1) << 60) /* of anything over a graph: leaves room for microbatches */

struct kind {
	int least_inputs, most_inputs; /* most 0: no limit */
	bool same_widths;              /* every input is as wide as the first */
	bool loss;
	int forward, backward, weight; /* operations per float */
	int stash;                     /* floats per float of the output */
	int stash_more;                /* and this number per sample */
};

static const struct kind kinds[ORR_N_OPS] = {
	[ORR_OP_COST] = {0, 0, false, false, 0, 0, 0, 0, 0},
	[ORR_OP_INPUT] = {0, 0, false, false, 1, 0, 0, 0, 0},  /* the scale */
	[ORR_OP_LINEAR] = {1, 1, false, false, 0, 0, 0, 0, 0}, /* see infer_linear() */
	[ORR_OP_RELU] = {1, 1, false, false, 1, 1, 0, 1, 0},
	[ORR_OP_GELU] = {1, 1, false, false, 8, 16, 0, 1, 0},
	/* mean 1, variance 3, normalise 2, gain and bias 2; keeps what it normalised and
	   1/deviation */
	[ORR_OP_LAYERNORM] = {1, 1, false, false, 8, 9, 3, 1, 1},
	[ORR_OP_ADD] = {2, 0, true, false, 1, 0, 0, 0, 0}, /* for each input after the first */
	[ORR_OP_CONCAT] = {2, 0, false, false, 0, 0, 0, 0, 0},
	/* per score; maximum, difference, exp, sum and quotient; keeps the probabilities and the
	   class */
	[ORR_OP_SOFTMAX_CROSS_ENTROPY] = {2, 2, false, true, 5, 2, 0, 1, 1},
	[ORR_OP_MSE] = {2, 2, true, true, 3, 2, 0, 1, 0}, /* per column of the prediction */
};

static int fail_at(const struct orr_graph *g, const struct orr_operator *o, struct orr_error *err,
		   const char *text)
{
	char place[256];

	return orr_fail(err, ORR_E_INPUT, "%s: %s",
			orr_location(place, sizeof(place), g->name, o->line, o->name), text);
}

static int check_n_inputs(const struct orr_graph *g, const struct orr_operator *o,
			  struct orr_error *err)
{
	const struct kind *kind = &kinds[o->op];
	const char *name = orr_op_name(o->op);
	char text[160];

	if (o->op == ORR_OP_COST)
		return 0;
	if (o->op == ORR_OP_INPUT && o->n_inputs > 0)
		return fail_at(g, o, err, "an input reads the data: take the edges into it away");
	if (o->n_inputs < kind->least_inputs ||
	    (kind->most_inputs && o->n_inputs > kind->most_inputs)) {
		if (kind->loss)
			(void)snprintf(text, sizeof(text),
				       "%s reads 2 operators, first the %s, and there %s "
				       "%d: give it 2 edges",
				       name,
				       o->op == ORR_OP_MSE ? "prediction and then the target"
							   : "scores and then the class",
				       o->n_inputs == 1 ? "is" : "are", o->n_inputs);
		else
			(void)snprintf(text, sizeof(text), "%s reads %s, and there %s %d: %s", name,
				       kind->most_inputs == 1 ? "1 operator"
							      : "2 operators or more",
				       o->n_inputs == 1 ? "is" : "are", o->n_inputs,
				       kind->most_inputs == 1
					       ? "give it 1 edge (add or concat join several)"
					       : "give it more edges");
		return fail_at(g, o, err, text);
	}
	return 0;
}

static int check_widths(const struct orr_graph *g, const struct orr_operator *o,
			struct orr_error *err)
{
	char text[256];
	int i;

	for (i = 1; i < o->n_inputs && kinds[o->op].same_widths; i++) {
		const struct orr_operator *a = &g->operators[o->inputs[0]],
					  *b = &g->operators[o->inputs[i]];

		if (a->width == b->width)
			continue;
		(void)snprintf(text, sizeof(text),
			       "%s reads equal widths, and %.60s has %lld columns and "
			       "%.60s %lld: make them equal",
			       orr_op_name(o->op), a->name, (long long)a->width, b->name,
			       (long long)b->width);
		return fail_at(g, o, err, text);
	}
	if (o->op == ORR_OP_SOFTMAX_CROSS_ENTROPY) {
		const struct orr_operator *a = &g->operators[o->inputs[0]],
					  *b = &g->operators[o->inputs[1]];

		if (a->width >= 2 && b->width == 1)
			return 0;
		(void)snprintf(text, sizeof(text),
			       "softmax_cross_entropy reads 2 columns of scores or more "
			       "and 1 column of class numbers, in this order, and %.60s has %lld "
			       "and %.60s "
			       "%lld",
			       a->name, (long long)a->width, b->name, (long long)b->width);
		return fail_at(g, o, err, text);
	}
	return 0;
}

static void infer_linear(struct orr_operator *o, int64_t in)
{
	o->n_parameters = in * o->width + o->width;
	o->forward_flops = 2 * in * o->width;
	o->backward_flops = 2 * in * o->width;
	o->weight_flops = 2 * in * o->width;
	o->stash_floats = in;
}

/* Its inputs have their shapes. */
static int infer(const struct orr_graph *g, struct orr_operator *o, struct orr_error *err)
{
	const struct kind *kind = &kinds[o->op];
	int64_t in = 0; /* columns of the first input, or of all for concat */
	int i, code;

	if ((code = check_n_inputs(g, o, err)) || (code = check_widths(g, o, err)))
		return code;
	for (i = 0; i < (o->op == ORR_OP_CONCAT ? o->n_inputs : 1) && i < o->n_inputs; i++)
		in += g->operators[o->inputs[i]].width;
	if (in > ORR_MOST_COLUMNS)
		return fail_at(g, o, err, "more than 10000000 columns");
	if (o->op == ORR_OP_LINEAR) {
		infer_linear(o, in);
		return 0;
	}
	if (o->op == ORR_OP_INPUT)
		in = o->width;
	o->width = kind->loss ? 1 : in;
	o->n_parameters = o->op == ORR_OP_LAYERNORM ? 2 * in : 0;
	o->forward_flops = kind->forward * in * (o->op == ORR_OP_ADD ? o->n_inputs - 1 : 1);
	o->backward_flops = kind->backward * in;
	o->weight_flops = kind->weight * in;
	o->stash_floats = kind->stash * in + kind->stash_more;
	return 0;
}

#define N_COSTS 7

/* Add o's costs and sizes to *sum; -1, not given, counts as 0. */
static bool adds_up(const struct orr_operator *o, int64_t *sum)
{
	const int64_t *flops[] = {&o->forward_flops, &o->backward_flops, &o->weight_flops,
				  &o->stash_floats,  &o->n_parameters,   &o->width};
	const int64_t *costs[N_COSTS] = {&o->forward_ns,       &o->backward_ns, &o->weight_ns,
					 &o->activation_bytes, &o->stash_bytes, &o->parameter_bytes,
					 &o->update_ns};
	int i;

	for (i = 0; i < 6; i++)
		if ((sum[0] += *flops[i]) > SUM_MOST)
			return false;
	for (i = 0; i < N_COSTS; i++) {
		if (*costs[i] > SUM_MOST)
			return false;
		sum[i + 1] += *costs[i] > 0 ? *costs[i] : 0;
		if (sum[i + 1] > SUM_MOST)
			return false;
	}
	for (i = 0; o->reads && i < o->n_inputs; i++) {
		const struct orr_read *read = &o->reads[i];

		if (read->bytes > SUM_MOST || read->gradient_bytes > SUM_MOST)
			return false;
		sum[N_COSTS + 1] += read->bytes > 0 ? read->bytes : 0;
		sum[N_COSTS + 1] += read->gradient_bytes > 0 ? read->gradient_bytes : 0;
		if (sum[N_COSTS + 1] > SUM_MOST)
			return false;
	}
	return true;
}

int orr_graph_check_sums(const struct orr_graph *g, struct orr_error *err)
{
	int64_t sum[N_COSTS + 2] = {0};
	int i;

	for (i = 0; i < g->n_operators; i++)
		if (!adds_up(&g->operators[i], sum))
			return fail_at(g, &g->operators[i], err,
				       "the costs of the graph add up to more than "
				       "2^60 up to here: make it smaller");
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
	bool study = g->operators[0].op == ORR_OP_COST, loss = false;
	int i;

	for (i = 0; i < g->n_operators; i++) {
		const struct orr_operator *o = &g->operators[i];

		if ((o->op == ORR_OP_COST) != study)
			return fail_at(g, o, err,
				       study ? "computes, and other operators have costs only: "
					       "give every operator an op, or none"
					     : "has costs only, and other operators compute: give "
					       "every operator "
					       "an op, or none");
	}
	for (i = 0; i < g->n_operators && !study; i++) {
		const struct orr_operator *o = &g->operators[i];

		loss = loss || kinds[o->op].loss;
		if (kinds[o->op].loss && n_readers[i] > 0)
			return fail_at(g, o, err,
				       "a loss ends the model: take the edges out of it away");
		if (!kinds[o->op].loss && n_readers[i] == 0)
			return fail_at(g, o, err,
				       "nothing reads it: add an edge to what should, or take it "
				       "away (a model ends in softmax_cross_entropy or mse)");
	}
	if (!study && !loss)
		return orr_fail(err, ORR_E_INPUT,
				"%s: no loss: end the model in softmax_cross_entropy or mse",
				g->name);
	return 0;
}

int orr_graph_infer(struct orr_graph *g, struct orr_error *err)
{
	int *n_readers = calloc((size_t)g->n_operators, sizeof(*n_readers));
	int i, k, code = 0;

	if (!n_readers)
		return orr_fail(err, ORR_E_NOMEM, "%s: no memory for its shapes", g->name);
	for (i = 0; i < g->n_operators; i++)
		for (k = 0; k < g->operators[i].n_inputs; k++)
			n_readers[g->operators[i].inputs[k]]++;
	code = check_ends(g, n_readers, err);
	for (i = 0; i < g->n_operators && !code; i++)
		code = infer(g, &g->operators[i], err);
	if (!code)
		code = orr_graph_check_sums(g, err);
	free(n_readers);
	return code;
}
