/* mean_pool: of each channel the mean of what the window sees; pixels outside of the image are 0
 * and count. */
#include "list.h"
#include "pool.h"

static void forward(const struct orr_call *c)
{
	struct orr_window w = orr_pool_window(c->is);

	c->kernels->images->mean_pool_forward(c->device, c->n, &w, orr_call_input(c, 0),
					      orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	struct orr_window w = orr_pool_window(c->is);

	c->kernels->images->mean_pool_backward(c->device, c->n, &w, orr_call_gradient(c),
					       orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_mean_pool = {
	.name = "mean_pool",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = orr_pool_attributes,
	.infer = orr_pool_infer,
	.forward = forward,
	.backward = backward,
};
