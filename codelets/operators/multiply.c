/* multiply: the product of all inputs, element by element, from the first to the last. */
#include "list.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	is->output = is->inputs[0];
	orr_instance_count(is, is->n_inputs - 1, is->n_inputs * (is->n_inputs - 1), 0);
	return orr_instance_alike(is, inputs, text, size);
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
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
