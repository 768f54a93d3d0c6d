/* layernorm: each row to mean 0 and variance 1, times gain, plus bias. It keeps the rows before
 * gain and bias, and a factor for each row. */
#include "list.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	int64_t columns = is->inputs[0].columns;

	(void)inputs, (void)text, (void)size;
	is->output = is->inputs[0];
	orr_instance_add(is, orr_parameter_vector("gain", columns, 1));
	orr_instance_add(is, orr_parameter_vector("bias", columns, 0));
	is->saved = orr_shape_floats(is->output) + is->output.rows;
	/* mean 1, variance 3, normalise 2, gain and bias 2 */
	orr_instance_count(is, 8, 9, 3);
	return true;
}

static void forward(const struct orr_call *c)
{
	int64_t columns = c->is->output.columns;

	c->kernels->layernorm_forward(c->device, orr_call_rows(c, 0), columns, orr_call_input(c, 0),
				      c->parameters, c->parameters + columns, orr_call_output(c),
				      orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->layernorm_input(c->device, orr_call_rows(c, 0), c->is->output.columns,
				    orr_call_saved(c), c->parameters, orr_call_gradient(c),
				    orr_call_input_gradient(c, 0));
}

static void weight(const struct orr_call *c, float *gradient, float *apart)
{
	int64_t columns = c->is->output.columns;

	c->kernels->layernorm_weight(c->device, orr_call_rows(c, 0), columns, orr_call_saved(c),
				     orr_call_gradient(c), apart, gradient, gradient + columns);
}

const struct orr_op orr_op_layernorm = {
	.name = "layernorm",
	.least_inputs = 1,
	.most_inputs = 1,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.weight = weight,
};
