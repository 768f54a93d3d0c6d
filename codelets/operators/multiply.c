/* multiply: the product of all inputs, element by element, from the first to the last. */
#include "list.h"

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	is->forward_flops = (is->n_inputs - 1) * orr_shape_floats(is->output);
	is->backward_flops = is->n_inputs * is->forward_flops;
	return true;
}

/* *product times input i, in y. */
static void times(const struct orr_call *c, const float **product, int i, float *y)
{
	c->kernels->elements->multiply(c->device, c->n * orr_shape_floats(c->is->output), *product,
				       orr_call_input(c, i), y);
	*product = y;
}

static void forward(const struct orr_call *c)
{
	const float *product = orr_call_input(c, 0);

	for (int i = 1; i < c->is->n_inputs; i++)
		times(c, &product, i, orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	for (int i = 0; i < c->is->n_inputs; i++) {
		const float *product = orr_call_gradient(c);
		float *dx = orr_call_input_gradient(c, i);

		for (int k = 0; k < c->is->n_inputs && dx; k++)
			if (k != i)
				times(c, &product, k, dx);
	}
}

const struct orr_op orr_op_multiply = {
	.name = "multiply",
	.least_inputs = 2,
	.backward_reads = ORR_READS_INPUTS,
	.alike = true,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
