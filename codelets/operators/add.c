/* add: the sum of all inputs, from the first to the last. */
#include "list.h"

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	is->forward_flops = (is->n_inputs - 1) * orr_shape_floats(is->output);
	return true;
}

static void forward(const struct orr_call *c)
{
	int64_t count = c->n * orr_shape_floats(c->is->output);
	const float *sum = orr_call_input(c, 0);
	float *y = orr_call_output(c);

	if (c->halves && c->layer->mixed) {
		int half = c->layer->ports[1].value.half;

		c->kernels->elements->sum_mixed(c->device, count, orr_call_input(c, !half),
						orr_call_input(c, half), y);
		return;
	}
	for (int i = 1; i < c->is->n_inputs; i++, sum = y)
		(c->layer->relu && i == c->is->n_inputs - 1 ? c->kernels->elements->sum_relu
							    : c->kernels->elements->sum)(
			c->device, count, sum, orr_call_input(c, i), y);
}

static void backward(const struct orr_call *c)
{
	int64_t count = c->n * orr_shape_floats(c->is->output);
	const float *dy = orr_call_gradient(c);
	bool masked = !c->layer->relu;

	for (int i = 0; i < c->is->n_inputs; i++) {
		float *dx = orr_call_input_gradient(c, i);

		if (dx && c->halves && c->layer->mixed && c->layer->ports[i].value.half)
			c->kernels->elements->narrow(c->device, count, count, dy, false, dx);
		else if (dx && masked)
			c->kernels->elements->copy(c->device, count, dy, dx);
		else if (dx) { /* the others have a copy of what the relu lets through */
			c->kernels->elements->map_back(c->device, ORR_ELEMENTWISE_relu, count,
						       orr_call_output(c), dy, dx);
			masked = true;
			dy = dx;
		}
	}
}

const struct orr_op orr_op_add = {
	.name = "add",
	.halves = true,
	.mixes = true,
	.takes_relu = true,
	.least_inputs = 2,
	.alike = true,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
