/* layernorm: each row to mean 0 and variance 1, times gain, plus bias; rmsnorm: to a mean square of
 * 1, times gain. They keep the rows before gain and bias, and a factor for each row. */
#include "list.h"

enum { EPSILON };
static const struct orr_attribute attributes[] = {
	[EPSILON] = ORR_EPSILON(1e-5),
	{0},
};

static struct orr_norm sizes(const struct orr_call *c)
{
	return (struct orr_norm){.n = orr_call_rows(c, 0),
				 .width = c->is->output.columns,
				 .centred = c->is->op == &orr_op_layernorm,
				 .epsilon = c->is->values[EPSILON]};
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	orr_instance_add(is, orr_parameter_vector("gain", is->output.columns, 1));
	if (is->op == &orr_op_layernorm)
		orr_instance_add(is, orr_parameter_vector("bias", is->output.columns, 0));
	is->saved = orr_shape_floats(is->output) + is->output.rows;
	return true;
}

static void forward(const struct orr_call *c)
{
	struct orr_norm norm = sizes(c);

	c->kernels->norms->layernorm_forward(c->device, &norm, orr_call_input(c, 0), c->parameters,
					     c->parameters + norm.width, orr_call_output(c),
					     orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_norm norm = sizes(c);

	c->kernels->norms->layernorm_backward(
		c->device, &norm, orr_call_saved(c), c->parameters, orr_call_gradient(c), c->room,
		orr_call_input_gradient(c, 0), c->slope, c->slope ? c->slope + norm.width : NULL);
}

static const struct orr_division divisions[] = {
	{ORR_LIES(ORR_SHARDING_ROWS), .axes = {ORR_DIVISION_COPIED, ORR_DIVISION_COPIED}},
	{ORR_LIES(ORR_SHARDING_COPIED), .axes = {ORR_DIVISION_COPIED, ORR_DIVISION_COPIED}},
};

#define ORR_NORM(NAME, ...) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		.halves = true, \
		.mixes = true, \
		ORR_READS(1, 1), \
		.attributes = attributes, \
		.flops = {__VA_ARGS__}, \
		.infer = infer, \
		.forward = forward, \
		.backward = backward, \
		.apart = orr_instance_parameter_floats, \
		ORR_DIVIDED(divisions), \
	};
ORR_NORM(layernorm, 8, 9, 3) /* mean 1, variance 3, normalise 2, gain and bias 2 */
ORR_NORM(rmsnorm, 4, 7, 2)   /* squares 2, normalise 1, gain 1 */
