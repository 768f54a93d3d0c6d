/* batchnorm: each column, over all rows of a microbatch, to mean 0 and variance 1, times gain, plus
 * bias; in evaluation by the running means of mean and variance, which are parameters. groupnorm:
 * each group of columns of each sample, over all of its rows. They keep means and variances, a
 * column's each, from which their passes find the rows again. */
#include "../shapes.h"
#include "list.h"

enum { EPSILON, MOMENTUM };
static const struct orr_attribute attributes[] = {
	[EPSILON] = ORR_EPSILON(1e-5),
	[MOMENTUM] = ORR_REAL("momentum", 1e-6, 1, 0.1),
	{0},
};

enum { GROUPS, GROUP_EPSILON };
static const struct orr_attribute group_attributes[] = {
	[GROUPS] = ORR_NEEDED("groups", ORR_MOST_COLUMNS,
			      "into how many groups its columns are divided, groups=8"),
	[GROUP_EPSILON] = ORR_EPSILON(1e-5),
	{0},
};

static bool is_batch(const struct orr_instance *is)
{
	return is->op == &orr_op_batchnorm;
}

/* As kernels are told: a batch is one sample. */
struct shape {
	int64_t n;
	struct orr_norm_groups groups;
};

static struct shape shape_of(const struct orr_instance *is, int64_t n)
{
	int64_t rows = is->inputs[0].rows, width = is->inputs[0].columns;
	const double *v = is->values;

	if (is_batch(is))
		return (struct shape){1, {n * rows, width, width, v[EPSILON]}};
	return (struct shape){n, {rows, width, (int64_t)v[GROUPS], v[GROUP_EPSILON]}};
}

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
	const struct orr_norm_groups g = shape_of(is, 1).groups;

	if (g.width % g.groups)
		return orr_refuse(why,
				  "groupnorm: groups=%lld must divide the %lld columns of %.60s",
				  (long long)g.groups, (long long)g.width, why->inputs[0]);
	orr_instance_add(is, orr_parameter_vector("gain", g.width, 1));
	orr_instance_add(is, orr_parameter_vector("bias", g.width, 0));
	if (is_batch(is)) {
		orr_instance_add(is, running(is, "mean", 0));
		orr_instance_add(is, running(is, "variance", 1));
	}
	is->saved = 2 * g.width;
	return true;
}

/* Behind what kernels need there is room for slopes, and for their sums over groups. */
static size_t kernel_bytes(const struct orr_device *d, const struct shape *s)
{
	return (d->kernels->column_norms->bytes(s->n, &s->groups) + 255) / 256 * 256;
}

static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	const struct shape s = shape_of(is, n);

	return kernel_bytes(d, &s) + (size_t)(4 * s.n * s.groups.width) * sizeof(float);
}

/* Where it computes a relu, less than this becomes 0: in bfloat16, what is not rounded to -0. */
static float least_of(const struct orr_call *c)
{
	return !c->layer->relu ? -INFINITY : c->layer->output.half ? -0x1p-134f : 0.0f;
}

static void forward(const struct orr_call *c)
{
	const struct orr_column_norm_kernels *norms = c->kernels->column_norms;
	const struct shape s = shape_of(c->is, c->n);
	int64_t width = s.groups.width;
	const float *x = orr_call_input(c, 0), *gain = c->parameters, *bias = gain + width;
	const float *moments = bias + width;

	if (!is_batch(c->is) || !c->device->microbatch.evaluation) {
		moments = orr_call_saved(c);
		norms->moments(c->device, s.n, &s.groups, x, orr_call_saved(c));
	}
	norms->normalise(c->device, s.n, &s.groups, x, gain, bias, moments, least_of(c),
			 orr_call_output(c));
	/* what is kept is kept for each sample, and of a batch there is one mean for all of them */
	if (c->n > s.n)
		c->kernels->elements->zero(c->device, (c->n - s.n) * 2 * width,
					   orr_call_saved(c) + s.n * 2 * width);
}

/* Where the input's gradient was found before, what a relu lets through lies in the place of dy. In
 * place of a gradient the running means have the microbatch's mean and unbiased variance, times its
 * share of the minibatch, so that they add up to the mean over the minibatch. */
static void backward(const struct orr_call *c)
{
	const struct orr_column_norm_kernels *norms = c->kernels->column_norms;
	const struct shape s = shape_of(c->is, c->n);
	int64_t width = s.groups.width, rows = s.groups.rows;
	const float *x = orr_call_input(c, 0), *moments = orr_call_saved(c);
	float *dx = orr_call_input_gradient(c, 0), share = (float)c->n * c->share;
	const float *y = c->layer->relu && dx ? orr_call_output(c) : NULL;
	float *dy = orr_call_gradient(c);
	char *at = (char *)c->device->workspace + kernel_bytes(c->device, &s);
	float *room = (float *)(void *)at, *sums = room + 2 * s.n * width;
	float *slopes = is_batch(c->is) && c->slope ? c->slope : room;
	double unbiased = rows > 1 ? (double)rows / (double)(rows - 1) : 1.0;

	norms->slopes(c->device, s.n, &s.groups, x, moments, y, dy, slopes);
	if (dx && !is_batch(c->is))
		norms->join(c->device, s.n, &s.groups, c->parameters, slopes, sums);
	if (dx)
		norms->input(c->device, s.n, &s.groups, x, moments, c->parameters, dy,
			     is_batch(c->is) ? slopes : sums, dx);
	if (!c->slope)
		return;
	c->device->halves = false; /* these are no activations */
	if (!is_batch(c->is)) {
		c->kernels->sequence->sum_rows(c->device, s.n, 2 * width, slopes, NULL, c->slope);
		return;
	}
	c->kernels->elements->scale(c->device, width, share, moments, slopes + 2 * width);
	c->kernels->elements->scale(c->device, width, (float)((double)share * unbiased),
				    moments + width, slopes + 3 * width);
}

#define ORR_COLUMN_NORM(NAME, ...) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		ORR_READS(1, 1), \
		.backward_reads = ORR_READS_INPUTS, \
		.weight_reads = ORR_READS_INPUTS, \
		.flops = {8, 9, 3}, /* as layernorm */ \
		.infer = infer, \
		.forward = forward, \
		.backward = backward, \
		.workspace = workspace, \
		__VA_ARGS__, \
	};
ORR_COLUMN_NORM(batchnorm, .attributes = attributes, .halves = true, .takes_relu = true)
ORR_COLUMN_NORM(groupnorm, .attributes = group_attributes)
