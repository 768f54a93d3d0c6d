/* normalise: each row to length 1, by a factor that it keeps. */
#include "list.h"

enum { EPSILON };
static const struct orr_attribute attributes[] = {
	[EPSILON] = ORR_EPSILON(1e-12),
	{0},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	is->saved = is->output.rows;
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->rows->normalise_forward(c->device, orr_call_rows(c, 0), c->is->output.columns,
					    (float)c->is->values[EPSILON], orr_call_input(c, 0),
					    orr_call_output(c), orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->rows->normalise_input(c->device, orr_call_rows(c, 0), c->is->output.columns,
					  (float)c->is->values[EPSILON], orr_call_output(c),
					  orr_call_saved(c), orr_call_gradient(c),
					  orr_call_input_gradient(c, 0));
}

const struct orr_op orr_op_normalise = {
	.name = "normalise",
	ORR_READS(1, 1),
	.attributes = attributes,
	.backward_reads = ORR_READS_OUTPUT,
	.flops = {3, 5},
	.infer = infer,
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_rows),
};
