/* linear: y = x w^T + bias, or without it, each row of x for itself; w is [features][columns of x].
 */
#include <math.h>

#include "list.h"

enum { FEATURES, BIAS };
static const struct orr_attribute attributes[] = {
	[FEATURES] = ORR_NEEDED("features", ORR_MOST_COLUMNS,
				"how many columns its output has, features=128 (width is how wide "
				"Graphviz draws the box)"),
	[BIAS] = {.name = "bias", .form = ORR_ATTRIBUTE_TRUTH, .otherwise = 1},
	{0},
};

int64_t orr_linear_rounded(int64_t in, int64_t out, bool bias)
{
	return out * orr_rounded_columns(in) + (bias ? orr_rounded_columns(out) : 0);
}

/* Uniform in +-sqrt(6 / width of the input): keeps the variance through a relu (He 2015). */
static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t in = is->inputs[0].columns, out = (int64_t)is->values[FEATURES];
	int64_t products = 2 * is->inputs[0].rows * in * out;

	is->output = (struct orr_shape){is->inputs[0].rows, out};
	orr_instance_add(is, (struct orr_parameter_tensor){.name = "weight",
							   .initial = ORR_INITIAL_UNIFORM,
							   .value = sqrt(6.0 / (double)in),
							   .n_dims = 2,
							   .dims = {out, in}});
	if (is->values[BIAS] > 0)
		orr_instance_add(is, orr_parameter_vector("bias", out, 0));
	is->rounded = orr_linear_rounded(in, out, is->values[BIAS] > 0);
	is->forward_flops = is->backward_flops = is->weight_flops = products;
	return true;
}

static bool has_bias(const struct orr_call *c)
{
	return c->is->values[BIAS] > 0;
}

static void forward(const struct orr_call *c)
{
	int64_t in = c->is->inputs[0].columns, out = c->is->output.columns;

	c->kernels->linear->forward(
		c->device, orr_call_rows(c, 0), in, out, orr_call_input(c, 0), c->parameters,
		c->rounded, has_bias(c) ? c->parameters + in * out : NULL, orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	int64_t n = orr_call_rows(c, 0), in = c->is->inputs[0].columns, out = c->is->output.columns;
	float *dx = orr_call_input_gradient(c, 0);

	if (dx)
		c->kernels->linear->input(c->device, n, in, out, orr_call_gradient(c),
					  c->parameters, c->rounded, dx);
	if (c->slope)
		c->kernels->linear->weight(c->device, n, in, out, orr_call_input(c, 0),
					   orr_call_gradient(c), c->room, c->slope,
					   has_bias(c) ? c->slope + in * out : NULL);
}

static int64_t apart(const struct orr_instance *is)
{
	int64_t in = is->inputs[0].columns, out = is->output.columns;
	int64_t slice = orr_slice_rows(true, in, out) * in; /* the largest of any precision */

	return slice > out ? slice : out;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	return d->kernels->workspace_bytes(d->precision, n * is->inputs[0].rows,
					   is->inputs[0].columns, is->output.columns);
}

/* The bias is for products that write bfloat16. */
int orr_linear_round(const struct orr_instance *is, const float *parameters, uint16_t *to,
		     struct orr_rounding *pieces)
{
	int64_t in = is->inputs[0].columns, out = is->output.columns;

	pieces[0] = (struct orr_rounding){parameters, to, out, in};
	pieces[1] = (struct orr_rounding){parameters + in * out, to + out * orr_rounded_columns(in),
					  1, out};
	return is->rounded ? is->n_parameters : 0;
}

static void prepare(const struct orr_instance *is, struct orr_device *d, int64_t n)
{
	if (d->kernels->linear->prepare)
		d->kernels->linear->prepare(d, n * is->inputs[0].rows, is->inputs[0].columns,
					    is->output.columns, is->values[BIAS] > 0);
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1,
	 .inputs = {ORR_SHARDING_COLUMNS},
	 .output = ORR_SHARDING_SUM,
	 .axes = {1, ORR_DIVISION_FIRST},
	 .once = "bias"},
	{.n_inputs = 1,
	 .inputs = {ORR_SHARDING_COPIED},
	 .output = ORR_SHARDING_COLUMNS,
	 .divided = {"features"}},
};

const struct orr_op orr_op_linear = {
	.name = "linear",
	.kept = ORR_OUTPUT_HALF,
	.halves = true,
	ORR_READS(1, 1),
	.attributes = attributes,
	.weight_reads = ORR_READS_INPUTS,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.apart = apart,
	.workspace = workspace,
	.round = orr_linear_round,
	.prepare = prepare,
	ORR_DIVIDED(divisions),
};
