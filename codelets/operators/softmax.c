/* softmax: each row to exponentials, over their sum. */
#include "list.h"

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
	ORR_READS(1, 1),
	.backward_reads = ORR_READS_OUTPUT,
	.flops = {5, 4}, /* maximum, difference, exp, sum and quotient */
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_rows),
};
