/* softmax: each row to exponentials, over their sum. */
#include "list.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	is->output = is->inputs[0];
	/* maximum, difference, exp, sum and quotient */
	orr_instance_count(is, 5, 4, 0);
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->rows->softmax_forward(c->device, orr_call_rows(c, 0), c->is->output.columns,
					  orr_call_input(c, 0), orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->rows->softmax_input(c->device, orr_call_rows(c, 0), c->is->output.columns,
					orr_call_output(c), orr_call_gradient(c),
					orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_softmax = {
	.name = "softmax",
	.least_inputs = 1,
	.most_inputs = 1,
	.backward_reads = ORR_READS_OUTPUT,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_rows),
};
