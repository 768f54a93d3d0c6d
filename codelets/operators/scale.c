/* scale: every element times a factor. */
#include "list.h"

enum { FACTOR };
static const struct orr_attribute attributes[] = {
	[FACTOR] = ORR_REAL("factor", -1e9, 1e9, 1),
	{0},
};

static void times(const struct orr_call *c, const float *x, float *y)
{
	c->kernels->elements->scale(c->device, c->n * orr_shape_floats(c->is->output),
				    (float)c->is->values[FACTOR], x, y);
}

ORR_BOTH_WAYS(times)

const struct orr_op orr_op_scale = {
	.name = "scale",
	ORR_READS(1, 1),
	.attributes = attributes,
	.flops = {1, 1},
	.forward = forward,
	.backward = backward,
	ORR_DIVIDED(orr_divisions_alike),
};
