/* softmax: each row to exponentials, over their sum. */
#include "list.h"

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	(void)inputs, (void)text, (void)size;
	is->output = is->inputs[0];
	/* maximum, difference, exp, sum and quotient */
	orr_instance_count(is, 5, 4, 0);
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->sequence->softmax_forward(c->device, orr_call_rows(c, 0), c->is->output.columns,
					      orr_call_input(c, 0), orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->sequence->softmax_input(c->device, orr_call_rows(c, 0), c->is->output.columns,
					    orr_call_output(c), orr_call_gradient(c),
					    orr_call_input_gradient(c, 0));
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1, .inputs = {ORR_SHARDING_ROWS}, .output = ORR_SHARDING_ROWS},
	{.n_inputs = 1, .inputs = {ORR_SHARDING_COPIED}, .output = ORR_SHARDING_COPIED},
};

const struct orr_op orr_op_softmax = {
	.name = "softmax",
	.least_inputs = 1,
	.most_inputs = 1,
	.backward_reads = ORR_READS_OUTPUT,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.divisions = divisions,
	.n_divisions = sizeof(divisions) / sizeof(*divisions),
};
