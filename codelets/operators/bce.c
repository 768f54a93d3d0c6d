/* bce: binary cross-entropy of scores, whose probabilities are 1 / (1 + exp(-score)), and targets
 * from 0 to 1, the mean over a sample. It keeps the gradient of its scores; that of the targets is
 * the scores with the other sign. */
#include "list.h"

static void forward(const struct orr_call *c)
{
	c->kernels->losses->bce(c->device, c->n, orr_shape_floats(c->is->inputs[0]),
				orr_call_input(c, 0), orr_call_input(c, 1), orr_call_saved(c),
				c->metrics);
}

static void backward(const struct orr_call *c)
{
	float width = (float)orr_shape_floats(c->is->inputs[0]);

	orr_call_scale_gradient(c, 0, c->loss_scale, orr_call_saved(c));
	if (orr_call_input_gradient(c, 1))
		orr_call_scale_gradient(c, 1, -c->loss_scale / width, orr_call_input(c, 0));
}

const struct orr_op orr_op_bce = {
	.name = "bce",
	.loss = true,
	ORR_READS(2, 2),
	.inputs = "first the scores and then the target",
	.attributes = orr_loss_attributes,
	.backward_reads = ORR_READS_INPUTS,
	.alike = true,
	.slope_saved = true,
	.flops = {8, 1},
	.forward = forward,
	.backward = backward,
};
