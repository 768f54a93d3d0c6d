/* mse: the mean of the squared differences of prediction and target. It keeps its gradient by the
 * prediction; that by the target has the other sign. */
#include "list.h"

enum { WEIGHT };
static const struct orr_attribute attributes[] = {
	[WEIGHT] = ORR_LOSS_WEIGHT,
	{0},
};

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	is->output = (struct orr_shape){1, 1};
	is->saved = orr_shape_floats(is->inputs[0]);
	orr_instance_count(is, 3, 2, 0);
	return orr_instance_alike(is, inputs, text, size);
}

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
	.least_inputs = 2,
	.most_inputs = 2,
	.inputs = "first the prediction and then the target",
	.attributes = attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
