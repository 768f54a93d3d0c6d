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
	c->kernels->mse(c->device, c->n, orr_shape_floats(c->is->inputs[0]), orr_call_input(c, 0),
			orr_call_input(c, 1), orr_call_saved(c), c->metrics);
}

static void backward(const struct orr_call *c)
{
	for (int i = 0; i < 2; i++) {
		float *dx = orr_call_input_gradient(c, i);

		if (dx)
			c->kernels->scale(c->device, c->n * orr_shape_floats(c->is->inputs[0]),
					  i ? -c->loss_scale : c->loss_scale, orr_call_saved(c),
					  dx);
	}
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
