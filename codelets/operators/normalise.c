/* normalise: each row to length 1, by a factor that it keeps. */
#include "list.h"

enum { EPSILON };
static const struct orr_attribute attributes[] = {
	[EPSILON] = {.name = "epsilon",
		     .form = ORR_ATTRIBUTE_REAL,
		     .least = 1e-30,
		     .most = 1,
		     .otherwise = 1e-12},
	{0},
};

static bool infer(struct orr_instance *is, const char *const *inputs, char *text, size_t size)
{
	(void)inputs, (void)text, (void)size;
	is->output = is->inputs[0];
	is->saved = is->output.rows;
	orr_instance_count(is, 3, 5, 0);
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->sequence->normalise_forward(c->device, orr_call_rows(c, 0),
						c->is->output.columns,
						(float)c->is->values[EPSILON], orr_call_input(c, 0),
						orr_call_output(c), orr_call_saved(c));
}

static void backward(const struct orr_call *c)
{
	c->kernels->sequence->normalise_input(c->device, orr_call_rows(c, 0), c->is->output.columns,
					      (float)c->is->values[EPSILON], orr_call_output(c),
					      orr_call_saved(c), orr_call_gradient(c),
					      orr_call_input_gradient(c, 0));
}

static const struct orr_division divisions[] = {
	{.n_inputs = 1, .inputs = {ORR_SHARDING_ROWS}, .output = ORR_SHARDING_ROWS},
	{.n_inputs = 1, .inputs = {ORR_SHARDING_COPIED}, .output = ORR_SHARDING_COPIED},
};

const struct orr_op orr_op_normalise = {
	.name = "normalise",
	.least_inputs = 1,
	.most_inputs = 1,
	.attributes = attributes,
	.backward_reads = ORR_READS_OUTPUT,
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.divisions = divisions,
	.n_divisions = sizeof(divisions) / sizeof(*divisions),
};
