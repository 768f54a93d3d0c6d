/* softmax_part: of each row of scores of some classes, those from `first` on, what the loss over
 * all classes needs: their largest and which it is, how many there are, the sum of their
 * exponentials, the score of the row's class if it is among them, and their sum [Shoeybi19]. It
 * keeps the exponentials, and where the classes are. */
#include "../shapes.h"
#include "list.h"

enum { FIRST };
static const struct orr_attribute attributes[] = {
	[FIRST] = ORR_COUNT("first", 0, 1 << 24, 0),
	{0},
};

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *scores = &is->inputs[0], *classes = &is->inputs[1];

	is->output = (struct orr_shape){scores->rows, ORR_CLASS_PART_COLUMNS};
	is->saved = orr_shape_floats(*scores) + scores->rows;
	return (scores->rows == classes->rows && classes->columns == 1) ||
	       orr_refuse(why,
			  "softmax_part reads scores and 1 column of class numbers with as many "
			  "rows, in this order, and %.60s has %lld x %lld and %.60s %lld x %lld",
			  why->inputs[0], (long long)scores->rows, (long long)scores->columns,
			  why->inputs[1], (long long)classes->rows, (long long)classes->columns);
}

static void forward(const struct orr_call *c)
{
	int64_t n = orr_call_rows(c, 0), width = c->is->inputs[0].columns;
	float *saved = orr_call_saved(c);

	c->kernels->losses->class_part(c->device, n, (int64_t)c->is->values[FIRST], width,
				       orr_call_input(c, 0), orr_call_input(c, 1),
				       orr_call_output(c), saved, saved + n * width);
}

/* Classes have no gradient. */
static void backward(const struct orr_call *c)
{
	float *dx = orr_call_input_gradient(c, 0);
	int64_t n = orr_call_rows(c, 0), width = c->is->inputs[0].columns;
	const float *saved = orr_call_saved(c);

	if (dx)
		c->kernels->losses->class_part_input(c->device, n, width, saved, saved + n * width,
						     orr_call_gradient(c), dx);
	orr_call_zero_gradient(c, 1);
}

const struct orr_op orr_op_softmax_part = {
	.name = "softmax_part",
	.kept = ORR_OUTPUT_EXACT,
	ORR_READS(2, 2),
	.inputs = "first the scores and then the class",
	.attributes = attributes,
	.flops = {5, 2}, /* maximum, difference, exp, sum, and the sum of scores */
	.infer = infer,
	.forward = forward,
	.backward = backward,
};
