/* opaque: an operator of which only sizes and costs are known, such as one of a foreign model that
 * Orrery lacks. It is simulated, planned and drawn, not trained, and may end a model. */
#include "list.h"

enum { ROWS, COLUMNS, FLOP, BACKWARD_FLOP, WEIGHT_FLOP, WEIGHTS, KEPT, COUNTED };
#define MOST 1e15
#define UP_TO_MOST(text) ORR_COUNT(text, 0, MOST, 0)
static const struct orr_attribute attributes[] = {
	[ROWS] = ORR_COUNT("rows", 1, MOST, 1),
	[COLUMNS] = ORR_COUNT("columns", 1, MOST, 1),
	[FLOP] = UP_TO_MOST("flop"),
	[BACKWARD_FLOP] = UP_TO_MOST("backward_flop"),
	[WEIGHT_FLOP] = UP_TO_MOST("weight_flop"),
	[WEIGHTS] = UP_TO_MOST("weights"),
	[KEPT] = UP_TO_MOST("kept"),
	[COUNTED] = {.name = "counted", .form = ORR_ATTRIBUTE_TRUTH, .otherwise = 1},
	{0},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const double *v = is->values;

	if (v[ROWS] * v[COLUMNS] > MOST)
		return orr_refuse(why, "opaque: more than 10^15 floats: make it smaller");
	is->output = (struct orr_shape){(int64_t)v[ROWS], (int64_t)v[COLUMNS]};
	is->saved = (int64_t)v[KEPT];
	is->forward_flops = (int64_t)v[FLOP];
	is->backward_flops = (int64_t)v[BACKWARD_FLOP];
	is->weight_flops = (int64_t)v[WEIGHT_FLOP];
	if (v[WEIGHTS] > 0)
		orr_instance_add(is, (struct orr_parameter_tensor){.name = "weights",
								   .n_dims = 1,
								   .dims = {(int64_t)v[WEIGHTS]}});
	return true;
}

const struct orr_op orr_op_opaque = {
	.name = "opaque",
	.opaque = true,
	.least_inputs = 1,
	.attributes = attributes,
	.infer = infer,
};
