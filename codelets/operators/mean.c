/* mean: of each sample's rows. */
#include "list.h"

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	is->output = (struct orr_shape){1, is->inputs[0].columns};
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->sequence->mean_forward(c->device, c->n, c->is->inputs[0].rows,
					   c->is->output.columns, orr_call_input(c, 0),
					   orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->sequence->mean_input(c->device, c->n, c->is->inputs[0].rows,
					 c->is->output.columns, orr_call_gradient(c),
					 orr_call_input_gradient(c, 0));
}

static const struct orr_division divisions[] = {
	{ORR_LIES(ORR_SHARDING_COLUMNS)},
	{ORR_LIES(ORR_SHARDING_COPIED)},
};

const struct orr_op orr_op_mean = {
	.name = "mean",
	ORR_READS(1, 1),
	.flops = {1, 1},
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(divisions),
};
