/* mse: the mean of the squared differences of prediction and target. It keeps its gradient by the
 * prediction; that by the target has the other sign. */
#include "list.h"

static void forward(const struct orr_call *c)
{
	c->kernels->losses->mse(c->device, c->n, orr_shape_floats(c->is->inputs[0]),
				orr_call_input(c, 0), orr_call_input(c, 1), orr_call_saved(c),
				c->metrics);
}

static void backward(const struct orr_call *c)
{
	orr_call_scale_gradient(c, 0, c->loss_scale, orr_call_saved(c));
	orr_call_scale_gradient(c, 1, -c->loss_scale, orr_call_saved(c));
}

const struct orr_op orr_op_mse = {
	.name = "mse",
	.loss = true,
	ORR_READS(2, 2),
	.inputs = "first the prediction and then the target",
	.attributes = orr_loss_attributes,
	.alike = true,
	.slope_saved = true,
	.flops = {3, 2},
	.forward = forward,
	.backward = backward,
};
