/* batchnorm: each column, over all rows of a microbatch, to mean 0 and variance 1, times gain, plus
 * bias; in evaluation by the running means of mean and variance, which are parameters. It keeps
 * the columns' means and variances, from which its passes find the rows again. */
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

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	int64_t columns = is->inputs[0].columns;

	orr_instance_add(is, orr_parameter_vector("gain", columns, 1));
	orr_instance_add(is, orr_parameter_vector("bias", columns, 0));
	orr_instance_add(is, running(is, "mean", 0));
	orr_instance_add(is, running(is, "variance", 1));
	is->saved = 2 * columns;
	return true;
}

/* Behind what kernels need there is room for the gradients of gains and biases. */
static size_t kernel_bytes(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	int64_t columns = is->inputs[0].columns;
	size_t bytes =
		d->kernels->workspace_bytes(d->precision, n * is->inputs[0].rows, columns, columns);

	return (bytes + 255) / 256 * 256;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	return kernel_bytes(is, d, n) + (size_t)(2 * is->inputs[0].columns) * sizeof(float);
}

/* Where it computes a relu, less than this becomes 0: in bfloat16, what is not rounded to -0. */
static float least_of(const struct orr_call *c)
{
	return !c->layer->relu ? -INFINITY : c->layer->output.half ? -0x1p-134f : 0.0f;
}

static void forward(const struct orr_call *c)
{
	int64_t columns = c->is->output.columns, rows = orr_call_rows(c, 0);
	const struct orr_column_norm_kernels *norms = c->kernels->column_norms;
	const float *x = orr_call_input(c, 0), *gain = c->parameters, *bias = gain + columns;
	const float *moments = bias + columns;

	if (!c->device->microbatch.evaluation) {
		moments = orr_call_saved(c);
		norms->batchnorm_moments(c->device, rows, columns, x, orr_call_saved(c));
	}
	norms->batchnorm(c->device, rows, columns, c->is->values[EPSILON], x, gain, bias, moments,
			 least_of(c), orr_call_output(c));
	/* what is kept is kept for each sample, and there is one mean for all of them */
	if (c->n > 1)
		c->kernels->elements->zero(c->device, (c->n - 1) * 2 * columns,
					   orr_call_saved(c) + 2 * columns);
}

/* Where the input's gradient was found before, what a relu lets through lies in the place of dy. In
 * place of a gradient the running means have the microbatch's mean and unbiased variance, times its
 * share of the minibatch, so that they add up to the mean over the minibatch. */
static void backward(const struct orr_call *c)
{
	int64_t columns = c->is->output.columns, rows = orr_call_rows(c, 0);
	const struct orr_column_norm_kernels *norms = c->kernels->column_norms;
	const float *x = orr_call_input(c, 0), *moments = orr_call_saved(c);
	float *dx = orr_call_input_gradient(c, 0), share = (float)c->n * c->share;
	const float *y = c->layer->relu && dx ? orr_call_output(c) : NULL;
	float *dy = orr_call_gradient(c);
	char *at = (char *)c->device->workspace + kernel_bytes(c->is, c->device, c->n);
	float *slopes = c->slope ? c->slope : (float *)(void *)at;
	double epsilon = c->is->values[EPSILON];
	double unbiased = rows > 1 ? (double)rows / (double)(rows - 1) : 1.0;

	norms->batchnorm_slopes(c->device, rows, columns, epsilon, x, moments, y, dy, slopes);
	if (dx)
		norms->batchnorm_input(c->device, rows, columns, epsilon, x, moments, c->parameters,
				       dy, slopes, dx);
	if (!c->slope)
		return;
	c->device->halves = false; /* these are no activations */
	c->kernels->elements->scale(c->device, columns, share, moments, slopes + 2 * columns);
	c->kernels->elements->scale(c->device, columns, (float)((double)share * unbiased),
				    moments + columns, slopes + 3 * columns);
}

const struct orr_op orr_op_batchnorm = {
	.name = "batchnorm",
	ORR_READS(1, 1),
	.halves = true,
	.takes_relu = true,
	.attributes = attributes,
	.backward_reads = ORR_READS_INPUTS,
	.weight_reads = ORR_READS_INPUTS,
	.flops = {8, 9, 3}, /* as layernorm */
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
};
