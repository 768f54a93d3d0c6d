/* batchnorm: each column, over all rows of a microbatch, to mean 0 and variance 1, times gain, plus
 * bias; in evaluation by the running means of mean and variance, which are parameters. It keeps the
 * rows before gain and bias, and the columns' means and variances. */
#include "list.h"

enum { EPSILON, MOMENTUM };
static const struct orr_attribute attributes[] = {
	[EPSILON] = ORR_EPSILON(1e-5),
	[MOMENTUM] = ORR_REAL("momentum", 1e-6, 1, 0.1),
	{0},
};

static struct orr_parameter_tensor running(const struct orr_instance *is, const char *name,
					   double value)
{
	struct orr_parameter_tensor parameter =
		orr_parameter_vector(name, is->inputs[0].columns, value);

	parameter.role = ORR_ROLE_AVERAGED;
	parameter.momentum = is->values[MOMENTUM];
	return parameter;
}

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	int64_t columns = is->inputs[0].columns;

	orr_instance_add(is, orr_parameter_vector("gain", columns, 1));
	orr_instance_add(is, orr_parameter_vector("bias", columns, 0));
	orr_instance_add(is, running(is, "mean", 0));
	orr_instance_add(is, running(is, "variance", 1));
	is->saved = orr_shape_floats(is->output) + 2 * columns;
	return true;
}

/* What it keeps behind the rows. */
static float *moments_of(const struct orr_call *c)
{
	return orr_call_saved(c) + c->n * orr_shape_floats(c->is->output);
}

static void forward(const struct orr_call *c)
{
	int64_t columns = c->is->output.columns, rows = orr_call_rows(c, 0);
	const float *gain = c->parameters, *bias = gain + columns;
	double epsilon = c->is->values[EPSILON];

	if (c->device->microbatch.evaluation)
		c->kernels->column_norms->batchnorm_evaluate(c->device, rows, columns, epsilon,
							     orr_call_input(c, 0), gain, bias,
							     bias + columns, orr_call_output(c));
	else
		c->kernels->column_norms->batchnorm_forward(
			c->device, rows, columns, epsilon, orr_call_input(c, 0), gain, bias,
			orr_call_output(c), orr_call_saved(c), moments_of(c));
	/* what is kept is kept for each sample, and there is one mean for all of them */
	if (c->n > 1)
		c->kernels->elements->zero(c->device, (c->n - 1) * 2 * columns,
					   moments_of(c) + 2 * columns);
}

static void backward(const struct orr_call *c)
{
	c->kernels->column_norms->batchnorm_input(
		c->device, orr_call_rows(c, 0), c->is->output.columns, c->is->values[EPSILON],
		orr_call_saved(c), moments_of(c), c->parameters, orr_call_gradient(c),
		orr_call_input_gradient(c, 0));
}

/* In place of a gradient the running means have the microbatch's mean and unbiased variance, times
 * its share of the minibatch, so that they add up to the mean over the minibatch. */
static void weight(const struct orr_call *c, float *gradient, float *apart)
{
	int64_t columns = c->is->output.columns, rows = orr_call_rows(c, 0);
	struct orr_norm norm = {rows, columns, true, 0};
	float *to = (apart ? apart : gradient) + 2 * columns, share = (float)c->n * c->share;
	const float *moments = moments_of(c);
	double unbiased = rows > 1 ? (double)rows / (double)(rows - 1) : 1.0;

	c->kernels->norms->layernorm_weight(c->device, &norm, orr_call_saved(c),
					    orr_call_gradient(c), apart, gradient,
					    gradient + columns);
	c->kernels->elements->scale(c->device, columns, share, moments, to);
	c->kernels->elements->scale(c->device, columns, (float)((double)share * unbiased),
				    moments + columns, to + columns);
	if (apart)
		c->kernels->elements->sum(c->device, 2 * columns, gradient + 2 * columns, to,
					  gradient + 2 * columns);
}

const struct orr_op orr_op_batchnorm = {
	.name = "batchnorm",
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {8, 9, 3}, /* as layernorm */
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.weight = weight,
};
