/* bce: binary cross-entropy of scores, whose probabilities are 1 / (1 + exp(-score)), and targets
 * from 0 to 1, the mean over a sample. It keeps the gradient of its scores; that of the targets is
 * the scores with the other sign. */
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
	orr_instance_count(is, 8, 1, 0);
	return orr_instance_alike(is, inputs, text, size);
}

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
	.least_inputs = 2,
	.most_inputs = 2,
	.inputs = "first the scores and then the target",
	.attributes = attributes,
	.backward_reads = ORR_READS_INPUTS,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
