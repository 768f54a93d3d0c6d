/* scale: every element times a factor. */
#include "list.h"

enum { FACTOR };
static const struct orr_attribute attributes[] = {
	[FACTOR] = {.name = "factor",
		    .form = ORR_ATTRIBUTE_REAL,
		    .least = -1e9,
		    .most = 1e9,
		    .otherwise = 1},
	{0},
};

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	is->output = is->inputs[0];
	orr_instance_count(is, 1, 1, 0);
	return true;
}

static void times(const struct orr_call *c, const float *x, float *y)
{
	c->kernels->elements->scale(c->device, c->n * orr_shape_floats(c->is->output),
				    (float)c->is->values[FACTOR], x, y);
}

static void forward(const struct orr_call *c)
{
	times(c, orr_call_input(c, 0), orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	times(c, orr_call_gradient(c), orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_scale = {
	.name = "scale",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
