/* positions: adds a learned vector to each row, the same ones to every sample. */
#include "list.h"

enum { DEVIATION };
static const struct orr_attribute attributes[] = {
	[DEVIATION] = ORR_REAL("deviation", 0, 1e9, 0.02),
	{0},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	orr_instance_add(
		is, (struct orr_parameter_tensor){.name = "weight",
						  .initial = ORR_INITIAL_NORMAL,
						  .value = is->values[DEVIATION],
						  .n_dims = 2,
						  .dims = {is->output.rows, is->output.columns}});
	return true;
}

static void forward(const struct orr_call *c)
{
	c->kernels->sequence->add_row(c->device, c->n, orr_shape_floats(c->is->output),
				      orr_call_input(c, 0), c->parameters, orr_call_output(c));
}

static void backward(const struct orr_call *c)
{
	float *dx = orr_call_input_gradient(c, 0);
	int64_t width = orr_shape_floats(c->is->output);

	if (dx)
		c->kernels->elements->copy(c->device, c->n * width, orr_call_gradient(c), dx);
	if (c->slope)
		c->kernels->sequence->sum_rows(c->device, c->n, width, orr_call_gradient(c),
					       c->room, c->slope);
}

static const struct orr_division divisions[] = {
	{ORR_LIES(ORR_SHARDING_ROWS)},
	{ORR_LIES(ORR_SHARDING_COLUMNS), .axes = {1}},
	{ORR_LIES(ORR_SHARDING_COPIED), .axes = {ORR_DIVISION_COPIED}},
};

const struct orr_op orr_op_positions = {
	.name = "positions",
	.kept = ORR_OUTPUT_FLOAT,
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {1, 0, 1},
	.infer = infer,
	.forward = forward,
	.backward = backward,
	.apart = orr_instance_parameter_floats,
	ORR_DIVIDED(divisions),
};
