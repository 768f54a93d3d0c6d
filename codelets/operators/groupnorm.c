/* groupnorm: each group of columns of each sample, over all of its rows, to mean 0 and variance 1,
 * times gain, plus bias. It keeps the rows before gain and bias, and a factor for each group. */
#include "../shapes.h"
#include "list.h"

enum { GROUPS, EPSILON };
static const struct orr_attribute attributes[] = {
	[GROUPS] = ORR_NEEDED("groups", ORR_MOST_COLUMNS,
			      "into how many groups its columns are divided, groups=8"),
	[EPSILON] = ORR_EPSILON(1e-5),
	{0},
};

static struct orr_norm_groups groups_of(const struct orr_instance *is)
{
	return (struct orr_norm_groups){is->inputs[0].rows, is->inputs[0].columns,
					(int64_t)is->values[GROUPS], is->values[EPSILON]};
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	struct orr_norm_groups g = groups_of(is);

	if (g.width % g.groups)
		return orr_refuse(why,
				  "groupnorm: groups=%lld must divide the %lld columns of %.60s",
				  (long long)g.groups, (long long)g.width, why->inputs[0]);
	orr_instance_add(is, orr_parameter_vector("gain", g.width, 1));
	orr_instance_add(is, orr_parameter_vector("bias", g.width, 0));
	is->saved = g.rows * g.width + g.groups;
	return true;
}

static void forward(const struct orr_call *c)
{
	struct orr_norm_groups g = groups_of(c->is);

	c->kernels->column_norms->groupnorm_forward(c->device, c->n, &g, orr_call_input(c, 0),
						    c->parameters, c->parameters + g.width,
						    orr_call_output(c), orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_norm_groups g = groups_of(c->is);
	const struct orr_norm rows = {orr_call_rows(c, 0), g.width, true, 0};
	float *dx = orr_call_input_gradient(c, 0);

	if (dx)
		c->kernels->column_norms->groupnorm_input(c->device, c->n, &g, orr_call_saved(c),
							  c->parameters, orr_call_gradient(c), dx);
	if (c->slope)
		c->kernels->norms->layernorm_backward(c->device, &rows, orr_call_saved(c), NULL,
						      orr_call_gradient(c), c->room, NULL, c->slope,
						      c->slope + g.width);
}

const struct orr_op orr_op_groupnorm = {
	.name = "groupnorm",
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {8, 9, 3}, /* as layernorm */
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.apart = orr_instance_parameter_floats,
};
