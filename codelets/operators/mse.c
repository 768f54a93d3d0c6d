/* mse: the mean of the squared differences of prediction and target. bce: binary cross-entropy of
 * scores, whose probabilities are 1 / (1 + exp(-score)), and targets from 0 to 1, the mean over a
 * sample. They keep the gradient of their first input. That of mse's target has the other sign;
 * that of bce's is the scores with the other sign. */
#include "list.h"

static bool is_mse(const struct orr_call *c)
{
	return c->is->op == &orr_op_mse;
}

static void forward(const struct orr_call *c)
{
	const struct orr_loss_kernels *losses = c->kernels->losses;

	(is_mse(c) ? losses->mse : losses->bce)(c->device, c->n, orr_shape_floats(c->is->inputs[0]),
						orr_call_input(c, 0), orr_call_input(c, 1),
						orr_call_saved(c), c->metrics);
}

static void backward(const struct orr_call *c)
{
	float width = (float)orr_shape_floats(c->is->inputs[0]);

	orr_call_scale_gradient(c, 0, c->loss_scale, orr_call_saved(c));
	if (is_mse(c))
		orr_call_scale_gradient(c, 1, -c->loss_scale, orr_call_saved(c));
	else if (orr_call_input_gradient(c, 1))
		orr_call_scale_gradient(c, 1, -c->loss_scale / width, orr_call_input(c, 0));
}

#define ORR_MEAN_LOSS(NAME, INPUTS, ...) \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		.loss = true, \
		ORR_READS(2, 2), \
		.inputs = (INPUTS), \
		.attributes = orr_loss_attributes, \
		.alike = true, \
		.slope_saved = true, \
		.forward = forward, \
		.backward = backward, \
		__VA_ARGS__, \
	};
ORR_MEAN_LOSS(mse, "first the prediction and then the target", .flops = {3, 2})
ORR_MEAN_LOSS(bce, "first the scores and then the target", .flops = {8, 1},
	      .backward_reads = ORR_READS_INPUTS)
