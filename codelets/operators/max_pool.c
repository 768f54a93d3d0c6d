/* max_pool: of each channel the largest that the window sees. It keeps which pixel that is. */
#include "list.h"
#include "pool.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	if (!orr_pool_infer(is, inputs, text, size))
		return false;
	is->saved = orr_shape_floats(is->output);
	is->backward_flops = is->saved;
	return true;
}

static void forward(const struct orr_call *c)
{
	struct orr_window w = orr_pool_window(c->is);

	c->kernels->images->max_pool_forward(c->device, c->n, &w, orr_call_input(c, 0),
					     orr_call_output(c), orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_window w = orr_pool_window(c->is);

	c->kernels->images->max_pool_backward(c->device, c->n, &w, orr_call_saved(c),
					      orr_call_gradient(c), orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_max_pool = {
	.name = "max_pool",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = orr_pool_attributes,
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
