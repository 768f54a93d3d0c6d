/* softmax_cross_entropy: -log softmax(scores)[class], of a sample the mean over its rows that are
 * not ignored. It keeps the gradient of its scores. softmax_cross_entropy_parts: the same where the
 * scores lie in parts, by what softmax_part makes of each. */
#include <math.h>

#include "../shapes.h"
#include "list.h"

enum { WEIGHT, SMOOTHING, IGNORE, CLASSES };
#define ORR_ENTROPY \
	[WEIGHT] = ORR_LOSS_WEIGHT, [SMOOTHING] = ORR_REAL("smoothing", 0, 1, 0), \
	[IGNORE] = ORR_REAL("ignore", -1e6, 1e6, -INFINITY) /* none */

static const struct orr_attribute attributes[] = {
	ORR_ENTROPY,
	{0},
};

static const struct orr_attribute parts_attributes[] = {
	ORR_ENTROPY,
	[CLASSES] =
		{.name = "classes",
		 .form = ORR_ATTRIBUTE_COUNT,
		 .least = 2,
		 .most = 1 << 24,
		 .missing =
			 "classes is missing: say how many there are in all parts, classes=1000"},
	{0},
};

static struct orr_classes classes_of(const struct orr_instance *is)
{
	double ignored = is->values[IGNORE];

	return (struct orr_classes){is->inputs[0].rows,
				    is->op == &orr_op_softmax_cross_entropy_parts
					    ? (int64_t)is->values[CLASSES]
					    : is->inputs[0].columns,
				    isinf(ignored) ? NAN : (float)ignored, is->values[SMOOTHING]};
}

static bool as_many_rows(const struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *scores = &is->inputs[0], *classes = &is->inputs[1];

	return scores->rows == classes->rows ||
	       orr_refuse(why,
			  "%s reads a class for each row of scores, and %.60s has %lld rows and "
			  "%.60s %lld: make them equal",
			  is->op->name, why->inputs[0], (long long)scores->rows, why->inputs[1],
			  (long long)classes->rows);
}

static bool infer(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *scores = &is->inputs[0], *classes = &is->inputs[1];

	if (scores->columns < 2 || classes->columns != 1)
		return orr_refuse(
			why,
			"softmax_cross_entropy reads 2 columns of scores or more and 1 column of "
			"class numbers, in this order, and %.60s has %lld and %.60s %lld",
			why->inputs[0], (long long)scores->columns, why->inputs[1],
			(long long)classes->columns);
	return as_many_rows(is, why);
}

static bool infer_parts(struct orr_instance *is, struct orr_refusal *why)
{
	const struct orr_shape *seen = &is->inputs[0], *classes = &is->inputs[1];

	if (seen->columns % ORR_CLASS_PART_COLUMNS == 0 && classes->columns == 1)
		return as_many_rows(is, why);
	return orr_refuse(why,
			  "softmax_cross_entropy_parts reads the %d columns of a softmax_part, or "
			  "of several beside each other, and 1 column of class numbers, in this "
			  "order, and %.60s has %lld and %.60s %lld",
			  (int)ORR_CLASS_PART_COLUMNS, why->inputs[0], (long long)seen->columns,
			  why->inputs[1], (long long)classes->columns);
}

static int64_t n_ids(const struct orr_instance *is, int i)
{
	return i == 1 ? classes_of(is).width : 0;
}

static bool is_none(const struct orr_instance *is, int i, double id)
{
	double ignored = is->values[IGNORE];

	return i == 1 && id >= ignored && id <= ignored;
}

static void forward(const struct orr_call *c)
{
	struct orr_classes k = classes_of(c->is);

	c->kernels->losses->softmax_cross_entropy(c->device, c->n, &k, orr_call_input(c, 0),
						  orr_call_input(c, 1), orr_call_saved(c),
						  c->metrics);
}

static void forward_parts(const struct orr_call *c)
{
	struct orr_classes k = classes_of(c->is);

	c->kernels->losses->class_parts_entropy(
		c->device, c->n, &k, c->is->inputs[0].columns / ORR_CLASS_PART_COLUMNS,
		orr_call_input(c, 0), orr_call_input(c, 1), orr_call_saved(c), c->metrics);
}

/* A core makes floats of a row in bfloat16. */
static size_t workspace(const struct orr_instance *is, const struct orr_device *d, int64_t n)
{
	const struct orr_shape *scores = &is->inputs[0];
	size_t row = (size_t)scores->columns * sizeof(float);
	size_t own = d->kernels->workspace_bytes(d->precision, n * scores->rows, scores->columns,
						 scores->columns);

	return own > row ? own : row;
}

static void backward(const struct orr_call *c)
{
	orr_call_scale_gradient(c, 0, c->loss_scale, orr_call_saved(c));
}

const struct orr_op orr_op_softmax_cross_entropy = {
	.name = "softmax_cross_entropy",
	.loss = true,
	.in_place = true,
	ORR_READS(2, 2),
	.inputs = "first the scores and then the class",
	.attributes = attributes,
	.slope_saved = true,
	.flops = {5, 2}, /* maximum, difference, exp, sum and quotient */
	.infer = infer,
	.n_ids = n_ids,
	.is_none = is_none,
	.forward = forward,
	.backward = backward,
	.workspace = workspace,
	.part = &orr_op_softmax_part,
	.joined = &orr_op_softmax_cross_entropy_parts,
};

const struct orr_op orr_op_softmax_cross_entropy_parts = {
	.name = "softmax_cross_entropy_parts",
	.loss = true,
	ORR_READS(2, 2),
	.inputs = "first what parts have seen and then the class",
	.attributes = parts_attributes,
	.slope_saved = true,
	.flops = {5, 1},
	.infer = infer_parts,
	.n_ids = n_ids,
	.is_none = is_none,
	.forward = forward_parts,
	.backward = backward,
};
