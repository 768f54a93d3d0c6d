/* The descriptors of all that go element by element; their formulas: formulas.h. */
#include "../formulas.h"
#include "list.h"

static int64_t count(const struct orr_call *c)
{
	return c->n * orr_shape_floats(c->is->output);
}

#define ORR_DESCRIBE(NAME, KEPT, FORWARD, BACKWARD) \
	static void NAME##_forward(const struct orr_call *c) \
	{ \
		c->kernels->elements->map(c->device, ORR_ELEMENTWISE_##NAME, count(c), \
					  orr_call_input(c, 0), orr_call_output(c)); \
	} \
	static void NAME##_backward(const struct orr_call *c) \
	{ \
		c->kernels->elements->map_back( \
			c->device, ORR_ELEMENTWISE_##NAME, count(c), \
			ORR_READS_##KEPT == ORR_READS_OUTPUT ? orr_call_output(c) \
							     : orr_call_input(c, 0), \
			orr_call_gradient(c), orr_call_input_gradient(c, 0)); \
	} \
	const struct orr_op orr_op_##NAME = { \
		.name = #NAME, \
		.halves = true, \
		.is_relu = ORR_ELEMENTWISE_##NAME == ORR_ELEMENTWISE_relu, \
		ORR_READS(1, 1), \
		.backward_reads = ORR_READS_##KEPT, \
		.flops = {FORWARD, BACKWARD}, \
		.forward = NAME##_forward, \
		.backward = NAME##_backward, \
		ORR_DIVIDED(orr_divisions_alike), \
	};
ORR_ELEMENTWISE(ORR_DESCRIBE)
